package policy

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Where rules come from. Values are shown to people and stored with decisions.
const (
	FromUser    = "user config"
	FromProject = "project config"
	FromAnswer  = "answer"
	FromTask    = "task"
)

// Rule says what becomes of the actions it matches.
type Rule struct {
	Verdict Verdict
	Match   string // "Bash(go test *)", "Write(infra/**)", "WebFetch(*.example.com)", "mcp__notes__*", "Read"
	In      string // the folder it holds in; empty: everywhere
	Why     string // for whoever is refused
	From    string // FromUser and its kin
	// Untrusted says that an allow holds for tasks as well that have read untrusted text and are held stricter.
	Untrusted bool
}

// String is the rule as a person types it.
func (r Rule) String() string { return string(r.Verdict) + " " + r.Match }

// Tightens refuses a rule that loosens and comes from a project: what was cloned does not decide what it
// may do.
func Tightens(r Rule) error {
	if r.From == FromProject && r.Verdict != Deny && r.Verdict != Ask {
		return fmt.Errorf("%s: %q: a project may only tighten: write ask or deny, or move the rule to your own config", FromProject, r.String())
	}
	return nil
}

// kind is what the pattern of a rule is compared with.
type kind int

const (
	kindTool    kind = iota // the name of the tool alone
	kindCommand             // simple commands
	kindRead                // paths that are read
	kindWrite               // paths that are written
	kindHost                // hosts that are reached
)

// compiled is a rule that is ready to match.
type compiled struct {
	rule Rule
	kind kind
	tool string // glob over names of tools
	arg  string // pattern; empty: anything; of a tool by name: what it is bound to
	in   string
}

func (c compiled) decision() Decision {
	rule := c.rule.String()
	if c.rule.From != "" {
		rule += " (" + c.rule.From + ")"
	}
	return Decision{Verdict: c.rule.Verdict, Rule: rule, Why: c.rule.says()}
}

// says is the reason that a rule gives, as the words of whoever wrote it: what a project, or an agent in its name, writes into a file must not pass for taskdaemon's own.
func (r Rule) says() string {
	who := "Your rule"
	switch r.From {
	case "":
		who = "A rule"
	case FromProject:
		who = "The project's .taskdaemon.yaml"
	case FromTask:
		who = "A rule of this task"
	}
	return Quoted(who, r.Why)
}

// Quoted are somebody's words, on one line and marked as theirs.
func Quoted(who, words string) string {
	if strings.TrimSpace(words) == "" {
		return who + " says so."
	}
	return fmt.Sprintf("%s says: %q.", who, cut(words, 500))
}

// Check reports what is wrong with a rule, without a place to hold in.
func Check(r Rule) error {
	_, err := compile(r, Place{Workspace: "/", Home: "/"})
	return err
}

