package git

import (
	"context"
	"slices"
	"strconv"
	"strings"
)

// Lineage is how some commits descend from each other and from a base, as far as the base does not have them. It is asked of git at once, where each question by itself would be a
// git of its own.
type Lineage struct {
	base    string
	asked   []string            // commits that it was made for: of those the base has what is not in parents
	parents map[string][]string // of commits that the base does not have
}

// mostKin is how many commits a lineage has that its base does not have. Beyond that it knows nothing.
const mostKin = 10_000

// NewLineage is one of commits whose parents are known.
func NewLineage(base string, asked []string, parents map[string][]string) *Lineage {
	return &Lineage{base: base, asked: asked, parents: parents}
}

// LineageOf reads how commits of a repository descend from each other and from a base.
func LineageOf(ctx context.Context, repo, base string, commits ...string) (*Lineage, error) {
	args := append([]string{"rev-list", "--parents", "--max-count=" + strconv.Itoa(mostKin), "--end-of-options"}, commits...)
	out, err := run(ctx, call{dir: repo, args: append(args, "^"+base, "--")})
	if err != nil {
		return nil, err
	}
	parents := map[string][]string{}
	for l := range strings.Lines(string(out)) {
		if ids := strings.Fields(l); len(ids) > 0 {
			parents[ids[0]] = ids[1:]
		}
	}
	if len(parents) >= mostKin {
		return NewLineage("", nil, nil), nil
	}
	return NewLineage(base, commits, parents), nil
}

// Add takes in a commit that was made since.
func (l *Lineage) Add(commit string, parents ...string) {
	if l.parents != nil {
		l.parents[commit] = parents
	}
}

// Contains reports whether young is old or has it among its ancestors; known is false when git has to be asked.
func (l *Lineage) Contains(young, old string) (is, known bool) {
	if young == old {
		return true, true
	}
	_, newer := l.parents[young]
	_, isNewer := l.parents[old]
	switch {
	case !newer && !l.inBase(young), !isNewer && !l.inBase(old):
		return false, false // not asked for
	case isNewer || old == l.base:
		// Nothing that the base has descends from what it has not, nor from the base; and between two others there is nothing that it has.
		return newer && l.reaches(young, old), true
	case young == l.base:
		return true, true
	default:
		is = newer && l.reaches(young, l.base)
		return is, is
	}
}

// inBase reports whether the base is known to have a commit.
func (l *Lineage) inBase(commit string) bool {
	_, newer := l.parents[commit]
	return commit != "" && !newer && (commit == l.base || slices.Contains(l.asked, commit))
}

// reaches reports whether a commit is among the ancestors of another, through commits that the base does not have.
func (l *Lineage) reaches(from, to string) bool {
	seen := map[string]bool{from: true}
	for todo := []string{from}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range l.parents[at] {
			if p == to {
				return true
			}
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	return false
}
