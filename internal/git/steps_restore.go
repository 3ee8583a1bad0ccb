package git

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpRestoreFiles = failpoint.New("git.restore.before_files")
	fpRestored     = failpoint.New("git.restore.after_files")
)

// Restore makes the checkout hold the tree: files that it has are written, files that it has not are removed. What
// git ignores is left alone, and so are the branch, the index of the user and repositories inside. What the checkout
// held is taken first, so that nothing is lost; from is that. Conflict when something is in the way that no snapshot
// has, and then nothing was changed. It can be done again after a crash.
func (s *Steps) Restore(ctx context.Context, tree, message string) (from Tree, err error) {
	if from, err = s.Take(ctx, message, true); err != nil {
		return Tree{}, err
	}
	if from.Hash == tree {
		return from, nil
	}
	found, err := resolve(ctx, s.top, tree+"^{tree}")
	switch {
	case err != nil:
		return Tree{}, err
	case found == "":
		return Tree{}, td.Errorf(td.NotFound, "the tree %s is not in the repository any more", tree)
	}
	changes, err := Differences(ctx, s.top, from.Hash, tree)
	if err != nil {
		return Tree{}, err
	}
	if path := s.inTheWay(changes); path != "" {
		return from, td.Errorf(td.Conflict, "%s is in the way, and no snapshot has it", path).WithHint("move it away, and try again")
	}
	env := s.env()
	// Files that were only touched would count as changed by somebody else.
	_, _ = run(ctx, call{dir: s.top, env: env, args: []string{"update-index", "-q", "--refresh"}})
	fpRestoreFiles.Hit()
	// In two ways: what is not as it was taken is not overwritten.
	_, err = run(ctx, call{dir: s.top, keep: true, env: env, args: []string{"read-tree", "-m", "-u", from.Hash, tree}})
	if err != nil {
		if td.IsKind(err, td.Internal) {
			err = &td.Error{Kind: td.Conflict, Hint: "move what is in the way, and try again", Err: err}
		}
		return from, err
	}
	if err := syncDisk(s.top); err != nil {
		return from, td.Errorf(td.Storage, "restore files: %w", err)
	}
	fpRestored.Hit()
	s.heads = "" // the index went along with the files, so that it tells nothing
	now, err := s.Take(ctx, message, true)
	if err != nil || now.Hash == tree {
		return from, err
	}
	left, err := Differences(ctx, s.top, tree, now.Hash)
	if err != nil {
		return from, err
	}
	var names []string
	for _, c := range left {
		names = append(names, c.Path)
	}
	return from, td.Errorf(td.Conflict, "could not be brought back: %s", strings.Join(names[:min(len(names), 10)], ", ")).
		WithHint("repositories inside the workspace and files that something still writes are not brought back")
}

// inTheWay is a file that the changes would overwrite though it is no part of what was taken, or empty: git ignores it,
// or it was too large. Git itself takes what is ignored for expendable.
func (s *Steps) inTheWay(changes []Change) string {
	goes := map[string]bool{}
	for _, c := range changes {
		goes[c.Path] = c.Kind != "A"
	}
	for _, c := range changes {
		if c.Kind != "A" {
			continue
		}
		at := ""
		for part := range strings.SplitSeq(c.Path, "/") {
			at = filepath.Join(at, part)
			info, err := os.Lstat(filepath.Join(s.top, at))
			if err != nil {
				break
			}
			if at != c.Path && info.IsDir() {
				continue
			}
			if found := s.stranger(at, info, goes); found != "" {
				return found
			}
			break // what is beyond a link, or below a file, is not of the checkout
		}
	}
	return ""
}

// stranger is the path, or a file below it, that does not go by itself.
func (s *Steps) stranger(path string, info fs.FileInfo, goes map[string]bool) (found string) {
	if !info.IsDir() {
		if goes[path] {
			return ""
		}
		return path
	}
	_ = filepath.WalkDir(filepath.Join(s.top, path), func(at string, d fs.DirEntry, err error) error {
		rel, rerr := filepath.Rel(s.top, at)
		if err == nil && rerr == nil && !d.IsDir() && !goes[rel] {
			found = rel
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// Change is one file that differs between two trees.
type Change struct {
	Kind string // A added, M modified, D deleted, T another type
	Path string
}

// Differences are the files that differ between two trees that the repository around dir has, sorted by name. An empty
// tree is one without files.
func Differences(ctx context.Context, dir, from, to string) ([]Change, error) {
	if from == "" {
		var err error
		if from, err = line(ctx, call{dir: dir, args: []string{"hash-object", "-t", "tree", "--stdin"}, stdin: strings.NewReader("")}); err != nil {
			return nil, err
		}
	}
	out, err := run(ctx, call{dir: dir, args: []string{
		"diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--name-status", "--end-of-options", from, to, "--",
	}})
	if err != nil {
		return nil, err
	}
	return parseChanges(out), nil
}

// parseChanges reads what diff-tree lists: a letter and a name, each with a zero behind it.
func parseChanges(out []byte) (list []Change) {
	words := strings.Split(string(out), "\x00")
	for pair := range slices.Chunk(words, 2) {
		if len(pair) == 2 && pair[0] != "" && pair[1] != "" {
			list = append(list, Change{Kind: pair[0][:1], Path: pair[1]})
		}
	}
	return list
}

// StepRef is what was last added to the trees of a task.
type StepRef struct {
	At      time.Time
	Commit  string
	Tree    string
	Subject string // the first line of the message that it was taken with
}

// StepRefs are the newest trees of all tasks that the repository around dir keeps some of, by the names of the tasks.
func StepRefs(ctx context.Context, dir string) (map[string]StepRef, error) {
	out, err := run(ctx, call{dir: dir, args: []string{
		"for-each-ref", "--format=%(committerdate:unix) %(objectname) %(tree) %(refname) %(contents:subject)", StepsPrefix,
	}})
	if err != nil {
		return nil, err
	}
	return parseStepRefs(string(out))
}

func parseStepRefs(out string) (map[string]StepRef, error) {
	refs := map[string]StepRef{}
	for l := range strings.Lines(out) {
		words := strings.SplitN(strings.TrimSuffix(l, "\n"), " ", 5)
		if len(words) != 5 {
			return nil, td.Errorf(td.Corrupt, "read snapshots: git said %q", l)
		}
		seconds, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			return nil, td.Errorf(td.Corrupt, "read the age of %s: %w", words[3], err)
		}
		refs[strings.TrimPrefix(words[3], StepsPrefix)] = StepRef{At: time.Unix(seconds, 0), Commit: words[1], Tree: words[2], Subject: words[4]}
	}
	return refs, nil
}

// DropSteps lets the trees of a task go. It is no error if there are none.
func DropSteps(ctx context.Context, dir, name string) error {
	_, err := run(ctx, call{dir: dir, keep: true, args: []string{"update-ref", "-d", StepsPrefix + name}})
	return err
}
