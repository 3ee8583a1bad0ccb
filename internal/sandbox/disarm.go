package sandbox

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
)

// A command may make repositories in the workspace; tests do all the time. But their settings and hooks name programs, and a person's git
// runs these, outside of any sandbox, when it comes there: `git status` goes into every submodule. So what a repository that is new has
// besides plain settings goes when the command has ended. Those that were there before are sealed.

// plainGitSettings are what the settings of a repository may hold that a command made. A star
// between dots stands for any subsection.
var plainGitSettings = []string{
	"core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase", "core.precomposeunicode", "core.symlinks", "core.autocrlf",
	"core.eol", "core.safecrlf", "core.longpaths", "core.sharedrepository", "core.compression", "core.abbrev", "core.quotepath", "core.whitespace",
	"core.sparsecheckout", "core.sparsecheckoutcone", "extensions.objectformat", "extensions.refstorage", "user.name", "user.email", "author.name", "author.email",
	"committer.name", "committer.email", "init.defaultbranch", "pull.rebase", "pull.ff", "merge.ff", "push.default", "commit.gpgsign", "tag.gpgsign", "gc.auto",
	"remote.*.url", "remote.*.fetch", "branch.*.remote", "branch.*.merge", "branch.*.rebase", "submodule.*.active",
}

func plainGitSetting(s gitSetting) bool {
	name := s.section + "." + s.variable
	if s.subsection != "" {
		name = s.section + ".*." + s.variable
	}
	if !slices.Contains(plainGitSettings, name) || strings.ContainsAny(s.subsection+s.value, oddInSetting) {
		return false
	}
	switch {
	case s.section == "remote": // without an address, its name is one
		return plainAddress(s.subsection) && plainAddress(s.value)
	case s.section == "branch" && s.variable == "remote":
		return plainAddress(s.value)
	}
	return true
}

// plainAddress reports whether an address names no program, as one with two colons does, and is no flag.
func plainAddress(address string) bool {
	return !strings.Contains(address, "::") && !strings.HasPrefix(address, "-")
}

// plainIn is plainGitSetting among others: of a partial clone it is plain where git fetches what is missing, if the remote has nothing but folders of this machine as addresses and names no program
// for the other side.
func plainIn(settings []gitSetting) func(gitSetting) bool {
	fetches := func(remote string) bool {
		urls := 0
		for _, s := range settings {
			if s.section != "remote" || s.subsection != remote {
				continue
			}
			// An address in the network would be told what is in it by whoever asks git anything here.
			if s.variable == "uploadpack" || s.variable == "vcs" || s.variable == "url" && (!plainGitSetting(s) || strings.Contains(strings.TrimPrefix(s.value, "file:///"), ":")) {
				return false
			}
			if s.variable == "url" {
				urls++
			}
		}
		return remote != "" && urls > 0
	}
	return func(s gitSetting) bool {
		switch {
		case s.section == "remote" && (s.variable == "promisor" || s.variable == "partialclonefilter"):
			return fetches(s.subsection) && plainAddress(s.subsection) && !strings.HasPrefix(s.value, "-")
		case s.section == "extensions" && s.variable == "partialclone":
			return fetches(s.value)
		}
		return plainGitSetting(s)
	}
}

// onlyPlain reports whether the text of a file of settings is understood to its end, and has none that is more than plain but those of before.
func onlyPlain(text string, before []gitSetting) bool {
	settings, complete := parseGitSettings(text)
	plain := plainIn(settings)
	return complete && !slices.ContainsFunc(settings, func(s gitSetting) bool { return !plain(s) && !slices.Contains(before, s) })
}

// lookedFolders is how many folders are looked at before and after a command, for repositories that it made, and how many repositories are opened because an index names them.
const lookedFolders = 1000

// disarmFor is how long that may take after a command, and what leads there.
const disarmFor = 30 * time.Second

// mostNested is how deep repositories are followed that name each other.
const mostNested = 32

