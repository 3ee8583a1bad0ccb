package hook

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// The files of a hook's folder.
const (
	inFile   = "in"   // what the command reads
	outFile  = "out"  // what it wrote to standard output, up to the cap
	bootFile = "boot" // the boot of the host in which the folder was made
)

// lostExit is the wrapper's exit when it cannot tell the command's: never 0, and never a block.
const lostExit = 125

var (
	fpAfterMkdir   = failpoint.New("hook.prepare.after_mkdir")
	fpAfterInput   = failpoint.New("hook.prepare.after_input")
	fpBeforeRemove = failpoint.New("hook.discard.before_remove")
)

// Prepare makes dir, which is absolute and the step's own, and puts stdin into it. It may be called again
// for as long as the command has not started; what an attempt before left there is gone afterwards.
// Keyed: the folder is the evidence. Nothing is synced, for after the loss of the host it is not believed.
func Prepare(dir string, stdin []byte) error {
	if !filepath.IsAbs(dir) {
		return td.Errorf(td.Invalid, "prepare hook folder %q: its path must be absolute", dir)
	}
	boot, err := sandbox.BootID()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return td.Errorf(td.Storage, "make hook folder: %w", err)
	}
	fpAfterMkdir.Hit()
	if err := os.Remove(filepath.Join(dir, outFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return td.Errorf(td.Storage, "clear hook folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, bootFile), []byte(boot), 0o600); err != nil {
		return td.Errorf(td.Storage, "write hook folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, inFile), stdin, 0o600); err != nil {
		return td.Errorf(td.Storage, "write hook folder: %w", err)
	}
	fpAfterInput.Hit()
	return nil
}

// Wrap is the script, for any POSIX shell, that runs command with the folder's input and keeps its
// output there. Its exit is the command's, and its standard error is too, so that the shim keeps that
// within its own bounds; it writes nothing else. Running it is an opaque effect: the shim is asked
// what became of it.
//
// The output goes through head, because only a pipe can be cut: a command that floods dies of it, and
// the disk does not fill. The command's exit travels past the pipe, as the substituted text. Whatever
// keeps the script from doing this ends it with lostExit; left to themselves some shells would exit with
// 2, which is a block.
func Wrap(dir, command string) string {
	return fmt.Sprintf(`[ -r %[2]s ] || exit %[5]d
rc=$({ { /bin/sh -c %[1]s <%[2]s 4>&-; echo $? >&4; } | head -c %[4]d >%[3]s; } 4>&1) || exit %[5]d
exit "${rc:-%[5]d}"
`, quote(command), quote(filepath.Join(dir, inFile)), quote(filepath.Join(dir, outFile)), MaxOutput+1, lostExit)
}

// Collect reads what a wrapped command that has ended wrote to standard output, up to one byte more than
// MaxOutput. A folder of another boot of the host is unavailable: what was not synced then may be gone, and
// an empty answer would be taken for a yes. Pure: it only looks.
func Collect(dir string) ([]byte, error) {
	boot, err := sandbox.BootID()
	if err != nil {
		return nil, err
	}
	was, err := os.ReadFile(filepath.Join(dir, bootFile))
	if err != nil || string(was) != boot {
		return nil, td.Errorf(td.Unavailable, "read hook folder: its answer was lost with the host")
	}
	f, err := os.Open(filepath.Join(dir, outFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, td.Errorf(td.Unavailable, "read hook folder: the command was not started")
	}
	if err != nil {
		return nil, td.Errorf(td.Storage, "read hook folder: %w", err)
	}
	defer f.Close()
	out, err := io.ReadAll(io.LimitReader(f, MaxOutput+1))
	if err != nil {
		return nil, td.Errorf(td.Storage, "read hook folder: %w", err)
	}
	return out, nil
}

// Discard removes the folder, after the result is recorded. Keyed: it may be called again, and a folder
// that a crash left behind is found by its name.
func Discard(dir string) error {
	fpBeforeRemove.Hit()
	if err := os.RemoveAll(dir); err != nil {
		return td.Errorf(td.Storage, "remove hook folder: %w", err)
	}
	return nil
}

// quote makes one word of s for a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
