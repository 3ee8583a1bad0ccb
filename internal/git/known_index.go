package git

import (
	"bytes"
	"context"
	"crypto/sha1"
	be "encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// git does not read a file again whose size and times are those that the index has of it, nor one that the index says to take for unchanged. Whoever works in a worktree
// writes its index: they could have a validator see other files than those that are hashed and committed. So of that index only the names of files are
// believed. What is known of the files' content is in an index of our own, which only gits of ours wrote and no command can change. It is taken for as long as
// the kernel says that a file has not changed since: nobody can set the time of that.

// knownIndex is where that index of a checkout is kept. After a loss of power files may hold something else than they did, so it counts in one boot.
func knownIndex(common, own string) string {
	return filepath.Join(common, indexFolder, filepath.Base(own), "known-"+boot())
}

// knownLead is how much later the time of that index is than the moment from which on changes count. git would read all files again that have the time of the index, to the
// second: those that were just checked out, so all of them.
const knownLead = 2 * time.Second

// clockSlack is more than the clock of files can be behind ours.
const clockSlack = 20 * time.Millisecond

// know keeps an index that a git of ours has just written, with what it knew of the files at that time.
func know(index, common, own string, at time.Time) error {
	known := knownIndex(common, own)
	if err := forgetKnown(common, own); err != nil {
		return err
	}
	next := known + ".new"
	if err := copyIndex(next, index); err != nil {
		return td.Errorf(td.Storage, "keep index: %w", err)
	}
	err := os.Chtimes(next, time.Time{}, at.Add(knownLead))
	if err == nil {
		err = os.Rename(next, known)
	}
	if err != nil {
		return td.Errorf(td.Storage, "keep index: %w", err)
	}
	return nil
}

// forgetKnown removes what is kept of a checkout.
func forgetKnown(common, own string) error {
	folder := filepath.Dir(knownIndex(common, own))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return td.Errorf(td.Storage, "make index: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(folder, "known-*"))
	for _, name := range old {
		err = errors.Join(err, os.Remove(name))
	}
	if err != nil {
		return td.Errorf(td.Storage, "forget index: %w", err)
	}
	return nil
}

// forgetCheckout removes what git keeps of a worktree, and what we do.
func forgetCheckout(common, own string) error {
	return errors.Join(os.RemoveAll(own), os.RemoveAll(filepath.Join(common, indexFolder, filepath.Base(own))))
}

// seedIndex begins an index that is to last with what is known of a task's worktree, or with what its HEAD holds.
func seedIndex(ctx context.Context, index, top, common, own string) error {
	switch had, since, err := takeKnown(index, common, own, sha1.Size); {
	case err != nil:
		return err
	case had != nil:
		if err := os.Chtimes(index, time.Time{}, since); err != nil { // as git is to take it
			return td.Errorf(td.Storage, "read index: %w", err)
		}
		return nil
	}
	_, err := run(ctx, call{dir: top, set: placeSettings, env: []string{"GIT_INDEX_FILE=" + index}, args: []string{"read-tree", "HEAD"}})
	return err
}

// freshIndex makes an index of our own that names the files which the index of a worktree names, and has git read those that may have changed since they were last
// read by us. c is a git of the checkout. It returns the repositories that are named.
func freshIndex(ctx context.Context, c call, index, top, common, own string) (links []string, err error) {
	c.args = []string{"ls-files", "-z", "--stage"}
	out, err := run(ctx, c)
	if err != nil {
		return nil, err
	}
	entries := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	had, since, err := takeKnown(index, common, own, idSize(entries[0]))
	if err != nil {
		return nil, err
	}
	var put strings.Builder
	named := map[string]bool{}
	for _, rec := range entries {
		head, name, ok := strings.Cut(rec, "\t")
		f := strings.Fields(head)
		if !ok || len(f) != 3 || named[name] {
			continue
		}
		named[name] = true
		if f[0] == modeLink {
			links = append(links, name)
		}
		entry, is := had[name]
		if is && unchangedSince(filepath.Join(top, filepath.FromSlash(name)), since) {
			continue
		}
		if !is {
			entry = f[0] + " " + f[1]
		}
		put.WriteString(entry + " 0\t" + name + "\x00") // without what git knows of the file
	}
	var drop strings.Builder
	for name, entry := range had {
		if !named[name] {
			_, id, _ := strings.Cut(entry, " ")
			drop.WriteString("0 " + strings.Repeat("0", len(id)) + " 0\t" + name + "\x00")
		}
	}
	if drop.Len()+put.Len() == 0 {
		return links, nil
	}
	c.env = append(append([]string{}, c.env...), "GIT_INDEX_FILE="+index)
	c.args, c.stdin = []string{"update-index", "-z", "--add", "--replace", "--index-info"}, strings.NewReader(drop.String()+put.String())
	_, err = run(ctx, c)
	return links, err
}

// takeKnown copies what is known of a checkout, if anything is, and returns the entries and from when on changes count.
func takeKnown(to, common, own string, size int) (had map[string]string, since time.Time, err error) {
	known := knownIndex(common, own)
	info, err := os.Lstat(known)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, since, nil
	}
	var raw []byte
	if err == nil {
		raw, err = os.ReadFile(known)
	}
	if err == nil {
		if had = entriesOf(raw, size); had == nil {
			return nil, since, nil
		}
		err = copyIndex(to, known)
	}
	if err != nil {
		return nil, since, td.Errorf(td.Storage, "read index: %w", err)
	}
	return had, info.ModTime().Add(-knownLead), nil
}

// idSize is how many bytes the names of objects have, by an entry that git listed.
func idSize(entry string) int {
	if f := strings.Fields(entry); len(f) > 1 {
		return len(f[1]) / 2
	}
	return sha1.Size
}

// unchangedSince reports whether the kernel says of a file that it did not change since then, in content or otherwise. One that is not there did.
func unchangedSince(path string, since time.Time) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil && time.Unix(st.Ctim.Unix()).Before(since.Add(-clockSlack))
}

// entriesOf are the mode and the object of each file that an index of version 2 names, in a repository whose objects have names of so many bytes; nil if it is another one, or has
// something that we do not write.
func entriesOf(raw []byte, size int) map[string]string {
	const head, stat = 12, 40
	if len(raw) < head || string(raw[:4]) != "DIRC" || be.BigEndian.Uint32(raw[4:]) != 2 {
		return nil
	}
	count := int(be.BigEndian.Uint32(raw[8:]))
	found := make(map[string]string, min(count, len(raw)/stat))
	at := head
	for range count {
		name := at + stat + size + 2
		if name >= len(raw) {
			return nil
		}
		n := bytes.IndexByte(raw[name:], 0)
		flags := be.BigEndian.Uint16(raw[name-2:])
		if n <= 0 || int(flags) != min(n, 0xfff) { // a flag, or a stage of a merge, is more than that
			return nil
		}
		mode := be.BigEndian.Uint32(raw[at+24:])
		found[string(raw[name:name+n])] = strconv.FormatUint(uint64(mode), 8) + " " + hex.EncodeToString(raw[at+stat:name-2])
		at += (stat + size + 2 + n + 8) &^ 7
	}
	if len(found) != count || at > len(raw)-size {
		return nil
	}
	return found
}
