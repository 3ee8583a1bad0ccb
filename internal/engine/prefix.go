package engine

import (
	"fmt"
	"slices"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// cacheLife is how long a provider keeps a prefix that is not asked for.
const cacheLife = 5 * time.Minute

// estimate is about how many tokens the call with these messages has. A conversation that was only added to
// is not counted anew.
func (r *run) estimate(msgs []td.Message) int {
	c := r.log.Transcript()
	if c.Sent > 0 && c.Rewrote == "" {
		return c.Sent + fresh(msgs)
	}
	return window.Count(c.Context.System, c.Context.Tools, msgs).Total()
}

// prefix says how much of a call is the same as in the call before it, and why the provider's cache could
// not serve it (B-4). Tools, system and history only ever grow at the end, so what is shared is all up to
// the newest answer, unless something rewrote it.
func (r *run) prefix(req llm.Request, resp llm.Response) *td.Prefix {
	script, t := r.log.Transcript(), r.log.Task()
	p := &td.Prefix{Sent: r.estimate(req.Messages)}
	isAnswer := func(m td.Message) bool { return m.Role == td.Assistant }
	switch {
	case !slices.ContainsFunc(req.Messages, isAnswer):
		p.Miss = "the first call of the conversation"
	case script.Rewrote != "":
		p.Shared, p.Miss = window.Count(req.System, script.Context.Tools, nil).Total(), script.Rewrote
	case t.LastModel != "" && t.LastModel != resp.Model:
		p.Miss = fmt.Sprintf("the model changed from %s to %s", t.LastModel, resp.Model)
	default:
		p.Shared = p.Sent - fresh(req.Messages)
		age := r.log.Now().Sub(script.AnsweredAt)
		switch {
		case resp.Usage.CacheRead > 0:
		case resp.Usage.CacheWrite == 0:
			p.Miss = "the provider tells nothing of a cache"
		case age > cacheLife:
			p.Miss = fmt.Sprintf("the call before was %s ago: the cache had let go of it", age.Round(time.Second))
		default:
			p.Miss = "the provider did not find it in its cache"
		}
	}
	return p
}
