package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/disk"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

// The files of a spool folder; the package comment says who writes them and when.
const (
	reservedFile = "reserved"
	specFile     = "spec.json"
	lockFile     = "lock"
	startedFile  = "started"
	voidFile     = "void"
	outFile      = "out"
	claimFile    = "claim"
	resultFile   = "result.json"
)

// maxFile bounds what is read of a spool file: a result holds at most the head and tail of the output.
const maxFile = 1 << 20

var (
	fpBeforeVoid = failpoint.New("sandbox.find.before_void")
	fpAfterVoid  = failpoint.New("sandbox.find.after_void")
)

// spec is what the shim is told to run.
type spec struct {
	ID         string        `json:"id"` // a shim started for an earlier use of the folder's name has another
	Boot       string        `json:"boot"`
	Shell      string        `json:"shell"`
	Script     string        `json:"script"`
	Dir        string        `json:"dir"`
	Env        []string      `json:"env"`
	Timeout    time.Duration `json:"timeout"`
	Background bool          `json:"background,omitempty"`
	Task       td.TaskID     `json:"task"`
	Run        td.RunID      `json:"run"`
	Step       td.StepKey    `json:"step"`
	Since      time.Time     `json:"since"`
	Alone      bool          `json:"alone,omitempty"`
	Profile    *Profile      `json:"profile,omitempty"`
}

func decodeSpec(raw []byte) (spec, error) {
	var s spec
	if err := json.Unmarshal(raw, &s); err != nil {
		return spec{}, td.Errorf(td.Corrupt, "parse %s: %w", specFile, err)
	}
	if s.ID == "" || s.Boot == "" || s.Shell == "" || s.Timeout <= 0 {
		return spec{}, td.Errorf(td.Corrupt, "parse %s: it is not complete", specFile)
	}
	if s.Profile != nil {
		if err := s.Profile.check(); err != nil {
			return spec{}, td.Errorf(td.Corrupt, "parse %s: %w", specFile, err)
		}
	}
	return s, nil
}

func decodeResult(raw []byte) (ProcessResult, error) {
	var r ProcessResult
	if err := json.Unmarshal(raw, &r); err != nil {
		return ProcessResult{}, td.Errorf(td.Corrupt, "parse %s: %w", resultFile, err)
	}
	if r.Exit < 0 || r.Exit > 255 || r.Omitted < 0 || r.Took < 0 || len(r.Head) > headSize || len(r.Tail) > tailSize {
		return ProcessResult{}, td.Errorf(td.Corrupt, "parse %s: it is out of bounds", resultFile)
	}
	return r, nil
}

func decodeHolder(raw []byte) (td.Holder, error) {
	var h td.Holder
	if err := json.Unmarshal(raw, &h); err != nil {
		return td.Holder{}, td.Errorf(td.Corrupt, "parse %s: %w", lockFile, err)
	}
	if h.Pid <= 1 || h.Start == "" || h.Boot == "" {
		return td.Holder{}, td.Errorf(td.Corrupt, "parse %s: it names no process", lockFile)
	}
	return h, nil
}

// load reads one file of a folder and decodes it.
func load[T any](dir, name string, decode func([]byte) (T, error)) (T, error) {
	return loadUpTo(dir, name, maxFile, decode)
}

// loadUpTo is load of a file of at most so many bytes.
func loadUpTo[T any](dir, name string, most int64, decode func([]byte) (T, error)) (T, error) {
	var none T
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return none, fmt.Errorf("open %s: %w", name, disk.Own(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return none, fmt.Errorf("stat %s: %w", name, disk.Own(err))
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return none, td.Errorf(td.Corrupt, "read %s: not a file of this size", name)
	}
	raw := make([]byte, info.Size())
	n, err := f.ReadAt(raw, 0)
	if n < len(raw) {
		return none, fmt.Errorf("read %s: %w", name, disk.Own(err))
	}
	return decode(raw)
}

func exists(dir, name string) bool {
	_, err := os.Lstat(filepath.Join(dir, name))
	return err == nil
}

// create makes an empty file; that it is there already is as good.
func create(dir, name string) error {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make %s: %w", name, disk.Own(err))
	}
	return f.Close()
}

// probe finds what became of the command in dir. With void set a command that never started never will.
// The shared lock keeps a shim from starting between the look and the mark; two probes do not disturb
// each other.
func probe(dir string, void bool) (ProcessState, error) {
	if exists(dir, reservedFile) && !exists(dir, specFile) {
		return NeverStarted, nil // a shim is told only of a folder with a spec
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return Lost, nil // there was one before anything was recorded: what became of the command nobody can say
	}
	if err = disk.Own(err); disk.Trouble(err) {
		return Lost, td.Errorf(td.Storage, "open spool folder %s: %w", dir, err)
	}
	if err != nil {
		return Lost, td.Errorf(td.Corrupt, "open spool folder %s: %w", dir, err)
	}
	defer lock.Close()
	switch err := unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK) && exists(dir, resultFile):
		return Finished, nil // the shim is on its way out
	case errors.Is(err, unix.EWOULDBLOCK) && exists(dir, voidFile) && !exists(dir, startedFile):
		return NeverStarted, nil // a shim that came too late is about to see it
	case errors.Is(err, unix.EWOULDBLOCK):
		return StillRunning, nil
	case err != nil:
		return Lost, td.Errorf(td.Storage, "lock spool folder %s: %w", dir, disk.Own(err))
	}

	if exists(dir, resultFile) {
		if _, err := load(dir, resultFile, decodeResult); err != nil {
			return Lost, fmt.Errorf("read spool folder %s: %w", dir, err)
		}
		return Finished, nil
	}
	if exists(dir, startedFile) {
		return Lost, nil
	}
	s, err := load(dir, specFile, decodeSpec)
	if err != nil {
		return Lost, fmt.Errorf("read spool folder %s: %w", dir, err)
	}
	boot, err := BootID()
	if err != nil {
		return Lost, err
	}
	if s.Boot != boot {
		return Lost, nil // the mark of its start may have died with the page cache
	}
	if void {
		fpBeforeVoid.Hit()
		if err := create(dir, voidFile); err != nil {
			return Lost, fmt.Errorf("void spool folder %s: %w", dir, err)
		}
		fpAfterVoid.Hit()
	}
	return NeverStarted, nil
}

// resultRoom is what a result takes on disk: head and tail of the output, encoded, and a little more.
const resultRoom = (headSize+tailSize)/3*4 + 4<<10

// reserveResult makes the file that the result will be written to, with the room that it needs: a disk that fills up while the command runs
// must not hinder it, or nobody could say after a crash how the command ended. File systems that cannot reserve room go without.
func reserveResult(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, resultFile+".tmp"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make result: %w", disk.Own(err))
	}
	for {
		err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, resultRoom)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return nil, errors.Join(fmt.Errorf("reserve room for the result: %w", disk.Own(err)), f.Close())
	}
	return f, nil
}

// writeResult puts the result on disk, in the file that was reserved for it: after it returns nil, no crash of process or host loses it.
func writeResult(dir string, f *os.File, r ProcessResult) error {
	path := filepath.Join(dir, resultFile)
	raw, err := json.Marshal(r)
	if err == nil {
		_, err = f.WriteAt(raw, 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(raw))) // gives back what is left of the room
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	fpShimBeforeRename.Hit()
	if err := os.Rename(path+".tmp", path); err != nil {
		return fmt.Errorf("name result: %w", err)
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync folder: %w", err)
	}
	return nil
}
