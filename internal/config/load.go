package config

import (
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/td"
)

// Source says who set a value.
type Source string

// The sources, weakest first.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromProject Source = "project" // the file, for one project
	FromEnv     Source = "env"
	FromFlag    Source = "flag"
)

// LoadOptions says where to look. The zero value looks nowhere and gives the defaults.
type LoadOptions struct {
	File     string   // may be absent, unless Explicit
	Explicit bool     // the person named the file: it must exist
	Environ  []string // as os.Environ gives it
	Set      []string // key=value, from flags
}

// Load reads the settings and checks them against each other.
func Load(o LoadOptions) (Config, error) {
	c := Default()
	c.sources = map[string]Source{}
	if o.File != "" {
		found, err := readFile(&c, o.File)
		if err != nil {
			return Config{}, err
		}
		if !found && o.Explicit {
			return Config{}, td.Errorf(td.Invalid, "config file %s does not exist", o.File).
				WithHint("taskdaemon init --config %s", o.File)
		}
	}
	env := environment(o.Environ)
	if err := readEnv(&c, env); err != nil {
		return Config{}, err
	}
	if err := readFlags(&c, o.Set); err != nil {
		return Config{}, err
	}
	// Which address counts is known only when the provider is.
	if base := env[own[c.Provider].url]; base != "" && c.sources["base_url"] != FromEnv && c.sources["base_url"] != FromFlag {
		c.BaseURL, c.sources["base_url"] = base, FromEnv
	}
	for _, k := range Keys {
		if k.check == nil {
			continue
		}
		if err := k.check(&c); err != nil {
			return Config{}, td.Errorf(td.Invalid, "%s: %w (set by %s)", k.Name, err, c.origin(k, o.File)).
				WithHint("taskdaemon config show")
		}
	}
	for _, p := range c.Providers {
		if err := p.check(); err != nil {
			return Config{}, td.Errorf(td.Invalid, "%s: %w", p.Where, err).WithHint("see docs/models.md")
		}
	}
	return c, c.checkProjects()
}

// SourceOf says who set the key.
func (c Config) SourceOf(k Key) Source {
	if s, ok := c.sources[k.Name]; ok {
		return s
	}
	return FromDefault
}

func (c Config) origin(k Key, file string) string {
	if s := c.SourceOf(k); s != FromFile {
		return string(s)
	}
	return file
}

func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	return env
}

func readEnv(c *Config, env map[string]string) error {
	for _, k := range Keys {
		name := k.EnvName()
		if env[name] == "" {
			continue
		}
		if err := c.setFrom(k, env[name], FromEnv); err != nil {
			return td.Errorf(td.Invalid, "variable %s: %w", name, err).WithHint("unset %s", name)
		}
	}
	return nil
}

func readFlags(c *Config, set []string) error {
	for _, kv := range set {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			return td.Errorf(td.Invalid, "--set %s: want key=value", clip(kv)).WithHint("taskdaemon config show")
		}
		k, ok := find(name)
		if !ok {
			e := td.Errorf(td.Invalid, "--set: unknown key %q", clip(name)).WithHint("taskdaemon config show")
			if near := nearest(name); near != "" {
				e = td.Errorf(td.Invalid, "--set: unknown key %q; did you mean %s?", clip(name), near).
					WithHint("taskdaemon config show")
			}
			return e
		}
		if err := c.setFrom(k, value, FromFlag); err != nil {
			return td.Errorf(td.Invalid, "--set %s: %w", name, err).WithHint("taskdaemon config show")
		}
	}
	return nil
}

func (c *Config) setFrom(k Key, text string, from Source) error {
	if k.path {
		if wd, err := os.Getwd(); err == nil {
			text = resolvePath(text, wd)
		}
	}
	if err := k.setText(c, text); err != nil {
		return err
	}
	c.sources[k.Name] = from
	return nil
}

// resolvePath makes a path absolute: ~ is the home folder, a relative one starts at base.
func resolvePath(path, base string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}
