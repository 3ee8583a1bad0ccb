package engine

import (
	"fmt"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/window"
)

// cacheLife is how long a provider keeps a prefix that is not asked for.
const cacheLife = 5 * time.Minute

// prefix says how much of a call is the same as in the call before it, and why the provider's cache could
// not serve it (B-4). Tools, system and history only ever grow at the end, so what is shared is all up to
// the newest answer, unless something rewrote it. It also corrects later estimates by what was counted.
func (r *run) prefix(req llm.Request, resp llm.Response) *td.Prefix {
	script, t := r.log.Transcript(), r.log.Task()
	parts := window.Count(req.System, script.Context.Tools, req.Messages)
	p := &td.Prefix{Sent: parts.Total()}
	r.scale = window.Calibrate(resp.Usage, p.Sent)
	last := -1 // the newest answer: what came before it was sent before
	for i, m := range req.Messages {
		if m.Role == td.Assistant {
			last = i
		}
	}
	switch {
	case last < 0:
		p.Miss = "the first call of the conversation"
	case script.Rewrote != "":
		p.Shared, p.Miss = parts.System+parts.Tools, script.Rewrote
	case t.LastModel != "" && t.LastModel != resp.Model:
		p.Miss = fmt.Sprintf("the model changed from %s to %s", t.LastModel, resp.Model)
	default:
		p.Shared = window.Count(req.System, script.Context.Tools, req.Messages[:last]).Total()
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
