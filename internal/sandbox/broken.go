package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
)

// Every git that lists references, packs or fetches goes through all of them, those of tasks, too, and stops at one that leads to an object which is missing. So a reference
// that a command left is set back to what it was if it does, or removed if it is new.

// brokenFor is how long it may take to look.
const brokenFor = time.Minute

// refPlaces are the folders with references that the commands of a task can write, by what they are called in a repository, and HEAD of its worktree, which counts as one.
func (p Profile) refPlaces() map[string]string {
	own, common := p.worktree()
	if own == "" || len(p.Refs) == 0 {
		return nil
	}
	places := map[string]string{"HEAD": filepath.Join(own, "HEAD"), "refs": filepath.Join(own, "refs")}
	for _, ref := range p.Refs {
		places[ref] = filepath.Join(common, filepath.FromSlash(ref))
	}
	return places
}

// refsNow is what the references of a task say, by name, and where they are.
func (p Profile) refsNow() (said, at map[string]string) {
	said, at = map[string]string{}, map[string]string{}
	for name, place := range p.refPlaces() {
		if name == "HEAD" {
			said[name], at[name] = strings.TrimSpace(gitfile.Text(place)), place
			continue
		}
		folder, err := beneath.Open(place)
		if err != nil {
			continue
		}
		_ = folder.Walk(".", func(below string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() && !strings.HasSuffix(below, ".lock") && len(said) <= mostRefs {
				ref := path.Join(name, below)
				said[ref], at[ref] = strings.TrimSpace(gitfile.Text(filepath.Join(place, below))), filepath.Join(place, below)
			}
			return nil
		})
		_ = folder.Close()
	}
	return said, at
}

// mendRefs sets references back that the command left broken, and says which.
func (s *shim) mendRefs(c *cell) (mended []string) {
	p := s.spec.Profile
	own, common := p.worktree()
	var ids []string
	now, at := p.refsNow()
	broken := map[string]bool{}
	for name, text := range now {
		old, had := c.had.Refs[name]
		switch {
		case had && old == text:
			delete(now, name)
		case !namesRef(name), name == "HEAD" && strings.HasPrefix(text, "ref: ") && !p.ownsRef(strings.TrimPrefix(text, "ref: ")):
			broken[name] = true // with HEAD on another branch, nobody else can check that out
		case isHex(text, 40) || isHex(text, 64):
			ids = append(ids, text)
		case !strings.HasPrefix(text, "ref: "):
			broken[name] = true
		}
	}
	if notCommits := s.notCommits(c, common, ids); len(notCommits) > 0 {
		for name, text := range now {
			broken[name] = broken[name] || notCommits[text]
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return notCommits[id] })
	}
	if len(ids) > 0 && s.lacksHistory(c, common, ids) {
		for name, text := range now {
			if (isHex(text, 40) || isHex(text, 64)) && s.lacksHistory(c, common, []string{text}) {
				broken[name] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		mended = append(mended, name)
		folder, err := beneath.Open(filepath.Dir(at[name]))
		if err != nil {
			continue
		}
		if old := c.had.Refs[name]; old != "" {
			err = folder.Replace(filepath.Base(at[name]), unknownName(), []byte(old+"\n"), 0o644)
		} else {
			err = folder.Remove(filepath.Base(at[name]))
		}
		if err != nil {
			mended[len(mended)-1] = name + " (which failed: " + cause(err).Error() + ")"
		}
		_ = folder.Close()
	}
	if len(mended) > 0 {
		forgetLogs(own, common, slices.Collect(maps.Keys(broken)))
	}
	return mended
}

// unlockRefs removes the locks of the task's references that the command has left: git waits for their owner, who is gone.
func (s *shim) unlockRefs() (removed []string) {
	since, ok := startOf(s.dir)
	if !ok {
		return nil
	}
	for name, place := range s.spec.Profile.refPlaces() {
		if name == "HEAD" {
			place = filepath.Dir(place)
		}
		folder, err := beneath.Open(place)
		if err != nil {
			continue
		}
		_ = folder.Walk(".", func(below string, e fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // what cannot be read is no lock for git either
			case e.IsDir() && name == "HEAD" && below != ".":
				return fs.SkipDir
			case !strings.HasSuffix(below, ".lock") || name == "HEAD" && below != "HEAD.lock":
				return nil
			}
			if in, err := folder.Folder(path.Dir(below)); err == nil {
				if isNew(in, path.Base(below), since) {
					removed = append(removed, remove(in, path.Base(below))...)
				}
				_ = in.Close()
			}
			return nil
		})
		_ = folder.Close()
	}
	return removed
}

