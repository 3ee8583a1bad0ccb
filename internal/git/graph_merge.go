package git

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"taskdaemon/internal/td"
)

// merge makes a commit of two that have grown apart. Whoever merges the same two makes the same commit, byte by
// byte: two clones that do it at once need not merge once more. The graph must be locked.
func (g *Graph) merge(ctx context.Context, a, b string) (commit string, conflicts []string, err error) {
	atA, err := g.madeAt(ctx, a)
	if err != nil {
		return "", nil, err
	}
	atB, err := g.madeAt(ctx, b)
	if err != nil {
		return "", nil, err
	}
	// Of two versions that cannot be merged the newer branch's keeps the name.
	if atA < atB || atA == atB && a < b {
		a, b, atA = b, a, atB
	}
	bases, err := g.bases(ctx, a, b)
	if err != nil {
		return "", nil, err
	}
	one, err := g.readTree(ctx, a)
	if err != nil {
		return "", nil, err
	}
	other, err := g.readTree(ctx, b)
	if err != nil {
		return "", nil, err
	}
	whole, conflicts, err := g.mergeTrees(ctx, bases, one, other)
	if err != nil {
		return "", nil, err
	}
	id, _, err := g.writeTree(ctx, whole)
	if err != nil {
		return "", nil, err
	}
	date := fmt.Sprintf("@%d +0000", atA)
	commit, err = g.commitTree(ctx, id, "Merge "+graphBranch+"\n", []string{"GIT_AUTHOR_DATE=" + date, "GIT_COMMITTER_DATE=" + date}, a, b)
	return commit, conflicts, err
}

// madeAt is when a commit was made, in seconds since 1970.
func (g *Graph) madeAt(ctx context.Context, commit string) (int64, error) {
	out, err := g.line(ctx, "log", "-1", "--no-color", "--format=%ct", commit)
	if err != nil {
		return 0, err
	}
	at, err := strconv.ParseInt(out, 10, 64)
	if err != nil {
		return 0, td.Errorf(td.Corrupt, "read date of %.12s: %w", commit, err)
	}
	return min(max(at, 0), lastSecond), nil
}

// bases are the commits from which two have grown apart: none if each began on its own, several if they were
// merged crosswise.
func (g *Graph) bases(ctx context.Context, a, b string) ([]tree, error) {
	out, err := g.line(ctx, "merge-base", "--all", a, b)
	if exitCode(err) == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []tree
	for _, commit := range strings.Fields(out) {
		t, err := g.readTree(ctx, commit)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// version is how a file has come out of a merge.
type version struct {
	entry
	torn bool // both sides changed it, and the content decides
	kept bool // one side removed what the other changed
}

// baseOf is what a file was before both sides changed it, if the bases agree about that.
func baseOf(bases []tree, name string) (base entry, known bool) {
	for i, t := range bases {
		if i > 0 && t[name] != base {
			return none, false
		}
		base = t[name]
	}
	return base, len(bases) > 0
}

// mergeEntry decides about one file. Without a base that all agree on, nothing counts as removed.
func mergeEntry(bases []tree, name string, a, b entry) version {
	base, known := baseOf(bases, name)
	switch {
	case a == b:
		return version{entry: a}
	case known && a == base:
		return version{entry: b}
	case known && b == base:
		return version{entry: a}
	case a == none:
		return version{entry: b, kept: known && base != none}
	case b == none:
		return version{entry: a, kept: known && base != none}
	case a.id == b.id: // only the mode differs
		return version{entry: entry{mode: modeProgram, id: a.id}}
	}
	return version{entry: a, torn: true}
}

// mergeTrees merges two trees file by file. Nothing is lost: of two versions that cannot be merged the second is
// kept under another name, and a file that one side removed and the other changed stays.
func (g *Graph) mergeTrees(ctx context.Context, bases []tree, one, other tree) (tree, []string, error) {
	whole := tree{}
	var torn, conflicts []string
	for _, p := range paths(one, other) {
		v := mergeEntry(bases, p, one[p], other[p])
		if v.entry != none {
			whole[p] = v.entry
		}
		if v.torn {
			torn = append(torn, p)
		}
		if v.kept {
			conflicts = append(conflicts, p)
		}
	}
	for _, p := range torn {
		made, err := g.mergeBlobs(ctx, p, bases, one[p], other[p])
		if err != nil {
			return nil, nil, err
		}
		if made != none {
			whole[p] = made
			continue
		}
		beside := besideIn(whole, p, other[p])
		whole[beside] = other[p]
		conflicts = append(conflicts, beside)
	}
	return whole, append(conflicts, whole.unfold()...), nil
}

// mergeBlobs merges two versions of a file, or says none when they contradict each other.
func (g *Graph) mergeBlobs(ctx context.Context, name string, bases []tree, a, b entry) (entry, error) {
	was, _ := baseOf(bases, name)
	base, err := g.blob(ctx, was)
	if err != nil {
		return none, err
	}
	one, err := g.blob(ctx, a)
	if err != nil {
		return none, err
	}
	other, err := g.blob(ctx, b)
	if err != nil {
		return none, err
	}
	whole, ok, err := g.mergeContent(ctx, name, base, one, other)
	if err != nil || !ok {
		return none, err
	}
	id, err := g.putBlob(ctx, bytes.NewReader(whole))
	return entry{mode: max(a.mode, b.mode), id: id}, err
}

// besideIn is a free name in t for a version of a file, or the name it already has there.
func besideIn(t tree, name string, e entry) string {
	return conflictPath(name, e.id, func(p string) bool { _, is := t[p]; return is && t[p].id != e.id })
}

// unfold gives files another name where the other side has a folder of that name.
func (t tree) unfold() (conflicts []string) {
	for _, p := range paths(t) {
		for i, c := range p {
			if c != '/' {
				continue
			}
			above := p[:i]
			if e, is := t[above]; is {
				delete(t, above)
				beside := besideIn(t, above, e)
				t[beside] = e
				conflicts = append(conflicts, beside)
			}
		}
	}
	return conflicts
}

// mergeContent merges two versions of a file. GraphFile is merged by what knows it, others line by line where
// what they came from is known.
func (g *Graph) mergeContent(ctx context.Context, name string, base, one, other []byte) (whole []byte, ok bool, err error) {
	if name == GraphFile && g.Merge != nil {
		whole, err = g.Merge(base, one, other)
		if err != nil {
			return nil, false, fmt.Errorf("merge %s: %w", name, err)
		}
		return whole, true, nil
	}
	if base == nil {
		return nil, false, nil
	}
	temp, err := scratch()
	if err != nil {
		return nil, false, td.Errorf(td.Storage, "merge %s: %w", name, err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	for file, content := range map[string][]byte{"one": one, "base": base, "other": other} {
		if err := os.WriteFile(filepath.Join(temp, file), content, 0o600); err != nil {
			return nil, false, td.Errorf(td.Storage, "merge %s: %w", name, err)
		}
	}
	whole, err = run(ctx, call{dir: temp, own: true, args: []string{"merge-file", "--stdout", "--quiet", "one", "base", "other"}})
	if exitCode(err) > 0 {
		return nil, false, nil // they contradict each other, or are no text
	}
	return whole, err == nil, err
}