// disarming takes from the repositories of a workspace that a command made what names a program. It touches nothing outside of the workspace, and nothing that may have been there
// before: what was seen before is known, and what was not, because it lies too deep or there was too much to look at, has to be younger than the command.
type disarming struct {
	p     Profile
	had   before
	since int64 // when the command began
	top   *beneath.Folder
	e     *effort

	known, linked, absent, done map[string]bool

	restored map[string]bool // the folders of git, from the workspace, that are put back as they were

	opened int
	taken  []string
	left   []string // what may be the person's and names a program
}

// naming are the repositories that an index names, by where they are, and the folder of git that it is in.
type naming struct {
	dir   gitDir
	links []string
}

// disarm disarms the repositories of the workspace that were not there before, and puts back what was. It says what it took, and what it left though it would run programs. git goes by itself
// where an index says that there is a repository: an index that leads where nobody could look goes, too.
func (p Profile) disarm(had before, since int64, named []naming, e *effort, known *familiar) (taken, left []string) {
	unlock([]string{p.Workspace})
	top, err := beneath.Open(p.Workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []string{unseen(p.Workspace, err)}
	}
	defer top.Close()
	d := &disarming{p: p, had: had, since: since, top: top, e: e, known: setOf(had.Known), linked: setOf(had.Linked), absent: setOf(had.Absent), done: map[string]bool{}, restored: map[string]bool{}}
	for _, g := range had.Guarded {
		d.restored[g.Git] = g.Git != ""
	}
	d.visit(p.Workspace, 0)
	for _, n := range named {
		d.follow(n.dir, n.links, since, 0)
	}
	found := search{workspace: p.Workspace, skip: p.Seal, most: lookedFolders, since: since, e: e, known: known, open: d.openFolder, link: d.unlinkOwn}.run()
	for _, dir := range slices.Concat(found.repos, had.Known, slices.Sorted(maps.Keys(had.Guarded))) {
		d.visit(dir, 0)
	}
	if e.enough() != nil {
		d.left = append(d.left, unseen(p.Workspace, errEnough))
	}
	return d.taken, d.left
}

// openFolder opens a folder of the workspace, though a command took away the right to: what is hidden in it may be seen later, and would be taken for old.
func (d *disarming) openFolder(dir string) (*os.File, error) {
	folder, err := d.top.Unlocked(from(d.top, dir))
	if err != nil {
		d.hidden(dir, err)
		return nil, err
	}
	defer folder.Close()
	d.taken = append(d.taken, unpipe(folder, d.since)...)
	return os.Open("/proc/self/fd/" + strconv.Itoa(int(folder.Fd())))
}

// hidden reports whether a folder of the workspace is there and could not be opened, and tells it. What belongs to another user is not the command's doing.
func (d *disarming) hidden(dir string, err error) bool {
	if !filepath.IsLocal(from(d.top, dir)) || !owned(dir) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, beneath.ErrLink) || errors.Is(err, unix.ENOTDIR) {
		return false
	}
	if told := unseen(dir, err); !slices.Contains(d.left, told) {
		d.left = append(d.left, told)
	}
	return true
}

// owned reports whether something may belong to the user.
func owned(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) != nil || int(st.Uid) == os.Geteuid()
}

// unseen tells of a folder that could not be looked at.
func unseen(dir string, err error) string {
	return fmt.Sprintf("%s (not looked at: %v)", dir, cause(err))
}

// cause is an error without the path that it is about.
func cause(err error) error {
	if e, is := errors.AsType[*fs.PathError](err); is {
		return e.Err
	}
	return err
}

func setOf(paths []string) map[string]bool {
	set := make(map[string]bool, len(paths))
	for _, path := range paths {
		set[path] = true
	}
	return set
}

