package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"taskdaemon/internal/gitfile"
)

// What a search for repositories looks at, at most: it is made before every command. The rules on calls keep those
// that it does not reach.
const (
	nestedDepth   = 16
	nestedFolders = 150
	nestedEntries = 1000 // of one folder
)

// nestedRepos are the folders below a workspace that hold a .git or are a folder of git themselves, the nearest first. It does not look into those of skip, and into
// so many at most.
func nestedRepos(workspace string, skip []string, most int) []string {
	repos, _ := searchRepos(workspace, skip, most)
	return repos
}

// searchRepos is nestedRepos, and says whether it saw every folder that is not too deep.
func searchRepos(workspace string, skip []string, most int) (repos []string, whole bool) {
	return searchWith(workspace, skip, most, os.Open)
}

// searchWith is searchRepos by a way to open folders.
func searchWith(workspace string, skip []string, most int, open func(dir string) (*os.File, error)) (repos []string, whole bool) {
	level, looked := []string{workspace}, 0
	whole = true
	for depth := 0; depth <= nestedDepth; depth++ {
		var below []string
		for _, dir := range level {
			if slices.Contains(skip, dir) {
				continue
			}
			if looked++; looked > most {
				return repos, false
			}
			folders, repo, all := foldersOf(dir, open)
			if depth > 0 && repo {
				repos = append(repos, dir)
			}
			below, whole = append(below, folders...), whole && all
		}
		level = below
	}
	return repos, whole
}

// foldersOf are the folders in a folder, links left out: what they lead to is found where it is. Repo says that it
// holds a .git, and whole that all of it was read.
func foldersOf(dir string, open func(dir string) (*os.File, error)) (out []string, repo, whole bool) {
	f, err := open(dir)
	if err != nil {
		return nil, exists(dir, ".git"), errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	entries, err := f.ReadDir(nestedEntries) // what can be read is better than nothing
	head := false
	for _, e := range entries {
		switch {
		case e.Name() == ".git":
			repo = true
		case e.Name() == "HEAD":
			head = true
		case e.IsDir():
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	whole = len(entries) < nestedEntries && (err == nil || errors.Is(err, io.EOF))
	return out, repo || (head || !whole) && isGitFolder(dir) || !whole && exists(dir, ".git"), whole
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
func (p Profile) repositories() (repos []repository) {
	for i, dir := range append([]string{p.Workspace}, nestedRepos(p.Workspace, p.Seal, nestedFolders)...) {
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
