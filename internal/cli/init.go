package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"taskdaemon/internal/config"
	"taskdaemon/internal/td"
)

type initOptions struct{ app *app }

func newInitCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "init", Short: "Make a config file and the state folder", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Make a config file with every default in it, commented out, and the state folder. What is
there already is left as it is. Nothing else needs it: all commands work without.`,
		Example:     "  taskdaemon init",
		Annotations: exits(exitOK, exitUsage, exitStorage),
		RunE:        func(*cobra.Command, []string) error { return runInit(initOptions{a}) },
	}
}

func runInit(o initOptions) error {
	a := o.app
	state, err := a.stateDir()
	if err != nil {
		return err
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
	if a.json {
		return a.printJSON(map[string]any{"config": file, "created": created, "state": state})
	}
	verb := "kept"
	if created {
		verb = "wrote"
	}
	a.say("%s %s", verb, file)
	a.say("state folder is %s", state)
	a.say(`next: taskdaemon task add "what to do" --attach`)
	return nil
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
