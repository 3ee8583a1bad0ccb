package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"taskdaemon/internal/daemon"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/rulebook"
	"taskdaemon/internal/store/clean"
	"taskdaemon/internal/td"
)

func newPermissionsCmd(a *app) *cobra.Command {
	return group("permissions", "Rules of what tasks may do", `taskdaemon permissions add allow "Bash(go test *)"`,
		newPermissionsListCmd(a), newPermissionsAddCmd(a), newPermissionsRmCmd(a))
}

// rulesOptions are what the commands on rules share. They work on the files themselves; no daemon is needed,
// and one that runs sees what changed with its next call.
type rulesOptions struct {
	app  *app
	dir  string
	here bool
	why  string
	args []string
	// untrusted is for tasks that have read untrusted text.
	untrusted bool
}

func (o *rulesOptions) command(cmd *cobra.Command, run func(ctx context.Context, o rulesOptions) error) *cobra.Command {
	cmd.Annotations = exits(exitOK, exitFailed, exitUsage, exitNotFound, exitConflict, exitStorage)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.args = args
		var err error
		if o.dir, err = folderOr(o.dir); err != nil {
			return err
		}
		return run(cmd.Context(), *o)
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "the workspace; the present folder when not given")
	return cmd
}

// book is the rules as the daemon sees them.
func (a *app) book() (*rulebook.Book, error) {
	c, file, err := a.loadConfig(nil)
	if err != nil {
		return nil, err
	}
	state, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(file)
	as := daemon.Options{UserDir: dir, StateDir: state, Config: c, Getenv: os.Getenv}
	return rulebook.New(rulebook.Options{UserDir: dir, StateDir: state, Checkouts: daemon.CheckoutsDir(state), Home: home(), Config: c, Temps: daemon.Temps(as), Steering: daemon.Steering(as)}), nil
}

// home is the person's home folder, or nothing.
func home() string {
	dir, _ := os.UserHomeDir()
	return dir
}

// ruleShown is a rule for people and programs.
type ruleShown struct {
	Verdict string `json:"verdict"`
	Rule    string `json:"rule"`
	In      string `json:"in,omitempty"`
	Why     string `json:"why,omitempty"`
	From    string `json:"from"`
	// Untrusted says that it holds for tasks as well that have read untrusted text.
	Untrusted bool `json:"untrusted,omitempty"`
}

func newPermissionsListCmd(a *app) *cobra.Command {
	o := &rulesOptions{app: a}
	return o.command(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the rules in force here", Args: args(cobra.NoArgs, "no arguments"),
		Long: `List the rules in force in a workspace, and where each comes from: the config, your answers of always and never,
or the project's own file, which can only tighten. Above all of them stands the built-in floor, which nothing
gets past: see docs/policy.md.`,
		Example: "  taskdaemon permissions list",
	}, runPermissionsList)
}

func runPermissionsList(_ context.Context, o rulesOptions) error {
	book, err := o.app.book()
	if err != nil {
		return err
	}
	rules, err := book.Rules(o.dir)
	if err != nil {
		return err
	}
	shown := make([]ruleShown, len(rules))
	for i, r := range rules {
		shown[i] = ruleShown{string(r.Verdict), r.Match, r.In, r.Why, r.From, r.Untrusted}
	}
	if o.app.json {
		return o.app.printJSON(shown)
	}
	if len(shown) == 0 {
		o.app.say(`no rules of yours; built-in denials apply; next: taskdaemon permissions add allow "Bash(go test *)"`)
		return nil
	}
	w := tabwriter.NewWriter(o.app.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "VERDICT\tRULE\tIN\tFROM")
	for _, r := range shown {
		from := plainLine(r.From, 200)
		if r.Untrusted {
			from += ", also after untrusted text"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Verdict, plainLine(r.Rule, 200), plainLine(r.In, 200), from)
	}
	return w.Flush()
}

func newPermissionsAddCmd(a *app) *cobra.Command {
	o := &rulesOptions{app: a}
	cmd := o.command(&cobra.Command{
		Use: "add <allow | ask | deny> <rule>", Short: "Keep a rule", Args: args(cobra.ExactArgs(2), "a verdict and a rule"),
		Long: `Keep a rule in your own file, as an answer of always or never does. A rule names a tool and, in brackets, what it
is called with: Bash(go test *), Write(infra/**), WebFetch(*.example.com), mcp__notes__*. Deny wins over ask, and ask over
allow. With --here it holds in this folder only.

A rule that allows commands names the program: Bash(go test *). Bash alone allows every command, with the network of the config.`,
		Example: `  taskdaemon permissions add deny "Bash(git push *)" --why "pushing is done by people"`,
	}, runPermissionsAdd)
	cmd.Flags().BoolVar(&o.here, "here", false, "only in this folder")
	cmd.Flags().StringVar(&o.why, "why", "", "told to the model and to people")
	cmd.Flags().BoolVar(&o.untrusted, "untrusted", false, "allow it to tasks as well that have read untrusted text")
	return cmd
}

func runPermissionsAdd(ctx context.Context, o rulesOptions) error {
	book, err := o.app.book()
	if err != nil {
		return err
	}
	r := o.rule()
	for name, text := range map[string]string{"the rule": r.Match, "--why": o.why} {
		if o.app.secrets(nil).Secret([]byte(text)) {
			return clean.Refused(name)
		}
	}
	r.Why, r.By, r.At = o.why, o.app.by(), o.app.now().UTC()
	if err := book.Keep(ctx, []td.KeptRule{r}); err != nil {
		return err
	}
	if o.app.json {
		return o.app.printJSON(r)
	}
	o.app.say("kept in %s", book.File())
	if r.Verdict == string(policy.Allow) && policy.AllCommands(r.Match) {
		o.app.say("every command runs unasked now, with the files and the network of the config; deny and ask rules and the built-in denials still apply")
	}
	return nil
}

func (o rulesOptions) rule() td.KeptRule {
	r := td.KeptRule{Verdict: strings.ToLower(o.args[0]), Match: o.args[1], Untrusted: o.untrusted}
	if o.here {
		r.In = o.dir
	}
	return r
}

func newPermissionsRmCmd(a *app) *cobra.Command {
	o := &rulesOptions{app: a}
	cmd := o.command(&cobra.Command{
		Use: "rm <allow | ask | deny> <rule>", Short: "Forget a rule of yours", Args: args(cobra.ExactArgs(2), "a verdict and a rule, as listed"),
		Long: `Forget a rule that you kept with permissions add or with an answer of always or never. Rules of the config and of the
project are taken out where they stand: permissions list says where.`,
		Example: `  taskdaemon permissions rm allow "Bash(go test *)" --here`,
	}, runPermissionsRm)
	cmd.Flags().BoolVar(&o.here, "here", false, "the rule that holds in this folder only")
	cmd.Flags().BoolVar(&o.untrusted, "untrusted", false, "the rule that holds after untrusted text, too")
	return cmd
}

func runPermissionsRm(ctx context.Context, o rulesOptions) error {
	book, err := o.app.book()
	if err != nil {
		return err
	}
	r := o.rule()
	if err := book.Remove(ctx, r); err != nil {
		return err
	}
	if o.app.json {
		return o.app.printJSON(r)
	}
	o.app.say("forgotten")
	return nil
}
