package sandbox

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/beneath"
)

// knownFile is where in a spool folder it is noted what there was before the command, for whoever does what a killed shim could not.
const knownFile = "repositories.json"

// before is what there was before a command. A repository that is not in it may be new, or not have been seen.
type before struct {
	Known    []string            `json:"known"`    // where repositories are that are sealed
	Guarded  map[string]guard    `json:"guarded"`  // those that are not, by where they are
	Bare     []string            `json:"bare"`     // those of both that have no checkout
	Linked   []string            `json:"linked"`   // where indexes said that there are others, and nobody could look
	Absent   []string            `json:"absent"`   // where they said so, and there was none
	Whole    bool                `json:"whole"`    // there were no others, as deep as is looked
	Sealed   []string            `json:"sealed"`   // folders of git that are sealed
	Shallow  []string            `json:"shallow"`  // folders of git in which history had an end
	Replaced map[string][]string `json:"replaced"` // what had git take one object for another, by the folder of git
	Noted    map[string]*noted   `json:"noted"`    // what links there were in folders of git
	Refs     map[string]string   `json:"refs"`     // what the references of the task said
	size     int                 // of what is kept in Guarded
}

// maxKnown is more than what is noted can take: a file that is too large to be read would leave all to the command.
const maxKnown = 8 * mostKeptOf

func decodeBefore(raw []byte) (b before, err error) { return b, json.Unmarshal(raw, &b) }

// lookBefore is how long it may take to look around before a command.
const lookBefore = 5 * time.Second

// before looks at what there is before a command, beyond the repositories that are sealed: as far as it is looked afterwards, and wherever an index leads.
func (p Profile) before(repos []repository, found nested) before {
	refs, _ := p.refsNow()
	b := before{Refs: refs, Whole: found.whole, Sealed: gitFolders(repos), Guarded: map[string]guard{}, Replaced: map[string][]string{}, Noted: map[string]*noted{}}
	e := newEffort(lookBefore)
	var linked []string
	for _, r := range repos {
		if len(r.plan.dirs)+len(r.plan.sealed) > 0 {
			b.Known = append(b.Known, r.dir)
		}
		for _, dir := range r.plan.dirs {
			if _, is := dir.had["shallow"]; is {
				b.Shallow = append(b.Shallow, dir.path)
			}
			if len(dir.replaced) > 0 {
				b.Replaced[dir.path] = dir.replaced
			}
			if dir.noted != nil {
				b.Noted[dir.path] = dir.noted
			}
			if !dir.bears {
				linked = append(linked, p.linked(dir, r.dir, dir.links(e))...)
			}
		}
	}
	for _, r := range repos {
		for _, shared := range r.plan.shared {
			b.Noted[shared.folder.Name()] = shared.noted
		}
	}
	b.guardAll(p, slices.Concat(found.repos, linked), e)
	for _, dir := range b.Known {
		if isGitFolder(dir) {
			b.Bare = append(b.Bare, dir)
		}
	}
	return b
}

// guardAll notes what the repositories in these folders have that must stay, and those that their indexes name.
func (b *before) guardAll(p Profile, todo []string, e *effort) {
	top, err := beneath.Open(p.Workspace)
	if err != nil {
		b.Whole, b.Linked = false, todo
		return
	}
	defer top.Close()
	done := map[string]bool{}
	for _, dir := range b.Known {
		done[dir] = true
	}
	for ; len(todo) > 0; todo = todo[1:] {
		dir := todo[0]
		if done[dir] || dir == p.Workspace {
			continue
		}
		done[dir] = true
		if e.enough() != nil {
			b.Whole, b.Linked = false, todo
			return
		}
		g, links, is := b.guard(p, top, dir, e)
		if !is {
			b.Absent = append(b.Absent, dir)
			continue
		}
		if b.Guarded[dir] = g; isGitFolder(dir) {
			b.Bare = append(b.Bare, dir)
		}
		for _, link := range links {
			todo = append(todo, filepath.Join(dir, link))
		}
	}
}

// linked are the folders of the workspace that the index of a folder of git names as repositories.
func (p Profile) linked(d gitDir, repo string, links []string) (dirs []string) {
	if len(links) == 0 {
		return nil
	}
	around := p.checkout(d, repo)
	for _, link := range links {
		if around != "" {
			dirs = append(dirs, filepath.Join(around, link))
		}
	}
	return dirs
}

// checkout is where the files are of which a folder of git has an index. Those of a submodule, which the repository around it keeps, are where its settings
// say; any other that says so is not believed. Empty: not in the workspace, where nothing is to be done.
func (p Profile) checkout(d gitDir, repo string) string {
	if !d.within {
		return repo
	}
	raw, _, _ := d.folder.Read("config", maxGitSettings)
	to := GitSetting(string(raw), "core", "worktree")
	if to == "" {
		return repo
	}
	if !filepath.IsAbs(to) {
		to = filepath.Join(d.path, to)
	}
	if to = resolved(to); to == "" || !covered(to, []string{p.Workspace}) {
		return ""
	}
	return to
}

// links are the repositories that the indexes of a folder of git name, as far as they can be read.
func (d gitDir) links(e *effort) (links []string) {
	for name := range d.names() {
		if !isIndex(name) || e.enough() != nil {
			continue
		}
		if raw, _, err := readSized(d.folder, name, maxIndex); err == nil {
			named, _, _ := readIndex(raw, d.digits)
			links = append(links, named...)
		}
	}
	return links
}

// isIndex reports whether git reads a file of this name as an index.
func isIndex(name string) bool {
	return !strings.HasSuffix(name, ".lock") && slices.ContainsFunc(indexes, func(begin string) bool { return strings.HasPrefix(name, begin) })
}
