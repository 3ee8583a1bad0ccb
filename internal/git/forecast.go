package git

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// Clash is two of the heads that a Forecast was asked about, by the names they were given, whose work cannot be merged without a
// choice, and the files it is about.
type Clash struct {
	A, B  string // A comes first in the alphabet
	Files []string
}

// Forecast tells which commits will conflict when they are merged. It remembers what it has tried, so that asking again costs only
// the pairs that are new, and leaves nothing in the repository. It may be asked by many at once; they wait for one another.
type Forecast struct {
	repo string

	mu    sync.Mutex
	tried map[pair][]string // the files in conflict
}

// pair is two commits, the smaller one first: it does not matter which is merged into which.
type pair struct{ one, other string }

func pairOf(a, b string) pair {
	if b < a {
		a, b = b, a
	}
	return pair{a, b}
}

// NewForecast is for commits of the repository whose main checkout is repo.
func NewForecast(repo string) *Forecast {
	return &Forecast{repo: repo, tried: map[pair][]string{}}
}

// Clashes merges every two of the heads, commits by name, for a trial, and reports those that conflict, sorted. Pairs that are no longer asked
// about are forgotten.
func (f *Forecast) Clashes(ctx context.Context, heads map[string]string) ([]Clash, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(heads))
	for n := range heads {
		names = append(names, n)
	}
	slices.Sort(names)
	known, ask := map[pair][]string{}, []pair{}
	each := func(do func(a, b string, p pair)) {
		for i, a := range names {
			for _, b := range names[i+1:] {
				if heads[a] != heads[b] {
					do(a, b, pairOf(heads[a], heads[b]))
				}
			}
		}
	}
	each(func(_, _ string, p pair) {
		if _, twice := known[p]; twice {
			return
		}
		files, tried := f.tried[p]
		if known[p] = files; !tried {
			ask = append(ask, p)
		}
	})
	found, err := f.try(ctx, ask)
	if err != nil {
		return nil, err
	}
	for i, files := range found {
		known[ask[i]] = files
	}
	f.tried = known
	var clashes []Clash
	each(func(a, b string, p pair) {
		if len(known[p]) > 0 {
			clashes = append(clashes, Clash{A: a, B: b, Files: slices.Clone(known[p])})
		}
	})
	slices.SortFunc(clashes, func(x, y Clash) int { return cmp.Or(strings.Compare(x.A, y.A), strings.Compare(x.B, y.B)) })
	return clashes, nil
}

// try merges pairs with one git for all, whose objects go to a folder that is thrown away.
func (f *Forecast) try(ctx context.Context, pairs []pair) ([][]string, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	var in strings.Builder
	for _, p := range pairs {
		if strings.ContainsAny(p.one+p.other, " \n") || p.one == "" {
			return nil, td.Errorf(td.Invalid, "forecast: no commits are called %q and %q", p.one, p.other)
		}
		in.WriteString(p.one + " " + p.other + "\n")
	}
	objects, err := line(ctx, call{dir: f.repo, args: []string{"rev-parse", "--path-format=absolute", "--git-path", "objects"}})
	if err != nil {
		return nil, err
	}
	temp, err := scratch()
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	if err := os.Mkdir(filepath.Join(temp, "objects"), 0o700); err != nil {
		return nil, td.Errorf(td.Storage, "make temporary folder: %w", err)
	}
	out, err := run(ctx, call{
		dir: f.repo, set: []string{"core.compression=0", "core.fsync=none"}, stdin: strings.NewReader(in.String()),
		env:  []string{"GIT_OBJECT_DIRECTORY=" + filepath.Join(temp, "objects"), "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + gitfile.QuoteAlternate(objects)},
		args: []string{"merge-tree", "--write-tree", "--stdin", "--name-only", "--no-messages", "--allow-unrelated-histories"},
	})
	if err != nil {
		return nil, err
	}
	found, ok := parseMerges(string(out))
	if !ok || len(found) != len(pairs) {
		return nil, td.Errorf(td.Internal, "forecast: git said %.100q of %d pairs", out, len(pairs))
	}
	return found, nil
}

// parseMerges reads `git merge-tree --write-tree --stdin --name-only --no-messages`: of each merge whether it was clean, its tree and the
// files in conflict, then nothing.
func parseMerges(out string) (found [][]string, ok bool) {
	for out != "" {
		var clean, name string
		if clean, out, ok = strings.Cut(out, "\x00"); !ok || clean != "0" && clean != "1" {
			return nil, false
		}
		if name, out, ok = strings.Cut(out, "\x00"); !ok || name == "" {
			return nil, false
		}
		var files []string
		for {
			if name, out, ok = strings.Cut(out, "\x00"); !ok {
				return nil, false
			}
			if name == "" {
				break
			}
			files = append(files, name)
		}
		if (clean == "1") != (len(files) == 0) {
			return nil, false
		}
		slices.Sort(files)
		found = append(found, slices.Compact(files))
	}
	return found, true
}
