package git

import (
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// Steering is what in a folder a person's git runs or obeys, by settings that it reads there: the folders of hooks that core.hooksPath names, and the one around that of husky's, what hooks of known managers read,
// and files of settings that others include, whether they are there or not, and the links on the way to all of these: whoever exchanges one of them leads git elsewhere. What is outside of the
// folder and of the checkout that it lies in, or is what git keeps of that, is not in it.
type Steering struct {
	Hooks    []string
	Settings []string
	Links    []string
	// Absent are files that hooks would read and that are not there. Unlike Settings they must not be made: there are many names for one.
	Absent []string
	// Everywhere are the relative paths by which the person's own settings have git look for hooks in every checkout.
	Everywhere []string
}

// SteeringOf finds it, by the settings of every repository that the person may use git in: those around the folder, those below it, as far as they are looked for before a command, and all checkouts
// of each but those of tasks. Nothing is run for it but to read files that have changed. Settings that cannot be read are an error: nobody knows what they name.
func SteeringOf(ctx context.Context, dir string) (Steering, error) {
	if !installed() {
		return Steering{}, nil // without git nobody obeys anything
	}
	dir = real(dir)
	in := steering{within: dir}
	var sites []site
	for up := dir; ; {
		at := obeyedAt(up)
		if at.common == "" && at.top == "" {
			break
		}
		if len(sites) == 0 && at.top != "" {
			in.within, in.common = at.top, at.common
		}
		sites = append(sites, at)
		up = filepath.Dir(cmp.Or(at.top, at.git))
	}
	for _, below := range sandbox.Repositories(dir, []string{filepath.Join(dir, worktreesFolder)}) {
		if at := obeyedAt(below); at.top == below || at.git == below {
			sites = append(sites, at)
		}
	}
	said, _, err := configs.reachable(ctx, site{})
	if err != nil {
		return Steering{}, err
	}
	in.found.Everywhere = everywhere(said)
	seen := map[string]bool{}
	for _, at := range sites {
		all := append([]site{at}, at.others()...)
		var managers []hookManager // of any checkout: most have their hooks in what is common to all, or in a folder that git ignores
		for _, one := range all {
			if key := one.top + "\x00" + one.git; one.common != "" && !seen[key] {
				seen[key] = true
				hooks, err := in.add(ctx, one)
				if err != nil {
					return Steering{}, err
				}
				for _, dir := range hooks {
					managers = append(managers, managersIn(dir)...)
				}
			}
		}
		for _, one := range all {
			in.manage(one, managers)
		}
	}
	return in.found, nil
}

// manage adds what hooks of managers read in a checkout.
func (in *steering) manage(at site, managers []hookManager) {
	if at.top == "" {
		return
	}
	for _, m := range managers {
		for _, file := range m.files {
			end := in.follow(at, filepath.Join(at.top, file))
			list := &in.found.Settings
			if !there(end) {
				list = &in.found.Absent
			}
			in.name(at, list, end)
		}
	}
}

// everywhere are the relative paths of hooks that settings name, as far as they stay in a checkout.
func everywhere(said []setting) (paths []string) {
	for _, one := range said {
		path := filepath.Clean(aroundHooks(inHome(one.value)))
		switch {
		case one.key != "core.hookspath" || one.value == "" || !filepath.IsLocal(path) || slices.Contains(paths, path):
		case path == ".":
			paths = append(paths, hookNames...)
		default:
			paths = append(paths, path)
		}
	}
	return paths
}

// obeyedAt is the checkout around a folder, or the repository, that a git of the person's finds there. It believes every .git.
func obeyedAt(dir string) (at site) {
	at.discover(dir)
	dot := filepath.Join(at.top, ".git")
	if at.top == "" || at.git != "" {
		return at
	}
	if at.git = real(dot); isFile(at.git) {
		at.git = real(gitfile.Gitdir(at.git))
	}
	if at.common = at.git; at.git != "" {
		if named := gitfile.Common(at.git); named != "" {
			at.common = real(named)
		}
	}
	return at
}

// others are the checkouts of a repository but for those of tasks.
func (s site) others() (sites []site) {
	var tops []string
	if filepath.Base(s.common) == ".git" {
		tops = append(tops, filepath.Dir(s.common))
	}
	admins, _ := os.ReadDir(filepath.Join(s.common, "worktrees")) // where there are none, or none can be listed, this is the only one
	for _, a := range admins {
		if back := gitfile.Back(filepath.Join(s.common, "worktrees", a.Name())); back != "" && taskAt(filepath.Dir(back)) == "" {
			tops = append(tops, real(filepath.Dir(back)))
		}
	}
	for _, top := range tops {
		if at := obeyedAt(top); at.top == top && at.common == s.common {
			sites = append(sites, at)
		}
	}
	return sites
}

// steering gathers what is in a folder.
type steering struct {
	within string
	common string // what git keeps of it; sealed in another way
	found  Steering
}

// add adds what the settings for one checkout name, and returns the folders that git finds hooks in.
func (in *steering) add(ctx context.Context, at site) (hooks []string, err error) {
	said, files, err := configs.reachable(ctx, at)
	if err != nil {
		return nil, err
	}
	hooks = append(hooks, filepath.Join(at.common, "hooks"))
	tops := []string{cmp.Or(at.top, at.git)} // where git looks for what settings name by a relative path
	for _, one := range said {
		if one.key == "core.worktree" && one.value != "" {
			tops = append(tops, gitfile.Beside(at.git, one.value))
		}
	}
	for _, one := range said {
		if one.key != "core.hookspath" || one.value == "" {
			continue
		}
		for _, top := range tops {
			named := gitfile.Literal(top, inHome(one.value))
			hooks = append(hooks, named)
			end := in.follow(at, aroundHooks(named))
			if deep := in.follow(at, named); deep != end && (!covers(deep, end) || covers(top, end) || covers(in.within, end)) {
				in.name(at, &in.found.Hooks, deep)
			}
			if !covers(top, end) && !covers(in.within, end) {
				in.name(at, &in.found.Hooks, end)
				continue
			}
			for _, name := range hookNames { // among everything else
				in.name(at, &in.found.Settings, filepath.Join(end, name))
			}
		}
	}
	for _, file := range files {
		if end := in.follow(at, file); !slices.Contains(at.files(), end) { // those are sealed or noted with the rest of what git keeps
			in.name(at, &in.found.Settings, end)
		}
	}
	return hooks, nil
}

// follow is where a path leads. The links on the way are named.
func (in *steering) follow(at site, path string) (end string) {
	way := gitfile.WayOf(path)
	for _, link := range way.Links {
		in.name(at, &in.found.Links, link)
	}
	return way.End
}

// name adds a path to a list, if it is one of the folder. What is not there yet in what git keeps of a repository is not made.
func (in *steering) name(at site, list *[]string, path string) {
	if path == in.within || !covers(path, in.within) || covers(path, in.common) || covers(path, at.common) && !there(path) || slices.Contains(*list, path) {
		return
	}
	*list = append(*list, path)
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// hookNames are the hooks that a git runs in a checkout.
var hookNames = []string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout",
	"post-merge", "pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite",
	"sendemail-validate", "fsmonitor-watchman", "post-index-change", "p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit",
}

// mostLinks is how many symbolic links are followed on the way to a file, as many as the kernel follows.
const mostLinks = 40

// steered are those of the differences up to a commit that touch what a person's git runs or obeys in any checkout of the repository, or would once that commit is checked out. A
// file in place of a folder on the way counts, and a name that differs in case only: there are file systems that find it.
func steered(ctx context.Context, root, common, to string, all []difference) ([]Difference, error) {
	if len(all) == 0 {
		return nil, nil
	}
	names, err := steeringNames(ctx, root, common, to)
	if err != nil || len(names) == 0 {
		return nil, err
	}
	var found []Difference
	for _, d := range all {
		changed := strings.ToLower(d.path)
		if slices.ContainsFunc(names, func(name string) bool {
			name = strings.ToLower(name)
			return covers(changed, name) || covers(name, changed)
		}) {
			found = append(found, Difference{Path: d.path, Added: d.was == none})
		}
	}
	return found, nil
}

// steeringNames are the paths, from the top of a checkout, of what steers a person's git, by the files of their checkouts and by the links of a commit.
func steeringNames(ctx context.Context, root, common, commit string) ([]string, error) {
	tops, err := personsTops(root, common)
	if err != nil {
		return nil, err
	}
	var names []string
	add := func(name string) {
		if name != "." && filepath.IsLocal(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, top := range tops {
		if at := obeyedAt(top); at.common != real(common) || at.top != top {
			continue // it is gone, or another repository's by now
		}
		in, err := SteeringOf(ctx, top)
		if err != nil {
			return nil, err
		}
		for _, file := range slices.Concat(in.Hooks, in.Settings, in.Links, in.Absent) {
			for _, t := range tops { // what steers all of them may lie in one
				if rel, err := filepath.Rel(t, file); err == nil {
					add(filepath.ToSlash(rel))
				}
			}
		}
	}
	looked := map[string]bool{}
	for range mostLinks {
		led, err := linksOf(ctx, root, commit, names, looked)
		if err != nil {
			return nil, err
		}
		if len(led) == 0 {
			break
		}
		for _, name := range led {
			for _, t := range tops {
				if rel, err := filepath.Rel(t, name); err == nil && path.IsAbs(name) {
					add(filepath.ToSlash(rel))
				}
			}
			add(name) // unless it is an absolute one
		}
	}
	return names, nil
}

// linksOf are the paths that names of a commit lead to by the symbolic links of that commit. looked are those that were followed already.
func linksOf(ctx context.Context, root, commit string, names []string, looked map[string]bool) (led []string, err error) {
	ask := map[string][]string{} // names by each path on the way
	args := []string{"ls-tree", "-t", "-z", "--full-tree", commit, "--"}
	for _, name := range names {
		if looked[name] {
			continue
		}
		looked[name] = true
		for at := name; at != "."; at = path.Dir(at) {
			if ask[at] == nil {
				args = append(args, ":(top,literal)"+at)
			}
			ask[at] = append(ask[at], name)
		}
	}
	if len(ask) == 0 {
		return nil, nil
	}
	out, err := run(ctx, call{dir: root, args: args})
	if err != nil {
		return nil, err
	}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		head, at, _ := strings.Cut(rec, "\t")
		f := strings.Fields(head)
		if len(f) != 3 || f[0] != modeSymlink || ask[at] == nil {
			continue
		}
		target, err := run(ctx, call{dir: root, args: []string{"cat-file", "blob", f[2]}})
		if err != nil {
			return nil, err
		}
		to := string(target)
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(at), to)
		}
		for _, name := range ask[at] {
			led = append(led, path.Join(to, strings.TrimPrefix(name, at)))
		}
	}
	return led, nil
}

// personsTops are the tops of a repository's checkouts, but for those of tasks.
func personsTops(root, common string) ([]string, error) {
	tops := []string{real(root)}
	admins, err := os.ReadDir(filepath.Join(common, "worktrees"))
	if err != nil && !gone(err) {
		return nil, td.Errorf(td.Storage, "list worktrees: %w", err)
	}
	for _, a := range admins {
		if back := gitfile.Back(filepath.Join(common, "worktrees", a.Name())); back != "" && taskAt(filepath.Dir(back)) == "" {
			tops = append(tops, real(filepath.Dir(back)))
		}
	}
	return tops, nil
}
