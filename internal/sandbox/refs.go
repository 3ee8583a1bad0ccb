package sandbox

import (
	"io/fs"
	"path/filepath"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
)

// Bounds of the references that the commands of a task leave among its own: every git that lists references reads them all.
const (
	mostRefs   = 200
	longestRef = 255
)

// boundRefs removes the references of a task but for the branch that is checked out, if there are too many of them or they have names that are too long.
func (p Profile) boundRefs() (removed []string) {
	own, common := gitWorktree(p.Workspace)
	if own == "" {
		return nil
	}
	on := strings.TrimSpace(strings.TrimPrefix(gitfile.Text(filepath.Join(own, "HEAD")), "ref: "))
	for _, ref := range p.Refs {
		folder, err := beneath.Open(filepath.Join(common, ref))
		if err != nil {
			continue
		}
		if crowdedRefs(folder, ref) {
			entries, _ := folder.ReadDir(".")
			for _, e := range entries {
				if name := ref + "/" + e.Name(); name != on && !strings.HasPrefix(on, name+"/") {
					removed = append(removed, remove(folder, e.Name())...)
				}
			}
		}
		_ = folder.Close()
	}
	return removed
}

// crowdedRefs reports whether a folder of references has too many, or one that is too long.
func crowdedRefs(folder *beneath.Folder, ref string) bool {
	seen, crowded := 0, false
	_ = folder.Walk(".", func(name string, _ fs.DirEntry, _ error) error {
		if seen++; seen > mostRefs || len(ref)+1+len(name) > longestRef {
			crowded = true
			return fs.SkipAll
		}
		return nil
	})
	return crowded
}
