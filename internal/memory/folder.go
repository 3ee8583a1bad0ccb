package memory

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// Folder is where a project keeps its learnings.
const Folder = ".taskdaemon/knowledge"

const (
	extension  = ".md"
	tempPrefix = ".taskdaemon-"
	tempSuffix = ".tmp"
)

var (
	fpBeforeTemp   = failpoint.New("memory.file.before_temp")
	fpBeforeRename = failpoint.New("memory.file.before_rename")
	fpAfterRename  = failpoint.New("memory.file.after_rename")
	fpAfterSync    = failpoint.New("memory.file.after_sync")
	fpBeforeRemove = failpoint.New("memory.file.before_remove")
	fpAfterRemove  = failpoint.New("memory.file.after_remove")
)

// folder is the open folder of learnings. Neither it nor a learning is reached through a symbolic link: a repository
// cannot lead elsewhere.
type folder struct{ root *beneath.Folder }

// openFolder opens a project's folder, and makes it if told to. Without one it returns nil.
func openFolder(project string, create bool) (*folder, error) {
	in, err := beneath.OpenResolved(project)
	if err != nil {
		return nil, td.Errorf(td.Unavailable, "open project %s: %w", project, err)
	}
	defer in.Close()
	open := in.Folder
	if create {
		open = in.Make
		if _, err := in.Lstat(path.Dir(Folder)); errors.Is(err, fs.ErrNotExist) {
			if err := git.HideGraph(project); err != nil { // before there is something to hide
				return nil, err
			}
		}
	}
	root, err := open(Folder)
	switch {
	case err == nil:
		return &folder{root}, nil
	case !create && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	}
	return nil, td.Errorf(td.Refused, "open %s: %w", filepath.Join(project, Folder), err).
		WithHint("%s must be a folder inside the project", Folder)
}

func (f *folder) close() {
	if f != nil {
		_ = f.root.Close() // nothing was written through it
	}
}

// sync makes sure that what is in the folder now stays after a crash of the host.
func (f *folder) sync() error {
	if err := f.root.Sync(); err != nil {
		return td.Errorf(td.Storage, "keep what is in %s: %w", Folder, err)
	}
	return nil
}

// lockWait is how often a lock that another process holds is tried again.
const lockWait = 10 * time.Millisecond

// lock keeps other processes from writing. The folder itself is locked, so that no lock file gets into
// anybody's commit; the lock goes with the process.
func (f *folder) lock(ctx context.Context) (unlock func(), err error) {
	d, err := f.root.Folder(".")
	if err != nil {
		return nil, td.Errorf(td.Storage, "open %s: %w", f.root.Name(), err)
	}
	for {
		err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = d.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			_ = d.Close()
			return nil, td.Errorf(td.Storage, "lock %s: %w", f.root.Name(), err)
		}
		wait := time.NewTimer(lockWait)
		select {
		case <-ctx.Done():
			wait.Stop()
			_ = d.Close()
			return nil, td.Errorf(td.Locked, "another process writes to %s: %w", f.root.Name(), ctx.Err())
		case <-wait.C:
		}
	}
}

// names are the files that should be learnings, and what a crash left behind.
func (f *folder) names() (ids, left []string, err error) {
	all, err := f.root.ReadDir(".")
	if err != nil {
		return nil, nil, td.Errorf(td.Storage, "read folder %s: %w", f.root.Name(), err)
	}
	for _, e := range all {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix):
			left = append(left, name)
		default:
			if id, is := learningOf(name); is {
				ids = append(ids, id)
			}
		}
	}
	return ids, left, nil
}

// read is a learning's file, never more than a learning may have.
func (f *folder) read(id string) ([]byte, fs.FileInfo, error) {
	name := id + extension
	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if err := usable(info); err != nil {
		return nil, info, err
	}
	// What is read belongs to this state of the file or a later one, never to an earlier one.
	file, info, err := f.root.File(name)
	if err != nil {
		return nil, info, err
	}
	defer file.Close()
	if err := usable(info); err != nil {
		return nil, info, err
	}
	src, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(src) > maxFile {
		err = tooLarge(int64(len(src)))
	}
	return src, info, err
}

func usable(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return td.Errorf(td.Refused, "it is a symlink; a learning is a file of its own")
	case !info.Mode().IsRegular():
		return td.Errorf(td.Invalid, "it is not a regular file")
	case info.Size() > maxFile:
		return tooLarge(info.Size())
	}
	return nil
}

func tooLarge(size int64) error {
	return td.Errorf(td.Invalid, "it has %d bytes, the limit is %d", size, maxFile)
}

// write replaces a file: a reader sees the old content or the new, and so does whoever looks after a
// crash of the host. The folder must be locked.
func (f *folder) write(id string, content []byte) (err error) {
	name, temp := id+extension, tempPrefix+id+tempSuffix
	defer func() {
		if err != nil {
			err = td.Errorf(td.Storage, "write %s: %w", path.Join(Folder, name), errors.Join(err, f.drop(temp)))
		}
	}()
	fpBeforeTemp.Hit()
	file, err := f.root.CreateAnew(temp, 0o644) // a crash may have left one
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	fpBeforeRename.Hit()
	if err := f.root.Rename(temp, name); err != nil {
		return err
	}
	fpAfterRename.Hit()
	if err := f.sync(); err != nil {
		return err
	}
	fpAfterSync.Hit()
	return nil
}

func (f *folder) remove(id string) error {
	fpBeforeRemove.Hit()
	if err := f.drop(id + extension); err != nil {
		return td.Errorf(td.Storage, "remove %s: %w", path.Join(Folder, id+extension), err)
	}
	fpAfterRemove.Hit()
	return f.sync()
}

func (f *folder) drop(name string) error { return f.root.Remove(name) }
