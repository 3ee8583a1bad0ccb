package builtin

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/tool"
)

// liveOutput cleans a command's output for viewers, line by line: neither a secret nor a character is cut in two by
// the chunks.
type liveOutput struct {
	emit func([]byte)
	text redact.Stream
}

func (l *liveOutput) write(chunk []byte) { l.show(l.text.Write(chunk)) }

// end shows what was held back.
func (l *liveOutput) end() { l.show(l.text.Close()) }

func (l *liveOutput) show(lines []byte) {
	if text := tool.Clean(lines); l.emit != nil && text != "" {
		l.emit([]byte(text))
	}
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
	_ = w.Walk(".", func(path string, d fs.DirEntry, err error) error {
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
