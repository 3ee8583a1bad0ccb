package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// The providers. Auto is Anthropic when the key's variable is set and Rehearsal when it is not.
const (
	Auto              = "auto"
	Anthropic         = "anthropic"
	OpenAI            = "openai"
	RehearsalProvider = "rehearsal"
)

// own are the variables that everybody knows a provider by. A key or an address of one provider must never
// be used for another.
var own = map[string]struct{ key, url string }{
	Auto:      {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
	Anthropic: {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"},
	OpenAI:    {"OPENAI_API_KEY", "OPENAI_BASE_URL"},
}

// KeyEnv names the variable that holds the key of the default provider; empty: it needs none.
func (c Config) KeyEnv() string { return cmp.Or(c.APIKeyEnv, own[c.Provider].key) }

// ProviderIn is the provider that will be used in this environment: never Auto. Where the key of Anthropic is not set, it
// is the one of `providers:` whose model does the work.
func (c Config) ProviderIn(getenv func(string) string) string {
	if c.Provider != Auto {
		return c.Provider
	}
	if getenv(c.KeyEnv()) != "" {
		return Anthropic
	}
	if name, _, named := strings.Cut(c.Models.Worker, "/"); named && c.listed(name) {
		return name
	}
	return RehearsalProvider
}

// listed reports whether `providers:` has a provider of this name.
func (c Config) listed(name string) bool {
	return slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Name == name })
}

// ModelsIn are the models of the tiers in this environment. Those that nobody chose are Anthropic's: where a
// provider of the file is the default, its worker does their work, too.
func (c Config) ModelsIn(getenv func(string) string) Models {
	m, standard := c.Models, Default().Models
	if c.listed(c.ProviderIn(getenv)) {
		if m.Small == standard.Small {
			m.Small = m.Worker
		}
		if m.Expert == standard.Expert {
			m.Expert = m.Worker
		}
	}
	return m
}

// ProvidersIn are the APIs that a daemon in this environment calls: the default one and those of the file.
// Every variable that a person named for a key must be set.
func (c Config) ProvidersIn(getenv func(string) string) ([]Provider, error) {
	all := slices.Clone(c.Providers)
	if name := c.ProviderIn(getenv); name != RehearsalProvider && !c.listed(name) {
		p := Provider{Name: name, Kind: name, BaseURL: c.BaseURL, KeyEnvs: []string{c.KeyEnv()}, Where: "provider"}
		if c.APIKeyEnv == "" && c.BaseURL != "" && getenv(c.KeyEnv()) == "" {
			p.KeyEnvs = nil // a server of one's own may want no key
		}
		all = slices.Insert(all, 0, p)
	}
	for _, p := range all {
		if len(p.KeyEnvs) == 0 && p.BaseURL == "" {
			return nil, td.Errorf(td.Auth, "%s: the provider %s has no key", p.Where, p.Name).
				WithHint("name the variable that holds it: key_envs: [%s]", own[p.Kind].key)
		}
		for _, env := range p.KeyEnvs {
			if getenv(env) == "" {
				return nil, td.Errorf(td.Auth, "%s: the key of %s should be in %s, which is not set", p.Where, p.Name, env).
					WithHint("export %s=…, or set `provider: rehearsal` in the config", env)
			}
		}
	}
	return all, nil
}

// Secrets are the keys in this environment, of all providers: what nothing may write down.
func (c Config) Secrets(getenv func(string) string) (keys []string) {
	envs := []string{c.APIKeyEnv, own[Anthropic].key, own[OpenAI].key}
	for _, p := range c.Providers {
		envs = append(envs, p.KeyEnvs...)
	}
	for _, env := range envs {
		if env != "" {
			keys = append(keys, getenv(env))
		}
	}
	return keys
}

// check says what is wrong with an entry of `providers:`, without repeating what may be a key.
func (p Provider) check() error {
	switch {
	case p.Name == "":
		return fmt.Errorf("a provider needs a name")
	case p.Kind != Anthropic && p.Kind != OpenAI:
		return fmt.Errorf("the provider %q is of kind %q; want %s or %s", p.Name, clip(p.Kind), Anthropic, OpenAI)
	}
	if err := checkURL(p.BaseURL); err != nil {
		return fmt.Errorf("base_url of %s: %w", p.Name, err)
	}
	for _, env := range p.KeyEnvs {
		if err := checkKeyEnv(env); err != nil {
			return fmt.Errorf("key_envs of %s: %w", p.Name, err)
		}
	}
	return nil
}

func checkURL(base string) error {
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("want http://host or https://host")
	}
	if u.User != nil {
		return fmt.Errorf("must not hold a user or password")
	}
	return nil
}

// checkKeyEnv refuses what looks like the key itself, without repeating it.
func checkKeyEnv(env string) error {
	if env == "" {
		return fmt.Errorf("must not be empty")
	}
	for _, r := range env {
		if r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return fmt.Errorf("want the name of a variable, not the key itself")
		}
	}
	return nil
}
