package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/daemon"
	"taskdaemon/internal/td"
)

type initOptions struct {
	app     *app
	dir     string
	noGraph bool
}

func newInitCmd(a *app) *cobra.Command {
	o := initOptions{app: a}
	cmd := &cobra.Command{
		Use: "init", Short: "Make a config file, the state folder, and a graph for the project", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Make a config file with every default in it, commented out, and the state folder, and give the project of the present
folder a graph of planned tasks in .taskdaemon: on a branch of its own where there is git, so that it can be shared and
never shows up in the code; else as a plain folder. Your home folder gets none unless --dir names it. What is there already
is left as it is. Only planning needs it: all other commands work without.`,
		Example:     "  taskdaemon init",
		Annotations: talks(exitConflict, exitLocked, exitStorage),
		RunE:        func(cmd *cobra.Command, _ []string) error { return runInit(cmd.Context(), o) },
	}
	cmd.Flags().StringVarP(&o.dir, "dir", "C", "", "a folder of the project; the present one when not given")
	cmd.Flags().BoolVar(&o.noGraph, "no-graph", false, "no graph: only the config file and the state folder")
	return cmd
}

func runInit(ctx context.Context, o initOptions) error {
	a := o.app
	state, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := daemon.CheckPlace(state); err != nil {
		return err // before anything is made there
	}
	file, _, err := a.configFile()
	if err != nil {
		return err
	}
	for _, dir := range []string{state, filepath.Dir(file)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return td.Errorf(td.Storage, "make folder: %w", err).WithHint("taskdaemon init --state DIR --config FILE")
		}
	}
	created, err := createFile(file, config.Template())
	if err != nil {
		return err
	}
	if _, err := config.Load(config.LoadOptions{File: file}); err != nil {
		return err // one that was there before is not well: better said now than at the next start
	}
	var place *api.PlanPlace
	if !o.noGraph {
		if place, err = o.graph(ctx); err != nil {
			return err
		}
	}
	if a.json {
		said := map[string]any{"config": file, "created": created, "state": state}
		if place != nil {
			said["graph"] = place
		}
		return a.printJSON(said)
	}
	verb := "kept"
	if created {
		verb = "wrote"
	}
	a.say("%s %s", verb, file)
	a.say("state folder is %s", state)
	if place != nil {
		a.say("%s", placeWords(*place))
		for _, file := range place.Conflicts {
			a.say("%s %s", a.talk.warn("both versions were kept:"), plainLine(file, 200))
		}
	}
	a.say(`next: taskdaemon task add "what to do" --attach`)
	return nil
}

// graph gives the project a graph. Where everything would be part of it, it must be asked for by name.
func (o initOptions) graph(ctx context.Context) (*api.PlanPlace, error) {
	p := planOptions{app: o.app, dir: o.dir}
	if err := p.resolve(); err != nil {
		return nil, err
	}
	if home, err := absolute(o.app.getenv("HOME")); o.dir == "" && (p.dir == "/" || err == nil && p.dir == home) {
		o.app.say("no graph for %s, which is no project; %s", plainLine(p.dir, 300), o.app.typeable("to make one: taskdaemon init --dir PROJECT"))
		return nil, nil
	}
	svc, err := o.app.service(ctx)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, td.Errorf(td.Internal, "find the program: %w", err)
	}
	place, err := svc.InitPlan(ctx, api.InitPlan{Dir: p.dir, Self: self})
	return &place, err
}

// placeWords says where a graph is, and since when.
func placeWords(p api.PlanPlace) string {
	verb, where := "kept", ", a plain folder"
	if p.Created {
		verb = "made"
	}
	if p.Branch != "" {
		where = ", on the branch " + plainLine(p.Branch, 100)
	}
	return verb + " the graph of " + plainLine(p.Root, 300) + " in .taskdaemon" + where
}

// createFile writes a new file whole or not at all, and leaves one that is there alone.
func createFile(path, text string) (bool, error) {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".config-*")
	if err != nil {
		return false, td.Errorf(td.Storage, "write config: %w", err).WithHint("taskdaemon init --config FILE")
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(text)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return false, td.Errorf(td.Storage, "write config: %w", err).WithHint("taskdaemon init --config FILE")
	}
	// A link, unlike a rename, fails when the name is taken.
	err = os.Link(tmp.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, td.Errorf(td.Storage, "write config: %w", err).WithHint("taskdaemon init --config FILE")
	}
	return true, nil
}
