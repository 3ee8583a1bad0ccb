package daemon

import (
	"log/slog"

	"taskdaemon/internal/config"
	"taskdaemon/internal/redact"
)

// Secrets takes out of a text what a daemon with this config is trusted with: the keys of all providers, and what
// the MCP servers are given.
func Secrets(c config.Config, getenv func(string) string) *redact.Redactor {
	r := redact.New(c.Secrets(getenv)...)
	for _, s := range serversOf(Options{Config: c, Getenv: getenv, Log: slog.New(slog.DiscardHandler)}) {
		r.Add(s.Secrets()...)
	}
	return r
}

func secretsOf(o Options) *redact.Redactor { return Secrets(o.Config, o.Getenv) }
