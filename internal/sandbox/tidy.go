package sandbox

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
)

// gitLeads are the names in a folder of git, or of objects, that lead it to another one, or to other settings. No git that works in a
// repository of its own makes them, but for settings of a worktree that is made sparse.
var gitLeads = []string{"commondir", worktreeSettings, "alternates", "http-alternates"}

// gitFollowed are the folders in a folder of git through whose links git would write. What is in objects has a name that
// its content decides.
var gitFollowed = []string{"logs", "refs", "sequencer", "rebase-merge", "rebase-apply", "rr-cache", "rebased-patches", "reftable", "lfs"}

// gitSteps are those of them that say how to go on with what is under way.
var gitSteps = []string{"sequencer", "rebase-merge", "rebase-apply"}

// tidy removes what a command cannot be kept from making and must not leave in the folders of git. since is when it began. It returns what it removed, and the repositories that
// the indexes name.
func (c *cell) tidy(p Profile, since int64, e *effort) (removed []string, named []naming) {
	for _, repo := range c.repos {
		for _, dir := range repo.plan.dirs {
			removed = append(removed, dir.tidy(since)...)
			if dir.linked && len(p.Refs) > 0 {
				removed = append(removed, dir.forsake(p.Refs)...)
			}
			if dir.bears {
				continue
			}
			gone, links := dir.checkIndexes(since, e)
			removed = append(removed, gone...)
			named = append(named, naming{dir, p.linked(dir, repo.dir, links)})
		}
		for _, shared := range repo.plan.shared {
			removed = append(removed, unlinkBelow(shared.folder, "", shared.noted, since)...)
		}
	}
	removed = append(removed, p.boundRefs()...)
	removed = append(removed, p.directRefs()...)
	return removed, named
}

// startOf is when the command in a spool folder began, by the clock of files.
func startOf(dir string) (since int64, ok bool) {
	var started unix.Stat_t
	err := unix.Lstat(filepath.Join(dir, startedFile), &started)
	return started.Mtim.Nano(), err == nil
}

// indexes are how the names of files begin that git reads as an index.
var indexes = []string{"index", "sharedindex.", "next-index-"}

// checkIndexes removes the indexes by which git would write outside of the checkout, of those that are new. It returns which repositories the others name.
func (d gitDir) checkIndexes(since int64, e *effort) (removed, links []string) {
	for name := range d.names() {
		if !isIndex(name) {
			continue
		}
		if e.enough() != nil {
			removed = append(removed, removeNew(d.folder, name, since)...)
			continue
		}
		raw, info, err := readSized(d.folder, name, maxIndex)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var named []string
		end := 0
		if err == nil {
			named, end, err = readIndex(raw, d.digits)
		}
		switch {
		case err != nil:
			removed = append(removed, removeNew(d.folder, name, since)...)
		case name == "index" && !d.linked && isNew(d.folder, name, since):
			d.forget(name, raw, end, info.Mode().Perm())
		}
		links = append(links, named...)
	}
	return removed, links
}

// readSized is the content of a regular file of at most limit bytes. What is taken of memory is what it has.
func readSized(folder *beneath.Folder, name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, info, err := folder.File(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, info, &fs.PathError{Op: "read", Path: name, Err: beneath.ErrTooLarge}
	}
	raw := make([]byte, info.Size())
	n, err := io.ReadFull(f, raw)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, info, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return raw[:n], info, nil
}

// forget takes out of an index what it remembers, as git itself would change it. If a git of the person's is at it, that is left to the next command's end.
func (d gitDir) forget(name string, raw []byte, end int, mode fs.FileMode) {
	out := forgetful(raw, end, d.digits)
	if len(out) == len(raw) {
		return
	}
	f, err := d.folder.Create(name+".lock", mode)
	if err != nil {
		return
	}
	_, err = f.Write(out)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = d.folder.Rename(name+".lock", name)
	}
	if err != nil {
		_ = d.folder.Remove(name + ".lock")
	}
}

// names are what is in the folder by now.
func (d gitDir) names() map[string]bool {
	entries, _ := d.folder.ReadDir(".")
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}

