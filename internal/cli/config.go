package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"taskdaemon/internal/config"
	"taskdaemon/internal/daemon"
	"taskdaemon/internal/rulebook"
)

func newConfigCmd(a *app) *cobra.Command {
	return group("config", "Show and check the settings", "taskdaemon config show",
		newConfigShowCmd(a), newConfigPathCmd(a), newConfigCheckCmd(a))
}

// loadConfig reads the settings as a daemon started now would.
func (a *app) loadConfig(set []string) (config.Config, string, error) {
	file, explicit, err := a.configFile()
	if err != nil {
		return config.Config{}, "", err
	}
	c, err := config.Load(config.LoadOptions{File: file, Explicit: explicit, Environ: a.environ(), Set: set})
	return c, file, err
}

type configShowOptions struct {
	app *app
	dir string
	set []string
}

func newConfigShowCmd(a *app) *cobra.Command {
	o := configShowOptions{app: a}
	cmd := &cobra.Command{
		Use: "show", Short: "Print every setting and where it comes from", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Print every setting and where it comes from: default, file, project, env or flag. It is what a daemon
started now would use for tasks in the present folder; one that runs keeps what it was started with.`,
		Example: "  taskdaemon config show", Annotations: exits(exitOK, exitUsage),
		RunE: func(*cobra.Command, []string) error { return runConfigShow(o) },
	}
	cmd.Flags().StringArrayVar(&o.set, "set", nil, "as if given to daemon start; may be repeated")
	cmd.Flags().StringVarP(&o.dir, "dir", "C", ".", "the folder whose settings are shown")
	return cmd
}

func runConfigShow(o configShowOptions) error {
	a := o.app
	c, file, err := a.loadConfig(o.set)
	if err != nil {
		return err
	}
	dir, err := absolute(o.dir)
	if err != nil {
		return err
	}
	c = c.In(dir)
	provider := c.ProviderIn(a.getenv)
	if a.json {
		type setting struct {
			Value  string        `json:"value"`
			Source config.Source `json:"source"`
		}
		out := map[string]setting{}
		for _, k := range config.Keys {
			out[k.Name] = setting{k.Value(c), c.SourceOf(k)}
		}
		return a.printJSON(map[string]any{"file": file, "provider": provider, "settings": out})
	}
	rows := make([][]string, len(config.Keys))
	for i, k := range config.Keys {
		source := string(c.SourceOf(k))
		if c.SourceOf(k) == config.FromDefault {
			source = a.style.dim(source)
		}
		rows[i] = []string{k.Name, k.Value(c), source}
	}
	if err := table(a.stdout, rows); err != nil {
		return err
	}
	key := ""
	switch env := c.KeyEnv(); {
	case env == "":
	case a.getenv(env) == "":
		key = " (" + env + " is not set)"
	default:
		key = " (" + env + " is set)"
	}
	a.say("\na daemon started now answers with %s%s", provider, key)
	return nil
}

type configPathOptions struct{ app *app }

func newConfigPathCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "path", Short: "Print where the config file is", Args: args(cobra.NoArgs, "no arguments"),
		Example: `  $EDITOR "$(taskdaemon config path)"`, Annotations: exits(exitOK, exitUsage),
		RunE: func(*cobra.Command, []string) error { return runConfigPath(configPathOptions{a}) },
	}
}

func runConfigPath(o configPathOptions) error {
	file, _, err := o.app.configFile()
	if err != nil {
		return err
	}
	if o.app.json {
		return o.app.printJSON(map[string]string{"config": file})
	}
	_, err = fmt.Fprintln(o.app.stdout, file)
	return written(err)
}

type configCheckOptions struct {
	app *app
	dir string
}

func newConfigCheckCmd(a *app) *cobra.Command {
	o := configCheckOptions{app: a}
	cmd := &cobra.Command{
		Use: "check", Short: "Check the settings and the rules", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Check config file and environment. An error names file, line and column, and the nearest known key.

The permission rules are checked as well: those of the config, those of your answers, and those of the project in
the present folder. A rule that cannot be read is an error. One that another hides is named: deny wins over ask, and
ask over allow.`,
		Example: "  taskdaemon config check && taskdaemon daemon start", Annotations: exits(exitOK, exitUsage),
		RunE: func(*cobra.Command, []string) error { return runConfigCheck(o) },
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", ".", "the workspace whose project file is checked")
	return cmd
}

// ruleProblems are what should be known of the rules in force in a folder.
func (a *app) ruleProblems(dir string) ([]rulebook.Problem, error) {
	dir, err := absolute(dir)
	if err != nil {
		return nil, err
	}
	book, err := a.book()
	if err != nil {
		return nil, err
	}
	return book.Check(dir)
}

func runConfigCheck(o configCheckOptions) error {
	c, file, err := o.app.loadConfig(nil)
	if err != nil {
		return err
	}
	if _, err := o.app.hooksOf(c); err != nil {
		return err
	}
	if err := daemon.CheckServers(c); err != nil {
		return err
	}
	if _, err := daemon.Resources(c); err != nil {
		return err
	}
	if _, err := daemon.Rates(c); err != nil {
		return err
	}
	problems, err := o.app.ruleProblems(o.dir)
	if err != nil {
		return err
	}
	if o.app.json {
		return o.app.printJSON(map[string]any{"config": file, "ok": true, "rules": problems})
	}
	for _, p := range problems {
		o.app.say("%s: %s", p.Where, p.Text)
	}
	o.app.say("%s: ok", file)
	return nil
}
