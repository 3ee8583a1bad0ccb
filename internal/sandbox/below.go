package sandbox

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/gitfile"
)

// Repositories are the folders below a workspace in which there are repositories, or in which an index says that there are: all that are sealed or noted before a command.
// skip are folders that are not looked into.
func Repositories(workspace string, skip []string) (repos []string) {
	found := acquainted(workspace, func(k *familiar) []string { return searchRepos(workspace, skip, k).repos })
	e := newEffort(lookBefore)
	seen := map[string]bool{workspace: true}
	for todo := append([]string{workspace}, found...); len(todo) > 0 && e.enough() == nil; todo = todo[1:] {
		dir := todo[0]
		if dir != workspace && (seen[dir] || !covered(dir, []string{workspace}) || covered(dir, skip)) {
			continue
		}
		if seen[dir] = true; dir != workspace {
			repos = append(repos, dir)
		}
		for _, link := range indexed.of(dir, e) {
			todo = append(todo, filepath.Join(dir, link))
		}
	}
	return repos
}

// acquaintances are what is remembered of workspaces, as a shim does of its own.
var acquaintances struct {
	mu sync.Mutex
	of map[string]*acquaintance
}

type acquaintance struct {
	mu sync.Mutex
	familiar
}

// mostAcquaintances is how many workspaces are remembered.
const mostAcquaintances = 64

// acquainted searches a workspace with what is remembered of it.
func acquainted(workspace string, search func(*familiar) []string) []string {
	acquaintances.mu.Lock()
	a := acquaintances.of[workspace]
	if a == nil {
		if acquaintances.of == nil || len(acquaintances.of) >= mostAcquaintances {
			acquaintances.of = map[string]*acquaintance{}
		}
		a = &acquaintance{}
		acquaintances.of[workspace] = a
	}
	acquaintances.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	return search(&a.familiar)
}

// indexed are the repositories that indexes name, each read again when it has changed.
var indexed = indexReader{known: map[string]indexReading{}}

type indexReader struct {
	mu    sync.Mutex
	known map[string]indexReading
}

type indexReading struct {
	state string
	links []string
}

// maxIndexed bounds how many are remembered.
const maxIndexed = 1024

// of are the repositories that the indexes of the checkout in a folder name.
func (r *indexReader) of(dir string, e *effort) []string {
	git := filepath.Join(dir, ".git")
	if to := gitfile.Gitdir(git); to != "" {
		git = to
	}
	folder, err := beneath.Open(resolved(git))
	if err != nil {
		return nil
	}
	defer folder.Close()
	d := asGitDir(folder)
	if common := gitfile.Common(folder.Name()); common != "" {
		d.digits = digitsOf(filepath.Join(common, "objects"))
	}
	var state strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.names())) {
		var st unix.Stat_t
		if isIndex(name) && unix.Fstatat(int(folder.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			fmt.Fprintf(&state, "%s %d.%d.%d.%d.%d ", name, st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
		}
	}
	r.mu.Lock()
	was, is := r.known[folder.Name()]
	r.mu.Unlock()
	if is && was.state == state.String() {
		return was.links
	}
	links := d.links(e)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxIndexed {
		clear(r.known)
	}
	r.known[folder.Name()] = indexReading{state.String(), links}
	return links
}
