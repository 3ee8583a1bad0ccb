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

// smallDown has a small model that cannot be reached for some calls.
type smallDown struct {
	llm.Model
	down *int
}

func (m smallDown) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if req.Model != "small-model" {
		return m.Model.Stream(ctx, req, emit)
	}
	if *m.down > 0 {
		*m.down--
		return llm.Response{}, &llm.Error{Class: td.Overloaded, Status: 529, Err: errors.New("too many guests")}
	}
	out := says("SUMMARY: they talked", td.EndTurn)
	out.Usage = td.Usage{Input: 1, Output: 1}
	return out, nil
}

// A summary that cannot be had now is waited for, like an answer: nothing is left out because of an outage.
func TestSummaryIsWaitedFor(t *testing.T) {
	talk := func(rest []time.Duration, restMax time.Duration, down int, test func(b *bench, id td.TaskID)) {
		var plays []any
		for i := range 6 {
			plays = append(plays, says(fmt.Sprint(i, strings.Repeat(" something to say about it", 400)), td.EndTurn))
		}
		play(t, plays, func(s *td.Spec, o *Options) {
			s.Mode, o.Window, o.Share, o.Model = td.Interactive, 20_000, 1, smallDown{o.Model, &down}
			o.Retry.Overloaded, o.Retry.Rest, o.Retry.RestMax = nil, rest, restMax
		}, test)
	}
	talk([]time.Duration{time.Minute, time.Hour}, 12*time.Hour, 3, func(b *bench, id td.TaskID) {
		for range 6 {
			for n := 0; b.task(id).Status.State == td.Blocked && n < 10; n++ {
				time.Sleep(time.Hour + 10*time.Minute)
			}
			b.chat(id, "and then?")
		}
		b.until(id, td.Completed)
		got := compactions(b, id)
		if len(got) == 0 || slices.ContainsFunc(got, func(c td.Compaction) bool { return c.Strategy != td.Summarised }) {
			t.Errorf("%+v", got)
		}
		var rests []td.BlockedData
		for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
			if m, is := ev.Body.(td.Moved); err == nil && is && m.Status.Blocked != nil && m.Status.Blocked.Outage != nil {
				rests = append(rests, *m.Status.Blocked)
			}
		}
		if len(rests) != 3 || rests[2].Outage.Rests != 3 || rests[2].Outage.Since != rests[0].Outage.Since || !strings.Contains(rests[0].Cause, "no summary") || !strings.Contains(rests[0].Cause, "too many guests") {
			t.Errorf("it rested for %+v", rests)
		}
	})
	talk([]time.Duration{time.Minute}, 2*time.Minute, 1<<30, func(b *bench, id td.TaskID) {
		for range 6 {
			if s := b.task(id).Status.State; s == td.Blocked || s == td.Failed {
				break
			}
			b.chat(id, "and then?")
		}
		if f := b.until(id, td.Failed).Status.Failed; !f.Recoverable || !strings.Contains(f.Error, "no summary") || !strings.Contains(f.Error, "too many guests") {
			t.Errorf("%+v", f)
		}
		if got := compactions(b, id); len(got) > 0 {
			t.Errorf("something was left out: %+v", got)
		}
	})
}

// As long as the call fits beside its answer, a summary that is not to be had is asked for again before the next one, and nobody waits.
func TestSummaryIsTriedLater(t *testing.T) {
	var plays []any
	for i := range 5 {
		plays = append(plays, says(fmt.Sprint(i, strings.Repeat(" something to say about it", 400)), td.EndTurn))
	}
	for name, small := range map[string]func(llm.Model) llm.Model{
		"unreachable": func(m llm.Model) llm.Model { down := 1 << 30; return smallDown{m, &down} },
		"refused":     func(m llm.Model) llm.Model { return noSmall{m} },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, plays, func(s *td.Spec, o *Options) {
				s.Mode, o.Window, o.Share, o.Model = td.Interactive, 60_000, 0.2, small(o.Model)
				o.Retry.Overloaded, o.Retry.Rest, o.Retry.RestMax = nil, []time.Duration{time.Hour}, 12*time.Hour
			}, func(b *bench, id td.TaskID) {
				for range 5 {
					b.chat(id, "and then?")
				}
				b.until(id, td.Completed)
				tried := 0
				for ev, err := range b.journal.Read(b.t.Context(), id, 0) {
					if in, is := ev.Body.(td.StepIntended); err == nil && is && in.Kind == td.SideStep {
						tried++
					}
				}
				if got := compactions(b, id); len(got) > 0 || tried < 2 {
					t.Errorf("asked %d times, and left out %+v", tried, got)
				}
			})
		})
	}
}
