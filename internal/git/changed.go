package git

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// Changed are the files that differ between two commits of a repository, in its order; a file that moved is there by both
// its names.
func Changed(ctx context.Context, repo, from, to string) ([]string, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--end-of-options", from, to}})
	if err != nil {
		return nil, err
	}
	var files []string
	for f := range strings.SplitSeq(string(out), "\x00") {
		if f != "" {
			files = append(files, f)
		}
	}
	return files, nil
}

// Difference is a file, or a folder, that two commits do not have alike.
type Difference struct {
	Path  string
	Added bool // the first commit has no such file
}

// Notable is what differs between two commits and is looked at before work is merged.
type Notable struct {
	Files        []Difference // of one name, in whatever folder, in content or kind
	Repositories []Difference // folders of the second commit that git would take for repositories, if anything in them differs
	Links        []Difference // commits of other repositories
	Steering     []Difference // what a person's git runs or obeys by its settings: see Steering
	Removed      []string     // files that only the first has
	all          []difference
}

// Every is all that differs.
func (n Notable) Every() []Difference {
	out := make([]Difference, len(n.all))
	for i, d := range n.all {
		out[i] = Difference{Path: d.path, Added: d.was == none}
	}
	return out
}

// Differing compares two commits. name is that of the files to look for, repo the top of the main checkout.
func Differing(ctx context.Context, repo, from, to, name string) (n Notable, err error) {
	out, err := run(ctx, call{dir: repo, args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", from, to}})
	if err != nil {
		return Notable{}, err
	}
	var ok bool
	if n.all, ok = parseRaw(string(out)); !ok {
		return Notable{}, td.Errorf(td.Internal, "compare commits: git said %.100q", out)
	}
	folders := map[string]bool{}
	for _, d := range n.all {
		if slices.Contains(strings.Split(d.path, "/"), name) { // a folder of that name is not what it should be, either
			n.Files = append(n.Files, Difference{Path: d.path, Added: d.was == none})
		}
		switch {
		case d.is.mode == modeLink:
			n.Links = append(n.Links, Difference{Path: d.path, Added: d.was == none})
		case d.is == none:
			n.Removed = append(n.Removed, d.path)
		}
		for dir := path.Dir(d.path); !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(folders)), foldersAtOnce) {
		found, err := repositoriesIn(ctx, repo, to, some)
		if err != nil {
			return Notable{}, err
		}
		for _, dir := range found {
			was, err := run(ctx, call{dir: repo, args: []string{"ls-tree", "-z", "--full-tree", "--name-only", from, "--", ":(top,literal)" + dir}})
			if err != nil {
				return Notable{}, err
			}
			n.Repositories = append(n.Repositories, Difference{Path: dir, Added: len(was) == 0 && dir != "."})
		}
	}
	common, err := sharedBy(repo)
	if err != nil {
		return Notable{}, err
	}
	n.Steering, err = steered(ctx, repo, common, to, n.all)
	return n, err
}

// Untakable is what keeps a checkout from taking the files of a commit now: see FastForward.
type Untakable struct {
	Top     string   // of the checkout
	Folders []string // that files would come into and that git knows nothing of, or that are taskdaemon's
	Files   []string // that git does not know, where it is to write others, or links on the way there
}

// UntakableOf is what the checkout that a branch is checked out in cannot take of what differs from the commit from. repo is the top of the main checkout.
func UntakableOf(ctx context.Context, repo, branch, from string, n Notable) (u Untakable, err error) {
	for _, d := range n.all {
		if d.is == none {
			continue
		}
		if top := closedTop(d.path); top != "" {
			return Untakable{Top: repo, Folders: []string{top}}, nil
		}
	}
	seat, err := seatIn(ctx, repo, branch)
	if err != nil || seat == nil {
		return Untakable{}, err
	}
	u.Top = seat.top
	if u.Folders, err = seat.foreign(ctx, from, n.all); err != nil {
		return Untakable{}, err
	}
	u.Files, err = seat.inTheWay(n.all)
	slices.Sort(u.Files)
	u.Files = slices.Compact(u.Files)
	u.Files = slices.DeleteFunc(u.Files, func(file string) bool {
		return slices.ContainsFunc(u.Folders, func(folder string) bool { return covers(file, folder) })
	})
	return u, err
}

// CheckoutOf is the top of the checkout that has a branch checked out; empty if there is none, or one that nobody can update now. repo is the top of the main checkout.
func CheckoutOf(ctx context.Context, repo, branch string) (string, error) {
	seat, err := seatIn(ctx, repo, branch)
	if err != nil || seat == nil {
		return "", err
	}
	return seat.top, nil
}

// seatIn is seatOf, nil also where that refuses. For the main checkout no git is asked.
func seatIn(ctx context.Context, repo, branch string) (*place, error) {
	common, err := sharedBy(repo)
	if err != nil {
		return nil, err
	}
	ref := "refs/heads/" + branch
	if textOf(filepath.Join(common, "HEAD")) == "ref: "+ref {
		return &place{repo: repo, top: repo, git: common, common: common, ref: ref}, nil
	}
	seat, err := seatOf(ctx, repo, common, ref)
	if td.IsKind(err, td.Refused) {
		return nil, nil
	}
	return seat, err
}

// foldersAtOnce is of how many folders git is asked in one call: the arguments of one have a limit.
const foldersAtOnce = 50

// repositoriesIn are those of a commit's folders that git would take for repositories by the names in them.
func repositoriesIn(ctx context.Context, repo, commit string, folders []string) (found []string, err error) {
	args := []string{"ls-tree", "-t", "-z", "--full-tree", "--name-only", commit, "--"} // -t: also those folders that it goes into
	for _, dir := range folders {
		for _, name := range gitfile.RepositoryNames {
			args = append(args, ":(top,literal)"+path.Join(dir, name))
		}
	}
	out, err := run(ctx, call{dir: repo, args: args})
	if err != nil || len(out) == 0 {
		return nil, err
	}
	there := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		there[name] = true
	}
	for _, dir := range folders {
		has := func(name string) bool { return there[path.Join(dir, name)] }
		if gitfile.Resembles(has) {
			found = append(found, dir)
		}
	}
	return found, nil
}

// TreeOf is the tree of a commit.
func TreeOf(ctx context.Context, repo, commit string) (string, error) {
	return line(ctx, call{dir: repo, args: []string{"rev-parse", "--verify", "--end-of-options", commit + "^{tree}"}})
}
