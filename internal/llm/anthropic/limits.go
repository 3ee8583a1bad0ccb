package anthropic

import (
	"net/http"
	"time"

	"taskdaemon/internal/llm"
)

// limits reads what the API says of the key's rate limits.
func limits(h http.Header, now time.Time) *llm.Limits {
	of := func(what string) llm.Limit {
		prefix := "Anthropic-Ratelimit-" + what
		return llm.ParseLimit(h.Get(prefix+"-Limit"), h.Get(prefix+"-Remaining"), h.Get(prefix+"-Reset"), now)
	}
	return llm.Limits{
		Requests: of("Requests"), Tokens: of("Tokens"), Input: of("Input-Tokens"), Output: of("Output-Tokens"), At: now,
	}.Any()
}
