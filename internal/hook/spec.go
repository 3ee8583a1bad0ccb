package hook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/td"
	"taskdaemon/internal/typo"
)

// OnError says what follows when a hook fails.
type OnError string

// The two ways.
const (
	Open   OnError = "open"   // things go on as if it had not been asked
	Closed OnError = "closed" // things stop, as if it had blocked
)

// Limits of a Spec.
const (
	DefaultTimeout = time.Minute
	MaxTimeout     = time.Hour
	maxCommand     = 16 << 10 // a longer one is a script, and belongs into a file
)

// Func is a hook inside the daemon. It ends when ctx does. It only looks, or what it does it does once for a
// firing's key: a call that a crash cut off is made again.
type Func func(ctx context.Context, p Payload, f Firing) (Result, error)

// Firing is the occasion on which a function is asked.
type Firing struct {
	Key   string // the same in every life of the daemon, and no other firing's
	Again bool   // the same firing may have been cut off before
}

// Spec is one configured hook. Exactly one of Command, URL and Func is set.
type Spec struct {
	Point   Point
	Name    string        // unique; empty: made from the rest, and the same as long as that is
	Matcher string        // a regular expression for the whole subject; empty or "*": all
	Command string        // given to /bin/sh
	URL     string        // http or https
	Func    string        // the name of a function New was given
	Timeout time.Duration // zero: DefaultTimeout
	Order   int           // smaller ones first; equal ones as configured
	OnError OnError       // empty: Open
	Where   string        // its place in the config, for errors: "config.yaml:12:5"
}

// Set is the hooks of a config, checked and in order. A nil Set has none. It is safe for concurrent use.
type Set struct {
	all    []Spec
	points map[Point][]matched
	funcs  map[string]Func
}

type matched struct {
	spec Spec
	re   *regexp.Regexp // nil: all
}

// New checks the specs and puts them in order: by Order, then as given. Pure.
func New(specs []Spec, funcs map[string]Func) (*Set, error) {
	s := &Set{points: map[Point][]matched{}, funcs: funcs}
	names := map[string]string{}
	for _, spec := range specs {
		m, err := compile(spec, funcs)
		if err != nil {
			return nil, err
		}
		if other, ok := names[m.spec.Name]; ok {
			return nil, invalid(spec, "its name %q is taken by the one at %s", m.spec.Name, other).WithHint("give each a name of its own")
		}
		names[m.spec.Name] = cmp.Or(m.spec.Where, "the start")
		s.all = append(s.all, m.spec)
		s.points[m.spec.Point] = append(s.points[m.spec.Point], m)
	}
	slices.SortStableFunc(s.all, func(a, b Spec) int { return cmp.Compare(a.Order, b.Order) })
	for _, ms := range s.points {
		slices.SortStableFunc(ms, func(a, b matched) int { return cmp.Compare(a.spec.Order, b.spec.Order) })
	}
	return s, nil
}

// All are the hooks of every point, in the order in which those of one point fire.
func (s *Set) All() []Spec {
	if s == nil {
		return nil
	}
	return slices.Clone(s.all)
}

// Has reports whether any hook is configured at a point: where none is, no payload needs to be made.
func (s *Set) Has(p Point) bool { return s != nil && len(s.points[p]) > 0 }

// Match are the hooks p meets, in the order they fire. Pure: the same set and payload give the same.
func (s *Set) Match(p Payload) []Spec {
	if !s.Has(p.Point()) {
		return nil
	}
	subject := subjectOf(p)
	var out []Spec
	for _, m := range s.points[p.Point()] {
		if m.re == nil || m.re.MatchString(subject) {
			out = append(out, m.spec)
		}
	}
	return out
}

// subjectOf is what matchers are held against in p, or "" when its point has none.
func subjectOf(p Payload) string {
	t, _ := TraitOf(p.Point())
	f, ok := payloadFields()[t.Point][t.Subject]
	if !ok {
		return ""
	}
	return reflect.ValueOf(p).FieldByIndex(f.index).String()
}

