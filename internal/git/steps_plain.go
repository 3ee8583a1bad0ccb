package git

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/failpoint"
)

var fpStepsObjects = failpoint.New("git.steps.before_objects")

// Most commands change a handful of files that git takes as they are. Where a watch tells which, these are read here, and their blobs, the trees that they are in and the commit are
// written without git: each run of git reads the whole index, and most write it. Which files count, and what git would make of their content, only git is
// asked, once for each file as long as the watch lasts; and for all that is not known to be plain, all is done by git.

// plainFiles is what is known of the files of a watched checkout.
type plainFiles struct {
	files    map[string]plainFile
	converts bool // settings have git change the ends of lines

	tree  string                 // that the trees are of
	trees map[string][]treeEntry // by folder, "." is the top; those that were needed
}

// plainFile is what git says of a file.
type plainFile struct {
	counts   bool // it is in the index, or would be put there
	converts bool // git may change the ends of its lines
}

// Bounds of what is taken without git.
const (
	maxPlain    = 8 << 20  // bytes of one file
	maxAllPlain = 32 << 20 // and of all
	mostPlain   = 1000     // files, and folders, of which something is remembered
)

// errNotPlain says that git has to be asked.
var errNotPlain = errors.New("not plain")

// needs are what settings must say, where they say anything, for files to be taken as they are; any means that it does not matter. A setting that is told to git and is
// not here has git do all.
var needs = map[string]string{
	"core.filemode": "true", "core.symlinks": "true", "core.ignorecase": "false", "core.precomposeunicode": "false", "core.sparsecheckout": "false",
	"core.repositoryformatversion": whatever, "core.autocrlf": whatever, "core.eol": whatever, "core.protecthfs": whatever, "core.protectntfs": whatever, "core.checkroundtripencoding": whatever,
	"core.bigfilethreshold": whatever, "core.compression": whatever, "core.loosecompression": whatever, "core.checkstat": whatever, "core.trustctime": whatever, "core.logallrefupdates": whatever,
	"core.abbrev": whatever, "core.longpaths": whatever, "core.maxtreedepth": whatever, "core.untrackedcache": whatever, "core.multipackindex": whatever, "core.commitgraph": whatever,
	"core.preloadindex": whatever, "core.sparsecheckoutcone": whatever, "core.packedgitlimit": whatever, "core.packedgitwindowsize": whatever, "core.deltabasecachelimit": whatever,
	"user.name": whatever, "user.email": whatever, "author.name": whatever, "author.email": whatever, "committer.name": whatever, "committer.email": whatever,
	"merge.renames": whatever, "merge.renamelimit": whatever, "merge.directoryrenames": whatever, "merge.conflictstyle": whatever, "merge.renormalize": whatever,
	"diff.renames": whatever, "diff.renamelimit": whatever, "diff.algorithm": whatever, "diff.indentheuristic": whatever,
	"index.version": whatever, "index.threads": whatever, "index.skiphash": whatever, "feature.manyfiles": whatever, "pack.threads": whatever, "pack.windowmemory": whatever,
	"i18n.logoutputencoding": whatever, "extensions.objectformat": whatever,
}

const whatever = "any"

// plainIn is what is known at first of a checkout with these settings; nil: files are not taken as they are.
func plainIn(said *settings) *plainFiles {
	p := &plainFiles{files: map[string]plainFile{}}
	for _, one := range slices.Concat(said.person, said.local) {
		if !isStated(one.key) {
			continue
		}
		switch need := needs[one.key]; {
		case need == "", need == "true" && !truth(one.value), need == "false" && truth(one.value):
			return nil
		}
		p.converts = p.converts || one.key == "core.autocrlf" || one.key == "core.eol"
	}
	return p
}

// forget has git asked again.
func (p *plainFiles) forget() {
	if p != nil {
		clear(p.files)
	}
}

