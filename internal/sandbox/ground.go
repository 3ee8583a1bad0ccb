package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/gitfile"
)

// A path of a profile is a name, and what is opened is where it leads. A link that a person made, in their home or in /etc, leads where they want. One that lies where commands
// or commits can write leads where an agent wants: followed, it would open the home. So such a link opens nothing. It stays a link, and what it leads to can be used if it is
// open anyway: because it lies in the same place, or because another path of the profile names it.

// ground are the folders in which commands or commits can make links.
type ground struct {
	open []string // a command can write in them
	shut []string // the checkout that a worktree belongs to, of which a command sees what is named
	home string
}

// ground is that of a command, of its task and of those who work in the same repository.
func (p Profile) ground() ground {
	var g ground
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		g.home = orSame(home)
	}
	for _, path := range []string{p.Workspace, enclosing(p.Workspace), p.Temp, p.Layers, "/dev/shm"} {
		if path != "" {
			g.open = append(g.open, orSame(path))
		}
	}
	for _, path := range p.Close {
		if real := orSame(path); !covered(g.home, []string{real}) { // no work gets into a home by itself
			g.shut = append(g.shut, real)
		}
	}
	first := &trailer{ground: g, seen: map[string]os.FileMode{}}
	for _, path := range slices.Concat(p.Write, p.Others) {
		if real, ok := first.trail(path); ok {
			g.open = append(g.open, real)
		}
	}
	return g
}

// orSame is a path without links, or as it is when there is nothing.
func orSame(path string) string {
	if real := resolved(path); real != "" {
		return real
	}
	return filepath.Clean(path)
}

// lets reports whether a link may be followed to where it leads. The folders above it are no links.
func (g ground) lets(link, to string) bool {
	place := g.place(link)
	return place == "" || !slices.Contains(g.shut, place) && covered(to, []string{place})
}

// place is the innermost folder around a link in which commands or commits can make one; empty: the link is the person's. Every checkout counts: tasks may work there, too.
func (g ground) place(link string) (place string) {
	for dir := filepath.Dir(link); dir != "/"; dir = filepath.Dir(dir) {
		if slices.Contains(g.open, dir) || slices.Contains(g.shut, dir) {
			return dir
		}
		if place == "" && !slices.Contains(closedFolders, dir) && !covered(g.home, []string{dir}) && exists(dir, ".git") {
			place = dir
		}
	}
	return place
}

// mostLinks is how many links a path may lead through, as the kernel has it.
const mostLinks = 40

// trailer follows paths, and collects the links on the way that lie in dirs.
type trailer struct {
	ground ground
	strict []string // were resolved before: a link there now is somebody's who wants another folder opened
	dirs   []string
	links  map[string]string
	seen   map[string]os.FileMode // types of what was looked at: most paths begin alike
}

// trailer follows the paths of a profile.
func (p Profile) trailer(dirs ...string) *trailer {
	return &trailer{
		ground: p.ground(), strict: append(p.gitWritable(), p.Workspace), dirs: dirs,
		links: map[string]string{}, seen: map[string]os.FileMode{},
	}
}

// trail is the file that a path means. It is false if the path leads over a link that opens nothing, or nowhere. Who opens the file must do so without following
// links (openReal): it may have been exchanged for one since.
func (t *trailer) trail(path string) (real string, ok bool) {
	if path = filepath.Clean(path); !filepath.IsAbs(path) || slices.Contains(t.strict, path) {
		return path, filepath.IsAbs(path)
	}
	for range mostLinks {
		link := t.firstLink(path)
		if link == "" {
			return path, true
		}
		text, err := os.Readlink(link)
		if err != nil {
			return "", false
		}
		if covered(link, t.dirs) {
			t.links[link] = text
		}
		to := filepath.Join(gitfile.Beside(filepath.Dir(link), text), strings.TrimPrefix(path, link))
		if !t.ground.lets(link, to) {
			return "", false
		}
		path = to
	}
	return "", false
}

// firstLink is the outermost part of a path that is a link; empty: none is.
func (t *trailer) firstLink(path string) string {
	for i := 1; i <= len(path); i++ {
		if i < len(path) && path[i] != '/' {
			continue
		}
		kind, ok := t.seen[path[:i]]
		if !ok {
			info, err := os.Lstat(path[:i])
			if err != nil {
				return ""
			}
			kind = info.Mode().Type()
			t.seen[path[:i]] = kind
		}
		if kind&os.ModeSymlink != 0 {
			return path[:i]
		}
	}
	return ""
}

// gone reports whether what was found is not there any more, or is, or lies behind, a link by now, which opens nothing.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// openReal opens a path, no part of which may be a symbolic link, to name what is there.
func openReal(path string, flags int) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: uint64(unix.O_PATH | unix.O_CLOEXEC | flags), Resolve: unix.RESOLVE_NO_SYMLINKS})
}
