package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// chat says something to a task that waits for it, and lets it take that up.
func (b *bench) chat(id td.TaskID, text string) {
	b.t.Helper()
	b.until(id, td.Waiting)
	b.post(id, td.Command{Type: td.CmdMessage, Text: text})
	time.Sleep(time.Second)
}

func compactions(b *bench, id td.TaskID) (out []td.Compaction) {
	b.t.Helper()
	for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		if c, is := ev.Body.(td.Compacted); is {
			out = append(out, c.Compaction)
		}
	}
	return out
}

// Who asks for a smaller conversation does not want its answers thrown away: what is too short for a summary stays.
func TestCompactKeepsAShortChat(t *testing.T) {
	var plays []any
	for i := range 4 {
		plays = append(plays, says(fmt.Sprintf("the answer number %d%s", i, strings.Repeat(" with words", 12)), td.EndTurn))
	}
	play(t, plays, func(s *td.Spec, _ *Options) { s.Mode = td.Interactive }, func(b *bench, id td.TaskID) {
		for range 3 {
			b.chat(id, "and then?")
		}
		b.until(id, td.Waiting)
		b.post(id, td.Command{Type: td.CmdCompact}, td.Command{Type: td.CmdMessage, Text: "go on"})
		b.until(id, td.Completed)
		last := fmt.Sprint(b.model.requests[len(b.model.requests)-1].Messages)
		for i := range 4 {
			if want := fmt.Sprintf("the answer number %d", i); !strings.Contains(last, want) {
				t.Errorf("%q is gone: %s", want, last)
			}
		}
	})
}

// Estimates err high, for short words by half: the provider says whether such a task fits, and if not, the task says so.
func TestProviderJudgesWhatMayFit(t *testing.T) {
	words := strings.Repeat("the cat sat on a mat ", 100_000/6)
	long := func(s *td.Spec, o *Options) { s.Prompt, o.Share = words+words[:len(words)/5], 0.9 }
	play(t, []any{calls("Complete", `{"summary":"ok"}`)}, long, func(b *bench, id td.TaskID) {
		b.until(id, td.Completed)
	})
	refused := &llm.Error{Class: td.TooLong, Status: 400, Err: errors.New("prompt is too long")}
	play(t, slices.Repeat([]any{refused}, 9), long, func(b *bench, id td.TaskID) {
		if f := b.until(id, td.Failed).Status.Failed; !strings.Contains(f.Error, "too long") && !strings.Contains(f.Error, "does not fit") {
			t.Errorf("%+v", f)
		}
		if n := len(b.model.requests); n > 4 {
			t.Errorf("asked %d times", n)
		}
	})
}

// noSmall has no small model.
type noSmall struct{ llm.Model }

func (m noSmall) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if req.Model == "small-model" {
		return llm.Response{}, &llm.Error{Class: td.AuthFailed, Status: 401, Err: errors.New("who are you")}
	}
	return m.Model.Stream(ctx, req, emit)
}

// What is left out because the small model fails is told, to the model and to people.
func TestLostHistoryIsTold(t *testing.T) {
	var plays []any
	for i := range 6 {
		plays = append(plays, says(fmt.Sprint(i, strings.Repeat(" something to say about it", 400)), td.EndTurn))
	}
	play(t, plays, func(s *td.Spec, o *Options) {
		s.Mode, o.Window, o.Share, o.Model = td.Interactive, 20_000, 0.9, noSmall{o.Model}
	}, func(b *bench, id td.TaskID) {
		for range 6 {
			b.chat(id, "and then?")
		}
		b.until(id, td.Completed)
		got := compactions(b, id)
		if len(got) == 0 || got[0].Strategy != td.Dropped || !strings.Contains(got[0].Why, "who are you") {
			t.Errorf("%+v", got)
		}
		if last := fmt.Sprint(b.model.requests[len(b.model.requests)-1].Messages); !strings.Contains(last, "earlier steps were left out") {
			t.Errorf("the model is not told")
		}
	})
}
