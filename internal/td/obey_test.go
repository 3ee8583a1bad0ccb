package td

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func command(t *rapid.T) Command {
	c := Command{
		Key: "k", At: noon.Add(time.Hour), By: rapid.SampledFrom([]string{"", "ann"}).Draw(t, "by"),
		Type: rapid.SampledFrom([]CommandType{CmdMessage, CmdAnswer, CmdPause, CmdResume, CmdCancel, CmdRetry, CmdModel, CmdExpire, CmdInterrupt, CmdLimit, "fly"}).Draw(t, "type"),
		Text: rapid.SampledFrom([]string{"", "words"}).Draw(t, "text"),
	}
	if rapid.Bool().Draw(t, "answers") {
		c.Answer = &Answer{Request: rapid.SampledFrom([]RequestID{"q", "r"}).Draw(t, "request"), Choice: rapid.SampledFrom([]string{Yes, No, "?"}).Draw(t, "choice")}
	}
	return c
}

// A command is consumed whatever it says and whatever state the task is in, and what follows from it can
// be carried out whole.
func TestObeyAlwaysConsumes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := in(rapid.SampledFrom(States).Draw(t, "state"))
		if rapid.Bool().Draw(t, "open") {
			task.Requests = []Request{{
				ID: "q", AskedAt: noon, Limit: time.Minute,
				Kind:    rapid.SampledFrom([]RequestKind{AskConversation, AskPermission, AskQuestion}).Draw(t, "kind"),
				About:   rapid.SampledFrom([]About{AboutTool, AboutAge, AboutModel, AboutUnknown}).Draw(t, "about"),
				Options: rapid.SampledFrom([][]string{nil, {Yes, No}}).Draw(t, "options"),
			}}
			if w := task.Status.Waiting; w != nil {
				w.Kind = task.Requests[0].Kind
			}
		}
		if rapid.Bool().Draw(t, "of a run") {
			task.Ordered = &Order{Run: "r"}
		}
		c := command(t)
		evs := Obey(task, c, noon)
		if len(evs) == 0 || evs[0].Takes != c.Key {
			t.Fatalf("%s was not consumed: %+v", c.Type, evs)
		}
		_, ignored := evs[0].Body.(Ignored)
		if refused := Refuse(task, c, noon); (refused != nil) != ignored {
			t.Fatalf("%s: refused %v, ignored %v", c.Type, refused, ignored)
		}
		for _, ev := range evs {
			ev.Seq = task.Head + 1
			next, err := task.Apply(ev)
			if err != nil {
				t.Fatalf("%s from %s: %T cannot be applied: %v", c.Type, task.Status.State, ev.Body, err)
			}
			task = next
		}
	})
}