// follow visits the repositories that the indexes of a folder of git name. If one of them could not be judged, those indexes go that are new.
func (d *disarming) follow(git gitDir, links []string, since int64, depth int) {
	for _, dir := range links {
		if depth < mostNested && d.opened < lookedFolders && d.e.enough() == nil && d.visit(dir, depth+1) {
			continue
		}
		for name := range git.names() {
			if isIndex(name) {
				d.taken = append(d.taken, removeNew(git.folder, name, since)...)
			}
		}
		return
	}
}

// visit looks at one folder. It is false if there is a repository that would run programs and may be the person's, and no index named it before.
func (d *disarming) visit(dir string, depth int) bool {
	if ok, is := d.done[dir]; is || covered(dir, d.p.Seal) {
		return ok || !is
	}
	d.done[dir] = true // it may lead to itself
	d.done[dir] = d.look(dir, depth)
	return d.done[dir]
}

func (d *disarming) look(dir string, depth int) bool {
	around, err := d.top.Unlocked(from(d.top, dir))
	if err != nil {
		return !d.hidden(dir, err) // there is nothing, or it is not of the workspace
	}
	defer around.Close()
	// A folder that has become one of git itself is that for git as soon as its .git is none.
	if bareIn(around) && !slices.Contains(d.had.Bare, dir) && !slices.Contains(d.had.Sealed, dir) {
		d.opened++
		if !d.disarmNew(around, d.isNew(around, dir, "refs", "objects", "commondir"), dir, depth) {
			return d.linked[dir]
		}
	}
	if d.known[dir] {
		return d.judgeKnown(around, dir, depth)
	}
	if g, is := d.had.Guarded[dir]; is {
		d.taken = append(d.taken, g.restore(d.top, around, d.since)...)
		for _, folder := range g.Over {
			d.left = append(d.left, filepath.Join(d.top.Name(), g.Git, folder)+" (more files than are watched)")
		}
		if _, err := around.Lstat(".git"); err == nil && g.Dot.Mode == 0 {
			return d.disarmAround(around, dir, depth) || d.linked[dir]
		}
		if git, err := d.p.gitOf(d.top, around, d.had.Sealed); err == nil {
			d.goOn(git, dir, d.since, depth)
			_ = git.Close()
		}
		return d.judgeKnown(around, dir, depth)
	}
	d.unhook(around, dir)
	return d.disarmAround(around, dir, depth) || d.linked[dir]
}

// isNew reports whether a repository was not there before: then it is where it was looked, or it was born since. How old it is is told by names that git makes with it and then leaves.
func (d *disarming) isNew(folder *beneath.Folder, dir string, names ...string) bool {
	return d.had.Whole && searched(from(d.top, dir)) || dir == d.p.Workspace || d.absent[dir] ||
		slices.ContainsFunc(names, func(name string) bool { return bornSince(folder, name, d.since) })
}

// searched reports whether a search comes to a path of the workspace by itself: it does not look into what git keeps, but a link may lead there.
func searched(rel string) bool {
	return !slices.Contains(strings.Split(strings.TrimSuffix(rel, "/.git"), "/"), ".git")
}

// disarmNew disarms the folder of git of a checkout and goes where its index leads. One that may have been there before is left; it is false if that would run programs. What is
// taken is kept beside it: a person may have made it while the command ran, or it may have been elsewhere.
func (d *disarming) disarmNew(git *beneath.Folder, isNew bool, dir string, depth int) bool {
	for _, g := range d.had.Guarded {
		if g.ID != "" && g.ID == idOf(git) { // it was moved
			g.Git = from(d.top, git.Name())
			d.taken = append(d.taken, g.restoreIn(d.top, d.since)...)
			d.goOn(git, dir, d.since, depth)
			return true
		}
	}
	switch {
	case !isNew && !armed(git):
		return true
	case !isNew:
		d.left = append(d.left, git.Name())
		return false
	case armed(git):
		d.taken = append(d.taken, setAside(git, d.since)...)
	}
	d.taken = append(d.taken, disarm(git, d.e)...)
	d.goOn(git, dir, 0, depth)
	return true
}

