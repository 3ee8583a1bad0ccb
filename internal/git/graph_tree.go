package git

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// The modes of files that are shared.
const (
	modePlain   = "100644"
	modeProgram = "100755"
)

// entry is a file in a tree; none is one that is not there.
type entry struct{ mode, id string }

var none entry

// tree is the files of a commit by path, parted by slashes.
type tree map[string]entry

// paths are the paths of all these trees, sorted.
func paths(of ...tree) []string {
	var all []string
	for _, t := range of {
		for p := range t {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readTree lists the files of a commit, which has to be fit to be checked out.
func (g *Graph) readTree(ctx context.Context, commit string) (tree, error) {
	out, err := g.run(ctx, false, "ls-tree", "-r", "-z", "--full-tree", commit)
	if err != nil {
		return nil, err
	}
	t, err := parseTree(string(out))
	if err != nil {
		return nil, fmt.Errorf("read %.12s of %s: %w", commit, graphBranch, err)
	}
	return t, nil
}

// parseTree reads `git ls-tree -r -z`. What could lead a writer out of the folder, or git into another
// repository, is refused: whoever can push to the branch would be able to write anywhere.
func parseTree(out string) (tree, error) {
	t := tree{}
	for rec := range strings.SplitSeq(out, "\x00") {
		if rec == "" {
			continue
		}
		head, name, _ := strings.Cut(rec, "\t")
		parts := strings.Split(head, " ")
		if len(parts) != 3 || name == "" || parts[2] == "" {
			return nil, td.Errorf(td.Corrupt, "not a file of a tree: %.100q", rec)
		}
		if mode := parts[0]; mode != modePlain && mode != modeProgram {
			return nil, td.Errorf(td.Refused, "%q is no plain file (mode %s)", name, mode).
				WithHint("remove it from the branch %s where it came from", graphBranch)
		}
		if !sharable(name) {
			return nil, td.Errorf(td.Refused, "no file may be called %q", name).
				WithHint("remove it from the branch %s where it came from", graphBranch)
		}
		t[name] = entry{mode: parts[0], id: parts[2]}
	}
	if dir, is := t.repository(); is {
		return nil, td.Errorf(td.Refused, "git would take the folder %q for a repository, and obey what is in it", dir).
			WithHint("remove it from the branch %s where it came from", graphBranch)
	}
	return t, nil
}

// repository is a folder that git would take for a repository by the names in it, wherever case does not count.
func (t tree) repository() (dir string, is bool) {
	in := map[string]map[string]bool{}
	for name := range t {
		for at := strings.ToLower(name); at != "."; at = path.Dir(at) {
			around := path.Dir(at)
			if in[around] == nil {
				in[around] = map[string]bool{}
			}
			in[around][path.Base(at)] = true
		}
	}
	for dir, names := range in {
		if gitfile.ResemblesNearly(func(name string) bool { return names[strings.ToLower(name)] }) {
			return dir, true
		}
	}
	return "", false
}

// sharable reports whether a path stays inside the folder and out of anything that git takes for a repository.
func sharable(name string) bool {
	if !filepath.IsLocal(name) || path.Clean(name) != name {
		return false
	}
	return !slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return strings.EqualFold(part, ".git") })
}

// writeIndex makes an index that holds these files, and returns its path. The graph must be locked.
func (g *Graph) writeIndex(ctx context.Context, t tree) (string, error) {
	index := filepath.Join(g.common, "taskdaemon-graph.index")
	for _, old := range []string{index, index + ".lock"} { // left by a crash
		if err := os.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", td.Errorf(td.Storage, "clear index: %w", err)
		}
	}
	var in bytes.Buffer
	for _, p := range paths(t) {
		fmt.Fprintf(&in, "%s %s\t%s\x00", t[p].mode, t[p].id, p)
	}
	c := g.call(true, "update-index", "--add", "-z", "--index-info")
	if len(t) == 0 {
		c = g.call(true, "read-tree", "--empty")
	}
	c.env, c.stdin = append(c.env, "GIT_INDEX_FILE="+index), &in
	_, err := run(ctx, c)
	return index, err
}

// writeTree writes these files as a tree. The graph must be locked.
func (g *Graph) writeTree(ctx context.Context, t tree) (id, index string, err error) {
	if index, err = g.writeIndex(ctx, t); err != nil {
		return "", "", err
	}
	c := g.call(true, "write-tree")
	c.env = append(c.env, "GIT_INDEX_FILE="+index)
	id, err = line(ctx, c)
	return id, index, err
}

// blob is the content of an object, empty for none.
func (g *Graph) blob(ctx context.Context, e entry) ([]byte, error) {
	if e == none {
		return nil, nil
	}
	return g.run(ctx, false, "cat-file", "blob", e.id)
}

// putBlob writes content as an object.
func (g *Graph) putBlob(ctx context.Context, content io.Reader) (string, error) {
	return g.fed(ctx, content, "hash-object", "-w", "--stdin", "--no-filters")
}

// nameOf is the name git would give to content of this size.
func (g *Graph) nameOf(content io.Reader, size int64) (string, error) {
	var h hash.Hash = sha1.New()
	if g.format == sha256.Size*2 {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	_, err := io.Copy(h, content)
	return hex.EncodeToString(h.Sum(nil)), err
}

// shortName is how much of an object's name tells versions of one file apart.
const shortName = 12

// conflictPath is where a version of a file is kept that could not have the file's own name.
func conflictPath(name, id string, taken func(string) bool) string {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	if stem == "" || strings.HasSuffix(stem, "/") { // a hidden file has a name, not an extension
		stem, ext = name, ""
	}
	to := fmt.Sprintf("%s.conflict-%.*s%s", stem, shortName, id, ext)
	for n := 2; taken(to); n++ {
		to = fmt.Sprintf("%s.conflict-%.*s-%d%s", stem, shortName, id, n, ext)
	}
	return to
}
