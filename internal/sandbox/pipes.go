package sandbox

import (
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/beneath"
)

// readByName are the files that the person's git, or taskdaemon for the next task, opens in a folder because of their names. A pipe in the place of one
// makes whoever opens it wait for ever.
var readByName = []string{".gitignore", ".gitattributes", ".gitmodules", ".gitconfig", ".gitmessage", ".git-blame-ignore-revs", ".mailmap", ".lfsconfig", ".taskdaemon.yaml"}

// unpipe gives other names to what a command left in a folder in the place of such files, and that is neither file, folder nor link. It says what.
func unpipe(folder *beneath.Folder, since int64) (taken []string) {
	for _, name := range readByName {
		info, err := folder.Lstat(name)
		if err != nil || info.Mode().IsRegular() || info.IsDir() || info.Mode()&fs.ModeSymlink != 0 || !changedSince(folder, name, since) {
			continue
		}
		at := filepath.Join(folder.Name(), name)
		as, err := keep(folder, name, since)
		if err != nil {
			taken = append(taken, failed("move "+at+" aside", err))
			continue
		}
		taken = append(taken, at+" (no regular file; kept as "+as+")")
	}
	return taken
}

// changedSince reports whether something was made, moved or changed since then. That time nobody can set.
func changedSince(folder *beneath.Folder, name string, since int64) bool {
	var st unix.Stat_t
	return unix.Fstatat(int(folder.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Ctim.Nano() >= since
}
