package git

import (
	"context"
	"debug/elf"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// site is where a git works, as far as files tell that nobody can change while it is looked at: what it is shown, and may write.
type site struct {
	top    string // the checkout's files; empty: none
	git    string // what git keeps of this checkout
	common string // what all checkouts of the repository share; empty: there is no repository
	read   []string
	write  []string
	ways   []string // paths that it is led to files by, over whatever links
	refuse error    // why no git works here; nil: one may
}

// access is what a git changes.
type access int

const (
	reads     access = iota
	keeps            // objects, and what git keeps of one checkout, as its index
	stores           // and what all checkouts share: refs
	checksOut        // the files of a checkout, and as keeps
	makes            // the files of a checkout, and as stores
)

// shares reports whether what all checkouts of a repository share may be changed.
func (a access) shares() bool { return a == stores || a == makes }

// files reports whether the files of a checkout may be changed.
func (a access) files() bool { return a == checksOut || a == makes }

// verbs are the commands of git that are used, and what each changes. One that is not here is refused: whoever adds it decides.
var verbs = map[string]access{
	"cat-file": reads, "check-attr": reads, "config": reads, "diff-files": reads, "diff-index": reads, "diff-tree": reads, "for-each-ref": reads, "fsck": reads, "log": reads,
	"ls-files": reads, "ls-tree": reads, "merge-base": reads, "merge-file": reads, "pack-objects": reads, "rev-list": reads, "rev-parse": reads, "status": reads, "symbolic-ref": reads, "verify-pack": reads,
	"add": keeps, "commit-tree": keeps, "fast-import": stores, "hash-object": keeps, "index-pack": stores, "merge-tree": keeps, "pack-refs": stores, "repack": stores,
	"update-index": keeps, "update-ref": stores, "write-tree": keeps, "fetch": stores, "push": stores,
	"checkout-index": checksOut, "init": makes, "read-tree": checksOut, "reset": makes, "worktree": makes,
}

// accessOf is what a call changes.
func accessOf(c call) (access, error) {
	a, ok := verbs[c.args[0]]
	switch {
	case !ok:
		return 0, td.Errorf(td.Internal, "git %s is not among the commands that are used", c.args[0])
	case c.args[0] == "worktree" && slices.Contains(c.args, "list"):
		return reads, nil
	case c.args[0] == "config" && c.keep:
		return stores, nil
	case c.args[0] == "read-tree" && !slices.Contains(c.args, "-u"):
		return keeps, nil
	}
	return a, nil
}

// siteOf finds where a call works. Nothing is run for it, and a .git file is believed only if what it leads to knows of it.
func siteOf(c call) site {
	var s site
	if dir := variable(c.env, "GIT_DIR"); dir != "" {
		s.git, s.top = real(dir), real(variable(c.env, "GIT_WORK_TREE"))
		s.common = commonFor(s.git)
	} else {
		s.discover(real(c.dir))
		if s.refuse == nil && s.common != "" {
			if s.refuse = elsewhere(s.common, s.top); s.refuse == nil {
				s.refuse = unknownFormat(s.common, s.top)
			}
		}
	}
	if s.refuse == nil {
		s.refuse = s.waits()
	}
	if index := filepath.Join(s.git, "index"); s.refuse == nil && s.ofTask() && isLink(index) {
		s.refuse = td.Errorf(td.Conflict, "%s is a symbolic link: git would write to where it leads", index).
			WithHint("%s", adviceAt(s.top, "rm %s, then git -C %s reset", index, s.top))
	}
	s.read = append(s.read, real(c.dir))
	if c.own && s.common == "" {
		s.write = append(s.write, filepath.Dir(real(c.dir))) // what is to be made
	}
	switch index := variable(c.env, "GIT_INDEX_FILE"); {
	case index == "":
	case !covers(real(index), s.common):
		// A task's own index lies in a folder beside those of others: one view serves them all.
		s.write = append(s.write, filepath.Dir(filepath.Dir(real(index))))
	case covers(real(index), filepath.Join(s.common, indexFolder)):
		s.write = append(s.write, filepath.Dir(real(index)))
	}
	if objects := variable(c.env, "GIT_OBJECT_DIRECTORY"); objects != "" {
		s.write = append(s.write, real(objects))
	}
	return s
}

// discover finds the repository around a folder, as git does.
func (s *site) discover(dir string) {
	for at := dir; ; at = filepath.Dir(at) {
		dot := filepath.Join(at, ".git")
		info, err := os.Lstat(dot)
		switch {
		case err == nil && info.Mode()&fs.ModeSymlink != 0:
			// What it leads to is another folder's repository, and whoever can write here can have made it.
			s.top = at
			s.refuse = td.Errorf(td.Refused, "%s is a symbolic link: it may lead to the repository of another folder", dot).
				WithHint("%s", adviceAt(at, "git -C %s worktree add <folder>, and work there; or move the repository to %s", at, dot))
			return
		case err == nil && info.IsDir():
			s.top, s.git = at, real(dot)
			s.common = commonFor(s.git)
			return
		case err == nil:
			s.top = at
			if s.git = gitfile.Gitdir(dot); s.git != "" && knows(s.git, dot) {
				s.git = real(s.git)
				s.common = commonFor(s.git)
			} else {
				s.git = ""
			}
			return
		case gitfile.Resembles(func(name string) bool {
			return isFile(filepath.Join(at, name)) || name != "HEAD" && isDir(filepath.Join(at, name))
		}):
			s.git, s.common = at, commonFor(at) // bare
			return
		}
		if filepath.Dir(at) == at {
			return
		}
	}
}

// waits refuses a place in which a pipe, a socket or a device stands where git reads a file: it would wait for whoever writes into it.
func (s *site) waits() error {
	var files []string
	if s.git != "" {
		head, _ := strings.CutPrefix(gitfile.Text(filepath.Join(s.git, "HEAD")), "ref: ")
		for _, name := range []string{"HEAD", "index", "config", "packed-refs", "shallow", filepath.Clean("/" + strings.TrimSpace(head))} {
			files = append(files, filepath.Join(s.git, name), filepath.Join(s.common, name))
		}
		files = append(files, filepath.Join(s.common, "info/exclude"), filepath.Join(s.common, "info/attributes"), filepath.Join(s.common, "objects/info/alternates"))
	}
	if s.top != "" {
		files = append(files, filepath.Join(s.top, ".gitignore"), filepath.Join(s.top, ".gitattributes"))
	}
	for _, file := range files {
		info, err := os.Lstat(file)
		if err == nil && info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket|fs.ModeDevice|fs.ModeCharDevice|fs.ModeIrregular) != 0 {
			return td.Errorf(td.Refused, "%s is no file: git would wait for it", file).WithHint("rm %s", file)
		}
	}
	return nil
}

