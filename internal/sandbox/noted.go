package sandbox

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
)

// What a command left is told from what was there by a list, not by its age: when a folder is moved, what is in it stays as old as it was. So a command could make a
// link where nobody looks for one, and the next command move it to where git writes.

// noted is what was in a folder of git, in places where git would write through links, or go on with what was begun.
type noted struct {
	Links map[string]string `json:"links"` // where links lead, by their path; of what is neither a file nor a folder, what it is
	Plans map[string]plan   `json:"plans"` // of what is under way, by its folder
}

// plan is what was under way.
type plan struct {
	Programs []string `json:"programs"` // the lines of a rebase that run one
	State    []byte   `json:"state"`    // of the files that say how to go on
}

// mostWalked is how many names of a folder are looked at for links before a command. Where there are more, links that were not seen go: git makes none.
const mostWalked = 100_000

// shelfDepth is how deep links are looked for in what LFS stores, which may have a hundred thousand files: its folders are no deeper.
const shelfDepth = 4

// noteOf notes what is in a folder of git, of the names that are open.
func noteOf(d gitDir) *noted {
	n := &noted{Links: map[string]string{}, Plans: map[string]plan{}}
	entries, _ := d.folder.ReadDir(".")
	for _, e := range entries {
		switch {
		case !d.open(e.Name()):
		case leadsAway(e.Type()):
			n.Links[e.Name()] = linkOf(d.folder, e.Name())
		case e.IsDir() && slices.Contains(gitFollowed, e.Name()):
			if below, err := d.folder.Folder(e.Name()); err == nil {
				n.noteBelow(below, e.Name())
				if slices.Contains(gitSteps, e.Name()) {
					n.Plans[e.Name()] = plan{programsOf(below), stateOf(below)}
				}
				_ = below.Close()
			}
		}
	}
	return n
}

// noteBelow notes the links in a folder, under this path.
func (n *noted) noteBelow(folder *beneath.Folder, at string) {
	eachLink(folder, at, func(parent *beneath.Folder, name, as string) bool {
		n.Links[as] = linkOf(parent, name)
		return len(n.Links) < mostWalked
	})
}

// eachLink visits what is neither a file nor a folder below a folder: what contains it, its name there, and its path with that of the folder before it.
func eachLink(folder *beneath.Folder, at string, visit func(parent *beneath.Folder, name, as string) bool) {
	_ = folder.Walk(".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrPermission) { // git finds what it knows the names of
			if below, err := folder.Unlocked(name); err == nil {
				eachLink(below, path.Join(at, name), visit)
				_ = below.Close()
			}
			return nil
		}
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is not followed either
		}
		if d.IsDir() && strings.Count(name, "/") >= shelfDepth-2 && (at == "lfs" || strings.HasPrefix(at, "lfs/")) {
			return fs.SkipDir
		}
		if !leadsAway(d.Type()) {
			return nil
		}
		parent, err := folder.Folder(path.Dir(name))
		if err != nil {
			return nil //nolint:nilerr // it is gone
		}
		defer parent.Close()
		if !visit(parent, path.Base(name), path.Join(at, name)) {
			return fs.SkipAll
		}
		return nil
	})
}

// linkOf is where a link leads, or what else it is.
func linkOf(folder *beneath.Folder, name string) string {
	if to, err := folder.Readlink(name); err == nil {
		return "to " + to
	}
	info, err := folder.Lstat(name)
	if err != nil {
		return ""
	}
	return info.Mode().Type().String()
}

// has reports whether a link was there before, with this path. Where nobody noted that, it was if it is older than the command.
func (n *noted) has(folder *beneath.Folder, name, as string, since int64) bool {
	if n == nil {
		return !isNew(folder, name, since)
	}
	was, is := n.Links[as]
	return is && was == linkOf(folder, name)
}

func (n *noted) planOf(name string) *plan {
	if n == nil {
		return nil
	}
	p := n.Plans[name]
	return &p
}

func (n *noted) stateSame(name string, state []byte) bool {
	return n != nil && n.Plans[name].State != nil && slices.Equal(n.Plans[name].State, state)
}

// programsOf are the lines of the plan of a rebase that run a program.
func programsOf(folder *beneath.Folder) (lines []string) {
	raw, _, err := readSized(folder, rebasePlan, maxPlan)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(raw)) {
		if runsProgram(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// stateOf is a sum of the files that say how to go on with a rebase, cherry-pick or revert.
func stateOf(folder *beneath.Folder) []byte {
	sum := sha256.New()
	for _, name := range stateFiles {
		raw, _, err := folder.Read(name, maxGitSettings)
		if err != nil {
			raw = nil
		}
		one := sha256.Sum256(raw)
		_, _ = sum.Write(one[:])
	}
	return sum.Sum(nil)
}
