package sandbox

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
)

// Packs are made by git when it cleans up or fetches what a partial clone lacks. An index that lies about a pack would have git take one object for another. So
// each pack that a command left is read by a git of ours, in the command's cell after all of its processes have ended, which makes an index of what
// is really in it; that is what the repository gets.

// The folders of packs in a store: that of git, and where those of the command are while they are read.
const (
	packDir   = "pack"
	packedDir = "packed"
)

// packsFor is how long it may take to read the packs that a command left.
const packsFor = 5 * time.Minute

// mostBadPacks is how many packs of a command are read that turn out to be none: each costs a process.
const mostBadPacks = 20

// keepPacks adds the packs that the command left to the repositories, and says what could not be.
func (s *shim) keepPacks(c *cell) (lost []error) {
	r := &reading{until: time.Now().Add(packsFor), measure: meter{begin: readMachine()}}
	for _, st := range stores(c.repos) {
		left := st.packs(packDir)
		if len(left) == 0 {
			continue
		}
		err := st.own.Rename(packDir, packedDir)
		if err == nil {
			err = unix.Mkdirat(int(st.own.Fd()), packDir, 0o700)
		}
		if err != nil {
			lost = append(lost, fmt.Errorf("keep the packs of %s: %w", st.path, err))
			continue
		}
		lost = append(lost, r.each(left, st.path, func(name string) error { return s.readPack(c, st, name, r) })...)
		if err := st.addPacks(s.room(st)); err != nil {
			lost = append(lost, fmt.Errorf("keep the packs of %s: %w", st.path, err))
		}
	}
	return lost
}

// reading is what it may take to read all packs of a command.
type reading struct {
	until   time.Time
	measure meter // since before the first
	bad     int
	ended   bool // the shim was told to
}

// each reads these packs of a store, until it is enough, and says which could not be.
func (r *reading) each(names []string, of string, read func(name string) error) (lost []error) {
	for i, name := range names {
		why := errEnough
		if r.ended {
			why = errTold
		}
		if r.ended || r.bad == mostBadPacks || time.Now().After(r.until) {
			return append(lost, fmt.Errorf("read %d packs of %s: %w", len(names)-i, of, why))
		}
		if err := read(name); err != nil {
			lost = append(lost, fmt.Errorf("read %s.pack of %s: %w", name, of, err))
			r.bad++
		}
	}
	return lost
}

// errTold says that the shim was told to end.
var errTold = errors.New("it was told to end")

// packs are the names of the packs in a folder of a store.
func (s *store) packs(dir string) (names []string) {
	entries, _ := s.own.ReadDir(dir)
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), ".pack"); is && e.Type().IsRegular() {
			names = append(names, name)
		}
	}
	return names
}

// readPack has git make what belongs to a pack of its own. Of history that is odd, as old tools made it, git is asked for each object: it must be able to read it, or its cleaning
// up would stop there.
func (s *shim) readPack(c *cell, st *store, name string, r *reading) error {
	pack, info, err := st.own.File(path.Join(packedDir, name+".pack"))
	if err != nil {
		return err
	}
	defer pack.Close()
	if info.Size() < int64(leastPack+st.digits/2) {
		return errors.New("it is no pack")
	}
	script := `exec git --git-dir="$0" index-pack --stdin --fix-thin`
	if _, err := st.own.Lstat(path.Join(packedDir, name+".promisor")); err == nil {
		script += " --promisor"
	}
	if s.alone(c, pack, nil, r, script+" --strict", filepath.Dir(st.path)) == nil {
		return nil
	}
	if r.ended {
		return errTold
	}
	before := st.packs(packDir)
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := s.alone(c, pack, nil, r, script, filepath.Dir(st.path)); err != nil {
		return err
	}
	for _, made := range st.packs(packDir) {
		if slices.Contains(before, made) {
			continue
		}
		if err := s.readObjects(c, st, made, r); err != nil {
			return errors.Join(err, st.removePack(made))
		}
	}
	return nil
}

// leastPack is what a pack has before and beside its checksum.
const leastPack = 12

// removePack removes a pack that is not to be kept.
func (s *store) removePack(name string) error {
	folder, err := s.own.Folder(packDir)
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, part := range packParts {
		err = errors.Join(err, folder.Remove(name+part))
	}
	return err
}

