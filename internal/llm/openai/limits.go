package openai

import (
	"net/http"
	"time"

	"taskdaemon/internal/llm"
)

// limits reads what a server says of the key's rate limits.
func limits(h http.Header, now time.Time) *llm.Limits {
	of := func(what string) llm.Limit {
		return llm.ParseLimit(
			h.Get("X-Ratelimit-Limit-"+what), h.Get("X-Ratelimit-Remaining-"+what), h.Get("X-Ratelimit-Reset-"+what), now)
	}
	return llm.Limits{Requests: of("Requests"), Tokens: of("Tokens"), At: now}.Any()
}