// keptAs is how names end under which something is kept that a command is not to leave; git knows none of them.
func keptAs(since int64) string { return ".kept-" + strconv.FormatInt(since, 36) }

// setAside keeps the settings and hooks of a folder of git under names that git does not know.
func setAside(git *beneath.Folder, since int64) (told []string) {
	_ = git.Unlock()
	if raw, _, err := git.Read("config", maxGitSettings); err == nil {
		as := "config" + keptAs(since)
		if _, err := git.Lstat(as); err == nil { // the command took it first
			as += "-" + rand.Text()
		}
		if err := git.Replace(as, unknownName(), raw, 0o600); err == nil {
			told = append(told, "settings (kept in "+filepath.Join(git.Name(), as)+")")
		}
	}
	if as, err := keep(git, "hooks", since); err == nil {
		told = append(told, "hooks (kept in "+filepath.Join(git.Name(), as)+")")
	}
	return told
}

// goOn goes where the indexes of a folder of git lead, whose checkout is dir.
func (d *disarming) goOn(git *beneath.Folder, dir string, since int64, depth int) {
	g := asGitDir(git)
	gone, links := g.checkIndexes(since, d.e)
	d.taken = append(d.taken, gone...)
	for i, link := range links {
		links[i] = filepath.Join(dir, link)
	}
	d.follow(g, links, since, depth)
}

// disarmAround disarms the repository of a checkout; it is false if it was left and would run programs.
func (d *disarming) disarmAround(around *beneath.Folder, dir string, depth int) bool {
	git, err := around.Unlocked(".git")
	if err == nil {
		defer git.Close()
		d.opened++
		return d.disarmNew(git, d.isNew(around, dir, ".git"), dir, depth)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	d.opened++
	return d.judgeDot(around, dir, depth)
}

// bornSince reports whether something was made since then. When it was made nobody can set, nor move; where a file system does not tell it is not known to be new.
func bornSince(folder *beneath.Folder, name string, since int64) bool {
	var st unix.Statx_t
	err := unix.Statx(int(folder.Fd()), name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	return err == nil && st.Mask&unix.STATX_BTIME != 0 && st.Btime.Sec*1e9+int64(st.Btime.Nsec) >= since
}

// armed reports whether a folder of git has anything that is more than plain.
func armed(git *beneath.Folder) bool {
	a := arms{had: map[string]original{}, after: true}
	if a.add(git, ""); len(a.over) > 0 {
		return true
	}
	for name, is := range a.had {
		switch base := path.Base(name); {
		case base == "config" && nothingMore(is, original{Text: []byte{}}), path.Dir(name) == "info", path.Dir(name) == "objects/info" && is.Mode.IsRegular(), base == "commondir" && ownRecord(git, name):
		default:
			return true
		}
	}
	return false
}

// asGitDir is a folder of git that a command made, with nothing in it that was there before and might follow a link.
func asGitDir(git *beneath.Folder) gitDir {
	d := gitDir{path: git.Name(), folder: git, open: openInGit, digits: digitsOf(filepath.Join(git.Name(), "objects")), had: map[string]string{}, noted: &noted{}}
	for name := range d.names() {
		d.had[name] = ""
	}
	return d
}

// gitFile is how much is read of a .git file, more than a path can have.
const gitFile = 16 << 10

// gitFolders are the folders of git of repositories, which are sealed as they must be, and what is sealed as a whole.
func gitFolders(repos []repository) (paths []string) {
	for _, repo := range repos {
		paths = append(paths, repo.plan.sealed...)
		for _, dir := range repo.plan.dirs {
			paths = append(paths, dir.path)
		}
	}
	return paths
}

// disarm leaves a folder of git with plain settings, the samples of hooks, and nothing that leads elsewhere.
func disarm(git *beneath.Folder, e *effort) (taken []string) {
	for _, name := range gitLeads {
		if _, err := git.Lstat(name); err == nil && !(name == "commondir" && ownIn(git)) {
			taken = append(taken, remove(git, name)...)
		}
	}
	taken = append(taken, disarmSettings(git)...)
	if info, err := git.Lstat("objects/info/alternates"); err == nil && !info.Mode().IsRegular() {
		if folder, err := git.Unlocked("objects/info"); err == nil {
			taken = append(taken, remove(folder, "alternates")...)
			_ = folder.Close()
		}
	}
	d := asGitDir(git)
	taken = append(taken, d.tidy(0)...)
	gone, _ := d.checkIndexes(0, e)
	taken = append(taken, gone...)
	taken = append(taken, disarmModules(git, e)...)
	taken = append(taken, disarmRecords(git)...)
	hooks, err := git.Unlocked("hooks")
	if err != nil {
		if _, err := git.Lstat("hooks"); err == nil {
			taken = append(taken, remove(git, "hooks")...)
		}
		return taken
	}
	defer hooks.Close()
	entries, _ := hooks.ReadDir(".")
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".sample") || !e.Type().IsRegular() {
			taken = append(taken, remove(hooks, e.Name())...)
		}
	}
	return taken
}

