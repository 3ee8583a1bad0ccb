package cli

import (
	"taskdaemon/internal/notify"
	"taskdaemon/internal/td"
)

// notify says in the terminal, to whoever waited for the task and looked away, how it stands.
func (a *app) notify(t td.Task) {
	if a.json || !isTerminal(a.stdout) || a.getenv("TERM") == "dumb" {
		return
	}
	c, _, err := a.loadConfig(nil)
	if err != nil {
		return // the settings are wrong; others say so
	}
	e := notify.Of(t)
	if c.Notify.Title {
		_ = notify.Title(a.stdout, e.Sentence()) // a terminal that is gone needs no title
	}
	if c.Notify.Bell {
		_ = notify.Bell(a.stdout)
	}
}