// tidy removes what is not open and was not there before, and the links that were not there where git would follow
// them: it would write a person's words into whatever file a command chose. Links that were there it puts back. It works on the folder
// that was looked at before the command, wherever that is by now: what has its name may be a link of the command's.
func (d gitDir) tidy(since int64) (removed []string) {
	entries, _ := d.folder.ReadDir(".")
	for _, e := range entries {
		_, old := d.had[e.Name()]
		switch {
		case strings.HasPrefix(e.Name(), asidePrefix):
			_ = d.folder.RemoveAll(e.Name()) // which was told when it was moved aside
		case !d.open(e.Name()):
			if !old && (e.Name() != worktreeSettings || !d.plain(e.Name())) {
				removed = append(removed, remove(d.folder, e.Name())...)
			}
		case leadsAway(e.Type()):
			if !d.noted.has(d.folder, e.Name(), e.Name(), since) {
				removed = append(removed, remove(d.folder, e.Name())...)
			}
		case e.IsDir() && !old && strings.Trim(e.Name(), capitals) == "" && e.Name() != "NOTES_MERGE_WORKTREE":
			removed = append(removed, removeNew(d.folder, e.Name(), since)...) // such names are git's for files
		case e.IsDir() && slices.Contains(gitFollowed, e.Name()):
			removed = append(removed, d.tidyBelow(e.Name(), since)...)
		}
	}
	removed = append(removed, d.unreplace(since)...)
	for name, link := range d.had {
		if link == "" {
			continue
		}
		if is, _ := d.folder.Readlink(name); is != link {
			removed = append(removed, removeNew(d.folder, name, since)...)
			_ = d.folder.Symlink(link, name)
		}
	}
	return removed
}

// tidyBelow is tidy for one of the folders through whose links git would write.
func (d gitDir) tidyBelow(name string, since int64) (removed []string) {
	below, err := d.folder.Unlocked(name)
	if err != nil {
		return nil
	}
	removed = unlinkBelow(below, name, d.noted, since)
	odd := false
	if slices.Contains(gitSteps, name) {
		removed = append(removed, unplan(below, d.noted.planOf(name), since)...)
		odd = oddStrategy(below) && !d.noted.stateSame(name, stateOf(below))
	}
	_ = below.Close()
	if odd {
		removed = append(removed, remove(d.folder, name)...)
	}
	return removed
}

// leadsAway reports whether something of this type is not what git takes it for. A socket is: nobody listens any more.
func leadsAway(kind fs.FileMode) bool {
	return kind&(fs.ModeSymlink|fs.ModeNamedPipe|fs.ModeDevice|fs.ModeIrregular) != 0
}

// unlinkBelow removes the links in a folder that were not noted there, under this path.
func unlinkBelow(folder *beneath.Folder, at string, had *noted, since int64) (removed []string) {
	eachLink(folder, at, func(parent *beneath.Folder, name, as string) bool {
		if !had.has(parent, name, as, since) {
			removed = append(removed, remove(parent, name)...)
		}
		return true
	})
	return removed
}

// replacing are the lines of packed-refs that have git take one object for another; ok is false if it cannot be read as git would.
func (d gitDir) replacing() (lines []string, ok bool) {
	f, _, err := d.folder.File(packedRefs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	defer f.Close()
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, maxRefLine)
	for scan.Scan() {
		if strings.Contains(scan.Text(), replacements+"/") {
			lines = append(lines, scan.Text())
		}
	}
	return lines, scan.Err() == nil
}

// maxRefLine is longer than any line of packed-refs, and maxPackedRefs is more than what a million references take.
const (
	maxRefLine    = 64 << 10
	maxPackedRefs = 128 << 20
)

// packedRefs is where git keeps references that nobody changed for long, all in one file.
const packedRefs = "packed-refs"

// unreplace takes the replacements out of packed-refs that a command put there, as git itself would change it. One that is no file of git's, or larger than any, is put aside.
func (d gitDir) unreplace(since int64) (removed []string) {
	theirs := func(line string) bool { return slices.Contains(d.replaced, strings.TrimRight(line, "\r\n")) }
	if now, ok := d.replacing(); ok && !slices.ContainsFunc(now, func(line string) bool { return !theirs(line) }) {
		return nil
	}
	at := filepath.Join(d.path, packedRefs)
	lock, err := d.lockRefs()
	if err != nil {
		return []string{failed("lock "+at, err)}
	}
	defer d.folder.Remove(packedRefs + ".lock") // unless it has become the file
	defer lock.Close()
	raw, info, err := readSized(d.folder, packedRefs, maxPackedRefs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, beneath.ErrTooLarge) || err == nil && hasLongLine(raw) || errors.Is(err, beneath.ErrNotRegular) || errors.Is(err, beneath.ErrLink):
		return original{}.put(d.folder, packedRefs, since)
	case err != nil: // the references in it are worth more
		return []string{failed("read "+at, err)}
	}
	_, err = lock.WriteString(unreplaced(string(raw), theirs))
	if err = errors.Join(err, lock.Chmod(info.Mode().Perm()), lock.Sync()); err == nil {
		err = d.folder.Rename(packedRefs+".lock", packedRefs)
	}
	if err != nil {
		return []string{failed("write "+at, err)}
	}
	return []string{replacements + " in " + at}
}

