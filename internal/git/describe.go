package git

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/td"
)

// Info says what stands in a folder under git.
type Info struct {
	Repo    bool     // the folder is inside a checkout; when false nothing else is set
	Top     string   // root of the checkout
	Branch  string   // empty when HEAD is detached
	Head    string   // commit, empty before the first one
	Dirty   bool     // something differs from HEAD, or is untracked and not ignored
	Commits []string // the newest five, a line each
}

// Describe looks at the checkout that dir is in. A folder that is not under git is no error.
func Describe(ctx context.Context, dir string) (Info, error) {
	top, err := topOf(ctx, dir)
	if err != nil || top == "" {
		return Info{}, err
	}
	out, err := run(ctx, call{dir: dir, args: []string{"status", "--porcelain=v2", "--branch", "-z", notInside}})
	if err != nil {
		return Info{}, err
	}
	info := parseStatus(string(out))
	info.Repo, info.Top = true, top
	if info.Head == "" {
		return info, nil
	}
	log, err := run(ctx, call{dir: dir, args: []string{"log", "-5", "--no-color", "--format=%h %s"}})
	if err != nil {
		return Info{}, err
	}
	for l := range strings.Lines(string(log)) {
		info.Commits = append(info.Commits, strings.TrimRight(l, "\n"))
	}
	return info, nil
}

// topOf is the root of the checkout dir is in, or empty when it is in none.
func topOf(ctx context.Context, dir string) (string, error) {
	if plain(dir) {
		return "", nil
	}
	out, err := line(ctx, call{dir: dir, args: []string{"rev-parse", "--is-inside-work-tree", "--show-toplevel"}})
	inside, top, _ := strings.Cut(out, "\n")
	switch {
	case inside == "false": // a bare repository, or the inside of .git
		return "", nil
	case td.IsKind(err, td.NotFound) && strings.Contains(err.Error(), notRepository):
		return "", nil
	case err != nil && strings.Contains(err.Error(), "safe.bareRepository"): // it may only look like one
		return "", nil
	case err != nil:
		return "", err
	}
	return top, nil
}

// plain reports that a folder is in no repository, as far as that can be seen without git: each task begins with that question.
func plain(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return false
	}
	for {
		for _, sign := range []string{".git", "HEAD"} { // of a bare one
			if _, err := os.Lstat(filepath.Join(dir, sign)); !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}

// parseStatus reads `git status --porcelain=v2 --branch -z`. Any record that is no header is a change.
func parseStatus(out string) Info {
	var info Info
	for rec := range strings.SplitSeq(out, "\x00") {
		switch {
		case rec == "":
		case strings.HasPrefix(rec, "# branch.oid "):
			if oid := rec[len("# branch.oid "):]; oid != "(initial)" {
				info.Head = oid
			}
		case strings.HasPrefix(rec, "# branch.head "):
			if b := rec[len("# branch.head "):]; b != "(detached)" {
				info.Branch = b
			}
		case strings.HasPrefix(rec, "# "):
		default:
			info.Dirty = true
		}
	}
	return info
}