func compile(r Rule, place Place) (compiled, error) {
	fail := func(format string, args ...any) (compiled, error) {
		from := r.From
		if from == "" {
			from = "rule"
		}
		return compiled{}, fmt.Errorf("%s: %q: %s", from, r.Match, fmt.Sprintf(format, args...))
	}
	switch r.Verdict {
	case Allow, Ask, Deny:
	default:
		return fail("the verdict %q is not allow, ask or deny", r.Verdict)
	}
	tool, arg, open := strings.Cut(r.Match, "(")
	if open {
		if !strings.HasSuffix(arg, ")") {
			return fail("the bracket is not closed: write it as Tool(pattern)")
		}
		arg = strings.TrimSpace(arg[:len(arg)-1])
		if arg == "" {
			return fail("there is nothing in the brackets: leave them out to match every call")
		}
	}
	switch {
	case tool == "":
		return fail("the name of a tool is missing")
	case hidden(r.Match) || strings.ContainsFunc(tool, func(r rune) bool { return r > 0x7e }):
		return fail("it contains characters that are not what they look like")
	case strings.ContainsAny(tool, " \t)"):
		return fail("%q is not the name of a tool", tool)
	case r.In != "" && !filepath.IsAbs(r.In):
		return fail("the folder %q is not an absolute path", r.In)
	}
	if !doublestar.ValidatePattern(tool) {
		return fail("%q is not a valid glob", tool)
	}
	c := compiled{rule: r, tool: tool, arg: arg, in: r.In, kind: kindOf(tool)}
	switch c.kind {
	case kindCommand:
		c.arg = commandPattern(arg)
		if program, _, _ := strings.Cut(c.arg, " "); r.Verdict == Allow && c.arg != "*" && strings.Contains(program, "*") {
			return fail("it does not say which program is allowed: write Bash(go test *) for one program, or Bash for every command")
		}
	case kindRead, kindWrite:
		if arg == "" {
			break
		}
		if !doublestar.ValidatePattern(arg) {
			return fail("%q is not a valid glob", arg)
		}
		base := place.Workspace
		if r.In != "" {
			base = filepath.Clean(r.In)
		}
		switch {
		case arg == "~" || strings.HasPrefix(arg, "~/"):
			c.arg = place.Home + arg[1:]
		case !strings.HasPrefix(arg, "/"):
			c.arg = base + "/" + strings.TrimPrefix(arg, "./")
		}
		if slices.Contains(strings.Split(c.arg, "/"), "..") {
			return fail("write the path without \"..\"")
		}
	case kindHost:
		c.arg = strings.ToLower(strings.TrimPrefix(arg, "domain:"))
		if !doublestar.ValidatePattern(c.arg) || strings.ContainsAny(c.arg, "/ ") {
			return fail("%q is not a host or a glob of hosts", arg)
		}
	case kindTool:
		if arg != "" && !boundForm.MatchString(arg) {
			return fail("%s takes no pattern in brackets: write %q", tool, tool)
		}
	}
	return c, nil
}

// AllCommands reports whether a pattern is for every command.
func AllCommands(match string) bool {
	c, err := compile(Rule{Verdict: Allow, Match: match}, Place{Workspace: "/", Home: "/"})
	return err == nil && c.kind == kindCommand && (c.arg == "" || c.arg == "*")
}

// boundForm is what a rule for a tool that a skill brings is bound to.
var boundForm = regexp.MustCompile(`^sha256:[0-9a-f]{40}$`)

// Unbound is a pattern for a tool whatever becomes of it. A rule against a tool is kept like that: who may change
// the tool must not be able to shake the rule off.
func Unbound(match string) string {
	if tool, arg, ok := strings.Cut(match, "("); ok && boundForm.MatchString(strings.TrimSuffix(arg, ")")) {
		return tool
	}
	return match
}

// names reports whether the rule is about a tool as such, and as what it is now.
func (c compiled) names(tool, bound string) bool {
	return doublestar.MatchUnvalidated(c.tool, tool) && (c.arg == "" || c.kind == kindTool && c.arg == bound)
}

func kindOf(tool string) kind {
	switch tool {
	case "Bash":
		return kindCommand
	case "Read", "Grep", "Glob", "LS":
		return kindRead
	case "Write", "Edit", "MultiEdit":
		return kindWrite
	case "WebFetch":
		return kindHost
	}
	return kindTool
}

// commandPattern brings the ways to write a pattern for commands to one: "go test:*" is "go test *".
func commandPattern(arg string) string {
	if p, ok := strings.CutSuffix(arg, ":*"); ok {
		arg = p + " *"
	}
	return strings.Join(strings.Fields(arg), " ")
}

// matchesCommand reports whether a command line matches a pattern in which * stands for anything. A last
// " *" may stand for nothing.
func matchesCommand(pattern, line string) bool {
	if pattern == "" || pattern == "*" {
		return true
	}
	if p, ok := strings.CutSuffix(pattern, " *"); ok && wild(p, line) {
		return true
	}
	return wild(pattern, line)
}

// wild matches * with anything, and everything else with itself.
func wild(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return strings.HasSuffix(s, last)
}

// matchesPath reports whether a path, which may hold marks, is one that the pattern names. A folder that
// the pattern names as dir/** is named as well.
func matchesPath(pattern, path string) bool {
	if pattern == "" {
		return true
	}
	return doublestar.MatchUnvalidated(pattern, globsWritten.Replace(path))
}

var globsWritten = strings.NewReplacer("\x02", "*", "\x03", "?", "\x04", "**")
