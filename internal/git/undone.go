package git

import (
	"bufio"
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"taskdaemon/internal/td"
)

// Undone are the files that a later commit has as they were before the changes from one commit to another: a merge may have a commit as a parent and nothing of its content. Blanks, and the mode of a
// file whose content was changed, make no difference.
func Undone(ctx context.Context, repo, from, to, later string) ([]string, error) {
	became, err := compareChanges(ctx, repo, from, to, later)
	return became.undone, err
}

// fate is what became of the changes from one commit to another in a later one.
type fate struct {
	undone   []string // files that are as they were before
	replaced []string // files that are neither so nor have a changed line left
	kept     bool     // something of the changes is left, or there were none
}

// gone are all files of which nothing is left.
func (f fate) gone() []string {
	return slices.Sorted(slices.Values(slices.Concat(f.undone, f.replaced)))
}

func compareChanges(ctx context.Context, repo, from, to, later string) (fate, error) {
	did, err := rawDifferences(ctx, repo, from, to)
	if err != nil || len(did) == 0 {
		return fate{kept: true}, err
	}
	since, err := rawDifferences(ctx, repo, to, later)
	if err != nil {
		return fate{}, err
	}
	now := map[string]entry{}
	for _, d := range since {
		now[d.path] = d.is
	}
	var f fate
	var wanted []string
	did = slices.DeleteFunc(did, func(d difference) bool {
		is, differs := now[d.path]
		if !differs {
			f.kept = true // it is as the changes left it
			return true
		}
		for _, e := range []entry{d.was, d.is, is} {
			if e.isFile() {
				wanted = append(wanted, e.id)
			}
		}
		return false
	})
	texts, err := smallBlobs(ctx, repo, wanted)
	if err != nil {
		return fate{}, err
	}
	for _, d := range did {
		switch compareFile(d.was, d.is, now[d.path], texts) {
		case fileUndone:
			f.undone = append(f.undone, d.path)
		case fileReplaced:
			f.replaced = append(f.replaced, d.path)
		default:
			f.kept = true
		}
	}
	slices.Sort(f.undone)
	return f, nil
}

type fileFate int

const (
	fileKept fileFate = iota
	fileUndone
	fileReplaced
)

// compareFile is what became of the change from was to is, if it is another now.
func compareFile(was, is, now entry, texts map[string][]byte) fileFate {
	switch {
	case now == was:
		return fileUndone
	case was.id == is.id && now.mode == is.mode: // the change was that of its mode
		return fileKept
	case was.id == is.id && now.mode == was.mode:
		return fileUndone
	}
	for _, e := range []entry{was, is} {
		if e != none && !e.isFile() { // a link: it has no lines
			return fileReplaced
		}
	}
	before, known := linesOf(was, texts)
	after, knownToo := linesOf(is, texts)
	if !known || !knownToo {
		return fileKept // it is too large to tell
	}
	if slices.Equal(before.all, after.all) {
		return fileKept // only blanks changed
	}
	present, known := linesOf(now, texts)
	switch {
	case known && slices.Equal(present.all, before.all):
		return fileUndone
	case known && present.has(after, before):
		return fileKept
	}
	return fileReplaced
}

// lines are those of a text that are not blank, without blanks.
type lines struct {
	all []string
	set map[string]bool
}

// linesOf are the lines of a file, none if it is not there. Unknown if it is none, or was not read.
func linesOf(e entry, texts map[string][]byte) (lines, bool) {
	text, known := texts[e.id]
	if e != none && (!known || !e.isFile()) {
		return lines{}, false
	}
	l := lines{set: map[string]bool{}}
	for line := range bytes.Lines(text) {
		if dense := strings.Join(strings.Fields(string(line)), ""); dense != "" {
			l.all = append(l.all, dense)
			l.set[dense] = true
		}
	}
	return l, true
}

// has reports whether a line is left of a change: one that it added, with a letter or figure in it; of a change that only removed, that one which it removed is not there.
func (l lines) has(after, before lines) bool {
	added := false
	for line := range after.set {
		if !before.set[line] && strings.ContainsFunc(line, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
			if added = true; l.set[line] {
				return true
			}
		}
	}
	if added {
		return false
	}
	for line := range before.set {
		if !after.set[line] && !l.set[line] {
			return true
		}
	}
	for line := range after.set { // marks alone
		if !before.set[line] && l.set[line] {
			return true
		}
	}
	return false
}

func (e entry) isFile() bool { return strings.HasPrefix(e.mode, "100") }

// rawDifferences are the files that differ between two commits.
func rawDifferences(ctx context.Context, repo, a, b string) ([]difference, error) {
	out, err := run(ctx, call{dir: repo, args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--end-of-options", a, b}})
	if err != nil {
		return nil, err
	}
	all, ok := parseRaw(string(out))
	if !ok {
		return nil, td.Errorf(td.Internal, "compare commits: git said %.100q", out)
	}
	return all, nil
}

// Of how large files the lines are compared, how much of them git is asked for at once, and how much of all.
const (
	mostCompared     = 256 << 10
	mostAskedFor     = 400 << 10
	mostComparedEver = 32 << 20
)

// smallBlobs are the contents of these objects, but for those that are too large.
func smallBlobs(ctx context.Context, repo string, ids []string) (map[string][]byte, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := run(ctx, call{dir: repo, args: []string{"cat-file", "--batch-check=%(objectname) %(objectsize)"}, stdin: strings.NewReader(strings.Join(ids, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{}
	var some []string
	size, total := 0, 0
	read := func() error {
		if len(some) == 0 {
			return nil
		}
		out, err := run(ctx, call{dir: repo, args: []string{"cat-file", "--batch"}, stdin: strings.NewReader(strings.Join(some, "\n") + "\n")})
		if err != nil {
			return err
		}
		answers := bufio.NewReader(bytes.NewReader(out))
		for _, id := range some {
			if texts[id], _, err = readObject(answers); err != nil {
				return err
			}
		}
		some, size = nil, 0
		return nil
	}
	for line := range strings.Lines(string(out)) {
		id, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(digits)
		if err != nil || n > mostCompared || total+n > mostComparedEver {
			continue
		}
		if size+n > mostAskedFor {
			if err := read(); err != nil {
				return nil, err
			}
		}
		some, size, total = append(some, id), size+n, total+n
	}
	return texts, read()
}