// takePlain takes files that are all that may have changed, without git as far as that can be. errNotPlain when it cannot, and then nothing was done.
func (s *Steps) takePlain(ctx context.Context, names []string, message string) (Tree, error) {
	p := s.watch.plain
	at := siteOf(call{dir: s.top})
	switch {
	case p == nil, len(names)+len(s.behind) > mostHeard, !utf8.ValidString(message), strings.Contains(message, "\x00"),
		at.refuse != nil, at.git != real(s.own), at.common != real(s.common),
		slices.ContainsFunc(names, func(n string) bool { return slices.Contains(s.last.LeftOut, n) }):
		return Tree{}, errNotPlain
	}
	top, err := beneath.OpenResolved(s.top)
	if err != nil {
		return Tree{}, errNotPlain
	}
	defer func() { _ = top.Close() }()
	there, gone, err := s.plainNames(ctx, p, top, names)
	if err != nil {
		return Tree{}, err
	}
	if err := s.readTrees(ctx, p, slices.Concat(there, gone)); err != nil {
		return Tree{}, err
	}
	changes, err := p.changes(top, there, gone, len(s.last.Hash))
	if err != nil || len(changes) == 0 {
		return s.last, err
	}
	return s.writePlain(ctx, p, changes, message)
}

// plainNames are the names of which something is there that counts, and of which nothing is there.
func (s *Steps) plainNames(ctx context.Context, p *plainFiles, top *beneath.Folder, names []string) (there, gone []string, err error) {
	var unknown []string
	for _, name := range names {
		info, err := top.Lstat(name)
		known, is := p.files[name]
		_, behind := s.behind[name]
		switch {
		case errors.Is(err, fs.ErrNotExist):
			gone = append(gone, name)
			continue
		case err != nil || !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSymlink:
			return nil, nil, errNotPlain
		case !is && behind:
			return nil, nil, errNotPlain // what the index says of it is of before
		case !is:
			unknown = append(unknown, name)
		case known.counts:
			there = append(there, name)
		}
	}
	if len(unknown) > 0 {
		if err := s.learn(ctx, p, unknown); err != nil {
			return nil, nil, err
		}
	}
	for _, name := range unknown {
		if p.files[name].counts {
			there = append(there, name)
		}
	}
	return there, gone, nil
}

// plainPath reports whether git takes a path on every file system.
func plainPath(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if !plainPart.MatchString(part) || strings.HasSuffix(part, ".") || strings.HasPrefix(strings.ToLower(part), ".git") {
			return false
		}
	}
	return true
}

var plainPart = regexp.MustCompile(`^[A-Za-z0-9._+@=,#%-]+$`)

// learn asks git which files count, and what it does with their content.
func (s *Steps) learn(ctx context.Context, p *plainFiles, names []string) error {
	what := []string{"ls-files", "-z", "-v", "--stage", "--cached", "--others", "--exclude-standard", "--"}
	for _, name := range names {
		what = append(what, ":(top,literal)"+name)
	}
	out, err := run(ctx, call{dir: s.top, env: s.env(), args: what})
	if err != nil {
		return err
	}
	found := map[string]plainFile{}
	for rec := range strings.SplitSeq(string(out), "\x00") {
		if rec == "" {
			continue
		}
		name, new := strings.CutPrefix(rec, "? ")
		if !new {
			head, tracked, _ := strings.Cut(rec, "\t")
			f := strings.Fields(head)
			if len(f) != 4 || f[0] != "H" || f[3] != "0" || !(treeEntry{mode: f[1]}).isFile() {
				return errNotPlain // a merge, a repository, or one that git is told not to look at
			}
			name = tracked
		}
		if !slices.Contains(names, name) || new && !plainPath(name) {
			return errNotPlain
		}
		found[name] = plainFile{counts: true}
	}
	out, err = run(ctx, call{
		dir: s.top, env: s.env(), args: []string{"check-attr", "-z", "--stdin", "--all"}, stdin: strings.NewReader(strings.Join(names, "\x00") + "\x00"),
	})
	if err != nil {
		return err
	}
	for fields := range slices.Chunk(strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), 3) {
		if len(fields) < 3 {
			break
		}
		name, attribute := fields[0], fields[1]
		switch is := found[name]; {
		case slices.Contains([]string{"text", "crlf", "eol"}, attribute):
			is.converts = true
			found[name] = is
		case !slices.Contains(harmless, attribute) && !strings.HasPrefix(attribute, "linguist-"):
			return errNotPlain
		}
	}
	if len(p.files) > mostPlain {
		clear(p.files)
	}
	for _, name := range names {
		p.files[name] = found[name]
	}
	return nil
}

