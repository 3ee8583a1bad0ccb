package git

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// Steering is what in the checkout around dir a person's git runs or obeys, by settings that it reads there: the folders of hooks that core.hooksPath names,
// and files of settings that others include, whether they are there or not, and the links on the way to all of these: whoever exchanges one of them leads git elsewhere. What is outside of the
// checkout, or is what git keeps of it, is not in it.
type Steering struct {
	Hooks    []string
	Settings []string
	Links    []string
}

// SteeringOf finds it without running anything but to read files that have changed. Where there is no repository there is none.
func SteeringOf(ctx context.Context, dir string) (Steering, error) {
	var at site
	at.discover(real(dir))
	if at.refuse != nil || at.common == "" || at.top == "" {
		return Steering{}, nil
	}
	return at.steering(ctx)
}

func (at site) steering(ctx context.Context) (Steering, error) {
	said, err := configs.of(ctx, at)
	if err != nil {
		return Steering{}, err
	}
	var found Steering
	add := func(list *[]string, path string) {
		if path != at.top && covers(path, at.top) && !covers(path, at.common) && !slices.Contains(*list, path) {
			*list = append(*list, path)
		}
	}
	follow := func(list *[]string, path string) string {
		way := gitfile.WayOf(gitfile.Literal(at.top, inHome(path)))
		add(list, way.End)
		for _, link := range way.Links {
			add(&found.Links, link)
		}
		return way.End
	}
	for _, one := range slices.Concat(said.person, said.local, said.included) {
		if one.key != "core.hookspath" || one.value == "" {
			continue
		}
		if follow(&found.Hooks, one.value) == at.top { // among everything else
			for _, name := range hookNames {
				add(&found.Settings, filepath.Join(at.top, name))
			}
		}
	}
	for _, file := range said.files {
		follow(&found.Settings, file)
	}
	return found, nil
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
		var at site
		if at.discover(top); at.refuse != nil || at.common != real(common) || at.top != top {
			continue // it is gone, or another repository's by now
		}
		in, err := at.steering(ctx)
		if err != nil {
			return nil, err
		}
		for _, file := range slices.Concat(in.Hooks, in.Settings, in.Links) {
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
