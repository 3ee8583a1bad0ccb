package cli

import (
	"context"
	"fmt"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// answered is what became of a request, and who decided it. The daemon puts down who that is by the connection, never by what a client says.
type answered struct {
	Request td.RequestID `json:"request"`
	Handle  string       `json:"handle"`
	Prompt  string       `json:"prompt"`
	Choice  string       `json:"choice,omitempty"`
	By      string       `json:"by,omitempty"` // empty: nobody answered in time, or it was of no use any more
	At      time.Time    `json:"at"`
}

// answersTo are what became of the requests of a task, the oldest first.
func answersTo(ctx context.Context, svc api.Service, t td.Task) (out []answered, err error) {
	prompts := map[td.RequestID]string{}
	types := []td.EventType{td.RequestOpened{}.Type(), td.RequestAnswered{}.Type(), td.RequestExpired{}.Type()}
	for it, err := range svc.Events(ctx, api.EventQuery{Refs: []string{string(t.ID)}, Types: types}) {
		if err != nil {
			return nil, err
		}
		if it.Event == nil {
			continue
		}
		switch b := it.Event.Body.(type) {
		case td.RequestOpened:
			prompts[b.Request.ID] = b.Request.Question()
		case td.RequestAnswered:
			id := b.Answer.Request
			out = append(out, answered{id, id.Handle(), prompts[id], b.Answer.Choice, b.Answer.By, it.Event.At})
		case td.RequestExpired:
			out = append(out, answered{Request: b.ID, Handle: b.ID.Handle(), Prompt: prompts[b.ID], At: it.Event.At})
		}
	}
	return out, nil
}

// mostAnswers is how many of them a person is shown, the newest ones.
const mostAnswers = 5

func (a *app) printAnswers(all []answered) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	if more := len(all) - mostAnswers; more > 0 {
		fmt.Fprintf(a.stdout, "%s\n", a.style.dim(fmt.Sprintf("… %d earlier: --json has them", more)))
	}
	for _, one := range all[max(0, len(all)-mostAnswers):] {
		said := "closed without an answer"
		if one.By != "" || one.Choice != "" {
			said = fmt.Sprintf("%q by %s", plainLine(one.Choice, 60), plainLine(one.By, 40))
		}
		fmt.Fprintf(a.stdout, "✓ %s %s %s\n", one.Handle, plainLine(one.Prompt, 100), a.style.dim("→ "+said+", "+one.At.Local().Format(time.DateTime)))
	}
}
