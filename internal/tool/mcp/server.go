package mcp

import (
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/td"
)

// The limits of a server that sets none.
const (
	defaultTimeout      = 60 * time.Second
	defaultStartTimeout = 10 * time.Second
)

// Server is how one server is reached and what of it may be used.
type Server struct {
	Name string // in the names of its tools: letters, digits, - and single _ between them

	// A program that speaks over its standard input and output…
	Command string
	Args    []string
	Env     map[string]string // added to the scrubbed environment, as it is

	// …or an address that speaks streamable HTTP.
	URL     string
	Headers map[string]string

	Timeout      time.Duration // of a call, the start of the server included; zero: 60 s
	StartTimeout time.Duration // until it has told its tools; zero: 10 s

	// Trusted believes the server: its calls need no permission, and a tool marked as read-only is pure.
	Trusted bool

	// Allow and Deny are patterns of tool names, as path.Match has them. Nothing in Allow: all but those denied.
	Allow, Deny []string

	Disabled bool
}

// goodName keeps the names of different servers' tools apart: no double underscore, none at the ends.
var goodName = regexp.MustCompile(`^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$`)

const maxServerName = 24

// check finds what is wrong with the config, and fills in the limits.
func (s *Server) check() error {
	switch {
	case !goodName.MatchString(s.Name) || len(s.Name) > maxServerName:
		return td.Errorf(td.Invalid, "MCP server %q: the name must be at most %d letters, digits, - and single _ between them", s.Name, maxServerName)
	case (s.Command == "") == (s.URL == ""):
		return td.Errorf(td.Invalid, "MCP server %s: give either a command or a url", s.Name)
	case s.Timeout < 0 || s.StartTimeout < 0:
		return td.Errorf(td.Invalid, "MCP server %s: a time limit is negative", s.Name)
	}
	if s.URL != "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return td.Errorf(td.Invalid, "MCP server %s: the url must begin with http:// or https://", s.Name)
		}
	}
	for _, p := range slices.Concat(s.Allow, s.Deny) {
		if _, err := path.Match(p, ""); err != nil {
			return td.Errorf(td.Invalid, "MCP server %s: the pattern %q is broken", s.Name, p)
		}
	}
	for name, value := range s.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return td.Errorf(td.Invalid, "MCP server %s: %q cannot be a variable", s.Name, name)
		}
	}
	if s.Timeout == 0 {
		s.Timeout = defaultTimeout
	}
	if s.StartTimeout == 0 {
		s.StartTimeout = defaultStartTimeout
	}
	return nil
}

// allows reports whether the config lets the tool through.
func (s *Server) allows(tool string) bool {
	matches := func(p string) bool {
		ok, err := path.Match(p, tool)
		return ok && err == nil
	}
	if slices.ContainsFunc(s.Deny, matches) {
		return false
	}
	return len(s.Allow) == 0 || slices.ContainsFunc(s.Allow, matches)
}

// where is how people know the server: its command or its address, without what may be secret in an address.
func (s *Server) where() string {
	if s.URL == "" {
		return strings.Join(append([]string{s.Command}, s.Args...), " ")
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// secretNames are parts of the names of variables that hold secrets.
var secretNames = regexp.MustCompile(`(?i)token|key|secret|pass|credential|auth|pat$`)

// Secrets are the values that the config trusts this server with: nothing may write them down.
func (s *Server) Secrets() []string {
	values := slices.Collect(maps.Values(s.Headers))
	for _, value := range s.Headers { // "Bearer x" is as secret as x
		if _, rest, ok := strings.Cut(value, " "); ok {
			values = append(values, rest)
		}
	}
	for name, value := range s.Env {
		if secretNames.MatchString(name) {
			values = append(values, value)
		}
	}
	return values
}