// harmless are the attributes that change no file of a checkout.
var harmless = []string{"diff", "merge", "binary", "delta", "whitespace", "conflict-marker-size", "export-ignore", "export-subst"}

// readTrees reads the trees of the folders that files are in, of the tree that was taken last, as far as they are not known.
func (s *Steps) readTrees(ctx context.Context, p *plainFiles, names []string) error {
	if p.tree != s.last.Hash || len(p.trees) > mostPlain {
		p.tree, p.trees = s.last.Hash, map[string][]treeEntry{}
	}
	missing := map[string]bool{}
	for _, name := range names {
		for dir := path.Dir(name); ; dir = path.Dir(dir) {
			if _, is := p.trees[dir]; !is {
				missing[dir] = true
			}
			if dir == "." {
				break
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	dirs := slices.SortedFunc(maps.Keys(missing), byDepth)
	var ask strings.Builder
	for _, dir := range dirs {
		if strings.Contains(dir, "\n") {
			return errNotPlain
		}
		if dir == "." {
			dir = ""
		}
		ask.WriteString(s.last.Hash + ":" + dir + "\n")
	}
	out, err := run(ctx, call{dir: s.top, args: []string{"cat-file", "--batch"}, stdin: strings.NewReader(ask.String())})
	if err != nil {
		return err
	}
	answers := bufio.NewReader(bytes.NewReader(out))
	for _, dir := range dirs {
		raw, id, err := readObject(answers)
		if err != nil {
			return errNotPlain
		}
		entries, ok := treeEntries(raw, len(s.last.Hash))
		if want := p.idOf(dir); !ok || want != id || id != "" && hex.EncodeToString(nameOf("tree", raw, len(id))) != id {
			return errNotPlain // it is no tree, is not there, or another stands in for it
		}
		p.trees[dir] = entries
	}
	return nil
}

// byDepth sorts a folder before what is in it.
func byDepth(a, b string) int {
	if a == "." || b == "." {
		return strings.Compare(strings.TrimPrefix(a, "."), strings.TrimPrefix(b, "."))
	}
	return strings.Compare(a, b)
}

// idOf is the name of the tree of a folder, by the one around it; empty: there is none.
func (p *plainFiles) idOf(dir string) string {
	if dir == "." {
		return p.tree
	}
	if e, is := p.entry(dir); is && e.mode == entryTree {
		return hex.EncodeToString([]byte(e.id))
	}
	return ""
}

// entry is what the tree of a path's folder has of it.
func (p *plainFiles) entry(name string) (treeEntry, bool) {
	in := p.trees[path.Dir(name)]
	at := slices.IndexFunc(in, func(e treeEntry) bool { return e.name == path.Base(name) })
	if at < 0 {
		return treeEntry{}, false
	}
	return in[at], true
}

// plainChange is a file that is not as it was.
type plainChange struct {
	name    string
	entry   *treeEntry // nil: it is gone
	content []byte
}

// changes are those of the names that are not as in the trees.
func (p *plainFiles) changes(top *beneath.Folder, there, gone []string, digits int) (changes []plainChange, err error) {
	for _, name := range gone {
		switch e, was := p.entry(name); {
		case was && !e.isFile():
			return nil, errNotPlain
		case was:
			changes = append(changes, plainChange{name: name})
		}
	}
	size := 0
	for _, name := range there {
		mode, content, err := p.read(top, name)
		if size += len(content); err != nil || size > maxAllPlain {
			return nil, errNotPlain
		}
		now := treeEntry{mode, path.Base(name), string(nameOf("blob", content, digits))}
		switch e, was := p.entry(name); {
		case was && !e.isFile():
			return nil, errNotPlain
		case !was || e != now:
			changes = append(changes, plainChange{name, &now, content})
		}
	}
	return changes, nil
}

// read is what git would make of a file.
func (p *plainFiles) read(top *beneath.Folder, name string) (mode string, content []byte, err error) {
	raw, info, err := top.Read(name, maxPlain)
	if errors.Is(err, beneath.ErrLink) || errors.Is(err, beneath.ErrNotRegular) {
		in, err := top.Folder(path.Dir(name))
		if err != nil {
			return "", nil, err
		}
		defer func() { _ = in.Close() }()
		to, err := in.Readlink(path.Base(name))
		return modeSymlink, []byte(to), err
	}
	switch {
	case err != nil:
		return "", nil, err
	case (p.converts || p.files[name].converts) && bytes.IndexByte(raw, '\r') >= 0:
		return "", nil, errNotPlain // without it there is nothing that git would change
	case info.Mode()&0o100 != 0:
		return modeProgram, raw, nil
	}
	return modePlain, raw, nil
}

// writePlain writes what changed, the trees that it is in and the commit, and has the ref follow.
func (s *Steps) writePlain(ctx context.Context, p *plainFiles, changes []plainChange, message string) (Tree, error) {
	to, err := openLoose(s.common, len(s.last.Hash))
	if err != nil {
		return Tree{}, err
	}
	defer to.close()
	fpStepsTree.Hit()
	trees := maps.Clone(p.trees)
	put := func(name string, e *treeEntry) {
		trees[path.Dir(name)] = withEntry(trees[path.Dir(name)], path.Base(name), e)
	}
	dirty := map[string]bool{".": true}
	for _, c := range changes {
		if c.entry != nil {
			if _, err := to.add("blob", c.content); err != nil {
				return Tree{}, err
			}
		}
		put(c.name, c.entry)
		for dir := path.Dir(c.name); dir != "."; dir = path.Dir(dir) {
			dirty[dir] = true
		}
	}
	var id []byte
	dirs := slices.SortedFunc(maps.Keys(dirty), byDepth)
	slices.Reverse(dirs) // what is in a folder first
	for _, dir := range dirs {
		if dir != "." && len(trees[dir]) == 0 {
			put(dir, nil)
			continue
		}
		if id, err = to.add("tree", formatTree(trees[dir])); err != nil {
			return Tree{}, err
		}
		if dir != "." {
			put(dir, &treeEntry{entryTree, path.Base(dir), string(id)})
		}
	}
	next := s.last
	next.Hash = hex.EncodeToString(id)
	onto := s.parents(next.Base)
	fpStepsCommit.Hit()
	if id, err = to.add("commit", commitText(next.Hash, onto, message, time.Now())); err != nil {
		return Tree{}, err
	}
	next.Commit = hex.EncodeToString(id)
	fpStepsObjects.Hit()
	if err := to.keep(); err != nil {
		return Tree{}, err
	}
	if err := s.advance(ctx, next.Commit, onto); err != nil {
		return Tree{}, err
	}
	p.tree, p.trees = next.Hash, trees
	for _, c := range changes {
		if s.behind[c.name] = c.entry == nil; c.entry == nil {
			delete(p.files, c.name) // if it comes again, it may be ignored
		}
	}
	s.last = next
	return next, nil
}

// commitText is a commit as git stores it.
func commitText(tree string, parents []string, message string, at time.Time) []byte {
	var b bytes.Buffer
	b.WriteString("tree " + tree + "\n")
	for _, p := range parents {
		b.WriteString("parent " + p + "\n")
	}
	for _, who := range []string{"author", "committer"} {
		fmt.Fprintf(&b, "%s %s <%s> %d +0000\n", who, authorName, authorEmail, at.Unix())
	}
	b.WriteString("\n" + strings.TrimSuffix(message, "\n") + "\n")
	return b.Bytes()
}
