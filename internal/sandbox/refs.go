package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
)

// Bounds of the references that the commands of a task leave among its own: every git that lists references reads them all.
const (
	mostRefs   = 200
	longestRef = 255
)

// boundRefs removes the references of a task but for the branch that is checked out, if there are too many of them or they have names that are too long.
func (p Profile) boundRefs() (removed []string) {
	own, common := p.worktree()
	if own == "" {
		return nil
	}
	on := strings.TrimSpace(strings.TrimPrefix(gitfile.Text(filepath.Join(own, "HEAD")), "ref: "))
	for _, ref := range p.Refs {
		folder, err := beneath.Open(filepath.Join(common, ref))
		if err != nil {
			continue
		}
		if crowdedRefs(folder, ref) {
			entries, _ := folder.ReadDir(".")
			for _, e := range entries {
				if name := ref + "/" + e.Name(); name != on && !strings.HasPrefix(on, name+"/") {
					removed = append(removed, remove(folder, e.Name())...)
				}
			}
		}
		_ = folder.Close()
	}
	return removed
}

// maxRef is more than a reference has.
const maxRef = 4 << 10

// directRefs has no reference of the task's stand for another one: whoever commits there would move that, and it may be the person's. Such a one is what its log says it was, and
// goes if there is none.
func (p Profile) directRefs() (removed []string) {
	own, common := p.worktree()
	if own == "" {
		return nil
	}
	for _, ref := range p.Refs {
		folder, err := beneath.Open(filepath.Join(common, ref))
		if err != nil {
			continue
		}
		_ = folder.Walk(".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil //nolint:nilerr // what cannot be read is no reference for git either
			}
			if raw, _, err := folder.Read(name, maxRef); err != nil || !strings.HasPrefix(strings.TrimSpace(string(raw)), "ref:") {
				return nil //nolint:nilerr // the same
			}
			parent, err := folder.Folder(path.Dir(name))
			if err != nil {
				return nil //nolint:nilerr // it is gone
			}
			defer parent.Close()
			was := lastLogged(filepath.Join(common, "logs", ref, name))
			if was == "" || parent.Replace(path.Base(name), unknownName(), []byte(was+"\n"), 0o644) != nil {
				removed = append(removed, remove(parent, path.Base(name))...)
				return nil
			}
			removed = append(removed, "the symbolic reference "+ref+"/"+name)
			return nil
		})
		_ = folder.Close()
	}
	return removed
}

// lastLogged is what a reference was last changed to, by its log; empty if that does not tell.
func lastLogged(log string) string {
	raw, err := gitfile.Read(log, maxGitSettings)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 2 || len(fields[1]) != 40 && len(fields[1]) != 64 || strings.Trim(fields[1], "0123456789abcdef") != "" || strings.Trim(fields[1], "0") == "" {
		return ""
	}
	return fields[1]
}

// overcrowded says that the command has too many references by now, or nothing: every git of others waits while it lists them.
func (p Profile) overcrowded() string {
	_, common := p.worktree()
	if common == "" {
		return ""
	}
	for _, ref := range p.Refs {
		folder, err := beneath.Open(filepath.Join(common, ref))
		if err != nil {
			continue
		}
		crowded := crowdedRefs(folder, ref)
		_ = folder.Close()
		if crowded {
			return fmt.Sprintf("it made more than %d references in %s, or one with a name of more than %d characters", mostRefs, ref, longestRef)
		}
	}
	return ""
}

// crowdedRefs reports whether a folder of references has too many, or one that is too long.
func crowdedRefs(folder *beneath.Folder, ref string) bool {
	seen, crowded := 0, false
	_ = folder.Walk(".", func(name string, _ fs.DirEntry, _ error) error {
		if seen++; seen > mostRefs || len(ref)+1+len(name) > longestRef {
			crowded = true
			return fs.SkipAll
		}
		return nil
	})
	return crowded
}

// forsake removes what is under way in a task's worktree if it names branches besides the task's own. Whoever goes on with it, or gives it up, would have git set those
// to what the task wrote.
func (d gitDir) forsake(own []string) (removed []string) {
	for _, name := range []string{"rebase-merge", "rebase-apply"} {
		state, err := d.folder.Unlocked(name)
		if err != nil {
			continue
		}
		alien := !onlyOwn(state, "head-name", own, wholeText) || !onlyOwn(state, "update-refs", own, everyLine) || !onlyOwn(state, rebasePlan, own, planned)
		_ = state.Close()
		if alien {
			removed = append(removed, remove(d.folder, name)...)
		}
	}
	if !onlyOwn(d.folder, "BISECT_START", own, wholeText) {
		for name := range d.names() {
			if strings.HasPrefix(name, "BISECT_") {
				removed = append(removed, remove(d.folder, name)...)
			}
		}
	}
	return removed
}

// onlyOwn reports whether all references that a file names are a task's own. One that is not there names none, and one that cannot be read may name any.
func onlyOwn(folder *beneath.Folder, name string, own []string, named func(string) []string) bool {
	raw, _, err := readSized(folder, name, maxPlan)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return !slices.ContainsFunc(named(string(raw)), func(ref string) bool {
		return ref != "detached HEAD" && !isHex(ref, 40) && !isHex(ref, 64) && !slices.ContainsFunc(own, func(folder string) bool {
			return strings.HasPrefix(ref, folder+"/") || strings.HasPrefix(ref, strings.TrimPrefix(folder, "refs/heads/")+"/")
		})
	})
}

// wholeText is the reference that all of a file is.
func wholeText(text string) []string { return []string{strings.TrimSpace(text)} }

// everyLine are the references of a rebase that moves several, with where they were and where they go.
func everyLine(text string) (refs []string) {
	for line := range strings.Lines(text) {
		refs = append(refs, strings.TrimSpace(line))
	}
	return refs
}

// planned are the references that the plan of a rebase moves.
func planned(text string) (refs []string) {
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) > 0 && (words[0] == "update-ref" || words[0] == "u") {
			refs = append(refs, strings.Join(words[1:], " "))
		}
	}
	return refs
}
