package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
)

// The thousands of files of a new worktree are not synced: that takes several times as long as to write them, and on a busy
// disk it waits for what others write. Instead a file says in which boot of the machine they were written. Should another boot
// find it, the power may have gone before they were on disk: files that nobody has changed since, by their time, and that
// are not what they were, are written anew.

// bootFile is in what git keeps of the worktree.
const bootFile = "taskdaemon-boot"

// boot names the present boot of the machine; empty where it cannot be known.
func boot() string { return textOf("/proc/sys/kernel/random/boot_id") }

// written notes in which boot the files were written. Folders and names are made to last, the content of files is not.
func (p *place) written() error {
	git, err := beneath.Open(p.git)
	if err == nil {
		err = git.Replace(bootFile, bootFile+".new", []byte(boot()+"\n"), 0o644)
		_ = git.Close()
	}
	if err == nil {
		err = syncTree(p.git)
	}
	if err == nil {
		err = syncPath(filepath.Join(p.top, ".git"))
	}
	if err != nil {
		return td.Errorf(td.Storage, "make worktree: %w", err)
	}
	return nil
}

// heal gives files their content that a loss of power has taken.
func (p *place) heal(ctx context.Context) error {
	file := filepath.Join(p.git, bootFile)
	switch _, err := os.Lstat(file); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return td.Errorf(td.Storage, "look at worktree: %w", err)
	}
	if is := boot(); is != "" && textOf(file) == is {
		return nil
	}
	damaged, err := p.damaged(ctx)
	if err != nil {
		return err
	}
	if len(damaged) > 0 {
		if err := p.checkOut(ctx, damaged); err != nil {
			return err
		}
		if err := p.syncFiles(damaged); err != nil {
			return err
		}
	}
	if err := os.Remove(file); err != nil {
		return td.Errorf(td.Storage, "heal worktree: %w", err)
	}
	return nil
}

// damaged are the files that have changed although their time says that nobody has changed them.
func (p *place) damaged(ctx context.Context) ([]string, error) {
	temp, err := scratch()
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	index := filepath.Join(temp, "index")
	if err := copyIndex(index, filepath.Join(p.git, "index")); err != nil {
		return nil, err
	}
	// git reads files again that may have been changed at the very time of the index. With an old one that is all of them.
	if err := os.Chtimes(index, time.Time{}, time.Unix(1, 0)); err != nil {
		return nil, td.Errorf(td.Storage, "look at worktree: %w", err)
	}
	q := p.with("GIT_INDEX_FILE=" + index)
	times, err := q.run(ctx, "ls-files", "--debug", "-z")
	if err != nil {
		return nil, err
	}
	at, ok := parseTimes(string(times))
	if !ok {
		return nil, td.Errorf(td.Internal, "read times of files: git said %.100q", times)
	}
	out, err := q.run(ctx, "diff-files", "--name-only", "-z")
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		info, err := os.Lstat(filepath.Join(p.top, filepath.FromSlash(name)))
		if name != "" && err == nil && info.Mode().IsRegular() && info.ModTime().Equal(at[name]) {
			names = append(names, name)
		}
	}
	return names, nil
}

// parseTimes reads when each file was written from `git ls-files --debug -z`: its name, and then five lines.
func parseTimes(out string) (map[string]time.Time, bool) {
	at := map[string]time.Time{}
	for out != "" {
		name, rest, ok := strings.Cut(out, "\x00")
		if !ok {
			return nil, false
		}
		lines := strings.SplitAfterN(rest, "\n", 6)
		if len(lines) != 6 {
			return nil, false
		}
		var sec, nsec int64
		if n, err := fmt.Sscanf(lines[1], "  mtime: %d:%d\n", &sec, &nsec); err != nil || n != 2 {
			return nil, false
		}
		at[name], out = time.Unix(sec, nsec), lines[5]
	}
	return at, true
}

// manyFiles is from where on it is faster to sync the whole disk.
const manyFiles = 256

// syncFiles makes files last that were written.
func (p *place) syncFiles(names []string) error {
	if len(names) > manyFiles {
		if err := syncDisk(p.top); err != nil {
			return td.Errorf(td.Storage, "sync checkout: %w", err)
		}
		return nil
	}
	folders := map[string]bool{}
	for _, name := range names {
		file := filepath.Join(p.top, filepath.FromSlash(name))
		folders[filepath.Dir(file)] = true
		info, err := os.Lstat(file)
		if err == nil && info.Mode().IsRegular() {
			err = syncPath(file)
		}
		if err != nil && !gone(err) {
			return td.Errorf(td.Storage, "sync checkout: %w", err)
		}
	}
	for dir := range folders {
		if err := syncPath(dir); err != nil && !gone(err) {
			return td.Errorf(td.Storage, "sync checkout: %w", err)
		}
	}
	return nil
}
