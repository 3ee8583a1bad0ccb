package builtin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strconv"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// ripgrep lets rg search, and shows what it finds in the same form as the search built in. What is hidden is left
// out of what rg says.
func (s search) ripgrep(ctx context.Context, program string, env *tool.Env, out *findings) error {
	// The folder is opened below the workspace's root and entered by its descriptor, so that a symlink
	// put in its place meanwhile leads nowhere.
	dir, err := env.Root.Root().Open(s.base)
	if err != nil {
		return td.Errorf(td.NotFound, "open %s: %w", s.base, err)
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
	readErr := s.show(ctx, env, bufio.NewReaderSize(stdout, 64<<10), out)
	if out.full || readErr != nil {
		enough() // there may be more, which nobody wants; otherwise it ends by itself
	}
	err = cmd.Wait()
	switch exit, _ := errors.AsType[*exec.ExitError](err); {
	case out.full || readErr != nil:
		return readErr
	case exit != nil && exit.ExitCode() == 2 && out.entries == 0:
		return td.Errorf(td.Internal, "ripgrep: %s", strings.TrimSpace(complaint.String()))
	case exit == nil && err != nil:
		return fmt.Errorf("run ripgrep: %w", err)
	}
	return nil
}

func (s search) arguments() []string {
	args := []string{
		"--no-config", "--color=never", "--no-heading", "--with-filename", "--line-number", "--null",
		"--sort=path", "--hidden", "--no-ignore", "--no-messages", "--crlf",
	}
	if s.Glob != "" {
		args = append(args, "--glob="+s.Glob)
	}
	args = append(args, "--glob=!.git") // the last one counts
	switch s.Mode {
	case "files":
		args = append(args, "--files-with-matches")
	case "count":
		args = append(args, "--count")
	default:
		args = append(args, "--before-context="+strconv.Itoa(s.Before), "--after-context="+strconv.Itoa(s.After))
	}
	if s.Fold {
		args = append(args, "--ignore-case")
	}
	if s.Multiline {
		args = append(args, "--multiline", "--multiline-dotall")
	}
	return append(args, "--regexp="+s.Pattern, "--", "./")
}

// show reads what ripgrep prints: path, NUL, and then the rest, a line each, or only paths.
func (s search) show(ctx context.Context, env *tool.Env, r *bufio.Reader, out *findings) error {
	for {
		if s.Mode == "files" {
			name, err := r.ReadBytes(0)
			if err != nil {
				return ignoreEOF(err)
			}
			if file := s.rooted(bytes.TrimSuffix(name, []byte{0})); !env.Hides(file) && !out.add(cleanPath(file)) {
				return nil
			}
			continue
		}
		line, _, err := readLine(ctx, r)
		if err != nil {
			return ignoreEOF(err)
		}
		name, rest, ok := bytes.Cut(line, []byte{0})
		if !ok {
			if string(line) == "--" {
				out.separate()
			}
			continue // a word about a binary file
		}
		file := s.rooted(name)
		if env.Hides(file) {
			continue
		}
		if s.Mode == "count" {
			if !out.add(fmt.Sprintf("%s:%s", cleanPath(file), rest)) {
				return nil
			}
			continue
		}
		digits := 0
		for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
			digits++
		}
		number, err := strconv.Atoi(string(rest[:digits]))
		if err != nil || digits == len(rest) {
			continue
		}
		if !out.add(showLine(file, number, rest[digits], rest[digits+1:])) {
			return nil
		}
	}
}

// rooted is a path that ripgrep printed, relative to the workspace.
func (s search) rooted(name []byte) string { return path.Join(s.base, string(name)) }

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
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
