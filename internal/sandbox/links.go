package sandbox

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A git that cleans up goes through all objects that are new, whether something refers to them or not, and stops at one that names another as what it is not: a commit as a file. Two that name
// the same as different things have the same effect even if it is missing. So what a command adds must name only objects that are there, and as what they are.

// link is what an object names, and as what.
type link struct{ id, kind string }

// linksOf are what an object names. It must be one that git can read.
func linksOf(kind string, body []byte, digits int) (links []link) {
	switch kind {
	case "tree":
		for len(body) > 0 {
			entry, rest, ok := bytes.Cut(body, []byte{0})
			if !ok || len(rest) < digits/2 {
				return links
			}
			octal, _, _ := strings.Cut(string(entry), " ")
			if of := linkedKind(octal); of != "" {
				links = append(links, link{hex.EncodeToString(rest[:digits/2]), of})
			}
			body = rest[digits/2:]
		}
	case "commit":
		for line := range bytes.Lines(body) {
			key, id, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
			of := map[string]string{"tree": "tree", "parent": "commit"}[key]
			if of == "" {
				break
			}
			links = append(links, link{id, of})
		}
	case "tag":
		first, rest, _ := strings.Cut(string(body), "\n")
		second, _, _ := strings.Cut(rest, "\n")
		links = append(links, link{strings.TrimPrefix(first, "object "), strings.TrimPrefix(second, "type ")})
	}
	return links
}

// linkedKind is what the object of an entry of a tree is; empty for a commit of another repository, which need not be there.
func linkedKind(octal string) string {
	switch typeOf(octal) {
	case unix.S_IFDIR:
		return "tree"
	case modeLink:
		return ""
	}
	return "blob"
}

// mendObjects removes objects that the command added and that name others which are missing or something else, and says which.
func (s *shim) mendObjects(c *cell) (removed []string) {
	for _, st := range stores(c.repos) {
		bad, err := st.badLinks(func(ids []string) (map[string]string, error) {
			return s.kinds(c, filepath.Dir(st.path), st.borrowed(), ids)
		})
		if err != nil {
			continue // git cannot tell, as in a partial clone that lacks objects
		}
		for _, name := range bad {
			if folder, err := st.real.Folder(name[:2]); err == nil {
				if folder.Remove(name[2:]) == nil {
					removed = append(removed, name)
				}
				_ = folder.Close()
			}
		}
	}
	return removed
}

// badLinks are those of the objects that the command added that name others wrongly, or others that do. kinds says what objects are that are there.
func (s *store) badLinks(kinds func(ids []string) (map[string]string, error)) ([]string, error) {
	named, by := map[link]bool{}, map[string][]string{}
	links := map[string][]link{}
	own := map[string]bool{}
	for _, name := range s.added {
		own[name] = true
	}
	for name := range own {
		f, _, err := s.real.File(path.Join(name[:2], name[2:]))
		if err != nil {
			continue // somebody packed it
		}
		kind, body, _, err := parseObject(f, name)
		_ = f.Close()
		if err != nil {
			continue
		}
		links[name] = linksOf(kind, body, len(name))
		for _, l := range links[name] {
			named[l] = true
			if own[l.id] {
				by[l.id] = append(by[l.id], name)
			}
		}
	}
	wrong, err := wrongLinks(named, kinds)
	if err != nil || len(wrong) == 0 {
		return nil, err
	}
	bad := map[string]bool{}
	for name, of := range links {
		if !slices.ContainsFunc(of, func(l link) bool { return wrong[l] }) {
			continue
		}
		for next := []string{name}; len(next) > 0; {
			if name, next = next[0], next[1:]; !bad[name] {
				bad[name] = true
				next = append(next, by[name]...)
			}
		}
	}
	return slices.Sorted(maps.Keys(bad)), nil
}

// wrongLinks are those of some links that lead to something else, or nowhere.
func wrongLinks(links map[link]bool, kinds func(ids []string) (map[string]string, error)) (map[link]bool, error) {
	wrong := map[link]bool{}
	var all []link
	for l := range links {
		if isHex(l.id, 40) || isHex(l.id, 64) {
			all = append(all, l)
		} else {
			wrong[l] = true
		}
	}
	slices.SortFunc(all, func(a, b link) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.kind, b.kind)) })
	for some := range slices.Chunk(all, linksAtOnce) {
		ids := make([]string, len(some))
		for i, l := range some {
			ids[i] = l.id
		}
		are, err := kinds(ids)
		if err != nil {
			return nil, err
		}
		for _, l := range some {
			if are[l.id] != l.kind {
				wrong[l] = true
			}
		}
	}
	return wrong, nil
}

// linksAtOnce is for how many objects git is asked at once.
const linksAtOnce = 100_000

// kinds asks a git of ours what objects are; of one that is missing it says nothing.
func (s *shim) kinds(c *cell, common, before string, ids []string) (map[string]string, error) {
	ask, err := memoryFile("ask", strings.Join(ids, "\n")+"\n")
	if err != nil {
		return nil, err
	}
	defer ask.Close()
	told, err := memoryFile("told", "")
	if err != nil {
		return nil, err
	}
	defer told.Close()
	r := &reading{until: time.Now().Add(brokenFor), measure: meter{begin: readMachine()}}
	script := before + `exec git --git-dir="$0" cat-file --batch-check='%(objectname) %(objecttype)'`
	if err := s.alone(c, ask, told, r, script, common); err != nil {
		return nil, err
	}
	if _, err := told.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return parseKinds(told, ids)
}

// parseKinds reads what git says of objects, in the order of the questions.
func parseKinds(told io.Reader, ids []string) (map[string]string, error) {
	kinds := map[string]string{}
	read := bufio.NewScanner(told)
	for _, id := range ids {
		if !read.Scan() {
			return nil, fmt.Errorf("git says nothing of %s", id)
		}
		name, kind, _ := strings.Cut(read.Text(), " ")
		if name != id {
			return nil, fmt.Errorf("git says %.80q of %s", read.Text(), id)
		}
		if kind != "missing" {
			kinds[id] = kind
		}
	}
	return kinds, nil
}

// memoryFile is a file that is nowhere but in memory, to be read from its beginning.
func memoryFile(name, text string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.WriteString(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
