package git

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"taskdaemon/internal/gitfile"
)

// Demands are what a commit that a person makes in a repository goes through. Commits of ours go through none of it: no program that
// a repository names is run.
type Demands struct {
	Hooks  []string // those that can refuse or change a commit
	Signed bool
}

// commitHooks are the hooks that can refuse or change a commit on a branch. Those that are merely told of it are left out.
var commitHooks = []string{"pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "reference-transaction"}

// DemandsOf are those of the repository around dir.
func DemandsOf(ctx context.Context, dir string) (Demands, error) {
	root, common, err := mainCheckout(ctx, dir)
	if err != nil {
		return Demands{}, err
	}
	said, err := configs.of(ctx, site{top: root, git: common, common: common})
	if err != nil {
		return Demands{}, err
	}
	signed := said.isTrue("commit.gpgsign")
	for _, one := range said.included {
		signed = signed || one.key == "commit.gpgsign" && truth(one.value)
	}
	return Demands{Signed: signed, Hooks: said.hooks(root, common, commitHooks)}, nil
}

// hooks are those of the names that git would run, or may: in which folder they are may depend on what is included. A relative folder is one in root.
func (s *settings) hooks(root, common string, names []string) (found []string) {
	dirs := []string{filepath.Join(common, "hooks")}
	if path, ok := s.get("core.hookspath"); ok && path != "" {
		dirs[0] = gitfile.Beside(root, inHome(path))
	}
	for _, one := range s.included {
		if one.key == "core.hookspath" && one.value != "" {
			dirs = append(dirs, gitfile.Beside(root, inHome(one.value)))
		}
	}
	for _, name := range names {
		// As git does: a file that is not executable is passed over.
		if slices.ContainsFunc(dirs, func(dir string) bool {
			info, err := os.Stat(filepath.Join(dir, name))
			return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		}) {
			found = append(found, name)
		}
	}
	return found
}
