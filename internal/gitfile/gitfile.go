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

const (
	deepestLender = 5  // how often a lender's own lenders are followed: as often as git does
	mostLenders   = 64 // in all; git has no such bound, but each is looked at before every command
)

// Lenders are the folders of objects that a folder of objects says it borrows from, and those that these do, in git's order: one that is found twice counts where it
// was found first.
func Lenders(objects string) []string { return lenders(nil, objects, 0) }

func lenders(found []string, objects string, depth int) []string {
	if depth > deepestLender {
		return found
	}
	for _, to := range Alternates(Text(filepath.Join(objects, "info", "alternates"))) {
		if to = LentBy(objects, to); !slices.Contains(found, to) && len(found) < mostLenders {
			found = lenders(append(found, to), to, depth+1)
		}
	}
	return found
}

// Alternates are the paths in the text of a file of that name: one in a line, some quoted. A quoted one ends with its quote, wherever that is, and what comes after the next
// character is another; one that is not quoted well is taken as it stands.
func Alternates(text string) (out []string) {
	text, _, _ = strings.Cut(text, "\x00") // git reads no further
	for text != "" {
		plain, rest, is := unquote(text)
		if !is {
			plain, rest, _ = strings.Cut(text, "\n")
		} else if rest != "" {
			rest = rest[1:]
		}
		text = rest
		if is || !strings.HasPrefix(plain, "#") {
			if plain, _, _ = strings.Cut(plain, "\x00"); plain != "" {
				out = append(out, plain)
			}
		}
	}
	return out
}

// escapes are the characters that stand for others after a backslash in what git quotes, beside numbers.
var escapes = map[byte]byte{'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '\\': '\\', '"': '"'}

// unquote reads what git has quoted at the beginning of a text, and says what comes after it.
func unquote(text string) (plain, rest string, is bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			i++
			if i == len(text) {
				return "", "", false
			}
			if one, known := escapes[text[i]]; known {
				b.WriteByte(one)
				continue
			}
			n, err := strconv.ParseUint(text[i:min(i+3, len(text))], 8, 8)
			if err != nil || i+3 > len(text) {
				return "", "", false
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
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

// RepositoryNames are the names by which git takes a folder for a repository.
var RepositoryNames = []string{"HEAD", "commondir", "objects", "refs"}

// Resembles reports whether git would take a folder for a repository by the names in it, if what has them is right.
func Resembles(has func(name string) bool) bool {
	return has("HEAD") && (has("commondir") || has("objects") && has("refs"))
}

// ResemblesNearly is Resembles for whoever protects a folder: one that lacks only its references may be completed in a way that nobody sees.
func ResemblesNearly(has func(name string) bool) bool {
	return has("HEAD") && (has("commondir") || has("objects"))
}