// readObjects fails if a pack of ours has an object that git could not make sense of, or that names another wrongly.
func (s *shim) readObjects(c *cell, st *store, pack string, r *reading) error {
	names, err := st.inPack(pack)
	if err != nil {
		return err
	}
	links := map[link]bool{}
	err = converse(names, links, func(asked, tell *os.File) error {
		return s.alone(c, asked, tell, r, `exec git --git-dir="$0" cat-file --batch-command`, filepath.Dir(st.path))
	})
	if err != nil {
		return err
	}
	wrong, err := wrongLinks(links, func(ids []string) (map[string]string, error) { return s.kinds(c, filepath.Dir(st.path), "", ids) })
	if err != nil {
		return nil //nolint:nilerr // git cannot tell, as in a partial clone that lacks objects
	}
	for l := range wrong {
		return fmt.Errorf("it names %s, which is missing or no %s", l.id, l.kind)
	}
	return nil
}

// converse runs a git that is asked for objects. When whoever reads its answers has ended, git can neither ask nor write any more: it would wait until its time is over.
func converse(names []string, links map[link]bool, run func(asked, tell *os.File) error) error {
	asked, ask, err := os.Pipe()
	if err != nil {
		return err
	}
	defer asked.Close()
	told, tell, err := os.Pipe()
	if err != nil {
		_ = ask.Close()
		return err
	}
	read := make(chan error, 1)
	go func() {
		defer told.Close()
		defer ask.Close()
		read <- askObjects(ask, bufio.NewReader(told), names, links)
	}()
	err = run(asked, tell)
	_ = tell.Close() // whoever reads has all that there is
	return errors.Join(<-read, err)
}

