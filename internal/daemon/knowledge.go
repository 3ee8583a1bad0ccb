package daemon

import "taskdaemon/internal/redact"

// secretsOf takes the keys of all providers out of what is written for people and later tasks.
func secretsOf(o Options) *redact.Redactor { return redact.New(o.Config.Secrets(o.Getenv)...) }
