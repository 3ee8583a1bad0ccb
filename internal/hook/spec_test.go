package hook

import (
	"context"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func nothing(context.Context, Payload, Firing) (Result, error) { return Result{}, nil }

func TestNewRefuses(t *testing.T) {
	ok := Spec{Point: PreToolUse, Command: "true", Where: "config.yaml:12:5"}
	with := func(change func(*Spec)) Spec {
		s := ok
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		spec Spec
		want string
		hint string
	}{
		"unknown point": {with(func(s *Spec) { s.Point = "PreTolUse" }), `no point "PreTolUse"`, "did you mean PreToolUse?"},
		"no point":      {with(func(s *Spec) { s.Point = "" }), `no point ""`, "taskdaemon hooks list"},
		"other case":    {with(func(s *Spec) { s.Point = "pretooluse" }), "no point", "did you mean PreToolUse?"},
		"no target":     {with(func(s *Spec) { s.Command = " " }), "one of command, url and func, and has 0", ""},
		"two targets":   {with(func(s *Spec) { s.URL = "http://localhost" }), "has 2 of them", ""},
		"long command":  {with(func(s *Spec) { s.Command = strings.Repeat("x", maxCommand+1) }), "bytes long", "put it into a script"},
		"NUL":           {with(func(s *Spec) { s.Command = "a\x00b" }), "NUL", ""},
		"unknown func":  {with(func(s *Spec) { s.Command, s.Func = "", "nope" }), `no function "nope"`, ""},
		"ftp":           {with(func(s *Spec) { s.Command, s.URL = "", "ftp://localhost/x" }), "no http or https address", ""},
		"no host":       {with(func(s *Spec) { s.Command, s.URL = "", "http://" }), "no http or https address", ""},
		"bad url":       {with(func(s *Spec) { s.Command, s.URL = "", "http://[::1" }), "parse", ""},
		"password":      {with(func(s *Spec) { s.Command, s.URL = "", "http://a:b@localhost/" }), "password", ""},
		"bad matcher":   {with(func(s *Spec) { s.Matcher = "Bash(" }), "matcher: error parsing regexp", ""},
		"escaping":      {with(func(s *Spec) { s.Matcher = "a)|(b" }), "matcher: error parsing regexp", ""},
		"no subject":    {with(func(s *Spec) { s.Point, s.Matcher = LoopIteration, "x" }), "nothing to match", "leave the matcher out"},
		"on_error":      {with(func(s *Spec) { s.OnError = "ajar" }), `"ajar" is neither open nor closed`, ""},
		"closed":        {with(func(s *Spec) { s.Point, s.OnError = TaskCompleted, Closed }), "closed means nothing at TaskCompleted", ""},
		"negative":      {with(func(s *Spec) { s.Timeout = -1 }), "timeout", ""},
		"too long":      {with(func(s *Spec) { s.Timeout = 2 * time.Hour }), "timeout", ""},
		"name":          {with(func(s *Spec) { s.Name = "a\nb" }), "control character", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New([]Spec{c.spec}, map[string]Func{"nothing": nothing})
			if err == nil {
				t.Fatal("accepted")
			}
			if !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "config.yaml:12:5") {
				t.Errorf("got %v", err)
			}
			if td.HintOf(err) != c.hint {
				t.Errorf("hint %q", td.HintOf(err))
			}
		})
	}
	if _, err := New([]Spec{ok, ok}, nil); err == nil || !strings.Contains(err.Error(), "is taken by the one at config.yaml:12:5") {
		t.Errorf("two of one name: %v", err)
	}
}

func TestDefaults(t *testing.T) {
	s, err := New([]Spec{
		{Point: PreToolUse, Command: "b"},
		{Point: PreToolUse, Command: "a"},
		{Point: TaskStarted, URL: "https://example.com/x"},
		{Point: PostToolUse, Func: "nothing"},
	}, map[string]Func{"nothing": nothing})
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range s.All() {
		if spec.Timeout != time.Minute || spec.OnError != Open || spec.Name == "" {
			t.Errorf("got %+v", spec)
		}
	}
	again, err := New([]Spec{{Point: PreToolUse, Command: "a", Order: 7}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := again.All()[0].Name, s.All()[1].Name; a != b {
		t.Errorf("moved, a hook changed its name from %s to %s", b, a)
	}
	var none *Set
	if none.All() != nil || none.Match(samplePreToolUse) != nil {
		t.Error("a nil set has hooks")
	}
}

func TestMatch(t *testing.T) {
	spec := func(name, matcher string, order int) Spec {
		return Spec{Name: name, Point: PreToolUse, Matcher: matcher, Order: order, Command: "true"}
	}
	s, err := New([]Spec{
		spec("late", "", 5),
		spec("bash", "Bash", 0),
		spec("prefix", "Ba", 0),
		spec("either", "Edit|Bash", 0),
		spec("all", "*", 0),
		spec("rest", "Bash.*", 0),
		spec("other case", "bash", 0),
		spec("any case", "(?i)bash", 0),
		spec("early", ".*", -1),
		{Name: "other point", Point: PostToolUse, Command: "true"},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]string{
		"Bash":       "early bash either all rest any case late",
		"BashOutput": "early all rest late",
		"Edit":       "early either all late",
		"EditBash":   "early all late",
		"":           "early all late",
	} {
		p := samplePreToolUse
		p.ToolName = tool
		var got []string
		for _, m := range s.Match(p) {
			got = append(got, m.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %s, want %s", tool, strings.Join(got, " "), want)
		}
	}
	if s.Match(sampleTaskPaused) != nil {
		t.Error("matched at a point without hooks")
	}
}
