package builtin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/query"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// village is two loops beside the one at work.
type village struct {
	sent    []td.Letter
	stopped []string
	full    bool
}

var errFull = errors.New("100 messages within a second")

func neighbours() []td.Task {
	a := td.NewTask(td.Spec{ID: "id-a", Handle: "t-a", Title: "the parser"})
	b := td.NewTask(td.Spec{ID: "id-b", Handle: "t-b", Title: "the\u200b lexer", Tainted: true})
	return []td.Task{a, b}
}

func (v *village) Near(context.Context, td.TaskID) ([]td.Task, error) { return neighbours(), nil }

func (v *village) Find(_ context.Context, _ td.TaskID, ref string) (td.Task, error) {
	i := slices.IndexFunc(neighbours(), func(t td.Task) bool { return t.Handle == ref })
	if i < 0 {
		return td.Task{}, td.Errorf(td.NotFound, "no loop of this project is called %q", ref)
	}
	return neighbours()[i], nil
}

func (v *village) Send(_ context.Context, _ td.TaskID, l td.Letter) ([]string, error) {
	if v.full {
		return nil, errFull
	}
	v.sent = append(v.sent, l)
	return l.To, nil
}

func (v *village) Facts(_ context.Context, id td.TaskID) (query.Facts, error) {
	i := slices.IndexFunc(neighbours(), func(t td.Task) bool { return t.ID == id })
	return query.FactsOf(neighbours()[i], nil), nil
}

func (v *village) Stop(_ context.Context, _, id td.TaskID, key, why string) error {
	v.stopped = append(v.stopped, string(id)+" "+key+" "+why)
	return nil
}

func TestShareAndNotify(t *testing.T) {
	v := &village{}
	b := newBenchWith(t, Options{Ripgrep: NoRipgrep, Loops: v})
	in := args{"to": []string{"t-a", "t-b", "t-a"}, "text": "use the\nnew client"}
	call := b.prepare("Share", in)
	if call.Effect != td.Keyed || !call.Free || call.Title != "Share with t-a, t-b: use the ⏎ new client" {
		t.Fatalf("prepared %+v", call)
	}
	for range 2 { // a crash in between: the same letter
		if _, err := call.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if res := b.resolve("Share", in, call); res.State != tool.NotDone {
			t.Errorf("it resolves to %+v: it would be handed over by nobody", res)
		}
	}
	if len(v.sent) != 2 || v.sent[0].ID != v.sent[1].ID || v.sent[0].ID == "" || !slices.Equal(v.sent[0].To, []string{"id-a", "id-b"}) {
		t.Errorf("sent %+v", v.sent)
	}
	b.ok("Notify", args{"type": "api_changed", "text": "x"})
	if l := v.sent[2]; l.Kind() != td.MailNotify || l.Topic != "api_changed" {
		t.Errorf("sent %+v", l)
	}
	b.bad("Share", args{"to": []string{"t-c"}, "text": "x"}, "no loop of this project")
	b.bad("Share", args{"to": []string{"t-a"}, "text": strings.Repeat("x", td.MaxMail+1)}, "1048576 are allowed")
	b.bad("Notify", args{"type": "Odd Kind", "text": "x"}, "the type")
	v.full = true
	if _, err := b.prepare("Notify", args{"text": "x"}).Run(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("a loop that sends too much is told %v", err)
	}
}

func TestQuery(t *testing.T) {
	b := newBenchWith(t, Options{Ripgrep: NoRipgrep, Loops: &village{}})
	var asked string
	b.env.Ask = func(_ context.Context, prompt string, _ int) (td.SideResult, error) {
		asked = prompt
		return td.SideResult{Text: "it is", Model: "small", Cost: 3}, nil
	}
	list := b.ok("Query", args{})
	if !strings.Contains(list.Content, "t-a  queued  the parser") || !strings.Contains(list.Content, `the\u{200b} lexer`) || !list.Untrusted {
		t.Errorf("the list is %+v", list)
	}
	known := b.prepare("Query", args{"loop": "t-a", "question": "what is your status?"})
	if known.Effect != td.Pure || !known.Free || known.Side != (tool.Side{}) {
		t.Errorf("prepared %+v", known)
	}
	res, err := known.Run(t.Context())
	if err != nil || res.Side != nil || asked != "" || res.Untrusted || !strings.Contains(res.Content, "t-a is queued") || !strings.Contains(res.Content, "not instructions") {
		t.Errorf("known: %+v, %v, asked %q", res, err, asked)
	}
	free := b.prepare("Query", args{"loop": "t-b", "question": "is it safe?"})
	if free.Side.Why != td.CauseQuery || free.Side.Answer == 0 || free.Timeout != queryLimit {
		t.Errorf("prepared %+v", free)
	}
	res, err = free.Run(t.Context())
	if err != nil || res.Side == nil || !res.Untrusted || !strings.Contains(res.Content, "it is") || !strings.HasSuffix(asked, "is it safe?") {
		t.Errorf("free: %+v, %v, asked %q", res, err, asked)
	}
	b.bad("Query", args{"loop": "t-a"}, "the question is empty")
	b.bad("Query", args{"loop": "t-c", "question": "status"}, "no loop of this project")
}

func TestStopLoopIsNoFreeCall(t *testing.T) {
	v := &village{}
	b := newBenchWith(t, Options{Ripgrep: NoRipgrep, Loops: v})
	call := b.prepare("StopLoop", args{"loop": "t-b", "reason": "done already"})
	if call.Free || call.Effect == td.Pure || call.Title != `Stop t-b (the\u{200b} lexer): done already` {
		t.Fatalf("prepared %+v", call)
	}
	if _, err := call.Run(t.Context()); err != nil || len(v.stopped) != 1 || !strings.HasPrefix(v.stopped[0], "id-b ") {
		t.Errorf("stopped %q, %v", v.stopped, err)
	}
}
