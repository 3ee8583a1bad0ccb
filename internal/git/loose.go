package git

import (
	"bytes"
	"compress/zlib"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
)

// loose writes single objects to a repository as git does: whole and synced before they have their names. No link is followed on the way. They are there when keep has returned.
type loose struct {
	folder *beneath.Folder
	digits int // of the names of objects
	drafts []draft
}

// draft is an object that has not got its name yet.
type draft struct {
	in   *beneath.Folder
	file *os.File
	temp string
	name string // in its folder
}

// openLoose opens the objects of a repository whose names have so many digits.
func openLoose(common string, digits int) (*loose, error) {
	folder, err := beneath.Open(filepath.Join(real(common), "objects"))
	if err != nil {
		return nil, td.Errorf(td.Storage, "open objects: %w", err)
	}
	return &loose{folder: folder, digits: digits}, nil
}

// close removes what was not kept.
func (l *loose) close() {
	for _, d := range l.drafts {
		_ = d.file.Close()
		_ = d.in.Remove(d.temp)
		_ = d.in.Close()
	}
	_ = l.folder.Close()
}

// keep gives the objects their names, in the order in which they were added.
func (l *loose) keep() error {
	var together errgroup.Group
	together.SetLimit(syncedTogether)
	for _, d := range l.drafts {
		together.Go(d.file.Sync) // a disk does several in the time of one
	}
	err := together.Wait()
	for len(l.drafts) > 0 && err == nil {
		d := l.drafts[0]
		err = unix.Renameat2(int(d.in.Fd()), d.temp, int(d.in.Fd()), d.name, unix.RENAME_NOREPLACE)
		if errors.Is(err, fs.ErrExist) { // another was faster
			err = d.in.Remove(d.temp)
		}
		if err == nil {
			l.drafts = l.drafts[1:]
			_ = d.file.Close() // it is synced
			_ = d.in.Close()
		}
	}
	if err != nil {
		return td.Errorf(td.Storage, "write objects: %w", err)
	}
	return nil
}

// syncedTogether is how many objects are synced at the same time.
const syncedTogether = 16

// nameOf is the name that an object has, in digits or, to be put into a tree, without them.
func nameOf(kind string, content []byte, digits int) []byte {
	var sum hash.Hash = sha1.New()
	if digits == hex.EncodedLen(sha256.Size) {
		sum = sha256.New()
	}
	fmt.Fprintf(sum, "%s %d\x00", kind, len(content))
	_, _ = sum.Write(content)
	return sum.Sum(nil)
}

// packers compress objects. Each takes a megabyte.
var packers = sync.Pool{New: func() any {
	w, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed) // which is what git uses, and the level is a valid one
	return w
}}

// add readies an object and returns its name. One that is there is only made young again, so that no git takes it for forgotten.
func (l *loose) add(kind string, content []byte) (name []byte, err error) {
	name = nameOf(kind, content, l.digits)
	first, rest := hex.EncodeToString(name[:1]), hex.EncodeToString(name[1:])
	to, err := l.under(first)
	if err == nil && l.refresh(to, rest) {
		return name, to.Close()
	}
	if err == nil {
		err = l.draft(to, rest, kind, content)
	}
	if err != nil {
		return nil, td.Errorf(td.Storage, "write object %s%s: %w", first, rest, err)
	}
	return name, nil
}

// draft writes an object under another name.
func (l *loose) draft(to *beneath.Folder, name, kind string, content []byte) error {
	var packed bytes.Buffer
	w := packers.Get().(*zlib.Writer)
	defer packers.Put(w)
	w.Reset(&packed)
	fmt.Fprintf(w, "%s %d\x00", kind, len(content))
	_, err := w.Write(content)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return errors.Join(err, to.Close())
	}
	temp := "tmp_obj_" + rand.Text() // as git names them, so that it removes what a crash leaves
	f, err := to.Create(temp, 0o444)
	if err != nil {
		return errors.Join(err, to.Close())
	}
	l.drafts = append(l.drafts, draft{in: to, file: f, temp: temp, name: name})
	_, err = f.Write(packed.Bytes())
	return err
}

// refresh makes an object young that is there, and reports whether it is.
func (*loose) refresh(in *beneath.Folder, name string) bool {
	info, err := in.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	now := unix.NsecToTimespec(time.Now().UnixNano())
	return unix.UtimesNanoAt(int(in.Fd()), name, []unix.Timespec{now, now}, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// under is the folder for names that begin so. A new one may be written by whom the one around it may be.
func (l *loose) under(first string) (*beneath.Folder, error) {
	at := int(l.folder.Fd())
	err := unix.Mkdirat(at, first, 0o777)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, &fs.PathError{Op: "make folder", Path: l.folder.Name() + "/" + first, Err: err}
	}
	var around unix.Stat_t
	if err == nil && unix.Fstat(at, &around) == nil {
		_ = unix.Fchmodat(at, first, around.Mode&0o7777, 0)
	}
	return l.folder.Folder(first)
}

// treeEntry is one name in a tree.
type treeEntry struct {
	mode string // in octal digits, as a tree has it
	name string
	id   string // of the object, without digits
}

// entryTree is the mode of a folder, as a tree has it.
const entryTree = "40000"

// isFile reports whether an entry is a file or a link, and no folder or repository.
func (e treeEntry) isFile() bool {
	return e.mode == modePlain || e.mode == modeProgram || e.mode == modeSymlink
}

// sortsAs is the text by which git sorts entries.
func (e treeEntry) sortsAs() string {
	if e.mode == entryTree {
		return e.name + "/"
	}
	return e.name
}

// treeEntries reads a tree as git stores it; ok is false if it is none, or has something that git does not write.
func treeEntries(raw []byte, digits int) (entries []treeEntry, ok bool) {
	for len(raw) > 0 {
		head, rest, found := bytes.Cut(raw, []byte{0})
		mode, name, is := strings.Cut(string(head), " ")
		if !found || !is || name == "" || strings.Contains(name, "/") || len(rest) < digits/2 ||
			!slices.Contains([]string{modePlain, modeProgram, modeSymlink, entryTree, modeLink}, mode) {
			return nil, false
		}
		e := treeEntry{mode, name, string(rest[:digits/2])}
		if n := len(entries); n > 0 && entries[n-1].sortsAs() >= e.sortsAs() {
			return nil, false
		}
		entries, raw = append(entries, e), rest[digits/2:]
	}
	return entries, true
}

// formatTree is a tree as git stores it.
func formatTree(entries []treeEntry) []byte {
	var b bytes.Buffer
	for _, e := range entries {
		b.WriteString(e.mode + " " + e.name + "\x00" + e.id)
	}
	return b.Bytes()
}

// withEntry is a tree in which a name is another entry, or with nil none. The tree itself stays.
func withEntry(entries []treeEntry, name string, e *treeEntry) []treeEntry {
	out := slices.DeleteFunc(slices.Clone(entries), func(o treeEntry) bool { return o.name == name })
	if e == nil {
		return out
	}
	at, _ := slices.BinarySearchFunc(out, e.sortsAs(), func(o treeEntry, text string) int { return strings.Compare(o.sortsAs(), text) })
	return slices.Insert(out, at, *e)
}
