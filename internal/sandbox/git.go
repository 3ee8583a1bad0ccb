package sandbox

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/gitfile"
)

// gitPlace is where the repository of a workspace is, and what it borrows from.
type gitPlace struct {
	own, common string
	lenders     []string
}

// locate looks where the repository of the workspace is, once for a command: it can be asked often, and the command has no say in it.
func (p *Profile) locate() {
	own, common := gitWorktree(p.Workspace)
	p.git = &gitPlace{own: own, common: common}
	p.git.lenders = p.findLenders()
}

// worktree is the folder of the workspace's linked worktree and that of its repository, as gitWorktree has it.
func (p Profile) worktree() (own, common string) {
	if p.git != nil {
		return p.git.own, p.git.common
	}
	return gitWorktree(p.Workspace)
}

// gitWorktree is the folder of a linked worktree and that of its repository; empty when .git in the
// workspace is no file that says so.
func gitWorktree(workspace string) (own, common string) {
	if own = gitfile.Gitdir(filepath.Join(workspace, ".git")); own == "" {
		return "", ""
	}
	common = cmp.Or(gitfile.Common(own), own)
	// A .git file can be written by a command, and so can all that it leads to in the workspace. It must not open what is no repository
	// of this workspace: a worktree is known to its repository, which says where it is, in a folder of the repository's.
	own, common = resolved(own), resolved(common)
	if own == "" || common == "" || filepath.Dir(own) != filepath.Join(common, "worktrees") || covered(common, []string{workspace}) {
		return "", "" // one in the workspace is all of the command's making, and needs nothing more to be opened
	}
	if back := gitfile.Back(own); back == "" || !sameFile(back, filepath.Join(workspace, ".git")) {
		return "", ""
	}
	return own, common
}

// resolved is a path without symbolic links; empty when there is nothing.
func resolved(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return real
}

// lenders are the folders of objects that the repository of a workspace borrows, which git must see: those that the person has named in
// their own settings, as the daemon's git wants it (taskdaemon.alternates), and for a checkout of taskdaemon's own the repository that it was
// made from. What a workspace says by itself opens nothing.
func (p Profile) lenders() []string {
	if p.git != nil {
		return p.git.lenders
	}
	return p.findLenders()
}

func (p Profile) findLenders() (out []string) {
	lent := p.gitLenders()
	if len(lent) == 0 {
		return nil
	}
	ours, t := covered(p.Workspace, p.Hide), p.trailer()
	for _, path := range lent {
		real, ok := t.trail(path)
		if ok && (covered(real, t.namedLenders(os.Getenv)) || ours && filepath.Base(real) == "objects" && exists(filepath.Dir(real), "HEAD")) {
			out = append(out, real)
		}
	}
	return out
}

// namedLenders are the folders that the person lets repositories borrow objects from.
func (t *trailer) namedLenders(getenv func(string) string) (paths []string) {
	for _, file := range gitSettingsFiles(getenv) {
		settings, _ := parseGitSettings(readUpTo(file, maxGitSettings))
		for _, s := range settings {
			if s.section == "taskdaemon" && s.variable == "alternates" && s.subsection == "" {
				if rest, is := strings.CutPrefix(s.value, "~/"); is {
					s.value = filepath.Join(getenv("HOME"), rest)
				}
				if real, ok := t.trail(s.value); ok {
					paths = append(paths, real)
				}
			}
		}
	}
	return paths
}

// gitLenders are the folders of objects that the repository of a workspace says it borrows from.
func (p Profile) gitLenders() []string {
	git := filepath.Join(p.Workspace, ".git")
	if _, common := p.worktree(); common != "" {
		git = common
	}
	return gitfile.Lenders(filepath.Join(git, "objects"))
}

func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