// hasLongLine reports whether a line is longer than any of packed-refs.
func hasLongLine(text []byte) bool {
	for line := range bytes.Lines(text) {
		if len(line) > maxRefLine {
			return true
		}
	}
	return false
}

// unreplaced is the text of packed-refs without replacements, but for those that are kept. A line that begins with ^ says more about the one before it.
func unreplaced(text string, keep func(line string) bool) string {
	var kept strings.Builder
	gone := false
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "^") {
			gone = strings.Contains(line, replacements+"/") && !keep(line)
		}
		if !gone {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// How long a lock of packed-refs is waited for while it does not change, as long as git waits, and in all.
const (
	lockStale = time.Second
	lockFor   = 10 * time.Second
)

// lockRefs takes git's lock of packed-refs. One at which nobody is any more goes: a command may have left it.
func (d gitDir) lockRefs() (*os.File, error) {
	const name = packedRefs + ".lock"
	var was unix.Stat_t
	for begin, changed := time.Now(), time.Now(); ; time.Sleep(10 * time.Millisecond) {
		f, err := d.folder.Create(name, 0o644)
		if !errors.Is(err, fs.ErrExist) || time.Since(begin) > lockFor {
			return f, err
		}
		var is unix.Stat_t
		_ = unix.Fstatat(int(d.folder.Fd()), name, &is, unix.AT_SYMLINK_NOFOLLOW)
		if is.Ino != was.Ino || is.Ctim != was.Ctim {
			was, changed = is, time.Now()
		}
		if time.Since(changed) > lockStale {
			_ = remove(d.folder, name)
		}
	}
}

// strategies are git's own ways to merge; any other is a program of that name.
var strategies = []string{"ort", "recursive", "resolve", "octopus", "ours", "subtree"}

// pickOptions are what git keeps of the flags of a cherry-pick or revert of several commits.
var pickOptions = []string{
	"no-commit", "edit", "allow-empty", "allow-empty-message", "drop-redundant-commits", "keep-redundant-commits", "signoff", "record-origin", "allow-ff", "mainline",
	"strategy", "gpg-sign", "strategy-option", "allow-rerere-auto", "default-msg-cleanup",
}

// stateFiles are the files by which a rebase, cherry-pick or revert names how to merge and apply.
var stateFiles = []string{"strategy", "opts", "apply-opt"}

// oddStrategy reports whether a rebase, cherry-pick or revert that is under way would run a program when a person goes on with it.
func oddStrategy(folder *beneath.Folder) bool {
	for _, name := range stateFiles {
		raw, _, err := folder.Read(name, maxGitSettings)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return true
		}
		if name == "strategy" {
			if way := strings.TrimSpace(string(raw)); way != "" && !slices.Contains(strategies, way) {
				return true
			}
			continue
		}
		if name == "apply-opt" {
			if slices.ContainsFunc(strings.FieldsFunc(string(raw), func(r rune) bool { return strings.ContainsRune("' \t\r\n", r) }), oddPatchOption) {
				return true
			}
			continue
		}
		settings, complete := parseGitSettings(string(raw))
		if !complete || slices.ContainsFunc(settings, func(s gitSetting) bool {
			return s.section != "options" || s.subsection != "" || !slices.Contains(pickOptions, s.variable) || s.variable == "strategy" && !slices.Contains(strategies, s.value)
		}) {
			return true
		}
	}
	return false
}

// patchOptions are how the flags begin that `git am` hands on to what applies a patch.
var patchOptions = []string{"--whitespace=", "-C", "-p", "--directory=", "--exclude=", "--include=", "--reject", "--ignore-space-change", "--ignore-whitespace"}

func oddPatchOption(word string) bool {
	return !slices.ContainsFunc(patchOptions, func(begin string) bool { return strings.HasPrefix(word, begin) })
}

// rebasePlan is where git keeps what is left to do of a rebase.
const rebasePlan = "git-rebase-todo"

// maxPlan is more than the plan of a rebase of a hundred thousand commits takes.
const maxPlan = 64 << 20

// runsProgram reports whether a line of the plan of a rebase runs a program.
func runsProgram(line string) bool {
	word, _, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	word, _, _ = strings.Cut(strings.TrimSpace(word), "\t")
	return word == "exec" || word == "x"
}

// unplan takes the programs out of the plan of a rebase that a command left: a person who goes on with it would run them. Those that were in it before stay; where nobody
// noted them, the plan stays if it is older than the command.
func unplan(folder *beneath.Folder, had *plan, since int64) (removed []string) {
	if had == nil && !isNew(folder, rebasePlan, since) {
		return nil
	}
	raw, _, err := readSized(folder, rebasePlan, maxPlan)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return remove(folder, rebasePlan) // no plan of git's is like that
	}
	var kept strings.Builder
	for line := range strings.Lines(string(raw)) {
		if runsProgram(line) && (had == nil || !slices.Contains(had.Programs, strings.TrimSpace(line))) {
			removed = append(removed, strings.TrimSpace(line)+" of "+filepath.Join(folder.Name(), rebasePlan))
			continue
		}
		kept.WriteString(line)
	}
	if len(removed) > 0 && folder.Replace(rebasePlan, unknownName(), []byte(kept.String()), 0o644) != nil {
		return append(removed, remove(folder, rebasePlan)...)
	}
	return removed
}

