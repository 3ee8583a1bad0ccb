package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

var programs struct {
	sync.Mutex
	found map[[2]string]string // by PATH and name
}

// Program finds a program that the daemon itself runs, as exec.LookPath does, but never in a project: agents write there, and where PATH
// leads into it (direnv adds bin) their file would be run outside of every sandbox. What was found once stays.
func Program(name string) (string, error) {
	path := os.Getenv("PATH")
	programs.Lock()
	defer programs.Unlock()
	key := [2]string{path, name}
	if found := programs.found[key]; executable(found) {
		return found, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if found := filepath.Join(dir, name); filepath.IsAbs(dir) && executable(found) && !inProject(dir) && !inProject(resolved(dir)) && !inProject(filepath.Dir(resolved(found))) {
			if programs.found == nil {
				programs.found = map[[2]string]string{}
			}
			programs.found[key] = found
			return found, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// inProject reports whether a folder lies in the checkout of a repository.
func inProject(dir string) bool { return exists(dir, ".git") || enclosing(dir) != "" }

// ownProgram is the program that runs now, if self is where it lay when it started: under that name an agent may have put another since, in
// a checkout of taskdaemon's own source for one.
func ownProgram(self string) string {
	if exe, err := os.Executable(); err == nil && exe == self {
		return "/proc/self/exe"
	}
	return self
}

// ownTold is what git is told under a program of the person's: no setting of a repository starts a program because git looks at its files.
var ownTold = gitConfigured(append(slices.Clone(gitToldSettings), [2]string{"core.fsmonitor", "false"}))

// Environ is what may pass of the environment base to a program of the person's, which no sandbox holds. Whatever holds a secret, or may,
// stays behind, and whatever PATH says, it finds no program in a project, where agents write.
func Environ(base []string) []string { return environIn("", base, nil) }

// environIn is Environ for a program (Command.Own) that is started in a folder, with variables that are added.
func environIn(dir string, base, added []string) []string {
	var reach []string
	if dir != "" {
		reach = expand((&Profile{Workspace: dir}).reach())
	}
	out := slices.Clone(ownTold)
	path := ""
	for _, kv := range scrub(base, added) {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case strings.HasPrefix(name, "GIT_CONFIG_"):
		case name == "PATH":
			path = value
		default:
			out = append(out, kv)
		}
	}
	return append(out, "PATH="+pathOutside(path, func(dir string) bool { return covered(dir, reach) || inProject(dir) }))
}
