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

// prefix says how much of a call is the same as in the call before it, and why the provider's cache could
// not serve it (B-4). Tools, system and history only ever grow at the end, so what is shared is all that the
// call before it had, or all up to the place that was rewritten since.
func (r *run) prefix(req llm.Request, resp llm.Response) *td.Prefix {
	script, t := r.log.Transcript(), r.log.Task()
	p := &td.Prefix{Estimated: script.Estimate()}
	scale := window.Calibrate(resp.Usage, p.Estimated)
	p.Sent, p.Shared = scale.Of(p.Estimated), scale.Of(p.Estimated-script.Changed())
	isAnswer := func(m td.Message) bool { return m.Role == td.Assistant }
	switch {
	case !slices.ContainsFunc(req.Messages, isAnswer):
		p.Shared, p.Miss = 0, "the first call of the conversation"
	case t.LastModel != "" && t.LastModel != resp.Model:
		p.Shared, p.Miss = 0, fmt.Sprintf("the model changed from %s to %s", t.LastModel, resp.Model)
	case script.Rewrote != "":
		p.Miss = script.Rewrote
	default:
		age := r.log.Now().Sub(script.AnsweredAt)
		read, shared := resp.Usage.CacheRead, p.Shared
		switch {
		case read > 0 && read >= int64(shared)/2:
		case read > 0:
			p.Miss = fmt.Sprintf("the provider found %d of about %d tokens in its cache", read, shared)
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
