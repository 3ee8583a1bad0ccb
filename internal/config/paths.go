package config

import (
	"path/filepath"

	"taskdaemon/internal/td"
)

// StateDir is the folder that holds everything taskdaemon remembers: the flag's, else
// TASKDAEMON_STATE, else XDG_STATE_HOME/taskdaemon, else ~/.local/state/taskdaemon.
func StateDir(flag string, getenv func(string) string) (string, error) {
	dir := flag
	if dir == "" {
		dir = getenv("TASKDAEMON_STATE")
	}
	if dir == "" {
		base, err := xdg(getenv, "XDG_STATE_HOME", ".local/state")
		if err != nil {
			return "", err
		}
		dir = filepath.Join(base, "taskdaemon")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", td.Errorf(td.Invalid, "find state folder %s: %w", dir, err)
	}
	return abs, nil
}

// File is the user's config file: the flag's, else TASKDAEMON_CONFIG, else
// XDG_CONFIG_HOME/taskdaemon/config.yaml, else ~/.config/taskdaemon/config.yaml. explicit says that the
// person named it.
func File(flag string, getenv func(string) string) (path string, explicit bool, err error) {
	path = flag
	if path == "" {
		path = getenv("TASKDAEMON_CONFIG")
	}
	if path != "" {
		path, err = filepath.Abs(path)
		return path, true, err
	}
	base, err := xdg(getenv, "XDG_CONFIG_HOME", ".config")
	if err != nil {
		return "", false, err
	}
	return filepath.Join(base, "taskdaemon", "config.yaml"), false, nil
}

// xdg is a base folder of the XDG specification, which says that relative ones are ignored.
func xdg(getenv func(string) string, name, fallback string) (string, error) {
	if dir := getenv(name); filepath.IsAbs(dir) {
		return dir, nil
	}
	home := getenv("HOME")
	if home == "" {
		return "", td.Errorf(td.Invalid, "neither %s nor HOME is set", name).
			WithHint("set HOME, or use --state and --config")
	}
	return filepath.Join(home, fallback), nil
}
