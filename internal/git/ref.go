package git

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// RefAt is the commit that a ref of the repository around repo stands for, or empty when there is no such ref.
func RefAt(ctx context.Context, repo, ref string) (string, error) {
	return resolve(ctx, repo, ref+"^{commit}")
}

// MoveRef moves a ref, by its full name, if it still stands where it did; from is empty when there must be none. A nil error
// means that it is on disk, Conflict that it stands elsewhere. No checkout follows: FastForward is for branches that may have one.
func MoveRef(ctx context.Context, repo, ref, to, from string) error {
	if !strings.HasPrefix(ref, "refs/") {
		return td.Errorf(td.Invalid, "move ref: %q is no full name", ref)
	}
	if from == "" {
		from = strings.Repeat("0", len(to))
	}
	if to == "" {
		to = strings.Repeat("0", len(from))
	}
	_, err := run(ctx, call{dir: repo, keep: true, args: updateRef(ownRef(ref), "-m", "taskdaemon", ref, to, from)})
	return err
}

// updateRef are the words that change refs. A ref of our own is changed itself: an agent can make its branch a symbolic one, and what is done to that would be done to
// the person's branch that it names.
func updateRef(own bool, args ...string) []string {
	words := []string{"update-ref"}
	if own {
		words = append(words, "--no-deref")
	}
	return append(words, args...)
}

// orders are commands for `git update-ref --stdin`, for which the same holds.
func orders(commands ...string) string {
	var b strings.Builder
	for _, c := range commands {
		if words := strings.Fields(c); len(words) > 1 && ownRef(words[1]) {
			b.WriteString("option no-deref\n")
		}
		b.WriteString(c + "\n")
	}
	return b.String()
}

// ownRef reports whether a ref is taskdaemon's.
func ownRef(ref string) bool {
	return strings.HasPrefix(ref, "refs/heads/"+ours) || strings.HasPrefix(ref, "refs/taskdaemon/")
}

// MoveRefUnless is MoveRef, but Conflict also if one of some other refs exists. Whoever makes one of those at the same time comes wholly before that or
// wholly after it.
//
// Unavailable when the branch is checked out somewhere: the files there would seem to undo what it moves to. Where a task's worktree says so, it has left its own branch, and
// nothing of it is merged.
func MoveRefUnless(ctx context.Context, repo, ref, to, from string, others ...string) error {
	if mayBeCheckedOut(repo, ref) {
		if err := notCheckedOut(ctx, repo, ref); err != nil {
			return err
		}
	}
	if len(others) == 0 {
		return MoveRef(ctx, repo, ref, to, from)
	}
	none := strings.Repeat("0", len(to))
	var commands []string
	for _, other := range others {
		commands = append(commands, "verify "+other+" "+none)
	}
	commands = append(commands, "update "+ref+" "+to+" "+cmp.Or(from, none))
	_, err := run(ctx, call{dir: repo, keep: true, args: []string{"update-ref", "-m", "taskdaemon", "--stdin"}, stdin: strings.NewReader(orders(commands...))})
	return err
}

// notCheckedOut fails if a checkout that is not a task's is on a branch.
func notCheckedOut(ctx context.Context, repo, ref string) error {
	out, err := run(ctx, call{dir: repo, args: []string{"worktree", "list", "--porcelain", "-z"}})
	if err != nil {
		return err
	}
	for _, c := range parseWorktrees(string(out)) {
		if c.branch != ref || taskAt(c.path) != "" {
			continue
		}
		if _, err := os.Lstat(c.path); !gone(err) {
			return td.Errorf(td.Unavailable, "%s is checked out in %s, and only nobody's branch can be merged into", shortRef(ref), c.path).
				WithHint("%s", adviceAt(c.path, "git -C %s switch <another branch>", c.path))
		}
	}
	return nil
}

// mayBeCheckedOut reports whether git has to be asked which checkouts are on a branch. They are not on it if the HEAD of each names another one that is no other
// name of this one.
func mayBeCheckedOut(repo, ref string) bool {
	common := siteOf(call{dir: repo}).common
	if common == "" || isDir(filepath.Join(common, "reftable")) {
		return true
	}
	heads := []string{filepath.Join(common, "HEAD")}
	linked, err := os.ReadDir(filepath.Join(common, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	for _, e := range linked {
		heads = append(heads, filepath.Join(common, "worktrees", e.Name(), "HEAD"))
	}
	return slices.ContainsFunc(heads, func(head string) bool {
		said := plainText(head)
		on, symbolic := strings.CutPrefix(said, "ref:")
		on = strings.TrimSpace(on)
		switch {
		case !symbolic:
			return !isHash(said)
		case on == ref || !strings.HasPrefix(on, "refs/heads/") || !filepath.IsLocal(on):
			return true
		}
		at := filepath.Join(common, on)
		_, err := os.Lstat(at)
		return !errors.Is(err, fs.ErrNotExist) && !isHash(plainText(at))
	})
}

// plainText is what a short file says that is no link: git takes some links for references.
func plainText(path string) string {
	if isLink(path) {
		return ""
	}
	return strings.TrimSpace(gitfile.Text(path))
}

// isHash reports whether a text is the name of an object.
func isHash(text string) bool {
	return (len(text) == 40 || len(text) == 64) && strings.Trim(text, "0123456789abcdef") == ""
}

// IsAncestor reports whether the commit young has old among its ancestors, or is it.
func IsAncestor(ctx context.Context, repo, old, young string) (bool, error) {
	_, err := run(ctx, call{dir: repo, args: []string{"merge-base", "--is-ancestor", old, young}})
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// MergeBase is the newest commit that two have in their history, or empty.
func MergeBase(ctx context.Context, repo, a, b string) (string, error) {
	out, err := line(ctx, call{dir: repo, args: []string{"merge-base", a, b}})
	if exitCode(err) == 1 {
		return "", nil
	}
	return out, err
}

// CommitTree makes a commit that no ref names yet, as the user if they have told git who they are.
func CommitTree(ctx context.Context, repo, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", "--no-gpg-sign", tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	return line(ctx, call{
		dir: repo, keep: true, env: identity(ctx, repo), set: []string{"i18n.commitEncoding=UTF-8"},
		args: append(args, "-F", "-"), stdin: strings.NewReader(readable(message)),
	})
}

// readable is a message with nothing in it that acts on a terminal, or turns the direction of writing: titles and summaries are words of models, and people read them with git log.
func readable(message string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029':
			return utf8.RuneError
		}
		return r
	}, message)
}

// commitOf is the commit that a name stands for.
func commitOf(ctx context.Context, repo, name string) (string, error) {
	commit, err := RefAt(ctx, repo, name)
	if err == nil && commit == "" {
		err = td.Errorf(td.NotFound, "there is no commit %q", name)
	}
	return commit, err
}

// treeOf is the tree of a commit.
func treeOf(ctx context.Context, repo, commit string) (string, error) {
	return line(ctx, call{dir: repo, args: []string{"rev-parse", "--verify", "--end-of-options", commit + "^{tree}"}})
}