// askObjects asks git for the objects of these names, one by one, and for the content of those that have a form. What they name is added to links.
func askObjects(ask io.Writer, told *bufio.Reader, names []string, links map[link]bool) error {
	for _, name := range names {
		kind, size, err := askObject(ask, told, "info", name)
		if err != nil {
			return err
		}
		if kind == "blob" {
			continue
		}
		if size > maxParsed {
			return fmt.Errorf("%s: it is too large for its kind", name)
		}
		if kind, size, err = askObject(ask, told, "contents", name); err != nil {
			return err
		}
		if size > maxParsed {
			return fmt.Errorf("%s: it is too large for its kind", name)
		}
		body := make([]byte, size+1)
		if _, err := io.ReadFull(told, body); err != nil {
			return err
		}
		if err := wellFormed(kind, body[:size], len(name)); err != nil && !errors.Is(err, errOldForm) {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, l := range linksOf(kind, body[:size], len(name)) {
			links[l] = true
		}
	}
	return nil
}

// askObject asks git one question about an object, and returns what its answer begins with.
func askObject(ask io.Writer, told *bufio.Reader, question, name string) (kind string, size int64, err error) {
	if _, err := fmt.Fprintln(ask, question, name); err != nil {
		return "", 0, err
	}
	line, err := told.ReadString('\n')
	if err != nil {
		return "", 0, err
	}
	var said string
	if _, err := fmt.Sscan(line, &said, &kind, &size); err != nil || said != name || size < 0 {
		return "", 0, fmt.Errorf("%s: git says %.80q", name, line)
	}
	return kind, size, nil
}

// inPack are the names of the objects in a pack, by the index that our git made.
func (s *store) inPack(name string) (names []string, err error) {
	f, _, err := s.own.File(path.Join(packDir, name+".idx"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	read := bufio.NewReader(f)
	head := make([]byte, 8+256*4)
	if _, err := io.ReadFull(read, head); err != nil {
		return nil, err
	}
	if string(head[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return nil, errors.New("it has an index of another version")
	}
	one := make([]byte, s.digits/2)
	for range binary.BigEndian.Uint32(head[len(head)-4:]) {
		if _, err := io.ReadFull(read, one); err != nil {
			return nil, err
		}
		names = append(names, hex.EncodeToString(one))
	}
	return names, nil
}

// packParts are the files of a pack, the index last: git takes a pack for one when that is there.
var packParts = []string{".pack", ".rev", ".promisor", ".idx"}

// addPacks moves what our git made to the repository.
func (s *store) addPacks(room func(int64) error) error {
	from, err := s.own.Folder(packDir)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := s.folder(packDir)
	if err != nil {
		return err
	}
	defer to.Close()
	names := slices.DeleteFunc(s.packs(packDir), func(name string) bool { // it is none of git's
		return !isHex(strings.TrimPrefix(name, "pack-"), s.digits)
	})
	return movePacks(from, to, names, room, syncer.Sync)
}

// syncer is what can be made durable.
type syncer interface{ Sync() error }

// movePacks moves packs that are not there. Each file is durable before it has its name, and all others of a pack are before its index, by which git finds it.
func movePacks(from, to *beneath.Folder, names []string, room func(int64) error, sync func(syncer) error) error {
	for _, name := range names {
		if _, err := to.Lstat(name + ".idx"); err == nil {
			continue
		}
		for _, part := range packParts {
			if part == ".idx" {
				if err := sync(to); err != nil {
					return err
				}
			}
			if err := movePart(from, to, name+part, room, sync); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if err := sync(to); err != nil {
			return err
		}
	}
	return nil
}

// movePart copies a file under another name first: what has its own is whole.
func movePart(from, to *beneath.Folder, name string, room func(int64) error, sync func(syncer) error) error {
	f, info, err := from.File(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := room(info.Size()); err != nil {
		return err
	}
	temp := "tmp_pack_" + name
	made, err := to.CreateAnew(temp, 0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(made, f)
	if err == nil {
		err = sync(made)
	}
	if cerr := made.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = unix.Renameat2(int(to.Fd()), temp, int(to.Fd()), name, unix.RENAME_NOREPLACE)
	}
	if err != nil {
		_ = to.Remove(temp)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// room says whether the disk of a store has as much more than what must stay free.
func (s *shim) room(st *store) func(int64) error {
	limits := s.spec.Profile.Limits
	return func(bytes int64) error {
		var disk unix.Statfs_t
		if limits.Free == 0 || unix.Fstatfs(int(st.real.Fd()), &disk) != nil {
			return nil
		}
		switch left := limits.spare(disk); {
		case left.bytes < bytes:
			return errors.New(limits.tooFull(st.path, disk))
		case left.inodes < 0:
			return errors.New(limits.tooMany(st.path, disk))
		}
		return nil
	}
}

// alone runs a git of ours with one argument in the cell of a command that has ended, within what is left of the command's limits. It has no settings
// but those of the repository, and fetches nothing. What it says goes nowhere if stdout is nil.
func (s *shim) alone(c *cell, stdin, stdout *os.File, r *reading, script, arg string) error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if stdout == nil {
		stdout = null
	}
	env := s.environ(c)
	for _, kv := range []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_ALLOW_PROTOCOL=", "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0"} {
		name, _, _ := strings.Cut(kv, "=")
		env = append(lacking(env, name), kv)
	}
	var pid int
	c.do(func() {
		pid, err = syscall.ForkExec(s.spec.Shell, []string{filepath.Base(s.spec.Shell), "-c", script, arg}, &syscall.ProcAttr{
			Dir: "/", Env: env, Files: []uintptr{stdin.Fd(), stdout.Fd(), null.Fd()}, Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
		})
	})
	if err != nil {
		return err
	}
	ended, childless := make(chan syscall.WaitStatus, 1), make(chan struct{})
	go func() {
		defer close(childless)
		reap(pid, ended)
	}()
	status, why := s.within(r, ended)
	s.killRest(c, childless)
	if why == "" {
		if status.Exited() && status.ExitStatus() == 0 {
			return nil
		}
		return gitStatus(status.ExitStatus())
	}
	return errors.New(why)
}

// within waits for a process of ours, and says why it has to be ended.
func (s *shim) within(r *reading, ended <-chan syscall.WaitStatus) (status syscall.WaitStatus, why string) {
	look := time.NewTicker(lookMost)
	defer look.Stop()
	late := time.NewTimer(time.Until(r.until))
	defer late.Stop()
	for {
		select {
		case status = <-ended:
			return status, ""
		case <-look.C:
			if why, _ = s.spec.Profile.Limits.exceeded(r.measure); why != "" {
				return status, why
			}
		case <-late.C:
			return status, "it took too long"
		case <-s.signals:
			r.ended = true
			return status, errTold.Error()
		}
	}
}
