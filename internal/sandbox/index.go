package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An index is a list of paths, and git writes files there without looking at them again: one with a path like ../x or .git/hooks/x has a person's
// `git restore .` write wherever a command likes. So the indexes that a command left are read, and one that has such a path, or cannot be read, is removed.

// The modes of entries that are looked for: a repository of its own, and a folder of a sparse index.
const (
	modeLink   = 0o160000
	modeFolder = 0o040000
)

// mostPath is longer than any path of a file, and maxIndex is more than what the index of a million files takes.
const (
	mostPath = 64 << 10
	maxIndex = 512 << 20
)

var errIndex = errors.New("it is not as git writes an index")

// readIndex reads an index of a repository whose names have so many digits, and fails if git would write outside of the checkout by it. It returns the
// repositories that are in it, and where its entries end.
func readIndex(raw []byte, digits int) (links []string, end int, err error) {
	if len(raw) < 12 || string(raw[:4]) != "DIRC" {
		return nil, 0, errIndex
	}
	version, count := binary.BigEndian.Uint32(raw[4:]), binary.BigEndian.Uint32(raw[8:])
	if version < 2 || version > 4 {
		return nil, 0, fmt.Errorf("it is of version %d", version)
	}
	at, empty := 12, false
	var path []byte
	for range count {
		var mode uint32
		if path, mode, at, err = readEntry(raw, at, version, digits, path); err != nil {
			return nil, 0, err
		}
		switch {
		case len(path) == 0:
			empty = true
		case !plainPath(path, mode == modeFolder):
			return nil, 0, fmt.Errorf("it has the path %.80q", path)
		case mode == modeLink:
			links = append(links, string(path))
		}
	}
	if empty && !slices.ContainsFunc(partsOf(raw, at, digits), func(p []byte) bool { return string(p[:4]) == "link" }) {
		return nil, 0, errIndex // only entries on top of a shared index have no path
	}
	return links, at, nil
}

// readEntry reads an entry, and returns its path and where the next one begins. In version 4 a path is told as what differs from the one before.
func readEntry(raw []byte, at int, version uint32, digits int, before []byte) (path []byte, mode uint32, next int, err error) {
	begin := at
	if at += 40 + digits/2 + 2; at > len(raw) {
		return nil, 0, 0, errIndex
	}
	mode = binary.BigEndian.Uint32(raw[begin+24:])
	if version > 2 && binary.BigEndian.Uint16(raw[at-2:])&0x4000 != 0 {
		at += 2
	}
	var kept []byte
	if version == 4 {
		var cut uint64
		if cut, at, err = readOffset(raw, at); err != nil || cut > uint64(len(before)) {
			return nil, 0, 0, errIndex
		}
		kept = before[:len(before)-int(cut)]
	}
	if at > len(raw) {
		return nil, 0, 0, errIndex
	}
	size := bytes.IndexByte(raw[at:], 0)
	if size < 0 || size+len(kept) > mostPath {
		return nil, 0, 0, errIndex
	}
	path = raw[at : at+size]
	if version == 4 {
		return append(kept, path...), mode, at + size + 1, nil
	}
	// Filled up with zeros, to a multiple of eight.
	next = begin + (at+size-begin+8)/8*8
	if next > len(raw) || len(bytes.Trim(raw[at+size:next], "\x00")) > 0 {
		return nil, 0, 0, errIndex
	}
	return path, mode, next, nil
}

// readOffset reads a number as git encodes the offsets of packs.
func readOffset(raw []byte, at int) (n uint64, next int, err error) {
	for first := true; ; first = false {
		if at >= len(raw) || n > 1<<32 {
			return 0, 0, errIndex
		}
		b := raw[at]
		at++
		if !first {
			n++
		}
		n = n<<7 | uint64(b&0x7f)
		if b&0x80 == 0 {
			return n, at, nil
		}
	}
}

// plainPath reports whether a path of an index stays in the checkout and out of its folder of git.
func plainPath(path []byte, folder bool) bool {
	if folder {
		path = bytes.TrimSuffix(path, []byte("/"))
	}
	// Most have no part that begins with a dot, and none that is empty.
	if len(path) > 0 && path[0] != '.' && path[0] != '/' && path[len(path)-1] != '/' && !bytes.Contains(path, []byte("/.")) && !bytes.Contains(path, []byte("//")) {
		return true
	}
	return !slices.ContainsFunc(strings.Split(string(path), "/"), func(part string) bool {
		return part == "" || part == "." || part == ".." || strings.EqualFold(part, ".git")
	})
}

// partsOf are what follows the entries of an index, each with its name and size; nil if it is not as git writes it.
func partsOf(raw []byte, at, digits int) (parts [][]byte) {
	last := len(raw) - digits/2
	for at < last {
		if last-at < 8 {
			return nil
		}
		size := 8 + int(binary.BigEndian.Uint32(raw[at+4:]))
		if size > last-at {
			return nil
		}
		parts = append(parts, raw[at:at+size])
		at += size
	}
	return parts
}

// remembered are the parts of an index in which git notes what it found out: which trees the entries make, and which files did not change. It believes them, so that a
// commit of the person's would hold what a command noted there. The last two say where in the index they are.
var remembered = []string{"TREE", "UNTR", "FSMN", "EOIE", "IEOT"}

// forgetful is an index, whose entries end there, without what is remembered in it. It is the same if there is nothing of that.
func forgetful(raw []byte, end, digits int) []byte {
	parts := partsOf(raw, end, digits)
	kept := slices.DeleteFunc(slices.Clone(parts), func(p []byte) bool { return slices.Contains(remembered, string(p[:4])) })
	if len(kept) == len(parts) {
		return raw
	}
	out := append(slices.Clone(raw[:end]), bytes.Join(kept, nil)...)
	sum := raw[len(raw)-digits/2:]
	if len(bytes.Trim(sum, "\x00")) > 0 { // else git was told to have none
		h := newHash(digits)
		_, _ = h.Write(out)
		sum = h.Sum(nil)
	}
	return append(out, sum...)
}
