package daemon

import (
	"log/slog"

	"taskdaemon/internal/config"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/store/clean"
)

// Secrets takes out of a text what a daemon with this config is trusted with: the keys of all providers, and what
// the MCP servers are given. A daemon has one of them, in its Options, for all that it writes, tells and answers.
func Secrets(c config.Config, getenv func(string) string) *redact.Redactor {
	r := redact.New(c.Secrets(getenv)...)
	for _, s := range serversOf(Options{Config: c, Getenv: getenv, Log: slog.New(slog.DiscardHandler)}) {
		r.Add(s.Secrets()...)
	}
	return r
}

// screen takes secrets out of the words of a request before anything is made of it, such as the name of a branch, and
// refuses a request that has one elsewhere.
func screen(r *redact.Redactor) func([]byte) ([]byte, error) {
	return func(request []byte) ([]byte, error) {
		out, refused := r.Request(request, clean.Treat)
		if refused != "" {
			return nil, clean.Refused(refused)
		}
		return out, nil
	}
}
