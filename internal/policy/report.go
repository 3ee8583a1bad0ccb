package policy

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// finding is something that was seen in an action and that no allow rule gets past: a deny is of the
// floor, an ask is what cannot be foreseen.
type finding struct {
	verdict Verdict
	rule    string
	why     string
	exact   bool // what may be touched for it is noted apart
}

// use is a path that an action touches.
type use struct {
	path     string
	access   Access
	outside  bool // of the workspace, and not known to be harmless
	secret   bool // likely to hold secrets
	destroys bool // all that is below it is gone or changed
	redir    bool // written by a redirection, which the rule of its command does not cover
	guessed  bool // of a word of which nobody knows what is done with it
	cmd      int  // index of the simple command; -1: the action itself
}

// command is one simple command of a shell source, as far as it could be resolved.
type command struct {
	words   []string // may hold the marks of word.go
	via     string   // the name of the command that runs it, as sudo or xargs; empty: the shell
	looks   bool     // it changes nothing
	edits   bool     // all it changes are files, which it names
	builds  bool     // a build or a test: a sandbox can hold it to the workspace
	own     bool     // a git whose changes stay in the checkout, and on its branch
	local   bool     // all it changes is files, or the checkout, and it needs no network
	offline bool     // it may want a network, or does with this machine alone; it can go without
	away    bool     // it may run outside of the workspace, where the same words mean other files
	plain   bool     // the wrapper of another command, judged through that one
	fed     bool     // something is piped or redirected into it
	reaches bool     // it asks a service
	input   *string  // what it reads, when that is known
}

func (c command) text() string { return strings.Join(c.words, " ") }

// report is what is known of an action.
type report struct {
	findings []finding
	cmds     []command
	uses     []use
	may      may
	hosts    []string
	shell    bool // the action runs a command
	says     bool // the tool says that it only looks
	// sandboxed says that a sandbox can hold the command; held, that it must: something passed only for that.
	sandboxed, held bool
	reaches         bool   // it asks a service that the person has set up
	chosen          bool   // what other commands read decides whether it goes on
	mixed           bool   // and something that looks at more than text
	full            bool   // there is more to say of it than is kept
	varied          string // a variable that is set, and of which nobody knows what it does
	steered         string // that variable with its value, whether a sandbox holds the command or not
	blind           bool   // the value of such a variable is known only when it runs
	tool            string
	origin          Origin
	bound           string // what the tool is, where that may change
}

func (r *report) add(v Verdict, rule, format string, args ...any) {
	r.note(finding{verdict: v, rule: rule, why: fmt.Sprintf(format, args...)})
}

// unforeseen adds a reason to ask for which it is noted apart what may be touched.
func (r *report) unforeseen(format string, args ...any) {
	r.note(finding{verdict: Ask, rule: askUnknown, why: fmt.Sprintf(format, args...), exact: true})
}

func (r *report) note(f finding) {
	v := f.verdict
	f.why = clipped(f.why)
	switch {
	case slices.Contains(r.findings, f):
	case len(r.findings) < maxFindings, v == Deny && len(r.findings) < 2*maxFindings:
		r.findings = append(r.findings, f)
	default:
		r.full = true
	}
}

// ask adds a reason to ask however many there are.
func (r *report) ask(rule, format string, args ...any) {
	r.findings = append(r.findings, finding{verdict: Ask, rule: rule, why: fmt.Sprintf(format, args...)})
}

// host notes that an action reaches a host. Letters of other alphabets are spelled out: they may look like ours.
func (r *report) host(h string) {
	if ascii, err := idna.ToASCII(h); err == nil {
		h = ascii
	}
	if h != "" && !slices.Contains(r.hosts, h) {
		r.hosts = append(r.hosts, h)
	}
}

// first is the first finding of a verdict.
func (r *report) first(v Verdict) (finding, bool) {
	i := slices.IndexFunc(r.findings, func(f finding) bool { return f.verdict == v })
	if i < 0 {
		return finding{}, false
	}
	return r.findings[i], true
}

// asks is the first thing that is asked about. In a worktree of the task's own a sandbox answers what is known only when it runs.
func (r *report) asks(own bool) (finding, bool) {
	i := slices.IndexFunc(r.findings, func(f finding) bool {
		return f.verdict == Ask && !(own && slices.Contains([]string{askUnknown, askEnv, askGlob, askRuns}, f.rule))
	})
	if i < 0 {
		return finding{}, false
	}
	return r.findings[i], true
}

// looks reports whether nothing is changed. What could not be foreseen does not count as looking.
func (r *report) looks() bool {
	for _, u := range r.uses {
		if u.access == Write && !harmlessSink(u.path) {
			return false
		}
	}
	if !r.shell {
		return r.says
	}
	if len(r.findings) > 0 || r.varied != "" {
		return false
	}
	return !slices.ContainsFunc(r.cmds, func(c command) bool { return !c.looks })
}

// changing names the first thing that is not known to be looking.
func (r *report) changing() string {
	if f, ok := r.first(Ask); ok {
		return f.why
	}
	for _, c := range r.cmds {
		if !c.looks && !c.plain {
			return fmt.Sprintf("%q is not on the list of commands that only read.", shorten(readable(c.text())))
		}
	}
	if r.varied != "" {
		return fmt.Sprintf("The variable %s may change what the command does.", r.varied)
	}
	for _, u := range r.uses {
		if u.access == Write {
			return fmt.Sprintf("It writes %s.", readable(u.path))
		}
	}
	return fmt.Sprintf("%s is not a tool that only reads.", r.tool)
}

// outside is the first use of a path that the mode alone does not allow.
func (r *report) outside(a Access) (use, bool) {
	i := slices.IndexFunc(r.uses, func(u use) bool { return u.outside && u.access == a })
	if i < 0 {
		return use{}, false
	}
	return r.uses[i], true
}

func (r *report) paths(a Access) []string {
	var out []string
	for _, u := range r.uses {
		if path := readable(u.path); u.access == a && !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// shorten cuts a text that is shown to a person.
func shorten(s string) string { return cut(s, 120) }

// clipped cuts a reason, in which a path may be named: all of one that a person would write is shown.
func clipped(s string) string { return cut(s, 1000) }

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
