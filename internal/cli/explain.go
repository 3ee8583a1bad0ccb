package cli

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/config"
	"taskdaemon/internal/daemon"
	"taskdaemon/internal/git"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/rulebook"
	"taskdaemon/internal/skill"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/tool/builtin"
	"taskdaemon/internal/typo"
)

func newPolicyCmd(a *app) *cobra.Command {
	return group("policy", "What the rules say", `taskdaemon policy explain 'Bash(git push --force)'`, newPolicyExplainCmd(a))
}

type explainOptions struct {
	rulesOptions
	mode    string
	given   bool // the mode was
	inPlace bool
}

func newPolicyExplainCmd(a *app) *cobra.Command {
	o := &explainOptions{rulesOptions: rulesOptions{app: a}}
	cmd := o.command(&cobra.Command{
		Use: "explain <tool call>", Short: "Say what would become of a tool call, and by which rule", Args: args(cobra.ExactArgs(1), "one tool call"),
		Long: `Say what would become of a tool call of a task that is added in a folder: allow, ask or deny, by which rule and why. A call is
a tool and, in brackets, what it is called with: a command, a path or an address. Anything else is taken for a command.

Where the task would have a worktree of its own, the call is judged as if it were made there: more is allowed than in your checkout. Whether it would is decided by
the config and --in-place, never by the name of the folder.`,
		Example: `  taskdaemon policy explain 'Bash(git push --force origin main)'`,
	}, func(_ context.Context, r rulesOptions) error {
		o.rulesOptions = r
		return runPolicyExplain(*o)
	})
	cmd.PreRun = func(cmd *cobra.Command, _ []string) { o.given = cmd.Flags().Changed("mode") }
	cmd.Flags().StringVar(&o.mode, "mode", "", "permission mode: "+modeNames()+"; the config's when not given")
	cmd.Flags().BoolVar(&o.inPlace, "in-place", false, "for a task that works in the folder itself")
	cmd.Flags().BoolVar(&o.untrusted, "untrusted", false, "for a task that has read untrusted text, with permissions.untrusted: ask")
	return cmd
}

func modeNames() string {
	names := make([]string, len(td.PermissionModes))
	for i, m := range td.PermissionModes {
		names[i] = string(m)
	}
	return strings.Join(names, ", ")
}

// explained is what the rules say of a call.
type explained struct {
	Verdict policy.Verdict `json:"verdict"`
	Rule    string         `json:"rule"`
	Why     string         `json:"why,omitempty"`
	Floor   bool           `json:"floor,omitempty"`
	Looks   bool           `json:"looks,omitempty"`
	Reads   []string       `json:"reads,omitempty"`
	Writes  []string       `json:"writes,omitempty"`
	Hosts   []string       `json:"hosts,omitempty"`
	Always  []string       `json:"always,omitempty"` // what always would keep, the narrowest first
	// Confined says what the sandbox holds the command to because it is allowed for that: read-only, workspace or service. Of one that is asked about it is what holds it after a yes.
	Confined policy.Confinement `json:"confined,omitempty"`
	Apart    bool               `json:"apart,omitempty"` // judged as in a worktree of the task's own
}

func runPolicyExplain(o explainOptions) error {
	a := o.app
	c, _, err := a.loadConfig(nil)
	if err != nil {
		return err
	}
	mode := o.mode
	switch {
	case !o.given:
		mode = c.Permissions.Mode
	case !slices.Contains(td.PermissionModes, td.PermissionMode(mode)):
		return td.Errorf(td.Invalid, "%q is no permission mode", mode).WithHint("one of: %s", td.Words(modeNames()))
	}
	book, err := a.book()
	if err != nil {
		return err
	}
	p, err := book.Policy(o.dir, "", nil)
	if err != nil {
		return err
	}
	call, err := parseCall(o.args[0], o.dir)
	if err != nil {
		return err
	}
	if err := a.ownTool(&call, o.dir); err != nil {
		return err
	}
	call.Apart = !o.inPlace && c.In(o.dir).Worktree.Use != config.WorktreeOff && git.CommonDir(o.dir) != ""
	call.Mode, call.Tainted = policy.Mode(mode), o.untrusted
	if call.Sandboxed, err = a.confines(o.dir, td.PermissionMode(mode)); err != nil {
		return err
	}
	d := p.Decide(call)
	if err := outside(call, o.dir); err != nil && d.Verdict != policy.Deny {
		d = policy.Decision{Verdict: policy.Deny, Rule: "outside the workspace", Why: err.Error(), Reads: d.Reads, Writes: d.Writes}
	}
	out := explained{Apart: call.Apart, Verdict: d.Verdict, Rule: d.Rule, Why: d.Why, Floor: d.Floor, Looks: d.Looks, Reads: d.Reads, Writes: d.Writes, Hosts: d.Hosts, Confined: d.Confined}
	for _, f := range d.Offers {
		if d.Verdict != policy.Ask {
			break // nobody is asked
		}
		out.Always = append(out.Always, strings.Join(append([]string{f.Rule}, f.With...), " and "))
	}
	if a.json {
		return a.printJSON(out)
	}
	_, err = fmt.Fprintf(a.stdout, "%s by %s\n", out.Verdict, plainLine(out.Rule, 200))
	for _, line := range []struct {
		name  string
		words []string
	}{
		{"why", []string{out.Why}}, {"judged", []string{judgedWords(call)}}, {"runs", []string{runsWords(d, call)}}, {"after a yes it runs", []string{afterYesWords(d, call)}}, {"reads", out.Reads}, {"writes", out.Writes}, {"reaches", out.Hosts}, {"always would keep", out.Always},
	} {
		if text := strings.Join(line.words, ", "); text != "" && err == nil {
			_, err = fmt.Fprintf(a.stdout, "  %s: %s\n", line.name, plainLine(text, 400))
		}
	}
	return err
}

