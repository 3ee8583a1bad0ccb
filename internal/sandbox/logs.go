package sandbox

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
)

// largestLog is the largest log of a reference that is read, git writes some hundred bytes for each commit; and mostLogged is how many commits one
// may name: they are an argument of git.
const (
	largestLog = 1 << 20
	mostLogged = 1000
)

// logPlaces are the folders in which the commands of a task can write logs of references. git goes through them when it packs and cleans up, and
// stops at a commit that is there while something of it is missing.
func (p Profile) logPlaces() (places []string) {
	own, common := p.worktree()
	if own == "" || len(p.Refs) == 0 {
		return nil
	}
	places = append(places, filepath.Join(own, "logs"))
	for _, ref := range p.Refs {
		places = append(places, filepath.Join(common, "logs", filepath.FromSlash(ref)))
	}
	return places
}

// mendLogs removes logs that the command has written and at which git would stop, and says which.
func (s *shim) mendLogs(c *cell) (removed []string) {
	since, ok := startOf(s.dir)
	if !ok {
		return nil
	}
	_, common := s.spec.Profile.worktree()
	for _, place := range s.spec.Profile.logPlaces() {
		folder, err := beneath.Open(place)
		if err != nil {
			continue
		}
		named, bad := newLogs(folder, since)
		var ids []string
		for _, of := range named {
			ids = append(ids, of...)
		}
		if len(ids) > mostLogged || len(ids) > 0 && s.lacksHistory(c, common, ids) {
			for name, of := range named {
				if s.lacksHistory(c, common, of) {
					bad = append(bad, name)
				}
			}
		}
		slices.Sort(bad)
		for _, name := range bad {
			if in, err := folder.Folder(path.Dir(name)); err == nil {
				removed = append(removed, remove(in, path.Base(name))...)
				_ = in.Close()
			}
		}
		_ = folder.Close()
	}
	return removed
}

// newLogs are the commits that new logs of a folder name, by log, and what is no log.
func newLogs(folder *beneath.Folder, since int64) (named map[string][]string, bad []string) {
	named = map[string][]string{}
	_ = folder.Walk(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil
		}
		in, err := folder.Folder(path.Dir(name))
		if err != nil {
			return nil
		}
		defer in.Close()
		if !isNew(in, path.Base(name), since) {
			return nil
		}
		raw, _, err := in.Read(path.Base(name), largestLog)
		if err != nil || !e.Type().IsRegular() {
			bad = append(bad, name)
			return nil
		}
		switch ids := loggedIDs(string(raw)); {
		case len(ids) > mostLogged:
			bad = append(bad, name)
		case len(ids) > 0:
			named[name] = ids
		}
		return nil
	})
	return named, bad
}

// loggedIDs are the commits that a log names, each once. A line that is none git passes over.
func loggedIDs(log string) (ids []string) {
	for line := range strings.Lines(log) {
		words := strings.SplitN(line, " ", 3)
		if len(words) < 3 {
			continue
		}
		for _, id := range words[:2] {
			id = strings.ToLower(id) // git takes both
			if (isHex(id, 40) || isHex(id, 64)) && strings.Trim(id, "0") != "" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
