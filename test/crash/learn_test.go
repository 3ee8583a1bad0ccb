package crash

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"taskdaemon/internal/td"
)

// writeLearning puts a learning that has to do with the task into its project once it works.
func writeLearning(_ context.Context, _ *person, t td.Task) error {
	folder := filepath.Join(t.Dir, ".taskdaemon", "knowledge")
	file := filepath.Join(folder, "crash.md")
	if _, err := os.Stat(file); err == nil || t.Turns == 0 {
		return nil
	}
	words := "---\ntitle: Meanwhile\n---\n\n" + t.Prompt + ": others have found out how, crash after crash.\n"
	return errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(file+".new", []byte(words), 0o644), os.Rename(file+".new", file))
}