// ownsRef reports whether a reference is one of the task's own.
func (p Profile) ownsRef(ref string) bool {
	return slices.ContainsFunc(p.Refs, func(own string) bool { return strings.HasPrefix(ref, own+"/") })
}

// notCommits are those of some objects that are there and are no commits: a branch that leads to one stops git as one that leads nowhere does.
func (s *shim) notCommits(c *cell, common string, ids []string) map[string]bool {
	if len(ids) == 0 {
		return nil
	}
	are, err := s.kinds(c, common, c.borrowed(common), ids)
	if err != nil {
		return nil // lacksHistory tells
	}
	not := map[string]bool{}
	for _, id := range ids {
		if kind, is := are[id]; is && kind != "commit" {
			not[id] = true
		}
	}
	return not
}

// namesRef reports whether git takes a name for that of a reference: it stops at a file with another.
func namesRef(name string) bool {
	if name == "HEAD" {
		return true
	}
	if strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.HasSuffix(name, ".") || !utf8.ValidString(name) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || part == "@" || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || !unicode.IsPrint(r) || strings.ContainsRune(`~^:?*[\`, r) })
}

// forgetLogs removes where git remembers what references stood at, and HEAD: it goes through that, too, when it packs.
func forgetLogs(own, common string, refs []string) {
	for _, at := range []string{own, common} {
		logs, err := beneath.Open(filepath.Join(at, "logs"))
		if err != nil {
			continue
		}
		for _, name := range append([]string{"HEAD"}, refs...) {
			if name == "HEAD" && at == common {
				continue // the person's
			}
			if in, err := logs.Folder(path.Dir(name)); err == nil {
				_ = in.Remove(path.Base(name)) // it may never have been there
				_ = in.Close()
			}
		}
		_ = logs.Close()
	}
}

// mendIndex removes the index of the task's worktree if the command left one that names an object which is missing: git goes through the indexes of all
// worktrees when it packs, and would stop there.
func (s *shim) mendIndex(c *cell) (removed []string) {
	own, common := s.spec.Profile.worktree()
	since, ok := startOf(s.dir)
	if own == "" || len(s.spec.Profile.Refs) == 0 || !ok {
		return nil
	}
	folder, err := beneath.Open(own)
	if err != nil {
		return nil
	}
	defer folder.Close()
	if !isNew(folder, "index", since) || !s.lacks(c, common, own, "--indexed-objects --single-worktree") {
		return nil
	}
	return remove(folder, "index")
}

// lacksHistory reports whether something is missing of what commits refer to and other references do not.
func (s *shim) lacksHistory(c *cell, common string, ids []string) bool {
	of := strings.Join(ids, " ") + " --ignore-missing --single-worktree --not" // HEAD of this one is one of those
	for _, ref := range s.spec.Profile.Refs {
		of += " '--exclude=" + ref + "/*'"
	}
	return s.lacks(c, common, common, of+" --all")
}

// lacks reports whether an object is missing, of those that git lists by some arguments in a folder of git.
func (s *shim) lacks(c *cell, common, dir, of string) bool {
	script := c.borrowed(common)
	in, err := os.Open(os.DevNull)
	if err != nil {
		return false
	}
	defer in.Close()
	r := &reading{until: time.Now().Add(brokenFor), measure: meter{begin: readMachine()}}
	err = s.alone(c, in, nil, r, script+`exec git --git-dir="$0" rev-list --objects --quiet `+of, dir)
	status, is := errors.AsType[gitStatus](err)
	return is && status == gitDied
}

// borrowed is what has the git of a script find the objects of a repository, not with what the command made and the repository did not get.
func (c *cell) borrowed(common string) string {
	for _, st := range stores(c.repos) {
		if st.path == filepath.Join(common, "objects") {
			return st.borrowed()
		}
	}
	return ""
}

// borrowed has the git of a script find the objects of the repository, without those of the command.
func (s *store) borrowed() string {
	return "export GIT_OBJECT_DIRECTORY=" + quoted(s.lent) + " GIT_ALTERNATE_OBJECT_DIRECTORIES=" + quoted(strings.Join(s.others, ":")) + "; "
}

// quoted makes a text one word of a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// gitStatus is how a git of ours ended that did not end well; gitDied is the one of a git that cannot go on.
type gitStatus int

const gitDied gitStatus = 128

func (g gitStatus) Error() string { return fmt.Sprintf("git ended with status %d", int(g)) }
