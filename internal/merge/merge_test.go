package merge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

// repo is a repository in memory: a commit has files and parents, and two commits conflict in the files that both
// changed since the files they share.
type repo struct {
	commits     map[string]commit
	into, trunk string
	moves       []string
	interfere   func() // before the branch is moved
	withdrawn   map[string]bool
}

type commit struct {
	parents []string
	files   map[string]string
}

func newRepo() *repo {
	r := &repo{commits: map[string]commit{}}
	r.trunk = r.add(map[string]string{"base": "0"})
	return r
}

func (r *repo) add(files map[string]string, parents ...string) string {
	id := fmt.Sprintf("c%d", len(r.commits))
	r.commits[id] = commit{parents, files}
	return id
}

// change is a commit on top of another with these files set.
func (r *repo) change(on string, files ...string) string {
	next := maps.Clone(r.commits[on].files)
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		next[name] = text
	}
	return r.add(next, on)
}

func (r *repo) history(id string) map[string]bool {
	seen := map[string]bool{}
	for next := []string{id}; len(next) > 0; next = next[1:] {
		if !seen[next[0]] {
			seen[next[0]] = true
			next = append(next, r.commits[next[0]].parents...)
		}
	}
	return seen
}

func (r *repo) Heads(context.Context) (string, string, error) { return r.into, r.trunk, nil }
func (r *repo) Contains(_ context.Context, young, old string) (bool, error) {
	return r.history(young)[old], nil
}

func (r *repo) Tree(_ context.Context, id string) (string, error) {
	return fmt.Sprint(r.commits[id].files), nil
}

func (r *repo) Join(_ context.Context, ours, theirs, _ string) (string, []string, error) {
	shared := r.history(ours)
	maps.DeleteFunc(shared, func(id string, _ bool) bool { return !r.history(theirs)[id] })
	base, newest := commit{}, -1
	for id := range shared {
		var n int
		_, _ = fmt.Sscanf(id, "c%d", &n)
		if n > newest {
			base, newest = r.commits[id], n
		}
	}
	a, b := r.commits[ours].files, r.commits[theirs].files
	files := maps.Clone(a)
	var conflicts []string
	for name, text := range b {
		switch {
		case text == base.files[name] || text == a[name]:
		case a[name] == base.files[name]:
			files[name] = text
		default:
			conflicts = append(conflicts, name)
		}
	}
	if slices.Sort(conflicts); len(conflicts) > 0 {
		return "", conflicts, nil
	}
	return r.add(files, ours, theirs), nil, nil
}

func (r *repo) Reserved(_ context.Context, from, to string, _ Work) (files []Reserved, _ error) {
	was, had := r.commits[from].files["rules"]
	if is := r.commits[to].files["rules"]; is != was {
		files = append(files, Reserved{Path: "rules", New: !had})
	}
	return files, nil
}

func (r *repo) Withdrawn(_ context.Context, w Work) (bool, error) { return r.withdrawn[w.Handle], nil }

func (r *repo) Move(_ context.Context, to, from string, works []Work) error {
	if f := r.interfere; f != nil {
		r.interfere = nil
		f()
	}
	for _, w := range works {
		if r.withdrawn[w.Handle] {
			return td.Errorf(td.Conflict, "%s was withdrawn", w.Handle)
		}
	}
	if r.into != from {
		return td.Errorf(td.Conflict, "it is at %q", r.into)
	}
	r.into = to
	r.moves = append(r.moves, to)
	return nil
}

// passing is a check that fails when a file says "bad", or when two files do that are bad only together.
func (r *repo) passing(runs *int) Check {
	return func(_ context.Context, id string, _ []Work) (string, error) {
		*runs++
		return r.wrong(id), nil
	}
}

func (r *repo) wrong(id string) string {
	files := r.commits[id].files
	for name, text := range files {
		if text == "bad" {
			return name + " is bad"
		}
	}
	if files["left"] == "half" && files["right"] == "half" {
		return "left and right do not go together"
	}
	return ""
}

func (r *repo) work(handle, commit string) Work {
	return Work{Task: td.TaskID(handle), Handle: handle, Title: handle, Commit: commit, Check: "check"}
}

