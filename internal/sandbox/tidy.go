package sandbox

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// gitLeads are the names in a folder of git, or of objects, that lead it to another one. No git that works in a
// repository of its own makes them.
var gitLeads = []string{"commondir", "config.worktree", "alternates", "http-alternates"}

// gitFollowed are the folders in a folder of git through whose links git would write. What is in objects has a name that
// its content decides.
var gitFollowed = []string{"logs", "refs", "sequencer", "rebase-merge", "rebase-apply", "rr-cache"}

// tidy removes what a command cannot be kept from making and must not leave in the folders of git. dir is the command's
// spool folder. It returns what it removed.
func (c *cell) tidy(dir string) (removed []string) {
	var started unix.Stat_t
	if unix.Lstat(filepath.Join(dir, startedFile), &started) != nil {
		return nil
	}
	since := started.Mtim.Nano()
	for _, repo := range c.repos {
		for _, dir := range repo.plan.dirs {
			removed = append(removed, dir.tidy(since)...)
		}
		for _, shared := range repo.plan.shared {
			removed = append(removed, unlinkBelow(shared, since)...)
		}
	}
	return removed
}

// tidy removes what is not open and was not there before, and the links that were made since then where git would follow
// them: it would write a person's words into whatever file a command chose. Links that were there it puts back.
func (d gitDir) tidy(since int64) (removed []string) {
	entries, _ := os.ReadDir(d.path)
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name())
		_, old := d.had[e.Name()]
		switch {
		case !d.open(e.Name()):
			if !old {
				removed = append(removed, remove(path)...)
			}
		case leadsAway(e.Type()):
			removed = append(removed, removeNew(path, since)...)
		case e.IsDir() && slices.Contains(gitFollowed, e.Name()):
			removed = append(removed, unlinkBelow(path, since)...)
		}
	}
	for name, had := range d.had {
		path := filepath.Join(d.path, name)
		if link, _ := os.Readlink(path); had.link != "" && link != had.link {
			removed = append(removed, removeNew(path, since)...)
			_ = os.Symlink(had.link, path)
		}
	}
	return removed
}

// leadsAway reports whether something of this type is not what git takes it for. A socket is: nobody listens any more.
func leadsAway(kind fs.FileMode) bool {
	return kind&(fs.ModeSymlink|fs.ModeNamedPipe|fs.ModeDevice|fs.ModeIrregular) != 0
}

func unlinkBelow(dir string, since int64) (removed []string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && leadsAway(d.Type()) {
			removed = append(removed, removeNew(path, since)...)
		}
		return nil // what cannot be read is not followed either
	})
	return removed
}

// removeNew removes what was made or moved there since then: nobody can set back when the kernel says that it was.
func removeNew(path string, since int64) []string {
	var made unix.Stat_t
	if unix.Lstat(path, &made) != nil || made.Ctim.Nano() < since {
		return nil
	}
	return remove(path)
}

func remove(path string) []string {
	if os.RemoveAll(path) != nil {
		return nil
	}
	return []string{path}
}

// mostTold is how many of the paths that were removed a command is told.
const mostTold = 10

func told(paths []string) string {
	if more := len(paths) - mostTold; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:mostTold], ", "), more)
	}
	return strings.Join(paths, ", ")
}

// removeIntruders does what the shim of the command in dir died too early to do, as far as git would be led elsewhere. What else
// is new stays: by now it may be another's.
func removeIntruders(dir string, sp spec) {
	var started unix.Stat_t
	if sp.Profile == nil || sp.Profile.Files != WorkspaceWrite || unix.Lstat(filepath.Join(dir, startedFile), &started) != nil {
		return
	}
	since := started.Mtim.Nano()
	repos := sp.Profile.repositories()
	for _, repo := range repos {
		for _, dir := range repo.plan.dirs {
			for _, name := range gitLeads {
				if name != "commondir" || exists(dir.path, "objects") { // a linked worktree must have one
					_ = removeNew(filepath.Join(dir.path, name), since)
				}
			}
		}
	}
	_ = (&cell{repos: repos}).tidy(dir)
}
