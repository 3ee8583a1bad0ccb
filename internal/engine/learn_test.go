package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/td"
)

// tells is an answer that gives a learning away and ends the task.
func tells(end, input string) llm.Response {
	r := calls(end, input)
	r.Message.Blocks = append([]td.Block{{Type: td.TextBlock, Text: "The root cause was a second clock in the cellar."}}, r.Message.Blocks...)
	return r
}

func kept(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, memory.Folder, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, n := range names {
		raw, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(raw)
	}
	return all.String()
}

// learnSteps are the outcomes of the steps by which the task learned.
func (b *bench) learnSteps(id td.TaskID) (outs []td.Outcome) {
	mine := map[td.StepKey]bool{}
	for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		switch body := ev.Body.(type) {
		case td.StepIntended:
			mine[body.Key] = body.Kind == td.LearnStep || body.Kind == td.SideStep
		case td.StepEnded:
			if mine[body.Key] {
				outs = append(outs, body.Outcome)
			}
		}
	}
	return outs
}

func TestLearnAtTheEnd(t *testing.T) {
	refined := `{"learnings": [{"title": "Clocks", "text": "There are two clocks."}]}`
	hangs := func(ctx context.Context) (llm.Response, error) {
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}
	down := &llm.Error{Class: td.Network}
	completes, fails := tells("Complete", `{"summary":"done"}`), tells("Fail", `{"reason":"no"}`)
	for name, c := range map[string]struct {
		plays   []any
		extract Extract
		tools   []string
		blocked bool // nothing can be written
		state   td.State
		steps   int
		want    string // in what was kept; empty: nothing is
	}{
		"refined":             {[]any{completes, says(refined, td.EndTurn)}, ExtractRefined, nil, false, td.Completed, 2, "There are two clocks."},
		"refined at failure":  {[]any{fails, says(refined, td.EndTurn)}, ExtractRefined, nil, false, td.Failed, 2, "There are two clocks."},
		"refined to nothing":  {[]any{completes, says(`{"learnings": []}`, td.EndTurn)}, ExtractRefined, nil, false, td.Completed, 1, ""},
		"nonsense":            {[]any{completes, says("I think so, too.", td.EndTurn)}, ExtractRefined, nil, false, td.Completed, 1, ""},
		"small model is down": {[]any{completes, down, down, down, down}, ExtractRefined, nil, false, td.Completed, 1, ""},
		"small model hangs":   {[]any{completes, hangs}, ExtractRefined, nil, false, td.Completed, 1, ""},
		"kept":                {[]any{completes}, ExtractAll, nil, false, td.Completed, 1, "second clock in the cellar"},
		"nothing wanted":      {[]any{completes}, ExtractNothing, nil, false, td.Completed, 0, ""},
		"nothing said":        {[]any{calls("Complete", `{"summary":"done"}`)}, ExtractAll, nil, false, td.Completed, 0, ""},
		"may not write":       {[]any{completes}, ExtractAll, []string{"Complete"}, false, td.Completed, 0, ""},
		"cannot write":        {[]any{completes}, ExtractAll, nil, true, td.Completed, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var dir string
			play(t, c.plays, func(s *td.Spec, o *Options) {
				dir, s.Tools = s.Dir, c.tools
				o.Knowledge, o.Extract = knowledge.New("", nil), c.extract
				if c.blocked {
					if err := os.WriteFile(filepath.Join(dir, ".taskdaemon"), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}, func(b *bench, id td.TaskID) {
				start := time.Now()
				b.until(id, c.state)
				if took := time.Since(start); took > 2*learnWithin {
					t.Errorf("it took %v", took)
				}
				if outs := b.learnSteps(id); len(outs) != c.steps {
					t.Errorf("%d steps, want %d: %+v", len(outs), c.steps, outs)
				}
				got := kept(t, dir)
				if c.want == "" && got != "" || !strings.Contains(got, c.want) {
					t.Errorf("kept %q, want %q in it", got, c.want)
				}
			})
		})
	}
}

func TestLearningsAreToldBehindThePrefix(t *testing.T) {
	shelf := knowledge.New("", nil)
	play(t, []any{calls("Complete", `{"summary":"done"}`)}, func(s *td.Spec, o *Options) {
		s.Prompt, o.Knowledge = "wind the cellar clock", shelf
		err := shelf.Use(s.Dir, func(m *memory.Store) error {
			for title, text := range map[string]string{"Clocks": "The cellar clock runs backwards.", "Tea": "It is served cold."} {
				if _, _, err := m.Add(t.Context(), memory.Learning{Title: title, Text: text, Sources: []string{"t-earlier"}}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		req := b.model.requests[0]
		opening := req.Messages[0].Text()
		if !strings.Contains(opening, "The cellar clock runs backwards. (from task t-earlier)") || strings.Contains(opening, "Tea") ||
			!strings.HasSuffix(opening, "wind the cellar clock") {
			t.Errorf("it was told %q", opening)
		}
		if strings.Contains(req.System, "backwards") {
			t.Error("a learning stands in the part that is cached")
		}
	})
}
