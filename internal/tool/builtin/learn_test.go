package builtin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

func learnings(t *testing.T, dir string) (texts []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, memory.Folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		raw, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(raw))
	}
	return texts
}

func TestLearn(t *testing.T) {
	shelf := knowledge.New("", redact.New("hunter2hunter2"))
	b := newBenchWith(t, Options{Ripgrep: NoRipgrep, Knowledge: shelf})
	b.put("a.go", "package a")
	in := args{"title": "Clock", "text": "There are two clocks, hunter2hunter2 is wrong.", "tags": []string{"time"}, "files": []string{"a.go"}}
	call := b.prepare("Learn", in)
	if call.Effect != td.Keyed || !call.Free || call.Title != "Learn Clock" {
		t.Fatalf("prepared %+v", call)
	}
	resolve := func() tool.Resolution { return b.resolve("Learn", in, call) }
	if res := resolve(); res.State != tool.NotDone {
		t.Errorf("before: %+v", res)
	}
	ran, err := call.Run(t.Context())
	if err != nil || !strings.HasPrefix(ran.Content, "Kept in .taskdaemon/knowledge/clock-") {
		t.Fatalf("ran: %+v, %v", ran, err)
	}
	if res := resolve(); res.State != tool.Done || res.Via != td.Probed || res.Result.Content != ran.Content {
		t.Errorf("after: %+v", res)
	}
	b.ok("Learn", in)
	texts := learnings(t, b.dir)
	if len(texts) != 1 || strings.Contains(texts[0], "hunter2") || !strings.Contains(texts[0], "a.go") ||
		!strings.Contains(texts[0], td.Handle(td.TaskHandle, string(b.env.Task), td.HandleLength)) {
		t.Errorf("kept %q", texts)
	}
	b.bad("Learn", args{"title": "x", "text": "y", "files": []string{"none.go"}}, "none.go")
	b.bad("Learn", args{"title": "x"}, "text")
}

// A folder that cannot be written to is the model's to know of, and holds nothing up.
func TestLearnNowhere(t *testing.T) {
	b := newBenchWith(t, Options{Ripgrep: NoRipgrep, Knowledge: knowledge.New("", nil)})
	b.put(".taskdaemon", "no folder")
	in := args{"title": "x", "text": "y"}
	call := b.prepare("Learn", in)
	if _, err := call.Run(t.Context()); err == nil {
		t.Error("it was kept")
	}
	if res := b.resolve("Learn", in, call); res.State != tool.NotDone {
		t.Errorf("resolved as %+v", res)
	}
}