func TestMerge(t *testing.T) {
	const into = "taskdaemon/into/main"
	for _, tc := range []struct {
		name   string
		prep   func(r *repo) (Work, []Work)
		want   Result
		beside []td.TaskID
		runs   int
		files  string // of the branch afterwards
	}{
		{
			name: "alone it is a fast-forward, and is checked: its validator saw it where its agent works",
			prep: func(r *repo) (Work, []Work) { return r.work("a", r.change(r.trunk, "x=1")), nil },
			runs: 1, files: "map[base:0 x:1]",
		},
		{
			name: "what was merged meanwhile makes another tree, which is checked",
			prep: func(r *repo) (Work, []Work) {
				w := r.work("a", r.change(r.trunk, "x=1"))
				r.into = r.change(r.trunk, "y=1")
				return w, nil
			},
			runs: 1, files: "map[base:0 x:1 y:1]",
		},
		{
			name: "the trunk comes in first",
			prep: func(r *repo) (Work, []Work) {
				w := r.work("a", r.change(r.trunk, "x=1"))
				r.into = r.change(r.trunk, "y=1")
				r.trunk = r.change(r.trunk, "z=1")
				return w, nil
			},
			runs: 1, files: "map[base:0 x:1 y:1 z:1]",
		},
		{
			name: "a conflict merges nothing and names the files",
			prep: func(r *repo) (Work, []Work) {
				w := r.work("a", r.change(r.trunk, "x=1", "base=1"))
				r.into = r.change(r.trunk, "base=2")
				return w, nil
			},
			want: Result{Conflicts: []string{"base"}, With: "what was merged meanwhile"}, files: "map[base:2]",
		},
		{
			name: "a conflict with the trunk is told apart",
			prep: func(r *repo) (Work, []Work) {
				w := r.work("a", r.change(r.trunk, "x=1"))
				r.into, r.trunk = r.change(r.trunk, "base=2"), r.change(r.trunk, "base=3")
				return w, nil
			},
			want: Result{Conflicts: []string{"base"}, With: "the trunk: the integration branch itself conflicts with it", Trunk: true}, files: "map[base:2]",
		},
		{
			name: "whoever conflicts with what the trunk alone has is told so",
			prep: func(r *repo) (Work, []Work) {
				w := r.work("a", r.change(r.trunk, "base=1"))
				r.into, r.trunk = r.change(r.trunk, "x=2"), r.change(r.trunk, "base=3")
				return w, nil
			},
			want: Result{Conflicts: []string{"base"}, With: "what was merged meanwhile", Trunk: true}, files: "map[base:0 x:2]",
		},
		{
			name: "work that brings trunk and integration branch together is merged as it is",
			prep: func(r *repo) (Work, []Work) {
				r.into, r.trunk = r.change(r.trunk, "base=2"), r.change(r.trunk, "base=3")
				return r.work("a", r.add(map[string]string{"base": "2 and 3", "x": "1"}, r.into, r.trunk)), nil
			},
			runs: 1, files: "map[base:2 and 3 x:1]",
		},
		{
			name: "what does not pass is not merged",
			prep: func(r *repo) (Work, []Work) { return r.work("a", r.change(r.trunk, "x=bad")), nil },
			want: Result{Failed: "x is bad"}, runs: 1, files: "map[]",
		},
		{
			name: "those that wait go with it, but for one that conflicts",
			prep: func(r *repo) (Work, []Work) {
				return r.work("a", r.change(r.trunk, "x=1")), []Work{
					r.work("b", r.change(r.trunk, "y=1")), r.work("c", r.change(r.trunk, "x=2")), r.work("d", r.change(r.trunk, "z=1")),
				}
			},
			beside: []td.TaskID{"b", "d"}, runs: 1, files: "map[base:0 x:1 y:1 z:1]",
		},
		{
			name: "a batch that does not pass is halved",
			prep: func(r *repo) (Work, []Work) {
				return r.work("a", r.change(r.trunk, "left=half")), []Work{
					r.work("b", r.change(r.trunk, "y=1")), r.work("c", r.change(r.trunk, "right=half")), r.work("d", r.change(r.trunk, "z=1")),
				}
			},
			beside: []td.TaskID{"b"}, runs: 2, files: "map[base:0 left:half y:1]",
		},
		{
			name: "one that is in already is not merged twice",
			prep: func(r *repo) (Work, []Work) {
				w := r.work("a", r.change(r.trunk, "x=1"))
				r.into = r.change(w.Commit, "y=1")
				return w, nil
			},
			files: "map[base:0 x:1 y:1]",
		},
		{
			name: "nor after the trunk went on",
			prep: func(r *repo) (Work, []Work) {
				w := r.work("a", r.change(r.trunk, "x=1"))
				r.into = w.Commit
				r.trunk = r.change(r.trunk, "y=1")
				return w, nil
			},
			files: "map[base:0 x:1]",
		},
		{
			name: "nor if the trunk conflicts by now",
			prep: func(r *repo) (Work, []Work) {
				w := r.work("a", r.change(r.trunk, "x=1"))
				r.into = w.Commit
				r.trunk = r.change(r.trunk, "x=2")
				return w, nil
			},
			files: "map[base:0 x:1]",
		},
		{
			name: "a branch that moves meanwhile is looked at again",
			prep: func(r *repo) (Work, []Work) {
				r.interfere = func() { r.into = r.change(r.trunk, "by=hand") }
				return r.work("a", r.change(r.trunk, "x=1")), nil
			},
			runs: 2, files: "map[base:0 by:hand x:1]",
		},
		{
			name: "who was cancelled is not taken along",
			prep: func(r *repo) (Work, []Work) {
				r.withdrawn = map[string]bool{"b": true}
				return r.work("a", r.change(r.trunk, "x=1")), []Work{r.work("b", r.change(r.trunk, "y=1")), r.work("c", r.change(r.trunk, "z=1"))}
			},
			beside: []td.TaskID{"c"}, runs: 1, files: "map[base:0 x:1 z:1]",
		},
		{
			name: "nor who is cancelled at the last moment",
			prep: func(r *repo) (Work, []Work) {
				r.interfere = func() { r.withdrawn = map[string]bool{"b": true} }
				return r.work("a", r.change(r.trunk, "x=1")), []Work{r.work("b", r.change(r.trunk, "y=1")), r.work("c", r.change(r.trunk, "z=1"))}
			},
			beside: []td.TaskID{"c"}, runs: 2, files: "map[base:0 x:1 z:1]",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRepo()
			own, beside := tc.prep(r)
			runs := 0
			got, err := Merge(t.Context(), r, into, own, beside, r.passing(&runs))
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(got.Conflicts, got.With, got.Trunk, got.Failed) != fmt.Sprint(tc.want.Conflicts, tc.want.With, tc.want.Trunk, tc.want.Failed) {
				t.Errorf("result %+v, want %+v", got, tc.want)
			}
			if !slices.Equal(got.Beside, tc.beside) || runs != tc.runs {
				t.Errorf("beside %v after %d checks, want %v after %d", got.Beside, runs, tc.beside, tc.runs)
			}
			if files := fmt.Sprint(r.commits[r.into].files); files != tc.files {
				t.Errorf("the branch holds %s, want %s", files, tc.files)
			}
			if got.Failed == "" && len(got.Conflicts) == 0 && (got.Into != into || got.Commit != r.into) {
				t.Errorf("it says %s is at %s, which is at %s", got.Into, got.Commit, r.into)
			}
		})
	}
}

