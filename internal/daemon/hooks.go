package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"taskdaemon/internal/config"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// HookFuncs are the functions that the program brings along for hooks, by the names the config calls them.
func HookFuncs(stateDir string) map[string]hook.Func {
	return map[string]hook.Func{"log": hook.Log(filepath.Join(stateDir, "logs", "hooks.jsonl"))}
}

// Hooks are the hooks of the config, checked. An error names the place in the file.
func Hooks(c config.Config, funcs map[string]hook.Func) (*hook.Set, error) {
	specs := make([]hook.Spec, len(c.Hooks))
	for i, h := range c.Hooks {
		specs[i] = hook.Spec{
			Point: hook.Point(h.Point), Name: h.Name, Matcher: h.Matcher, Command: h.Command, URL: h.URL, Func: h.Func,
			Timeout: h.Timeout, Order: h.Order, OnError: hook.OnError(h.OnError), Where: h.Where,
		}
	}
	return hook.New(specs, funcs)
}

func (d *Daemon) hookDir() string { return filepath.Join(d.o.StateDir, "hooks") }

// sweepHooks removes the folders of hooks that no live task waits for: a crash came between the record of
// an answer and the removal.
func (d *Daemon) sweepHooks(tasks []td.Task) {
	left, err := os.ReadDir(d.hookDir())
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			d.o.Log.Warn("look through the hooks' folders", "err", err)
		}
		return
	}
	wanted := map[string]bool{}
	for _, t := range tasks {
		for _, s := range t.InFlight {
			wanted[tool.SpoolName(t.ID, s.Key.Try(s.Attempt))] = true
		}
	}
	for _, e := range left {
		if wanted[e.Name()] {
			continue
		}
		if err := hook.Discard(filepath.Join(d.hookDir(), e.Name())); err != nil {
			d.o.Log.Warn("clear hook folder", "name", e.Name(), "err", err)
		}
	}
}
