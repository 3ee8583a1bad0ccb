package memory

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/td"
)

// maxCited is the largest file that is hashed; no learning is about a larger one.
const maxCited = 64 << 20

// Cite gives files the hash of their content in tree. Those that are not there, or are nothing a
// learning can be about, are left out. Effect: none.
func Cite(tree *beneath.Folder, files []File) []File {
	var out []File
	for _, f := range files {
		f.Path = path.Clean(f.Path)
		if !localPath(f.Path) || len(out) == maxFiles {
			continue
		}
		if hash, err := hashFile(tree, f.Path); err == nil {
			out = append(out, File{f.Path, hash})
		}
	}
	return out
}

// Stale are the cited files that are not in tree as they were when the learning was written. A tree of
// nil knows nothing.
func Stale(tree *beneath.Folder, l Learning) []string {
	if tree == nil {
		return nil
	}
	var out []string
	for _, f := range l.Files {
		hash, err := hashFile(tree, f.Path)
		if err != nil || f.Hash != "" && !strings.EqualFold(hash, f.Hash) {
			out = append(out, f.Path)
		}
	}
	return out
}

func hashFile(tree *beneath.Folder, name string) (string, error) {
	f, info, err := tree.File(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info.Size() > maxCited {
		return "", td.Errorf(td.Invalid, "%s is not a file a learning can cite", name)
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxCited)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