// Whatever is merged in whatever order, the branch only ever goes to what passes and builds on where it was, and holds
// what was said to be merged.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRepo()
		said := map[td.TaskID]string{}
		var works []Work
		texts := []string{"1", "2", "bad", "half"}
		for i := range rapid.IntRange(1, 8).Draw(t, "works") {
			on := r.trunk
			if r.into != "" && rapid.Bool().Draw(t, "from what is merged") {
				on = r.into
			}
			file := rapid.SampledFrom([]string{"left", "right", "x", "y", fmt.Sprint("own", i)}).Draw(t, "file")
			works = append(works, r.work(fmt.Sprint("t", i), r.change(on, file+"="+rapid.SampledFrom(texts).Draw(t, "text"))))
		}
		for len(works) > 0 {
			if rapid.IntRange(0, 4).Draw(t, "trunk moves") == 0 {
				r.trunk = r.change(r.trunk, "base="+rapid.SampledFrom(texts[:2]).Draw(t, "trunk"))
			}
			before, runs := r.into, 0
			got, err := Merge(context.Background(), r, "into", works[0], works[1:], r.passing(&runs))
			if err != nil {
				t.Fatal(err)
			}
			if runs > 5 {
				t.Fatalf("%d checks for %d works", runs, len(works))
			}
			if before != "" && !r.history(r.into)[before] {
				t.Fatalf("the branch went from %s to %s, which does not build on it", before, r.into)
			}
			if r.into != before && r.wrong(r.into) != "" {
				t.Fatalf("the branch holds what does not pass: %s", r.wrong(r.into))
			}
			if got.Failed == "" && len(got.Conflicts) == 0 {
				said[works[0].Task] = works[0].Commit
				for _, id := range got.Beside {
					said[id] = works[slices.IndexFunc(works, func(w Work) bool { return w.Task == id })].Commit
				}
			} else if r.into != before {
				t.Fatalf("%+v, and yet the branch moved", got)
			}
			works = slices.DeleteFunc(works[1:], func(w Work) bool { return said[w.Task] != "" })
		}
		for id, c := range said {
			if r.into != "" && !r.history(r.into)[c] && !r.history(r.trunk)[c] {
				t.Fatalf("%s was said to be merged and is not", id)
			}
		}
	})
}

// Work that a person merged into the trunk by hand is in, and where it is said to be is a commit of that branch.
func TestMergedByHand(t *testing.T) {
	for name, other := range map[string]string{"beside other work": "y=1", "which conflicts": "x=2"} {
		t.Run(name, func(t *testing.T) {
			r, runs := newRepo(), 0
			own := r.work("a", r.change(r.trunk, "x=1"))
			into := r.change(r.trunk, other)
			r.into, r.trunk = into, r.change(own.Commit, "z=1")
			got, err := Merge(t.Context(), r, "into", own, nil, r.passing(&runs))
			if err != nil || got.Commit != r.trunk || len(got.Conflicts) > 0 || r.into != into || runs > 0 {
				t.Errorf("%+v, %v, after %d checks; the trunk is at %s", got, err, runs, r.trunk)
			}
		})
	}
}

