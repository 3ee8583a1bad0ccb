package sandbox

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
)

// A .git may be a file that says where the folder of git is. git follows what it says whenever it comes there, link by link, and reads it anew each time. So what a command made is
// judged by where it leads and left only as a file of ours, which no descriptor and no memory of a job reaches, with a path that has no link in it. Where the files lead that were
// there before is judged after every command, too: a link on the way, or the folder at its end, may have become another.

// judgeDot judges a .git that is no folder and that is not known; it is false if it was left and would run programs.
func (d *disarming) judgeDot(around *beneath.Folder, dir string, depth int) bool {
	raw, info, more, err := around.Head(".git", gitFile)
	if err != nil || more { // a link, or worse
		return d.removeDot(around, dir)
	}
	to := gitfile.ParseGitdir(string(raw))
	if to == "" {
		return d.renewDot(around, dir, raw, info) // git takes it for none, and goes nowhere
	}
	at := gitfile.WayOf(gitfile.Literal(dir, to)).End
	if !d.safe(at) {
		if covered(at, d.had.Sealed) {
			return d.removeDot(around, dir)
		}
		git, err := d.top.Unlocked(from(d.top, at))
		if err != nil { // nowhere, or to a folder that is none of this workspace's: the command's own temporary one, or another repository
			return d.removeDot(around, dir)
		}
		ok := d.disarmAt(git, dir, depth)
		_ = git.Close()
		if !ok {
			return d.removeDot(around, dir)
		}
	}
	if to = filepath.Clean(to); gitfile.Literal(dir, to) != at && filepath.Join(dir, to) != at {
		to = at
	}
	return d.renewDot(around, dir, []byte("gitdir: "+to+"\n"), info)
}

// judgeKnown judges where the .git leads that was in a folder before the command, and was sealed, if it is a file. One that a link of the workspace leads elsewhere is put aside.
func (d *disarming) judgeKnown(around *beneath.Folder, dir string, depth int) bool {
	raw, _, _, err := around.Head(".git", gitFile)
	if err != nil {
		return true // it is a folder
	}
	to := gitfile.ParseGitdir(string(raw))
	way := gitfile.WayOf(gitfile.Literal(dir, to))
	if to == "" || d.safe(way.End) || covered(way.End, d.had.Sealed) {
		return true
	}
	if git, err := d.top.Unlocked(from(d.top, way.End)); err == nil {
		defer git.Close()
		return d.disarmAt(git, dir, depth)
	}
	if slices.ContainsFunc(way.Links, func(link string) bool { return covered(link, []string{d.p.Workspace}) }) {
		d.taken = append(d.taken, original{}.put(around, ".git", d.since)...)
	}
	return true // elsewhere, where no command writes
}

// safe reports whether a folder of git was there before the command and is sealed, or put back as it was.
func (d *disarming) safe(git string) bool {
	_, guarded := d.had.Guarded[git]
	return guarded || d.known[git] || slices.Contains(d.had.Sealed, git) || d.restored[from(d.top, git)]
}

// disarmAt disarms a folder of git of the workspace that a .git file in dir leads to; it is false if it was left and would run programs.
func (d *disarming) disarmAt(git *beneath.Folder, dir string, depth int) bool {
	at, by := git.Name(), "refs" // which git makes with the folder and then leaves
	if ownIn(git) {
		// A linked worktree: its repository has the settings and hooks.
		by = "commondir"
		if !d.visit(strings.TrimSuffix(filepath.Dir(filepath.Dir(at)), "/.git"), depth+1) {
			return false
		}
	}
	return d.disarmNew(git, d.isNew(git, at, by), dir, depth)
}

// renewDot leaves a .git file as a file of ours, if the command made or changed it.
func (d *disarming) renewDot(around *beneath.Folder, dir string, text []byte, info fs.FileInfo) bool {
	if !isNew(around, ".git", d.since) {
		return true
	}
	_ = around.Unlock()
	if err := around.Replace(".git", unknownName(), text, info.Mode().Perm()|0o600); err != nil {
		return d.removeDot(around, dir)
	}
	return true
}

// removeDot removes a .git that is no folder, if it is new.
func (d *disarming) removeDot(around *beneath.Folder, dir string) bool {
	if !d.isNew(around, dir, ".git") {
		d.left = append(d.left, filepath.Join(dir, ".git"))
		return false
	}
	d.taken = append(d.taken, remove(around, ".git")...)
	return true
}

// unlinkOwn removes a link that leads into folders which are the task's alone, outside of the workspace: there nobody looks for repositories, and no other program finds anything.
func (d *disarming) unlinkOwn(at string, leads gitfile.Way) {
	own := slices.DeleteFunc([]string{d.p.Temp, d.p.Layers}, func(dir string) bool { return dir == "" || covered(d.p.Workspace, []string{dir}) })
	if !covered(leads.End, own) {
		return
	}
	parent, err := d.top.Unlocked(from(d.top, filepath.Dir(at)))
	if err != nil {
		return
	}
	defer parent.Close()
	d.taken = append(d.taken, remove(parent, filepath.Base(at))...)
}
