package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// leaveNote makes a planned task that ended an iteration with a note.
func leaveNote(t *testing.T, j store.Journal, project, run, text string, tainted bool) td.Task {
	t.Helper()
	ctx := context.Background() // the test's own is of another bubble
	task, err := j.Create(ctx, td.Spec{ID: td.NewTaskID(), Title: "earlier", Project: project, Tainted: tainted}, "")
	if err != nil {
		t.Fatal(err)
	}
	c, err := j.Claim(ctx, task.ID, td.Holder{Host: "here"})
	if err != nil {
		t.Fatal(err)
	}
	end := td.IterationEnded{Iteration: 1, Ending: td.EndedUnclear, Notes: text, Run: run}
	if _, err := j.Append(ctx, c, task.Head, td.Event{Body: end}); err != nil {
		t.Fatal(err)
	}
	return task
}

func TestNotesAreTold(t *testing.T) {
	for name, c := range map[string]struct {
		project, run, text string
		tainted            bool
		told               bool
	}{
		"of the same run":            {"/p", "now", "nothing in common", false, true},
		"of another run, by words":   {"/p", "then", "the cellar clock is slow", false, true},
		"of another run, by none":    {"/p", "then", "nothing in common", false, false},
		"of another project":         {"/q", "now", "the cellar clock is slow", false, false},
		"of a task that read a page": {"/p", "now", "wind it twice", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			var from td.Task
			play(t, []any{calls("Complete", `{"summary":"done"}`)}, func(s *td.Spec, o *Options) {
				s.Project, s.Prompt, s.Order = "/p", "wind the cellar clock", &td.Order{Run: "now"}
				from = leaveNote(t, o.Journal, c.project, c.run, c.text, c.tainted)
			}, func(b *bench, id td.TaskID) {
				task := b.until(id, td.Completed)
				opening := b.model.requests[0].Messages[0].Text()
				if told := strings.Contains(opening, c.text) && strings.Contains(opening, from.Handle); told != c.told {
					t.Errorf("told: %v, want %v:\n%s", told, c.told, opening)
				}
				fenced := strings.Contains(opening, "It is data from an unknown author")
				if tainted := c.tainted && c.told; task.Untrusted != tainted || fenced != tainted {
					t.Errorf("untrusted: %v, fenced: %v, want %v", task.Untrusted, fenced, tainted)
				}
				if strings.Contains(b.model.requests[0].System, c.text) {
					t.Error("a note stands in the part that is cached")
				}
			})
		})
	}
}

func TestNotesAreForPlannedTasks(t *testing.T) {
	play(t, []any{calls("Complete", `{"summary":"done"}`)}, func(s *td.Spec, o *Options) {
		s.Prompt = "wind the cellar clock"
		leaveNote(t, o.Journal, "", "r", "the cellar clock is slow", false)
	}, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
		if opening := b.model.requests[0].Messages[0].Text(); strings.Contains(opening, "slow") {
			t.Errorf("it was told %q", opening)
		}
	})
}

// What an answer wants to be kept is kept, whether it ends the task or not, and nothing twice.
func TestKnowledgeInWords(t *testing.T) {
	const said = `<knowledge title="Clocks" tags="cellar">There are two clocks.</knowledge>`
	looks := calls("Look", `{}`)
	looks.Message.Blocks = append([]td.Block{{Type: td.TextBlock, Text: said}}, looks.Message.Blocks...)
	ends := calls("Complete", `{"summary":"done"}`)
	many := strings.Builder{}
	for i := range 2 * mostLearned {
		fmt.Fprintf(&many, `<knowledge title="Number %[1]d">wind%[1]d the%[1]d clock%[1]d twice%[1]d</knowledge>`, i)
	}
	for name, c := range map[string]struct {
		plays []any
		tools []string
		steps int
		want  int // learnings
	}{
		"in words alone":        {[]any{says(said+" and <task-done>t-x</task-done>", td.EndTurn), says("hm", td.EndTurn), ends}, nil, 1, 1},
		"beside a call":         {[]any{looks, ends}, nil, 1, 1},
		"again":                 {[]any{looks, looks, ends}, nil, 2, 1},
		"in code":               {[]any{says("`"+said+"`", td.EndTurn), ends}, nil, 0, 0},
		"too many":              {[]any{says(many.String(), td.EndTurn), ends}, nil, mostLearned, mostLearned},
		"by one that may not":   {[]any{says(said, td.EndTurn), ends}, []string{"Complete"}, 0, 0},
		"too large for a store": {[]any{says(`<knowledge title="x">`+strings.Repeat("long ", 10000)+"</knowledge>", td.EndTurn), ends}, nil, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var dir string
			play(t, c.plays, func(s *td.Spec, o *Options) {
				dir, s.Tools = s.Dir, c.tools
				o.Knowledge, o.Extract, o.Reminders = knowledge.New("", nil), ExtractNothing, 3
			}, func(b *bench, id td.TaskID) {
				b.until(id, td.Completed)
				if outs := b.learnSteps(id); len(outs) != c.steps {
					t.Errorf("%d steps, want %d: %+v", len(outs), c.steps, outs)
				}
				got := kept(t, dir)
				if n := strings.Count(got, "title: "); n != c.want {
					t.Errorf("%d learnings, want %d: %s", n, c.want, got)
				}
				if c.want == 1 && !strings.Contains(got, "There are two clocks.") {
					t.Errorf("kept %q", got)
				}
			})
		})
	}
}

// Of many long learnings a task is told no more than there is room for.
func TestLearningsHaveABudget(t *testing.T) {
	shelf := knowledge.New("", nil)
	play(t, []any{calls("Complete", `{"summary":"done"}`)}, func(s *td.Spec, o *Options) {
		s.Prompt, o.Knowledge = "wind the cellar clock", shelf
		err := shelf.Use(s.Dir, func(m *memory.Store) error {
			for i := range mostTold {
				text := fmt.Sprintf("The cellar clock number %d: ", i)
				for j := range 200 {
					text += fmt.Sprintf("q%d ", i*1000+j)
				}
				if _, _, err := m.Add(t.Context(), memory.Learning{Title: fmt.Sprintf("Clock %d", i), Text: text}); err != nil {
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
		opening := b.model.requests[0].Messages[0].Text()
		told := strings.Count(opening, "The cellar clock number")
		if told == 0 || told == mostTold || window.Tokens(opening) > mostToldTokens+500 {
			t.Errorf("%d learnings in %d tokens", told, window.Tokens(opening))
		}
	})
}
