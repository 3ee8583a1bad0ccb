package policy

import (
	"path"
	"slices"
	"strings"
)

// floorGit keeps what git runs, in every repository and not only in that of the workspace: whoever goes into
// the folder of another one and asks git anything runs it.
func (p *Policy) floorGit(file string, ps parts, destroys bool, consider considering) {
	const why = "git runs commands that %s names."
	for i := range ps {
		if !p.gitFolder(ps[:i+1], ps[i+1:]) {
			continue
		}
		for _, g := range gitRuns {
			consider(ps[i+1:].under(g), floorHooks, why)
		}
		if destroys && i == len(ps)-1 && ps[i] == ".git" && path.Dir(file) == p.place.Workspace {
			consider(yes, floorDestroy, "%s is the history of the workspace.")
		}
	}
	for _, f := range []string{".gitconfig", ".config/git/config", ".config/git/attributes", ".config/git/hooks"} {
		consider(under(file, p.place.Home+"/"+f), floorHooks, why)
	}
	consider(under(file, "/etc/gitconfig"), floorHooks, why)
	p.floorSteering(file, destroys, consider)
}

// floorSteering keeps what git runs or obeys by its settings: by those that hold in the workspace, and those of every repository on the way from there to the file, however deep it lies.
func (p *Policy) floorSteering(file string, destroys bool, consider considering) {
	if p.place.Steering == nil {
		return
	}
	dirs := []string{p.place.Workspace}
	for dir := path.Dir(file); dir != p.place.Workspace && under(dir, p.place.Workspace) == yes; dir = path.Dir(dir) {
		if is := p.gitAt(dir); is.Top || is.Inside {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		paths, err := p.place.Steering(dir)
		if err != nil && (under(file, p.place.Workspace) != no || above(file, p.place.Workspace) != no) {
			consider(yes, floorHooks, "Whether git runs or obeys %s cannot be told: "+strings.ReplaceAll(err.Error(), "%", "%%")+".")
		}
		for _, path := range paths {
			consider(under(file, path), floorHooks, "By its settings, git runs or obeys %s.")
			if destroys {
				consider(above(file, path), floorHooks, "By its settings, git runs or obeys what is in %s.")
			}
		}
	}
}

// gitFolder reports whether a folder is, or may be, what git takes for the inside of a repository: by its
// name, as that of a submodule or worktree, or by what is in it. Names of submodules may have slashes. The
// machine is asked only where what follows may be kept.
func (p *Policy) gitFolder(dir, rest parts) bool {
	name := dir[len(dir)-1]
	switch {
	case name == ".git", strings.HasSuffix(name, ".git") && len(rest) > 0, globbed(name) && globMatches(name, ".git"):
		return true
	case !slices.ContainsFunc(gitRuns, func(g parts) bool { return rest.under(g) != no }):
		return false
	}
	for i, s := range dir[:len(dir)-1] {
		if s == ".git" && (dir[i+1] == "modules" || dir[i+1] == "worktrees") && i+2 < len(dir) {
			return true
		}
	}
	return p.gitAt("/" + strings.Join(dir, "/")).Inside
}

// gitAt asks what a folder is to git, if its name is known.
func (p *Policy) gitAt(dir string) Git {
	if p.place.Git == nil {
		return Git{Top: dir == p.place.Workspace}
	}
	if !certain(dir) {
		return Git{}
	}
	return p.place.Git(dir)
}

// gitLeads reports whether a use puts something where git looks for a repository: a .git that is a file leads it
// to any folder, and one that was prepared elsewhere brings its hooks along. An empty folder does neither.
func (r *report) gitLeads(u use) bool {
	if u.access != Write || u.destroys || path.Base(u.path) != ".git" {
		return false
	}
	if u.redir || u.cmd < 0 || u.cmd >= len(r.cmds) {
		return true
	}
	return !slices.Contains([]string{"mkdir", "chmod", "chown", "chgrp", "setfacl", "git"}, path.Base(r.cmds[u.cmd].words[0]))
}