// elsewhere refuses a repository that keeps in another place what makes it one: whoever can write there has not been asked, and git is shown nothing outside of it.
func elsewhere(common, top string) error {
	for _, name := range []string{"objects", "refs"} {
		if info, err := os.Lstat(filepath.Join(common, name)); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return td.Errorf(td.Refused, "%s is a symbolic link: taskdaemon works with repositories that are in one place", filepath.Join(common, name)).
				WithHint("put what it leads to in its place; or: git clone %s <folder>, and work there", top)
		}
	}
	return nil
}

// commonFor is the folder that a folder of git's shares with others of its repository. It is believed of the record of a worktree alone,
// which lies in the repository that it names: anything else would be led to another's.
func commonFor(git string) string {
	if named := gitfile.Common(git); named != "" {
		if common := real(named); filepath.Dir(real(git)) == filepath.Join(common, "worktrees") {
			return common
		}
	}
	return git
}

// knows reports whether a folder of git's is meant for the checkout whose .git file leads to it: the record of a linked worktree says where that
// is, a submodule's lies in the repository around it, and any other has to say so in its settings.
func knows(git, dot string) bool {
	top := filepath.Dir(dot)
	if back := gitfile.Back(git); back != "" {
		draft := filepath.Dir(back) // from where it was moved to its place
		return sameFile(back, dot) || filepath.Dir(draft) == filepath.Join(filepath.Dir(top), making) && strings.HasPrefix(filepath.Base(draft), filepath.Base(top)+".")
	}
	if !isFile(filepath.Join(git, "HEAD")) {
		return false
	}
	if around := CommonDir(filepath.Dir(top)); around != "" && covers(real(git), filepath.Join(real(around), "modules")) {
		return true
	}
	at := sandbox.GitSetting(gitfile.Text(filepath.Join(git, "config")), "core", "worktree")
	return at != "" && sameFile(gitfile.Beside(git, at), top)
}

