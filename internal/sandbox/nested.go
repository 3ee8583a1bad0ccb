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

// nestedRepos are the folders below a workspace that hold a .git, the nearest first.
func nestedRepos(workspace string) (repos []string) {
	level, looked := []string{workspace}, 0
	for depth := 0; depth <= nestedDepth; depth++ {
		var below []string
		for _, dir := range level {
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

// protect seals what a command must not change of these repositories, the first of which is that of the workspace
// itself: the others may vanish while this looks at them. The folders that lead to one are pinned: who can move them
// away can put others in their place.
func (p Profile) protect(repos []string) error {
	var pinned []string
	for i, repo := range repos {
		pins, sealed := gitProtected(repo)
		if i > 0 && len(sealed) > 0 {
			pins = append(slices.DeleteFunc(above(p.Workspace, []string{filepath.Join(repo, ".git")}), func(dir string) bool {
				return dir == p.Workspace || slices.Contains(pinned, dir)
			}), pins...)
			pinned = append(pinned, pins...)
		}
		err := sealAll(pins, sealed)
		if i > 0 && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func sealAll(pins, sealed []string) error {
	for _, path := range pins {
		if err := pin(path); err != nil {
			return err
		}
	}
	for _, path := range sealed {
		if err := seal(path); err != nil {
			return err
		}
	}
	return nil
}
