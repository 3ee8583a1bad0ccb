// Package gitfile reads the files by which git leads from one folder to another, as git itself reads them: what is read another way leads
// somewhere else. Whoever can write in a workspace can write them, so that each may be a pipe, a device or longer than any path.
package gitfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// longest is more than git writes into any of these files, and more than a path can have.
const longest = 16 << 10

// Open opens a regular file to be read; anything else is an error, at once. Links are followed, as git follows them.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("it is no regular file: %w", fs.ErrInvalid)}
	}
	return f, nil
}

// Read reads a regular file that has at most limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it has more than %d bytes: %w", limit, fs.ErrInvalid)}
	}
	if err != nil {
		return nil, err
	}
	return raw, nil
}

// Text is what a short file says; empty when there is none.
func Text(path string) string {
	raw, err := Read(path, longest)
	if err != nil {
		return ""
	}
	return string(raw)
}

// Gitdir is the folder that a .git file leads to; empty when it leads to none.
func Gitdir(file string) string {
	if to := ParseGitdir(Text(file)); to != "" {
		return Beside(filepath.Dir(file), to)
	}
	return ""
}

// ParseGitdir is the path in the text of a .git file; empty when git would take it for none. Spaces are part of it.
func ParseGitdir(text string) string {
	to, is := strings.CutPrefix(text, "gitdir: ")
	if !is {
		return ""
	}
	return wholePath(to)
}

// wholePath is a path that fills a file, as git takes it: without line breaks at its end, and then up to the first zero byte.
func wholePath(text string) string {
	to, _, _ := strings.Cut(strings.TrimRight(text, "\r\n"), "\x00")
	return to
}

// Common is the folder that a folder of git says it shares with others; empty when it says nothing.
func Common(git string) string {
	if to := wholePath(Text(filepath.Join(git, "commondir"))); to != "" {
		return Beside(git, to)
	}
	return ""
}

// Back is the .git file that the record of a worktree says is its own; empty when it says nothing.
func Back(git string) string {
	if to := strings.TrimRight(Text(filepath.Join(git, "gitdir")), " \t\r\n\v\f"); to != "" {
		return Beside(git, to)
	}
	return ""
}

// mostLenders is how many repositories objects are borrowed from, one from the other: as many as git follows.
const mostLenders = 5

// Lenders are the folders of objects that a folder of objects says it borrows from, and those that these do.
func Lenders(objects string) (out []string) {
	for next := []string{objects}; len(next) > 0; next = next[1:] {
		for _, to := range Alternates(Text(filepath.Join(next[0], "info", "alternates"))) {
			if to = Beside(next[0], to); !slices.Contains(out, to) && len(out) < mostLenders {
				out, next = append(out, to), append(next, to)
			}
		}
	}
	return out
}

// Alternates are the paths in the text of a file of that name: one in a line, some quoted.
func Alternates(text string) (out []string) {
	text, _, _ = strings.Cut(text, "\x00") // git reads no further
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, `"`) {
			plain, err := strconv.Unquote(line)
			if err != nil {
				continue
			}
			line = plain
		}
		if line != "" && !strings.HasPrefix(line, "#") && !strings.ContainsRune(line, 0) {
			out = append(out, line)
		}
	}
	return out
}

// QuoteAlternate quotes a path for a list of folders of objects to borrow from: in a variable it is parted by colons, in a file by lines.
func QuoteAlternate(path string) string {
	if !strings.ContainsAny(path, ":\"\\\n") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}

// UnquoteAlternate is the path that QuoteAlternate was given.
func UnquoteAlternate(quoted string) string {
	if plain, is := strings.CutPrefix(quoted, `"`); is {
		return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(strings.TrimSuffix(plain, `"`))
	}
	return quoted
}

// Beside is a path as a file in a folder names it.
func Beside(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