// judgedWords say that a command is judged as in a worktree that is not there yet.
func judgedWords(a policy.Action) string {
	if a.Command == "" || !a.Apart {
		return ""
	}
	return "for a task with a worktree of its own, which one added here gets; for your checkout: --in-place"
}

// runsWords say what a command that is allowed is held to.
func runsWords(d policy.Decision, a policy.Action) string {
	if d.Verdict != policy.Allow {
		return ""
	}
	return heldWords(d, a)
}

// afterYesWords say what a command that is asked about is held to after a yes.
func afterYesWords(d policy.Decision, a policy.Action) string {
	if d.Verdict != policy.Ask {
		return ""
	}
	return heldWords(d, a)
}

func heldWords(d policy.Decision, a policy.Action) string {
	switch {
	case a.Command == "":
		return ""
	case d.Confined == policy.HeldToLooking:
		return "in a sandbox with nothing to write and no network"
	case d.Confined == policy.HeldToService:
		return "in a sandbox with nothing to write, with the network of the config"
	case d.Confined == policy.HeldToWorkspace && a.Apart:
		return "in a sandbox that holds it to the task's own worktree, with no network"
	case d.Confined == policy.HeldToWorkspace:
		return "in a sandbox that holds it to the workspace, with no network"
	}
	return "with the files and the network of the config"
}

// outside fails for a file that the tools do not open at all: they have the workspace alone.
func outside(a policy.Action, dir string) error {
	if a.Command != "" || len(a.Paths) == 0 {
		return nil
	}
	w, err := tool.OpenWorkspace(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = w.Rel(a.Paths[0].Path)
	return err
}

// confines reports whether the daemon would hold commands in a workspace and a mode by a sandbox.
func (a *app) confines(dir string, mode td.PermissionMode) (bool, error) {
	c, file, err := a.loadConfig(nil)
	if err != nil {
		return false, err
	}
	state, err := a.stateDir()
	if err != nil {
		return false, err
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	return daemon.Confines(daemon.Options{UserDir: filepath.Dir(file), StateDir: state, Config: c, Getenv: os.Getenv, Self: self}, dir, mode), nil
}

// ownTool says who brings the tool of a call: a server by its name, which is reserved, else one of the skills that are there.
func (a *app) ownTool(call *policy.Action, dir string) error {
	switch {
	case strings.HasPrefix(call.Tool, policy.ServerPrefix):
		call.Origin = policy.Server
		return nil
	case !strings.Contains(call.Tool, "__"):
		return nil
	}
	call.Origin = policy.ProjectSkill // as strict as it may be
	_, file, err := a.loadConfig(nil)
	if err != nil {
		return err
	}
	skills, _ := skill.Load(skill.Sources(filepath.Dir(file), knowledge.Top(dir))...)
	for _, s := range skills {
		for _, t := range s.Tools {
			if t.Name == call.Tool {
				call.Origin, call.Bound = builtin.SkillOrigin(s.Level), t.Identity()
			}
		}
	}
	return nil
}

// toolName is what may stand before the brackets of a call.
var toolName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// parseCall reads a tool call as a person types it.
func parseCall(text, dir string) (policy.Action, error) {
	name, arg, ok := strings.Cut(strings.TrimSpace(text), "(")
	if ok = ok && strings.HasSuffix(arg, ")") && toolName.MatchString(name); !ok {
		if strings.HasPrefix(text, policy.ServerPrefix) && !strings.ContainsAny(text, " \t") {
			return policy.Action{Tool: text, Dir: dir}, nil
		}
		return policy.Action{Tool: "Bash", Command: text, Dir: dir}, nil
	}
	arg = strings.TrimSuffix(arg, ")")
	a := policy.Action{Tool: name, Dir: dir}
	path := func(access policy.Access) {
		if !filepath.IsAbs(arg) {
			arg = filepath.Join(dir, arg)
		}
		a.Paths = []policy.PathUse{{Path: rulebook.ResolveLinks(filepath.Clean(arg)), Access: access}}
	}
	switch {
	case strings.Contains(name, "__"): // of a server or a skill
	case !slices.Contains(builtin.Names(), name):
		err := td.Errorf(td.Invalid, "there is no tool %s", name)
		if near := typo.Nearest(name, builtin.Names()); near != "" {
			return a, err.WithHint("did you mean %s?", near)
		}
		return a, err.WithHint("one of: %s", td.Words(strings.Join(builtin.Names(), ", ")))
	case arg == "" && slices.Contains(takesSomething, name):
		return a, td.Errorf(td.Invalid, "%s is called with nothing", name).WithHint("taskdaemon policy explain %s", name+"(…)")
	case name == "Bash":
		a.Command = arg
	case name == "WebFetch":
		u, err := url.Parse(arg)
		if err == nil && u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https" {
			return a, td.Errorf(td.Invalid, "WebFetch fetches http and https only, not %s", u.Scheme).WithHint("taskdaemon policy explain 'Read(…)' for a file")
		}
		a.Looks, a.Hosts = true, []string{arg}
		if err == nil && u.Host != "" {
			a.Hosts = []string{u.Hostname()}
		}
	case slices.Contains([]string{"Write", "Edit", "MultiEdit"}, name):
		path(policy.Write)
	case slices.Contains(takesSomething, name):
		a.Looks = true
		path(policy.Read)
	default:
		a.Looks = name != "StopLoop" // the rest changes nothing but what taskdaemon keeps of the task
	}
	return a, nil
}

// takesSomething are the tools that are called with a command, a path or an address.
var takesSomething = []string{"Bash", "WebFetch", "Read", "Write", "Edit", "MultiEdit", "Glob", "Grep"}
