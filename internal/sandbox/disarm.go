package sandbox

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
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
	// An address with two colons names a program, and one with a dash is a flag.
	return slices.Contains(plainGitSettings, name) && !(s.section == "remote" && (strings.Contains(s.value, "::") || strings.HasPrefix(s.value, "-")))
}

// lookedFolders is how many folders are looked at after a command, for repositories that it made.
const lookedFolders = 1000

// disarm takes from the repositories of the workspace that were not known before what names a program, and says what it took. sealed are folders of git that
// are as they must be, and links are where indexes say that there are repositories: git goes there by itself.
func (p Profile) disarm(had before, sealed, links []string) (taken []string) {
	todo := slices.Concat([]string{p.Workspace}, nestedRepos(p.Workspace, p.Seal, lookedFolders), links)
	for done := map[string]bool{}; len(todo) > 0 && len(done) < lookedFolders; todo = todo[1:] {
		dir := todo[0]
		if done[dir] {
			continue
		}
		done[dir] = true
		around, err := beneath.Open(dir)
		if err != nil {
			continue
		}
		// A folder that has become one of git itself is that for git as soon as its .git is none.
		if isGitFolder(dir) && !slices.Contains(had.Bare, dir) {
			taken = append(taken, disarm(around)...)
		}
		if !slices.Contains(had.Known, dir) {
			gone, below := p.disarmAround(around, dir, sealed)
			taken = append(taken, gone...)
			for _, link := range below {
				todo = append(todo, filepath.Join(dir, link))
			}
		}
		_ = around.Close()
	}
	return taken
}

// disarmAround disarms the repository of a checkout. It returns which others its index names.
func (p Profile) disarmAround(around *beneath.Folder, dir string, sealed []string) (taken, links []string) {
	if git, err := around.Folder(".git"); err == nil {
		defer git.Close()
		taken = disarm(git)
		return taken, namedBy(git)
	} else if raw, _, more, err := around.Head(".git", gitFile); err == nil {
		// It says that the repository is elsewhere.
		to := gitfile.ParseGitdir(string(raw))
		at := resolved(gitfile.Beside(dir, to))
		switch {
		case to == "" && !more: // git takes it for none, and goes nowhere
		case slices.Contains(sealed, at):
		case !more && covered(at, append(slices.Clone(p.Write), p.Workspace)) && !covered(at, sealed):
			if git, err := beneath.Open(at); err == nil {
				defer git.Close()
				taken = disarm(git)
				return taken, namedBy(git)
			}
		default: // nowhere, or to a folder that is none of this workspace's: the command's own temporary one, or another repository
			taken = remove(around, ".git")
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		taken = remove(around, ".git") // a link, or worse
	}
	return taken, nil
}

// namedBy are the repositories that the index of a folder of git names.
func namedBy(git *beneath.Folder) []string {
	_, links := asGitDir(git).checkIndexes(0)
	return links
}

// asGitDir is a folder of git that a command made, with nothing in it that was there before and might follow a link.
func asGitDir(git *beneath.Folder) gitDir {
	d := gitDir{path: git.Name(), folder: git, open: openInGit, digits: digitsOf(filepath.Join(git.Name(), "objects")), had: map[string]string{}}
	for name := range d.names() {
		d.had[name] = ""
	}
	return d
}

// gitFile is how much is read of a .git file, more than a path can have.
const gitFile = 16 << 10

// gitFolders are the folders of git of repositories, which are sealed as they must be.
func gitFolders(repos []repository) (paths []string) {
	for _, repo := range repos {
		for _, dir := range repo.plan.dirs {
			paths = append(paths, dir.path)
		}
	}
	return paths
}

// disarm leaves a folder of git with plain settings, the samples of hooks, and nothing that leads elsewhere.
func disarm(git *beneath.Folder) (taken []string) {
	for _, name := range gitLeads {
		if _, err := git.Lstat(name); err == nil {
			taken = append(taken, remove(git, name)...)
		}
	}
	raw, _, err := git.Read("config", maxGitSettings)
	settings := parseGitSettings(string(raw))
	switch {
	case err != nil:
		if _, err := git.Lstat("config"); err == nil {
			taken = append(taken, remove(git, "config")...)
		}
	default:
		for _, s := range settings {
			if !plainGitSetting(s) {
				taken = append(taken, s.section+"."+s.variable+" of "+filepath.Join(git.Name(), "config"))
			}
		}
		// Written anew in any case: what was not understood here git might understand.
		if git.Replace("config", "config.disarmed", []byte(formatGitSettings(settings, plainGitSetting)), 0o644) != nil {
			taken = append(taken, remove(git, "config")...)
		}
	}
	if info, err := git.Lstat("objects/info/alternates"); err == nil && !info.Mode().IsRegular() {
		if folder, err := git.Folder("objects/info"); err == nil {
			taken = append(taken, remove(folder, "alternates")...)
			_ = folder.Close()
		}
	}
	d := asGitDir(git)
	taken = append(taken, d.tidy(0)...)
	gone, _ := d.checkIndexes(0)
	taken = append(taken, gone...)
	taken = append(taken, disarmModules(git)...)
	hooks, err := git.Folder("hooks")
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

// disarmModules disarms the submodules that a folder of git keeps: git goes into them by their place there, too.
func disarmModules(git *beneath.Folder) (taken []string) {
	modules, err := git.Folder("modules")
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
		one, err := modules.Folder(name)
		if err != nil {
			return err
		}
		defer one.Close()
		taken = append(taken, disarm(one)...)
		return fs.SkipDir
	})
	if err != nil { // more than anybody has, or somebody is changing them
		taken = append(taken, remove(git, "modules")...)
	}
	return taken
}
