package git

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"taskdaemon/internal/gitfile"
	"taskdaemon/internal/td"
)

// Sound fails unless the commits and trees that a commit adds to the refs known, and to the branches and tags of the person's, have the form that a server insists on which checks what it
// is pushed (receive.fsckObjects), and so do the files among theirs that git reads, such as .gitmodules. Conflict names an object that has not. What was there before is the person's, whatever its form.
//
// Other files have no form. So the objects are few and small: they are packed without them, and git reads the pack as that server would.
func Sound(ctx context.Context, repo, commit string, known ...string) error {
	plain := []string{"GIT_NO_REPLACE_OBJECTS=1"}
	args := slices.Concat([]string{"rev-list", "--objects", "--no-object-names", "--filter=blob:none", commit, "--ignore-missing", "--not"}, known, personsRefs)
	added, err := run(ctx, call{dir: repo, args: args, env: plain})
	if err != nil || len(added) == 0 {
		return err
	}
	temp, err := scratch()
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	objects := filepath.Join(temp, "objects")
	if err := os.Mkdir(objects, 0o700); err != nil {
		return td.Errorf(td.Storage, "check objects: %w", err)
	}
	pack, err := os.Create(filepath.Join(temp, "pack"))
	if err != nil {
		return td.Errorf(td.Storage, "check objects: %w", err)
	}
	defer func() { _ = pack.Close() }()
	if err := pipe(ctx, call{dir: repo, args: []string{"pack-objects", "--quiet", "--stdout", "--window=0"}, env: plain, stdin: bytes.NewReader(added)}, pack); err != nil {
		return err
	}
	common, err := sharedBy(repo)
	if err != nil {
		return err
	}
	env := append(plain, "GIT_OBJECT_DIRECTORY="+objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+gitfile.QuoteAlternate(filepath.Join(common, "objects")))
	old := map[string]bool{} // objects of the person's that new ones refer to
	for {
		check := "--strict"
		if len(old) > 0 {
			list := filepath.Join(objects, "old")
			var text strings.Builder
			for id := range old {
				text.WriteString(id + "\n")
			}
			if err := os.WriteFile(list, []byte(text.String()), 0o600); err != nil {
				return td.Errorf(td.Storage, "check objects: %w", err)
			}
			check += "=skipList=" + list
		}
		if _, err := pack.Seek(0, 0); err != nil {
			return td.Errorf(td.Storage, "check objects: %w", err)
		}
		_, err := run(ctx, call{dir: repo, args: []string{"index-pack", "--stdin", check}, env: env, stdin: pack})
		if err == nil || ctx.Err() != nil {
			return err
		}
		more := false
		for _, said := range malformed.FindAllStringSubmatch(err.Error(), -1) {
			id := said[1]
			if bytes.Contains(added, []byte(id)) {
				return td.Errorf(td.Conflict, "the history of %.12s has the object %s, which git fsck refuses: %s", commit, id, said[2])
			}
			if is, err := hadBefore(ctx, repo, id, known); err != nil {
				return err
			} else if !is {
				return td.Errorf(td.Conflict, "the history of %.12s has the file %s, which git fsck refuses: %s", commit, id, said[2])
			}
			more = more || !old[id]
			old[id] = true
		}
		if !more {
			return err
		}
	}
}

// personsRefs are what is the person's own, as arguments of rev-list.
var personsRefs = []string{"--exclude=taskdaemon/*", "--branches", "--remotes", "--tags"}

// malformed matches what git says of an object that has not the form it should have, and what is wrong with it.
var malformed = regexp.MustCompile(`(?:object|in blob|in tree|in commit|in tag) ([0-9a-f]{40}(?:[0-9a-f]{24})?): ([a-zA-Z0-9]+)`)

// hadBefore reports whether an object is one of the refs known, or of the person's.
func hadBefore(ctx context.Context, repo, id string, known []string) (bool, error) {
	args := slices.Concat([]string{"rev-list", "--objects", "--no-object-names", "--ignore-missing"}, known, personsRefs)
	out, err := run(ctx, call{dir: repo, args: args, env: []string{"GIT_NO_REPLACE_OBJECTS=1"}})
	return bytes.Contains(out, []byte(id)), err
}
