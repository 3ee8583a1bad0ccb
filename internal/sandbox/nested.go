package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/gitfile"
)

// What a search for repositories looks at, at most, of what no command has just changed: it is made before every command. How deep something lies does not count. The
// rules on calls keep those that it does not reach.
const (
	nestedFolders = 150
	nestedEntries = 1000 // of one folder
)

// search looks for repositories below a workspace: the folders that hold a .git or are a folder of git themselves, the nearest first. Links are followed as far as they stay in the
// workspace: what they lead to is as near as they are.
type search struct {
	workspace string
	skip      []string // folders that it does not look into
	most      int      // how many folders and links it looks at
	// since is when a command began. What has changed since then is looked at in any case, for as long as e lasts: a command can make any number of folders. Zero: nothing has.
	since int64
	e     *effort
	known *familiar // what earlier searches saw; nil: nothing
	open  func(dir string) (*os.File, error)
	link  func(at string, leads gitfile.Way) // is told of links
}

// nested are the repositories that are found before a command.
type nested struct {
	repos []string // the nearest first
	near  int      // how many of them are among the first folders, nestedFolders of them
	whole bool     // every folder was seen
}

// searchRepos looks for repositories before a command.
func searchRepos(workspace string, skip []string, known *familiar) nested {
	return search{workspace: workspace, skip: skip, most: lookedFolders, known: known, open: os.Open, link: func(string, gitfile.Way) {}}.run()
}

// run is the search.
func (s search) run() (found nested) {
	looked, seen := 0, map[string]bool{}
	// counts reports whether something is to be looked at.
	counts := func(st *unix.Stat_t) bool {
		if s.changed(st) {
			return s.e.enough() == nil
		}
		looked++
		return looked <= s.most
	}
	found.whole = true
	for level := []string{s.workspace}; len(level) > 0; {
		var below []string
		for _, dir := range level {
			if seen[dir] || covered(dir, s.skip) {
				continue
			}
			at := stateAt(dir)
			if seen[dir] = true; !counts(at) {
				found.whole = false
				continue
			}
			in := s.foldersOf(dir, at)
			if in.repo && dir != s.workspace {
				if found.repos = append(found.repos, dir); looked <= nestedFolders {
					found.near = len(found.repos)
				}
			}
			below, found.whole = append(below, in.folders...), found.whole && in.whole
			for _, link := range in.links {
				if !counts(stateAt(link)) {
					found.whole = false
					continue
				}
				leads := gitfile.WayOf(link)
				s.link(link, leads)
				if leads.There && isDir(leads.End) && covered(leads.End, []string{s.workspace}) {
					below = append(below, leads.End)
				}
			}
		}
		level = below
	}
	return found
}

// changed reports whether the command made or changed something: nobody can set back when the kernel says that it was.
func (s search) changed(at *unix.Stat_t) bool {
	return s.since != 0 && at != nil && at.Ctim.Nano() >= s.since
}

// stateAt is what the kernel says of a path itself; nil: there is nothing.
func stateAt(path string) *unix.Stat_t {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return nil
	}
	return &st
}

// found is what a search finds in a folder.
type found struct {
	folders, links []string
	repo           bool // it is a repository, or has one
	whole          bool // all of it was read
}

func (s search) foldersOf(dir string, at *unix.Stat_t) (in found) {
	if in, is := s.known.recall(dir, at); is {
		return in
	}
	f, err := s.open(dir)
	if err != nil {
		return found{repo: exists(dir, ".git"), whole: errors.Is(err, fs.ErrNotExist)}
	}
	defer f.Close()
	is, plain := s.known.begin(f)
	head := false
	for {
		entries, err := f.ReadDir(nestedEntries) // what can be read is better than nothing
		for _, e := range entries {
			switch {
			case e.Name() == ".git":
				in.repo = true
			case e.Name() == "HEAD":
				head = true
			case e.IsDir():
				in.folders = append(in.folders, filepath.Join(dir, e.Name()))
			case e.Type()&fs.ModeSymlink != 0:
				in.links = append(in.links, filepath.Join(dir, e.Name()))
			case !e.Type().IsRegular():
				plain = false
			}
		}
		in.whole = errors.Is(err, io.EOF) || err == nil && len(entries) < nestedEntries
		if err != nil || in.whole || !s.changed(at) || s.e.enough() != nil {
			break
		}
	}
	in.repo = in.repo || (head || !in.whole) && isGitFolder(dir) || !in.whole && exists(dir, ".git")
	if plain && in.whole && !in.repo && !head {
		s.known.remember(dir, is, in)
	}
	return in
}

// isGitFolder reports whether git would take a folder for a repository without a checkout.
func isGitFolder(dir string) bool {
	return gitfile.Resembles(func(name string) bool { return exists(dir, name) })
}

// repository is one in the workspace: where, and what is done about it.
type repository struct {
	dir  string
	plan gitPlan
}

// repositories are those that a command finds, that of the workspace itself first. What the profile seals as a whole
// needs nothing more.
func (p Profile) repositories(found nested) (repos []repository) {
	for i, dir := range append([]string{p.Workspace}, found.repos[:found.near]...) {
		plan := planGit(dir, i > 0, p.GitReadOnly())
		plan.note()
		repos = append(repos, repository{dir, plan})
	}
	return repos
}

// closeRepositories lets go of the folders of repositories.
func closeRepositories(repos []repository) {
	for _, s := range stores(repos) {
		s.close()
	}
	for _, repo := range repos {
		for _, dir := range repo.plan.dirs {
			_ = dir.folder.Close()
		}
		for _, shared := range repo.plan.shared {
			_ = shared.folder.Close()
		}
	}
}

// protect seals what a command must not change of these repositories, the first of which is that of the workspace
// itself: the others may vanish while this looks at them. The folders that lead to one are pinned: who can move them
// away can put others in their place.
func (p Profile) protect(repos []repository) error {
	var pinned []string
	for i, repo := range repos {
		err := p.lead(&pinned, repo, i > 0)
		if err == nil {
			err = repo.plan.seal()
		}
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lead pins the folders that lead to a nested repository, each once.
func (p Profile) lead(pinned *[]string, repo repository, nested bool) error {
	if !nested || len(repo.plan.dirs)+len(repo.plan.sealed) == 0 {
		return nil
	}
	for _, dir := range above(p.Workspace, []string{filepath.Join(repo.dir, ".git")}) {
		if dir == p.Workspace || slices.Contains(*pinned, dir) {
			continue
		}
		if err := pin(dir); err != nil {
			return err
		}
		*pinned = append(*pinned, dir)
	}
	return nil
}
