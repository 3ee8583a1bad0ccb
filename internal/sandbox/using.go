package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"taskdaemon/internal/td"
)

// User is a process that uses a folder.
type User struct {
	Pid     int
	Command string // its arguments, for people
	Path    string // what it uses
}

// Using finds the processes whose working folder, root, program or open files are dir or in it. It sees those that this
// user may look at.
func Using(dir string) ([]User, error) {
	all, err := processes()
	if err != nil {
		return nil, td.Errorf(td.Storage, "look who uses %s: %w", dir, err)
	}
	var users []User
	for _, st := range all {
		if st.dead() {
			continue
		}
		if path := usedIn(st.pid, dir); path != "" {
			users = append(users, User{Pid: st.pid, Command: cmdline(st.pid), Path: path})
		}
	}
	return users, nil
}

// usedIn is something in a folder that a process uses, or empty.
func usedIn(pid int, dir string) string {
	proc := fmt.Sprintf("/proc/%d/", pid)
	links := []string{proc + "cwd", proc + "root", proc + "exe"}
	if open, err := os.ReadDir(proc + "fd"); err == nil { // it may be another user's, or have ended
		for _, fd := range open {
			links = append(links, filepath.Join(proc, "fd", fd.Name()))
		}
	}
	for _, link := range links {
		path, err := os.Readlink(link)
		if err == nil && (path == dir || strings.HasPrefix(path, dir+"/")) {
			return path
		}
	}
	return ""
}