// disarmSettings leaves the plain ones.
func disarmSettings(git *beneath.Folder) (taken []string) {
	_ = git.Unlock()
	raw, _, err := git.Read("config", maxGitSettings)
	if err != nil {
		if _, err := git.Lstat("config"); err == nil {
			taken = remove(git, "config")
		}
		return taken
	}
	settings, _ := parseGitSettings(string(raw))
	plain := plainIn(settings)
	for _, s := range settings {
		if !plain(s) {
			taken = append(taken, s.section+"."+s.variable+" of "+filepath.Join(git.Name(), "config"))
		}
	}
	// Written anew in any case: what was not understood here git might understand.
	if git.Replace("config", unknownName(), []byte(formatGitSettings(settings, plain)), 0o644) != nil {
		taken = append(taken, remove(git, "config")...)
	}
	return taken
}

// disarmRecords leaves the records of linked worktrees with nothing that leads out of the repository they lie in.
func disarmRecords(git *beneath.Folder) (taken []string) {
	entries, err := git.ReadDir("worktrees")
	if err != nil {
		if _, err := git.Lstat("worktrees"); err == nil {
			taken = remove(git, "worktrees")
		}
		return taken
	}
	for _, e := range entries {
		record, err := git.Unlocked(path.Join("worktrees", e.Name()))
		if err != nil {
			continue // git does not follow it
		}
		if _, err := record.Lstat("commondir"); err == nil && !ownIn(record) {
			taken = append(taken, remove(record, "commondir")...)
		}
		if _, err := record.Lstat(worktreeSettings); err == nil && !(gitDir{folder: record}).plain(worktreeSettings) {
			taken = append(taken, remove(record, worktreeSettings)...)
		}
		_ = record.Close()
	}
	return taken
}

// disarmModules disarms the submodules that a folder of git keeps: git goes into them by their place there, too.
func disarmModules(git *beneath.Folder, e *effort) (taken []string) {
	modules, err := git.Unlocked("modules")
	if err != nil {
		if _, err := git.Lstat("modules"); err == nil {
			taken = remove(git, "modules")
		}
		return taken
	}
	defer modules.Close()
	looked := 0
	err = modules.Walk(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if looked++; looked > nestedFolders {
			return fs.ErrInvalid
		}
		if _, err := modules.Lstat(path.Join(name, "HEAD")); err != nil {
			return nil
		}
		one, err := modules.Unlocked(name)
		if err != nil {
			return err
		}
		defer one.Close()
		taken = append(taken, disarm(one, e)...)
		return fs.SkipDir
	})
	if err != nil { // more than anybody has, or somebody is changing them
		taken = append(taken, remove(git, "modules")...)
	}
	return taken
}