// removeNew removes what was made or moved there since then.
func removeNew(folder *beneath.Folder, name string, since int64) []string {
	if !isNew(folder, name, since) {
		return nil
	}
	return remove(folder, name)
}

// isNew reports whether something was made, changed or moved there since then: nobody can set back when the kernel says that it was.
func isNew(folder *beneath.Folder, name string, since int64) bool {
	var made unix.Stat_t
	return unix.Fstatat(int(folder.Fd()), name, &made, unix.AT_SYMLINK_NOFOLLOW) == nil && made.Ctim.Nano() >= since
}

// remove removes something of a folder, and tells it. It has another name at once, which git does not know: to remove it may take time, or fail.
func remove(folder *beneath.Folder, name string) []string {
	at := filepath.Join(folder.Name(), name)
	_ = folder.Unlock() // what a command made, it can make unchangeable
	aside := unknownName()
	err := unix.Renameat2(int(folder.Fd()), name, int(folder.Fd()), aside, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil: // it may be possible where it is
		if err := folder.RemoveAll(name); err != nil {
			return []string{failed("remove "+at, err)}
		}
	default:
		if err := folder.RemoveAll(aside); err != nil {
			at += " (what is left of it is in " + aside + ": " + cause(err).Error() + ")"
		}
	}
	return []string{at}
}

// failedPrefix is how it is told that something could not be done; paths begin otherwise.
const failedPrefix = "could not "

func failed(what string, err error) string { return failedPrefix + what + ": " + cause(err).Error() }

// failures parts what could not be done from what was removed.
func failures(told []string) (removed, failed []string) {
	for _, one := range told {
		if strings.HasPrefix(one, failedPrefix) {
			failed = append(failed, one)
		} else {
			removed = append(removed, one)
		}
	}
	return removed, failed
}

// mostTold is how many of the paths that were removed a command is told.
const mostTold = 10

func told(paths []string) string {
	if more := len(paths) - mostTold; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:mostTold], ", "), more)
	}
	return strings.Join(paths, ", ")
}

// unlock gives back the rights to folders of git that a command has taken from their owner. git finds what it knows the names of in a folder that cannot be listed.
func unlock(dirs []string) {
	root, err := beneath.Open("/")
	if err != nil {
		return
	}
	defer root.Close()
	for _, dir := range dirs {
		if folder, err := root.Unlocked(strings.TrimPrefix(dir, "/")); err == nil {
			_ = folder.Close()
		}
	}
}

// removeIntruders does what the shim of the command in dir died too early to do, as far as git would be led elsewhere. What else
// is new stays: by now it may be another's.
func removeIntruders(dir string, sp spec) {
	since, ok := startOf(dir)
	if sp.Profile == nil || sp.Profile.Files != WorkspaceWrite || !ok {
		return
	}
	had, err := loadUpTo(dir, knownFile, maxKnown, decodeBefore)
	unlock(had.Sealed)
	repos := sp.Profile.repositories(searchRepos(sp.Profile.Workspace, sp.Profile.Seal, nil))
	defer closeRepositories(repos)
	for _, repo := range repos {
		for _, dir := range repo.plan.dirs {
			_, whole := dir.had["objects"]
			for _, name := range gitLeads {
				if (name != "commondir" || whole) && (name != worktreeSettings || !dir.plain(name)) { // a linked worktree must have one
					_ = removeNew(dir.folder, name, since)
				}
			}
		}
	}
	for _, repo := range repos {
		for i, dir := range repo.plan.dirs {
			repo.plan.dirs[i].noted = had.Noted[dir.path] // nil: what is older than the command stays
			if repo.plan.dirs[i].replaced = had.Replaced[dir.path]; err == nil && !slices.Contains(had.Shallow, dir.path) {
				_ = removeNew(dir.folder, "shallow", since)
			}
		}
	}
	for _, repo := range repos {
		for i, shared := range repo.plan.shared {
			repo.plan.shared[i].noted = had.Noted[shared.folder.Name()]
		}
	}
	e := newEffort(disarmFor)
	_, named := (&cell{repos: repos}).tidy(*sp.Profile, since, e)
	if err == nil {
		_, _ = sp.Profile.disarm(had, since, named, e, nil) // nobody is left to be told
	}
	reclaimStores(dir, repos)
}
