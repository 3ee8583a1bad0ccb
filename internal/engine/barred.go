package engine

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/merge"
	"taskdaemon/internal/td"
)

// barredText says what keeps the work from being merged, and how to put it right.
func barredText(w td.Worktree, dir string, barred []merge.Reserved) string {
	by := map[merge.Bar][]string{}
	var persons []merge.Reserved
	for _, r := range barred {
		by[r.Why] = append(by[r.Why], r.Path)
		if r.Why == merge.Rules || r.Why == merge.Repository || r.Why == merge.Steering {
			persons = append(persons, r)
		}
	}
	var all []string
	if len(persons) > 0 {
		all = append(all, reservedText(w, dir, persons))
	}
	undo := func(paths []string) string {
		words := []string{"git rm -rqf --ignore-unmatch --"}
		for _, p := range paths {
			words = append(words, td.ShellWord(p))
		}
		return strings.Join(words, " ")
	}
	if text := deniedText(w, barred); text != "" {
		all = append(all, text)
	}
	for _, b := range []struct {
		why  merge.Bar
		text string
	}{
		{merge.Link, "the work has %s, the commit of another repository (a submodule), whose files worktrees would lack. Run `%s`, and call Complete again."},
		{merge.Closed, "the work has files in %s, which the checkout of the person takes none into: git knows nothing of what is there, or it is taskdaemon's. Run `%s`, and call Complete again."},
		{merge.InTheWay, "the work has files where the checkout of the person has some that git does not know: %s. Their branch could not be updated, with your work or anybody's. Give yours other names, or run `%s`, and call Complete again. (A person can type: %s)"},
		{merge.Left, "%s is in your folder but not in your commit, so that the validator saw a file that nobody gets. Delete it from your folder, or `git add -f` it, and call Complete again."},
	} {
		paths := by[b.why]
		if len(paths) == 0 {
			continue
		}
		if len(paths) > mostNamed {
			paths = append(paths[:mostNamed:mostNamed], fmt.Sprintf("and %d more", len(paths)-mostNamed))
		}
		args := []any{strings.Join(paths, ", ")}
		switch b.why {
		case merge.Link:
			args = append(args, undo(by[b.why]))
		case merge.Closed:
			args = append(args, undo(by[b.why]))
		case merge.InTheWay:
			args = append(args, undo(by[b.why]), movingAway(barred))
		}
		all = append(all, fmt.Sprintf(b.text, args...))
	}
	return strings.Join(all, "\n")
}

// deniedText says which rules keep files from being changed, how the agent takes the changes back, and how a person takes one all the same.
func deniedText(w td.Worktree, barred []merge.Reserved) string {
	var rules, paths []string
	var undo [2]string // of files that were there before, and of new ones
	for _, r := range barred {
		if r.Why != merge.Denied {
			continue
		}
		paths = append(paths, r.Path)
		if !slices.Contains(rules, r.Rule) {
			rules = append(rules, r.Rule)
		}
		which, begins := 0, "git checkout "+w.Trunk+" --"
		if r.New {
			which, begins = 1, "git rm -rqf --ignore-unmatch --"
		}
		undo[which] = cmp.Or(undo[which], begins) + " " + td.ShellWord(r.Path)
	}
	if len(paths) == 0 {
		return ""
	}
	taken := slices.DeleteFunc(undo[:], func(s string) bool { return s == "" })
	types := taking(w, paths)
	if len(paths) > mostNamed {
		paths = append(paths[:mostNamed:mostNamed], fmt.Sprintf("and %d more", len(paths)-mostNamed))
	}
	return fmt.Sprintf("the work changes %s, which is forbidden by %s. Run `%s` at the top of your worktree, commit that, and call Complete again. (A person can type: %s)",
		strings.Join(paths, ", "), strings.Join(rules, ", "), strings.Join(taken, " && "), types)
}

// movingAway is what a person types to move their files out of the way.
func movingAway(barred []merge.Reserved) string {
	var all []string
	for _, r := range barred {
		if r.Why == merge.InTheWay && len(all) < mostNamed {
			all = append(all, td.Typed("mv -n -- %s %s", r.At, r.At+".mine"))
		}
	}
	return strings.Join(all, " && ")
}

// reservedText says how to take back a change of what only a person may change. The file with rules of the workspace itself is sealed and forbidden to
// agents, so that only the index can have been changed: all of that is set back, and the files are committed as they lie there.
func reservedText(w td.Worktree, dir string, reserved []merge.Reserved) string {
	own, err := filepath.Rel(w.Path, dir)
	if err != nil {
		own = "."
	}
	agent := []string{"git reset -q " + w.Trunk + " -- ."}
	var rules, repositories, steering, person []string
	for _, r := range reserved {
		restore := "git checkout " + w.Trunk + " -- " + td.ShellWord(r.Path)
		if r.New {
			restore = "git rm -rqf --ignore-unmatch -- " + td.ShellWord(r.Path)
		}
		switch {
		case r.New:
			agent = append(agent, "rm -rf -- "+td.ShellWord(r.Path)) // it is no part of the index any more
		case r.Why != merge.Rules || path.Dir(r.Path) != own:
			agent = append(agent, restore)
		}
		switch r.Why {
		case merge.Repository:
			repositories = append(repositories, r.Path)
		case merge.Steering:
			steering = append(steering, r.Path)
		default:
			rules = append(rules, r.Path)
		}
		person = append(person, restore)
	}
	var why []string
	if len(rules) > 0 {
		why = append(why, strings.Join(rules, ", ")+", which holds rules of the project")
	}
	if len(repositories) > 0 {
		why = append(why, strings.Join(repositories, ", ")+", which git takes for a repository of its own (it has HEAD, objects and refs, or commondir) and runs programs that its settings name")
	}
	types := strings.Join(person, " && ")
	if len(steering) > 0 { // a git that is run by hand in the worktree would run the agent's hooks
		why = append(why, strings.Join(steering, ", ")+", which is run by the person's git when they commit or check out, or obeyed as its settings (core.hooksPath, a hook manager, include.path)")
		types = taking(w, steering)
	}
	return fmt.Sprintf("the work changes %s: only a person may change that. Run `%s` at the top of your worktree and call Complete again. (A person can type: %s)",
		strings.Join(why, "; and "), strings.Join(agent, " && "), types)
}

// taking is how a person takes what their git runs or obeys. It is shown first, and written by no git: a checkout would run a hook that it brings.
func taking(w td.Worktree, paths []string) string {
	var words strings.Builder
	for _, p := range paths {
		words.WriteString(" " + td.ShellWord(p))
	}
	return td.Typed("git -C %s --literal-pathspecs diff %s %s --%s; and, to take a file after that look, git -C %s show %s > %s",
		w.Repo, w.Trunk, w.Branch, td.Words(words.String()), w.Repo, w.Branch+":"+paths[0], filepath.Join(w.Repo, paths[0]))
}
