package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// settledFile in a spool folder says that a person knows that its task is lost.
const settledFile = "settled"

// SpoolTasks are the tasks that have a folder in a spool, each once: a journal that lacks one of them has lost it. Those that were settled do not count.
func SpoolTasks(spool string) ([]td.TaskID, error) {
	all, err := spoolFolders(spool)
	var tasks []td.TaskID
	for name, id := range all {
		if _, err := os.Lstat(filepath.Join(spool, name, settledFile)); errors.Is(err, fs.ErrNotExist) {
			tasks = append(tasks, id)
		}
	}
	slices.Sort(tasks)
	return slices.Compact(tasks), err
}

// SettleSpool settles the folders of tasks that are not known. Until then no daemon starts, and none of their commands is ended.
func SettleSpool(spool string, known map[string]bool) error {
	all, err := spoolFolders(spool)
	for name, id := range all {
		if !known[string(id)] {
			err = errors.Join(err, settleFolder(filepath.Join(spool, name)))
		}
	}
	return err
}

func settleFolder(folder string) error {
	f, err := os.OpenFile(filepath.Join(folder, settledFile), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return td.Errorf(td.Storage, "settle the command of a lost task: %w", err)
	}
	return nil
}

// spoolFolders are the folders of a spool that are a task's, by name: it begins with the task's id.
func spoolFolders(spool string) (map[string]td.TaskID, error) {
	entries, err := os.ReadDir(spool)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, td.Errorf(td.Storage, "look for commands of tasks: %w", err)
	}
	found := map[string]td.TaskID{}
	for _, e := range entries {
		id, _, ok := strings.Cut(e.Name(), ".")
		if ok && e.IsDir() && td.TaskID(id) != td.DaemonStream && len(id) == len(td.DaemonStream) {
			found[e.Name()] = td.TaskID(id)
		}
	}
	return found, nil
}
