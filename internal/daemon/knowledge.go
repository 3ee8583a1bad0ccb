package daemon

import "taskdaemon/internal/redact"

// secretsOf takes the keys of all providers out of what is written for people and later tasks.
func secretsOf(o Options) *redact.Redactor {
	r := redact.New(o.Getenv(o.Config.APIKeyEnv))
	for _, p := range o.Config.Providers {
		for _, env := range p.KeyEnvs {
			r.Add(o.Getenv(env))
		}
	}
	return r
}
