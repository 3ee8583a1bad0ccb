package sandbox

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// An index is a list of paths, and git writes files there without looking at them again: one with a path like ../x or .git/hooks/x has a person's
// `git restore .` write wherever a command likes. So the indexes that a command left are read, and one that has such a path, or cannot be read, is removed.

// The modes of entries that are looked for: a repository of its own, and a folder of a sparse index.
const (
	modeLink   = 0o160000
	modeFolder = 0o040000
)

// Bounds of an index: no path of a file is longer than mostPath, and a million files take less than maxIndex. In version 4 a path of thousands of bytes
// takes a few in the file, so that all paths together are bounded, too, and the repositories that are named.
const (
	mostPath  = 4096
	maxIndex  = 256 << 20
	mostPaths = 256 << 20
	mostNamed = 10_000
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
	at, paths, empty := 12, 0, false
	var before entry
	for i := range count {
		one, err := readEntry(raw, at, version, digits, before)
		if err != nil {
			return nil, 0, err
		}
		switch paths += len(one.path); {
		case paths > mostPaths:
			return nil, 0, errIndex
		case i > 0 && !before.sortsBefore(one):
			return nil, 0, errIndex
		case len(one.path) > 0 && !plainPath(one.path, one.mode == modeFolder):
			return nil, 0, fmt.Errorf("it has the path %.80q", one.path)
		case one.mode != modeLink || len(one.path) == 0:
		case len(links) == mostNamed:
			return nil, 0, fmt.Errorf("it names more than %d repositories", mostNamed)
		default:
			links = append(links, string(one.path))
		}
		empty = empty || len(one.path) == 0
		at, before = one.next, one
	}
	if empty && !slices.ContainsFunc(partsOf(raw, at, digits), func(p []byte) bool { return string(p[:4]) == "link" }) {
		return nil, 0, errIndex // only entries on top of a shared index have no path
	}
	return links, at, nil
}

// entry is one of an index.
type entry struct {
	path  []byte
	mode  uint32
	stage uint16 // of a merge
	next  int    // where the next one begins
	spare []byte // room for the path of the next but one
}

// sortsBefore reports whether an entry stands before another, as git sorts them. Those without a path come first, in no order.
func (e entry) sortsBefore(other entry) bool {
	if len(other.path) == 0 {
		return len(e.path) == 0
	}
	by := bytes.Compare(e.path, other.path)
	return by < 0 || by == 0 && e.stage < other.stage
}

// readEntry reads an entry. In version 4 a path is told as what differs from the one before.
func readEntry(raw []byte, at int, version uint32, digits int, before entry) (one entry, err error) {
	begin := at
	if at += 40 + digits/2 + 2; at > len(raw) {
		return one, errIndex
	}
	one.mode = binary.BigEndian.Uint32(raw[begin+24:])
	flags := binary.BigEndian.Uint16(raw[at-2:])
	one.stage = flags >> 12 & 3
	if version > 2 && flags&0x4000 != 0 {
		at += 2
	}
	var kept []byte
	if version == 4 {
		var cut uint64
		if cut, at, err = readOffset(raw, at); err != nil || cut > uint64(len(before.path)) {
			return one, errIndex
		}
		kept = before.path[:len(before.path)-int(cut)]
	}
	if at > len(raw) {
		return one, errIndex
	}
	size := bytes.IndexByte(raw[at:min(len(raw), at+mostPath+1)], 0)
	if size < 0 || size+len(kept) > mostPath {
		return one, errIndex
	}
	one.path = raw[at : at+size]
	if version == 4 {
		one.path, one.spare, one.next = append(append(before.spare[:0], kept...), one.path...), before.path, at+size+1
		return one, nil
	}
	// Filled up with zeros, to a multiple of eight.
	one.next = begin + (at+size-begin+8)/8*8
	if one.next > len(raw) || len(bytes.Trim(raw[at+size:one.next], "\x00")) > 0 {
		return one, errIndex
	}
	return one, nil
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
	for part := range bytes.SplitSeq(path, []byte("/")) {
		if len(part) == 0 || string(part) == "." || string(part) == ".." || bytes.EqualFold(part, []byte(".git")) {
			return false
		}
	}
	return true
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
