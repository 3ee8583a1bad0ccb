package notify

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

func TestSentence(t *testing.T) {
	for _, c := range []struct {
		e    Event
		want string
	}{
		{Event{Handle: "t-abc", Title: "make the test pass", State: td.Completed, Turns: 12, Cost: 340_000, Summary: "All is well."},
			"t-abc make the test pass: completed, 12 turns, $0.34"},
		{Event{Handle: "t-abc", Title: "x", State: td.Failed, Turns: 1, Cost: 5, Summary: "no\nkey"}, "t-abc x: failed, 1 turn, less than $0.01: no key"},
		{Event{Handle: "t-abc", State: td.Waiting, Summary: "Which one?"}, "t-abc waiting: Which one?"},
		{Event{Handle: "t-abc", State: td.Completed, Cost: 12_345_678}, "t-abc completed, $12.35"},
		{Event{}, "task changed"},
		{Event{Handle: "--rm", Title: "-x", State: td.Cancelled}, "rm -x: cancelled"},
		{Event{Handle: "t-1", Title: "a\x1b[31mred\x1b[0m\x1b]0;owned\a b\u202ec\u2028d", State: td.Failed}, "t-1 ared bc d: failed"},
	} {
		if got := c.e.Sentence(); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
	long := Event{Handle: "t-1", Title: strings.Repeat("a", 500), State: td.Failed, Summary: strings.Repeat("b", 5000)}.Sentence()
	if n := utf8.RuneCountInString(long); n != maxSentence || !strings.HasSuffix(long, "b…") || !strings.Contains(long, "a…: failed") {
		t.Errorf("%d characters: %s", n, long)
	}
}

func TestOf(t *testing.T) {
	task := td.Task{Spec: td.Spec{ID: "id", Handle: "t-1", Title: "x", Dir: "/w"}}
	task.Turns, task.Cost = 3, 7
	for _, c := range []struct {
		status td.Status
		want   string
	}{
		{td.Status{State: td.Completed, Completed: &td.CompletedData{Summary: "done"}}, "done"},
		{td.Status{State: td.Failed, Reason: "why", Failed: &td.FailedData{Error: "broken"}}, "broken"},
		{td.Status{State: td.Waiting, Waiting: &td.WaitingData{Prompt: "may I?"}}, "may I?"},
		{td.Status{State: td.Cancelled, Reason: "by a person"}, "by a person"},
	} {
		task.Status = c.status
		want := Event{Task: "id", Handle: "t-1", Title: "x", Dir: "/w", State: c.status.State, Summary: c.want, Turns: 3, Cost: 7}
		if got := Of(task); got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

func TestEnv(t *testing.T) {
	got := strings.Join(Event{Task: "id", Handle: "t-1", Title: "a\x00b\nc", Dir: "/w", State: td.Completed, Summary: "s; rm -rf $HOME", Turns: 2, Cost: 1_500_000}.Env(), "\n")
	want := `TASK_ID=id
TASK_HANDLE=t-1
TASK_TITLE=a b c
TASK_STATE=completed
TASK_SUMMARY=s; rm -rf $HOME
TASK_TURNS=2
TASK_COST=1.5000
TASK_DIR=/w
TASK_SENTENCE=t-1 a b c: completed, 2 turns, $1.50`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestTerminal(t *testing.T) {
	var b strings.Builder
	if err := errors.Join(Title(&b, "t-1 ✓ done\x1b]52;c;x\a\n"), Bell(&b), Title(&b, "")); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b]2;t-1 ✓ done\a" + "\a" + "\x1b]2;\a"; b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
	r, w := io.Pipe()
	r.Close()
	if Title(w, "x") == nil || Bell(w) == nil {
		t.Error("a terminal that is gone was not noticed")
	}
}

// rude draws text in which what terminals obey is frequent.
func rude() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{
			"\x1b", "\x1b[", "\x1b]2;", "\x1b]52;c;", "\x1bP", "\x1b\\", "\x1b\x1b[31m", "\x1b[\x1b[mm", "\x1b]\x1b]0;x\a\a", "\a", "\x9b", "\u009b31m", "\u009d0;x\u009c",
			"\u202e", "\u2066", "\u200f", "\u2028", "\r", "\n", "\x00", "\x7f", "\U000E0041", "\ufeff", "\xff", "\xc2", "[31m", "é", "日", " ",
		}),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 8), func(b []byte) string { return string(b) }),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 20), func(p []string) string { return strings.Join(p, "") })
}

// harmless says why s is not one bounded line of printable characters, or nothing.
func harmless(s string, n int) string {
	if !utf8.ValidString(s) {
		return "not UTF-8"
	}
	if utf8.RuneCountInString(s) > n {
		return "too long"
	}
	for _, r := range s {
		if !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) {
			return "holds " + string(r)
		}
	}
	return ""
}

func TestNothingIsObeyed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Event{
			Task: td.TaskID(rude().Draw(t, "task")), Handle: rude().Draw(t, "handle"), Title: rude().Draw(t, "title"), Dir: rude().Draw(t, "dir"),
			State: td.State(rude().Draw(t, "state")), Summary: rude().Draw(t, "summary"),
			Turns: rapid.Int().Draw(t, "turns"), Cost: td.Money(rapid.Int64().Draw(t, "cost")),
		}
		sentence := e.Sentence()
		if why := harmless(sentence, maxSentence); why != "" || sentence == "" || sentence[0] == '-' {
			t.Fatalf("sentence %q: %s", sentence, why)
		}
		for _, kv := range e.Env() {
			name, value, _ := strings.Cut(kv, "=")
			if why := harmless(value, maxSummary); why != "" || !strings.HasPrefix(name, "TASK_") {
				t.Fatalf("%q: %s", kv, why)
			}
		}
		var b strings.Builder
		if err := Title(&b, e.Title); err != nil {
			t.Fatal(err)
		}
		text, ok := strings.CutPrefix(b.String(), "\x1b]2;")
		text, ended := strings.CutSuffix(text, "\a")
		if why := harmless(text, maxTitle); why != "" || !ok || !ended {
			t.Fatalf("title %q: %s", b.String(), why)
		}
	})
}

func TestLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, n := rude().Draw(t, "s"), rapid.IntRange(1, 40).Draw(t, "n")
		got := line(s, n)
		if why := harmless(got, n); why != "" {
			t.Fatalf("%q became %q: %s", s, got, why)
		}
		if line(got, n) != got || strings.TrimSpace(got) != got || strings.Contains(got, "  ") {
			t.Fatalf("%q became %q, which is no line", s, got)
		}
	})
}

func FuzzLine(f *testing.F) {
	f.Add("plain", 10)
	f.Add("\x1b]2;x\a\u009b1m\u202e\xff", 5)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = 1 + int(uint(n)%500)
		if got := line(s, n); harmless(got, n) != "" {
			t.Fatalf("%q became %q", s, got)
		}
	})
}
