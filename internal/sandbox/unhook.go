package sandbox

import (
	"path/filepath"
	"strings"

	"taskdaemon/internal/beneath"
)

// unhook keeps aside what a new repository has where the person's own settings have git look for hooks in every checkout (core.hooksPath with a relative path). Of those that were there before it is sealed.
func (d *disarming) unhook(around *beneath.Folder, dir string) {
	if len(d.p.HooksIn) == 0 {
		return
	}
	if _, err := around.Lstat(".git"); err != nil || !d.isNew(around, dir, ".git") {
		return
	}
	for _, hooks := range d.p.HooksIn {
		d.taken = append(d.taken, d.keepHooks(around, strings.Split(filepath.Clean(hooks), "/"))...)
	}
}

// keepHooks goes down to a folder of hooks, and keeps it aside if there is anything in it. A link on the way, or a file, is kept aside itself.
func (d *disarming) keepHooks(folder *beneath.Folder, names []string) []string {
	info, err := folder.Lstat(names[0])
	if err != nil {
		return nil
	}
	if !info.IsDir() {
		return original{}.put(folder, names[0], d.since)
	}
	below, err := folder.Unlocked(names[0])
	if err != nil {
		return original{}.put(folder, names[0], d.since)
	}
	defer below.Close()
	if len(names) > 1 {
		return d.keepHooks(below, names[1:])
	}
	if entries, err := below.ReadDir("."); len(entries) == 0 && err == nil {
		return nil
	}
	return original{}.put(folder, names[0], d.since)
}