// compile checks one spec, fills its defaults in and compiles its matcher.
func compile(s Spec, funcs map[string]Func) (matched, error) {
	t, ok := TraitOf(s.Point)
	if !ok {
		err := invalid(s, "there is no point %q", s.Point)
		if near := nearest(string(s.Point)); near != "" {
			return matched{}, err.WithHint("did you mean %s?", near)
		}
		return matched{}, err.WithHint("taskdaemon hooks list")
	}
	s.Timeout = cmp.Or(s.Timeout, DefaultTimeout)
	s.OnError = cmp.Or(s.OnError, Open)
	switch {
	case s.Timeout < 0 || s.Timeout > MaxTimeout:
		return matched{}, invalid(s, "a timeout of %s is not between 0 and %s", s.Timeout, MaxTimeout)
	case s.OnError != Open && s.OnError != Closed:
		return matched{}, invalid(s, "on_error %q is neither %s nor %s", s.OnError, Open, Closed)
	case s.OnError == Closed && t.Block == "":
		return matched{}, invalid(s, "on_error closed means nothing at %s: nothing can be blocked there", s.Point)
	case len(s.Name) > 100 || strings.ContainsFunc(s.Name, func(r rune) bool { return r < ' ' }):
		return matched{}, invalid(s, "the name %.40q is too long or has a control character in it", s.Name)
	}
	if err := checkTarget(s, funcs); err != nil {
		return matched{}, err
	}
	if s.Name == "" {
		s.Name = defaultName(s)
	}
	re, err := compileMatcher(s, t)
	return matched{spec: s, re: re}, err
}

func checkTarget(s Spec, funcs map[string]Func) error {
	set := 0
	for _, target := range []string{s.Command, s.URL, s.Func} {
		if strings.TrimSpace(target) != "" {
			set++
		}
	}
	switch {
	case set != 1:
		return invalid(s, "it needs one of command, url and func, and has %d of them", set)
	case len(s.Command) > maxCommand:
		return invalid(s, "its command is %d bytes long, more than %d", len(s.Command), maxCommand).WithHint("put it into a script")
	case strings.ContainsRune(s.Command, 0):
		return invalid(s, "its command has a NUL in it")
	case s.Func != "" && funcs[s.Func] == nil:
		return invalid(s, "there is no function %q", s.Func)
	case s.URL != "":
		u, err := url.Parse(s.URL)
		switch {
		case err != nil:
			return invalid(s, "%v", err)
		case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
			return invalid(s, "url %q is no http or https address", s.URL)
		case u.User != nil:
			return invalid(s, "its url has a name or password in it, which would be shown and logged")
		}
	}
	return nil
}

// compileMatcher compiles the matcher by itself first, so that a stray bracket does not pair up with the
// anchors' own.
func compileMatcher(s Spec, t Trait) (*regexp.Regexp, error) {
	if s.Matcher == "" || s.Matcher == "*" {
		return nil, nil
	}
	if t.Subject == "" {
		return nil, invalid(s, "%s has nothing to match", s.Point).WithHint("leave the matcher out")
	}
	if _, err := regexp.Compile(s.Matcher); err != nil {
		return nil, invalid(s, "matcher: %w", err)
	}
	re, err := regexp.Compile("^(?:" + s.Matcher + ")$")
	if err != nil {
		return nil, invalid(s, "matcher: %w", err)
	}
	return re, nil
}

// defaultName depends on what the hook is, not on its place: a step that was cut off finds its hook again
// when the config was put into another order meanwhile.
func defaultName(s Spec) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{s.Matcher, s.Command, s.URL, s.Func}, "\x00")))
	return fmt.Sprintf("%s-%x", s.Point, sum[:4])
}

func invalid(s Spec, format string, args ...any) *td.Error {
	what := "hook"
	if s.Name != "" {
		what = fmt.Sprintf("hook %.40q", s.Name)
	} else if s.Point != "" {
		what = fmt.Sprintf("hook at %.40s", s.Point)
	}
	if s.Where != "" {
		what = s.Where + ": " + what
	}
	return td.Errorf(td.Invalid, "check %s: %w", what, fmt.Errorf(format, args...))
}

func nearest(name string) string {
	best, least := "", 1+len(name)/3
	for _, t := range Traits {
		if d := typo.Distance(strings.ToLower(name), strings.ToLower(string(t.Point))); d < least {
			best, least = string(t.Point), d
		}
	}
	return best
}