func TestCatchUp(t *testing.T) {
	for _, tc := range []struct {
		name  string
		prep  func(r *repo) Work
		want  Result
		runs  int
		files string // of the branch afterwards
	}{
		{
			name: "a trunk that went on is brought in, and checked",
			prep: func(r *repo) Work {
				r.into = r.change(r.trunk, "x=1")
				r.trunk = r.change(r.trunk, "mine=1")
				return r.work("a", r.into)
			},
			runs: 1, files: "map[base:0 mine:1 x:1]",
		},
		{
			name: "one that is in it already is not",
			prep: func(r *repo) Work {
				r.into = r.change(r.trunk, "x=1")
				return r.work("a", r.into)
			},
			files: "map[base:0 x:1]",
		},
		{
			name: "a conflict leaves the branch alone",
			prep: func(r *repo) Work {
				r.into = r.change(r.trunk, "x=1")
				r.trunk = r.change(r.trunk, "x=2")
				return r.work("a", r.into)
			},
			want: Result{Conflicts: []string{"x"}}, files: "map[base:0 x:1]",
		},
		{
			name: "so does what does not pass",
			prep: func(r *repo) Work {
				r.into = r.change(r.trunk, "left=half")
				r.trunk = r.change(r.trunk, "right=half")
				return r.work("a", r.into)
			},
			want: Result{Failed: "left and right do not go together"}, runs: 1, files: "map[base:0 left:half]",
		},
		{
			name: "a branch that moves meanwhile is looked at again",
			prep: func(r *repo) Work {
				r.into = r.change(r.trunk, "x=1")
				r.trunk = r.change(r.trunk, "mine=1")
				r.interfere = func() { r.into = r.change(r.into, "y=1") }
				return r.work("a", r.into)
			},
			runs: 2, files: "map[base:0 mine:1 x:1 y:1]",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, runs := newRepo(), 0
			own := tc.prep(r)
			res, err := CatchUp(t.Context(), r, []Work{own}, r.passing(&runs))
			if err != nil || !slices.Equal(res.Conflicts, tc.want.Conflicts) || res.Failed != tc.want.Failed || runs != tc.runs {
				t.Errorf("%+v, %v, after %d checks", res, err, runs)
			}
			if got := fmt.Sprint(r.commits[r.into].files); got != tc.files {
				t.Errorf("it holds %s", got)
			}
		})
	}
}

// Work that changes the project's rules is not merged, whether it is the own one, waits beside it, or hides the change behind newer rules of the trunk.
func TestReservedIsNotMerged(t *testing.T) {
	r := newRepo()
	r.trunk = r.change(r.trunk, "rules=strict")
	runs := 0
	loose := Work{Handle: "t-1", Commit: r.change(r.trunk, "rules=loose", "a=1")}
	res, err := Merge(t.Context(), r, "into", loose, nil, r.passing(&runs))
	if err != nil || !slices.Equal(res.Reserved, []Reserved{{Path: "rules"}}) || len(r.moves) > 0 {
		t.Errorf("merged %+v, moves %v, err %v", res, r.moves, err)
	}
	good := Work{Handle: "t-2", Commit: r.change(r.trunk, "b=1")}
	res, err = Merge(t.Context(), r, "into", good, []Work{loose}, r.passing(&runs))
	if err != nil || len(res.Beside) > 0 || r.commits[r.into].files["rules"] != "strict" || r.commits[r.into].files["b"] != "1" {
		t.Errorf("merged %+v, branch %v, err %v", res, r.commits[r.into].files, err)
	}

	// The trunk got stricter since; work that has both in it says what the branch says.
	r.trunk = r.change(r.trunk, "rules=stricter")
	both := r.add(map[string]string{"rules": "strict", "b": "1", "c": "1"}, r.into, r.trunk)
	res, err = Merge(t.Context(), r, "into", Work{Handle: "t-3", Commit: both}, nil, r.passing(&runs))
	if err != nil || len(res.Reserved) != 1 {
		t.Errorf("merged %+v, err %v", res, err)
	}
	both = r.add(map[string]string{"rules": "stricter", "b": "1", "c": "1"}, r.into, r.trunk)
	res, err = Merge(t.Context(), r, "into", Work{Handle: "t-3", Commit: both}, nil, r.passing(&runs))
	if err != nil || len(res.Reserved) > 0 || r.into != both {
		t.Errorf("merged %+v, err %v", res, err)
	}
}