// misfit says what is wrong with the repository around a folder in which git finds none; nil if there is nothing that looks like one. A task that is to have a worktree would
// work in the folder itself otherwise.
func misfit(dir string) error {
	s := siteOf(call{dir: dir})
	git := s.git
	switch {
	case s.refuse != nil:
		return s.refuse
	case s.top == "":
		return nil
	case git == "":
		if git = gitfile.Gitdir(filepath.Join(s.top, ".git")); git == "" || gitfile.Back(git) != "" || !isFile(filepath.Join(git, "HEAD")) {
			return nil
		}
		return td.Errorf(td.Refused, "the .git file of %s leads to %s, which does not say that it belongs to that folder", s.top, git).
			WithHint("%s", adviceAt(s.top, "git -C %s config core.worktree %s, if it does", s.top, s.top))
	}
	if _, err := os.Lstat(filepath.Join(git, "HEAD")); err == nil {
		return td.Errorf(td.Refused, "git does not take %s for a repository", git).
			WithHint("%s", adviceAt(s.top, "git -C %s status says why", s.top))
	}
	return nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

func isFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && !info.IsDir()
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// real is a path without symbolic links; what is not there yet is taken as it is.
func real(path string) string {
	if path == "" {
		return ""
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for at, rest := path, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if found, err := filepath.EvalSymlinks(at); err == nil {
			return filepath.Join(found, rest)
		}
		if at == filepath.Dir(at) {
			return path
		}
	}
}

// variable is the value of the last variable of that name.
func variable(env []string, name string) (value string) {
	for _, kv := range env {
		if v, is := strings.CutPrefix(kv, name+"="); is {
			value = v
		}
	}
	return value
}

// root is the folder that a view has of a checkout: of a task's worktree the main checkout around it, so that one view serves all.
func (s site) root() string {
	if in := filepath.Dir(s.top); filepath.Base(in) == worktreesFolder || filepath.Base(in) == making {
		for at := in; at != filepath.Dir(at); at = filepath.Dir(at) {
			if filepath.Base(at) == worktreesFolder && covers(s.common, filepath.Dir(at)) {
				return filepath.Dir(at)
			}
		}
	}
	return s.top
}

// covers reports whether path lies in dir.
func covers(path, dir string) bool {
	return dir != "" && (path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/"))
}

// view is what a git that works here sees. What lies in something that it may write anyhow is not named again.
func (s site) view(may access, p *program, lent []string) sandbox.View {
	v := sandbox.View{Run: p.run}
	read, write := slices.Concat(s.read, lent), slices.Clone(s.write)
	switch {
	case s.common == "":
	case may == reads || s.guarded(may):
		read = append(read, s.common, s.git)
	case !s.narrow(may):
		write = append(write, s.common, s.git)
	default:
		// Commands of a task write in what git keeps of its checkout, and can put a link there that git follows: to where it leads nothing can be written.
		read, write = append(read, s.common), append(write, filepath.Join(s.common, "objects"), s.git)
	}
	root := s.root()
	if s.ofTask() {
		root = s.top // its commands can put a link to anything in the place of a folder that git is at work in: there is nothing else
	}
	if root != "" {
		if may.files() {
			write = append(write, root)
		} else {
			read = append(read, root)
		}
	}
	v.Write = outermost(write, nil)
	v.Read = outermost(read, v.Write)
	if s.guarded(may) {
		v.Read, v.Write = append(v.Read, s.common, s.git), append(v.Write, s.write...)
	}
	if may != reads && s.common != "" {
		// What runs for the person later is not ours to write, whatever link leads there.
		for _, name := range closedInRepository {
			v.Read = append(v.Read, filepath.Join(s.common, name))
		}
		if s.narrow(may) {
			v.Read = append(v.Read, filepath.Join(s.common, closedInObjects))
		}
	}
	return v
}

// ofTask reports whether the checkout is the worktree of a task, whose commands may write in what git keeps of it.
func (s site) ofTask() bool {
	_, is := td.WorktreeAround(s.top)
	return is && s.git != s.common
}

// narrow reports whether a git may change nothing that checkouts share but objects.
func (s site) narrow(may access) bool { return may != reads && !may.shares() && s.ofTask() }

// guarded reports whether a git changes files where commands may be at work, which can put a link to what git keeps in the place of a folder that it is writing in. It has an index of our own,
// and nothing else of what git keeps can be changed.
func (s site) guarded(may access) bool {
	return may == checksOut && s.common != "" && filepath.Base(filepath.Dir(s.top)) != making
}

// logsOfTasks are the folders of logs that tasks can write, and put links in: git would write into what they lead to.
func (s site) logsOfTasks(may access) (paths []string) {
	if s.common == "" {
		return nil
	}
	if s.git != s.common {
		paths = append(paths, filepath.Join(s.git, "logs"))
	}
	if s.narrow(may) {
		return paths
	}
	return append(paths, filepath.Join(s.common, "logs", runRefs))
}

// closedInRepository are the folders of a repository that no git of ours has a reason to change.
var closedInRepository = []string{"hooks", "info", "modules"}

// closedInObjects is where objects of others are named.
const closedInObjects = "objects/info"

// outermost are the paths that lie in none of the others.
func outermost(paths, others []string) (out []string) {
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		within := func(dir string) bool { return covers(path, dir) }
		if path != "" && !slices.ContainsFunc(out, within) && !slices.ContainsFunc(others, within) {
			out = append(out, path)
		}
	}
	return out
}

// program is the git of this machine.
type program struct {
	path    string   // the program itself, not a script that calls it
	lib     string   // where its helpers lie
	run     []string // what is executed when it is
	version string
}

var programs struct {
	sync.Mutex
	found map[string]*program // by what PATH leads to
}

// findProgram looks git up, and finds out once what it consists of.
func findProgram(ctx context.Context) (*program, error) {
	found, err := binary()
	if err != nil {
		return nil, err
	}
	programs.Lock()
	defer programs.Unlock()
	if p := programs.found[found]; p != nil {
		return p, nil
	}
	said, err := exec.CommandContext(ctx, found, "--exec-path").Output()
	if err != nil {
		return nil, failure(ctx, []string{"--exec-path"}, err, "")
	}
	version, err := exec.CommandContext(ctx, found, "version").Output()
	if err != nil {
		return nil, failure(ctx, []string{"version"}, err, "")
	}
	p := &program{lib: strings.TrimSpace(string(said)), version: string(version)}
	for _, path := range []string{filepath.Join(p.lib, "git"), found} {
		path = real(path)
		linker, ok := linkerOf(path)
		if !ok {
			continue
		}
		if p.path == "" {
			p.path = path
		}
		for _, one := range []string{path, linker} {
			if one != "" && !slices.Contains(p.run, one) {
				p.run = append(p.run, one)
			}
		}
	}
	if p.path == "" {
		return nil, td.Errorf(td.Unavailable, "%s is no program, and there is none in %s", found, p.lib).WithHint("install git and make sure it is on the PATH")
	}
	if programs.found == nil {
		programs.found = map[string]*program{}
	}
	programs.found[found] = p
	return p, nil
}

// linkerOf is the dynamic linker of a program, empty for one that is linked statically. ok is false for what is no program.
func linkerOf(path string) (linker string, ok bool) {
	f, err := elf.Open(path)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			raw, err := io.ReadAll(io.LimitReader(p.Open(), 4<<10))
			if err != nil {
				return "", false
			}
			return real(strings.TrimRight(string(raw), "\x00")), true
		}
	}
	return "", true
}

// lenders are the folders of objects that a folder of objects borrows from, and those that these do.
func lenders(objects string) (out []string) {
	for _, path := range gitfile.Lenders(objects) {
		if path = real(path); !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}
