package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// What a search for repositories looks at, at most: it is made before every command. The rules on calls keep those
// that it does not reach.
const (
	nestedDepth   = 4
	nestedFolders = 150
	nestedEntries = 1000 // of one folder
)

// nestedRepos are the folders below a workspace that hold a .git, the nearest first. It does not look into those of skip.
func nestedRepos(workspace string, skip []string) (repos []string) {
	level, looked := []string{workspace}, 0
	for depth := 0; depth <= nestedDepth; depth++ {
		var below []string
		for _, dir := range level {
			if slices.Contains(skip, dir) {
				continue
			}
			if looked++; looked > nestedFolders {
				return repos
			}
			folders, repo := foldersOf(dir)
			if depth > 0 && repo {
				repos = append(repos, dir)
			}
			below = append(below, folders...)
		}
		level = below
	}
	return repos
}

// foldersOf are the folders in a folder, links left out: what they lead to is found where it is. Repo says that it
// holds a .git.
func foldersOf(dir string) (out []string, repo bool) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, exists(dir, ".git")
	}
	defer f.Close()
	entries, _ := f.ReadDir(nestedEntries) // what can be read is better than nothing
	for _, e := range entries {
		switch {
		case e.Name() == ".git":
			repo = true
		case e.IsDir():
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, repo || len(entries) == nestedEntries && exists(dir, ".git")
}

// repository is one in the workspace: where, and what is done about it.
type repository struct {
	dir  string
	plan gitPlan
}

// repositories are those that a command finds, that of the workspace itself first. What the profile seals as a whole
// needs nothing more.
func (p Profile) repositories() (repos []repository) {
	for i, dir := range append([]string{p.Workspace}, nestedRepos(p.Workspace, p.Seal)...) {
		plan := planGit(dir, i > 0)
		plan.note()
		repos = append(repos, repository{dir, plan})
	}
	return repos
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
