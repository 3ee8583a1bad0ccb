package builtin

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"
	"unicode/utf8"

	"taskdaemon/internal/tool"
)

// liveOutput cleans a command's output for viewers. A character cut in two by the chunks is held back
// until its end has come.
type liveOutput struct {
	emit func([]byte)
	rest []byte
}

func (l *liveOutput) write(chunk []byte) {
	if l.emit == nil {
		return
	}
	all := append(l.rest, chunk...)
	whole := len(all)
	for back := 1; back < utf8.UTFMax && back <= len(all); back++ {
		if b := all[len(all)-back]; utf8.RuneStart(b) {
			if !utf8.FullRune(all[len(all)-back:]) {
				whole = len(all) - back
			}
			break
		}
	}
	if text := tool.Clean(all[:whole]); text != "" {
		l.emit([]byte(text))
	}
	l.rest = append([]byte(nil), all[whole:]...)
}

// What changedSince lists and looks at, at most.
const (
	maxChanged = 20
	maxVisited = 200_000
)

// clockSkew is how far a file's time may lag behind the clock: the kernel's coarse clock ticks slowly.
const clockSkew = 20 * time.Millisecond

// changedSince lists files of the workspace that were changed since a time; more says that there are
// others.
func changedSince(ctx context.Context, w *tool.Workspace, since time.Time) (changed []string, more bool) {
	since = since.Add(-clockSkew)
	visited := 0
	_ = fs.WalkDir(w.Root().FS(), ".", func(path string, d fs.DirEntry, err error) error {
		visited++
		if ctx.Err() != nil || visited > maxVisited || len(changed) > maxChanged {
			return fs.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is left out
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		if info, err := d.Info(); err == nil && !info.ModTime().Before(since) {
			changed = append(changed, filepath.ToSlash(path))
		}
		return nil
	})
	if len(changed) > maxChanged {
		return changed[:maxChanged], true
	}
	return changed, false
}
