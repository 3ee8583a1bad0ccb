package builtin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// ripgrep lets rg name the files that match, and searches those. rg opens files by their path: where a folder was
// exchanged for a symbolic link meanwhile it reads elsewhere, and it runs with the daemon's rights. So nothing that it
// read is shown. What is shown was opened below the workspace without following a link, as by the search built in, which
// has to look only at the few files that match.
func (s search) ripgrep(ctx context.Context, program string, env *tool.Env, out *findings) error {
	dir, err := env.Root.Folder(s.base)
	if err != nil {
		return err
	}
	defer dir.Close()
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	cmd := exec.CommandContext(ctx, program, s.arguments()...)
	cmd.Dir = fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	var complaint bytes.Buffer
	cmd.Stderr = &limited{w: &complaint, left: 2000}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("run ripgrep: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return td.Errorf(td.Unavailable, "run ripgrep: %w", err)
	}
	bound(cmd.Process.Pid)
	named, readErr := s.searchNamed(ctx, env, bufio.NewReaderSize(stdout, 64<<10), out)
	if out.full || readErr != nil {
		enough() // there may be more, which nobody wants; otherwise it ends by itself
	}
	err = cmd.Wait()
	switch exit, _ := errors.AsType[*exec.ExitError](err); {
	case out.full || readErr != nil:
		return readErr
	case exit != nil && exit.ExitCode() == 2 && named == 0:
		said := strings.TrimSpace(complaint.String())
		if said == "" { // it is told not to speak of files that it cannot read
			return td.Errorf(td.Unavailable, "%s could not be searched: files there changed meanwhile or cannot be read; search again", s.base)
		}
		return td.Errorf(td.Internal, "ripgrep: %s", said)
	case exit != nil && exit.ExitCode() < 0 && ctx.Err() == nil:
		// It passed its limits. The search built in holds one line at a time, and not more of it than is shown.
		*out = findings{secrets: out.secrets, limit: out.limit}
		return s.builtin(ctx, env, out)
	case exit == nil && err != nil:
		return fmt.Errorf("run ripgrep: %w", err)
	}
	if !s.Multiline {
		return nil
	}
	return s.each(ctx, env, out, func(name string, d fs.DirEntry) error {
		if info, err := d.Info(); err == nil && info.Size() > maxMultiline {
			out.tooLarge(name)
		}
		return nil
	})
}

// What rg may take: it holds a line, or across lines a file, and runs with the daemon's rights.
const (
	mostMemory = 1 << 30
	mostTime   = 120 // seconds of the processor
)

// bound limits a process that was just started. Where that fails it is bounded by the size of files alone.
func bound(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: mostMemory, Max: mostMemory}, nil)
	_ = unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: mostTime, Max: mostTime}, nil)
}

func (s search) arguments() []string {
	args := []string{
		"--no-config", "--color=never", "--null", "--files-with-matches", "--sort=path", "--hidden", "--no-ignore", "--no-follow",
		"--no-messages", "--crlf", "--no-mmap",
	}
	if s.Glob != "" {
		args = append(args, "--glob="+s.Glob)
	}
	args = append(args, "--glob=!.git") // the last one counts
	if s.Fold {
		args = append(args, "--ignore-case")
	}
	if s.Multiline {
		args = append(args, "--multiline", "--multiline-dotall", "--max-filesize="+strconv.Itoa(maxMultiline))
	}
	return append(args, "--regexp="+s.Pattern, "--", "./")
}

// searchNamed searches the files whose names rg prints, each with a NUL behind it, and counts them.
func (s search) searchNamed(ctx context.Context, env *tool.Env, r *bufio.Reader, out *findings) (named int, err error) {
	for !out.full {
		name, err := r.ReadBytes(0)
		if errors.Is(err, io.EOF) {
			return named, nil
		}
		if err != nil {
			return named, err
		}
		named++
		file := path.Join(s.base, string(bytes.TrimSuffix(name, []byte{0})))
		if env.Hides(file) {
			continue
		}
		if err := s.file(ctx, env.Root, file, out); err != nil {
			return named, err
		}
	}
	return named, nil
}

// limited takes the first bytes and drops the rest.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	k := min(l.left, len(p))
	l.left -= k
	if _, err := l.w.Write(p[:k]); err != nil {
		return 0, err
	}
	return len(p), nil
}
