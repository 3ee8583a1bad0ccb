package sandbox

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	formID   = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	formWho  = "a <a@b> 1 +0000\n"
	formHead = "tree " + formID + "\n"
	formTag  = "object " + formID + "\ntype blob\n"
)

// formEntry is an entry of a tree.
func formEntry(mode, name string) string { return mode + " " + name + "\x00" + strings.Repeat("x", 20) }

func TestWellFormed(t *testing.T) {
	const people = "author " + formWho + "committer " + formWho
	file := func(name string) string { return formEntry("100644", name) }
	for _, c := range []struct {
		what, kind, body string
		want             string // "" is kept, "old" in a pack only, "no" never
	}{
		{"a commit", "commit", formHead + people + "\nx\n", ""},
		{"one with parents", "commit", formHead + "parent " + formID + "\nparent " + formID + "\n" + people + "\nx\n", ""},
		{"one with more headers", "commit", formHead + people + "encoding ISO-8859-1\ngpgsig a\n b\n\nx", ""},
		{"one without message", "commit", formHead + people, ""},
		{"a NUL in the message", "commit", formHead + people + "\nx\x00y\n", ""},
		{"no name and no address", "commit", formHead + "author  <> 0 +0000\ncommitter \xff <\xff> 0 -1200\n\n", ""},
		{"only a tree", "commit", formHead, "no"},
		{"no author", "commit", formHead + "\n", "no"},
		{"no committer", "commit", formHead + "author " + formWho + "\n", "no"},
		{"the committer first", "commit", formHead + "committer " + formWho + "author " + formWho + "\n", "no"},
		{"no tree", "commit", people + "\n", "no"},
		{"a short parent", "commit", formHead + "parent " + formID[1:] + "\n" + people + "\n", "no"},
		{"a long parent", "commit", formHead + "parent " + formID + "a\n" + people + "\n", "no"},
		{"a long tree", "commit", "tree " + formID + "a\n" + people + "\n", "no"},
		{"a parent that is none", "commit", formHead + "parent zzz\n" + people + "\n", "no"},
		{"no end of line", "commit", formHead + "author " + formWho + "committer a <a@b> 1 +0000", "no"},
		{"a NUL in a header", "commit", formHead + people + "x\x00y\n\n", "no"},
		{"nothing", "commit", "", "no"},
		{"two authors", "commit", formHead + "author " + formWho + people + "\n", "old"},
		{"no space before the date", "commit", formHead + "author a <a@b>1 +0000\ncommitter " + formWho + "\n", "old"},
		{"a date with zeros", "commit", formHead + "author a <a@b> 01 +0000\ncommitter " + formWho + "\n", "old"},
		{"a late date", "commit", formHead + "author a <a@b> 99999999999999999999 +0000\ncommitter " + formWho + "\n", "old"},
		{"an odd zone", "commit", formHead + "author " + formWho + "committer a <a@b> 1 +051800\n\n", "old"},
		{"no address", "commit", formHead + "author a\ncommitter " + formWho + "\n", "old"},
		{"no name", "commit", formHead + "author <a@b> 1 +0000\ncommitter " + formWho + "\n", "old"},

		{"a tag", "tag", formTag + "tag x\ntagger " + formWho + "\nx\n", ""},
		{"one without tagger", "tag", formTag + "tag xy\n\nx\n", ""},
		{"a name that no ref has", "tag", formTag + "tag a b\ntagger " + formWho + "\n", ""},
		{"a tagger without date", "tag", formTag + "tag x\ntagger a <a@b>\n\n", "old"},
		{"no name of a tag", "tag", formTag, "no"},
		{"an empty one", "tag", formTag + "tag \ntagger " + formWho, "no"},
		{"half a line", "tag", formTag + "tag x", "no"},
		{"another line", "tag", formTag + "no xxxxxx\n", "no"},
		{"another type", "tag", "object " + formID + "\ntype foo\ntag x\ntagger " + formWho, "no"},
		{"too short for git", "tag", "object " + formID + "\ntype tag\ntag x\n", "no"},

		{"a tree", "tree", file("a") + file("a.b") + formEntry("40000", "a0") + formEntry("120000", "l") + formEntry("160000", "sub"), ""},
		{"an empty tree", "tree", "", ""},
		{"a folder behind what its name begins", "tree", file("a.b") + formEntry("40000", "a") + file("a0"), ""},
		{"odd modes", "tree", formEntry("100664", "a") + formEntry("040000", "b"), ""},
		{"names like git's", "tree", file(".gitattributes") + file(".github") + file(".gitmodules") + file("git~2"), ""},
		{"no mode", "tree", formEntry("", "a"), "no"},
		{"mode 0", "tree", formEntry("0", "a"), "no"},
		{"an unknown type", "tree", formEntry("777777", "a"), "no"},
		{"a mode beyond all", "tree", formEntry("100000040000", "a"), "no"},
		{"a signed mode", "tree", formEntry("+100644", "a"), "no"},
		{"no name", "tree", formEntry("100644", ""), "no"},
		{"half a name of an object", "tree", file("a")[:20], "no"},
		{"an object of zeros", "tree", "160000 a\x00" + strings.Repeat("\x00", 20), "no"},
		{"out of order", "tree", file("b") + file("a"), "no"},
		{"a folder out of order", "tree", formEntry("40000", "a") + file("a.b"), "no"},
		{"twice", "tree", file("a") + file("a"), "no"},
		{"a file and a folder", "tree", file("a") + file("a.b") + formEntry("40000", "a"), "no"},
		{"a path", "tree", file("a/b"), "no"},
		{"git's folder", "tree", file(".gIt"), "no"},
		{"it on Windows", "tree", file("GIT~1"), "no"},
		{"it with dots behind", "tree", file(".git . "), "no"},
		{"a stream of it", "tree", file(".git:x"), "no"},
		{"it behind a backslash", "tree", file("a\\.git\\b"), "no"},
		{"it on a Mac", "tree", file(".g\u200cit"), "no"},
		{"a link as .gitmodules", "tree", formEntry("120000", ".gitmodules"), "no"},
		{"one on Windows", "tree", formEntry("120000", "GI7EBA~1"), "no"},
		{"a folder as .gitmodules", "tree", formEntry("40000", ".gitmodules"), "no"},
		{"a file", "blob", "\x00", ""},
	} {
		err, got := wellFormed(c.kind, []byte(c.body), 40), ""
		switch {
		case errors.Is(err, errOldForm):
			got = "old"
		case err != nil:
			got = "no"
		}
		if got != c.want {
			t.Errorf("%s: %q (%v), not %q", c.what, got, err, c.want)
		}
	}
}

func FuzzWellFormed(f *testing.F) {
	f.Add("commit", []byte(formHead+"parent "+formID+"\nauthor "+formWho+"committer "+formWho+"\nx\n"))
	f.Add("tag", []byte(formTag+"tag x\ntagger "+formWho))
	f.Add("tree", []byte(formEntry("100644", "a")+formEntry("40000", "b")))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		if err := wellFormed(kind, body, 40); err != nil && !errors.Is(err, errOldForm) {
			return
		}
		for _, l := range linksOf(kind, body, 40) { // what passes, names objects
			if !isHex(l.id, 40) || !slices.Contains([]string{"blob", "tree", "commit", "tag"}, l.kind) {
				t.Errorf("%s %q names %+v", kind, body, l)
			}
		}
	})
}

// TestAsStrictAsGit spoils objects at random: what git's fsck complains of is not well formed, and with what is, git cleans up.
func TestAsStrictAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	seed := rand.Uint64()
	if v := os.Getenv("TASKDAEMON_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TASKDAEMON_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	all, gits := newSpoiled(t), newSpoiled(t)
	kept := 0
	judged := map[string]error{}
	for range 1500 {
		kind := []string{"commit", "tag", "tree"}[r.IntN(3)]
		body := all.spoil(r, kind)
		if !all.agrees(kind, body) {
			continue
		}
		name := all.put(kind, body)
		judged[name] = wellFormed(kind, body, 40)
		if err := judged[name]; err != nil && !errors.Is(err, errOldForm) || !gits.whole(kind, body) {
			continue
		}
		gits.put(kind, body)
		kept++
	}
	if kept < 50 || kept > 1450 {
		t.Fatalf("%d of 1500 are kept: nothing is compared", kept)
	}
	// Without --strict, and with what it adds but for what old histories have.
	for _, flags := range [][]string{{"fsck"}, {"-c", "fsck.zeroPaddedFilemode=ignore", "-c", "fsck.nulInCommit=ignore", "fsck", "--strict"}} {
		_, said := all.git(flags...)
		found := 0
		for id, line := range complaints(said) {
			err, made := judged[id]
			if made && err == nil && all.alone(id, flags...) {
				t.Errorf("git %v says %q of what is kept:\n%s", flags, line, hex.Dump(all.body[id]))
			} else if made && err != nil {
				found++
			}
		}
		if found == 0 {
			t.Errorf("git %v complains of nothing: %.500s", flags, said)
		}
	}
	for _, args := range [][]string{{"gc", "--quiet"}, {"gc", "--quiet", "--prune=now"}, {"prune", "-n"}} {
		if code, said := gits.git(args...); code != 0 {
			t.Errorf("git %v: %s", args, said)
		}
	}
}

// complaint is what fsck says of an object.
var complaint = regexp.MustCompile(`^error(?: in (?:commit|tag|tree)|:(?: bogus commit object)?) ([0-9a-f]{40})`)

// complaints are what git's fsck says against objects, by their names. What an object names is looked at elsewhere.
func complaints(said string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(said) {
		if of := complaint.FindStringSubmatch(line); of != nil && !strings.Contains(line, ": broken links") {
			found[of[1]] = line
		}
	}
	return found
}

// spoiled is a repository with objects of any form.
type spoiled struct {
	t         *testing.T
	dir       string
	kinds     map[string]string // of what was there before
	named     map[string]string // and as what objects name others
	templates map[string][]byte
	body      map[string][]byte
	kind      map[string]string
}

func newSpoiled(t *testing.T) *spoiled {
	t.Helper()
	s := &spoiled{t: t, dir: t.TempDir(), kinds: map[string]string{}, named: map[string]string{}, templates: map[string][]byte{}, body: map[string][]byte{}, kind: map[string]string{}}
	script := "git init -q -b main . && mkdir a && echo 1 > a/f && echo 1 > a.b && ln -s a l && git add . && git commit -qm 1 && echo 2 > a.b && git commit -qam 2 && git tag -am x x"
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_AUTHOR_DATE=1700000000 +0100", "GIT_COMMITTER_DATE=1700000000 +0100")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for kind, of := range map[string]string{"commit": "HEAD", "tag": "x", "tree": "HEAD^{tree}"} {
		_, id := s.git("rev-parse", of)
		raw, err := s.command("cat-file", kind, strings.TrimSpace(id)).Output()
		if err != nil {
			t.Fatal(err)
		}
		s.templates[kind] = raw
	}
	_, list := s.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
	for line := range strings.Lines(list) {
		id, kind, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.kinds[id], s.named[id] = kind, kind
	}
	return s
}

func (s *spoiled) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	return cmd
}

func (s *spoiled) git(args ...string) (code int, said string) {
	cmd := s.command(args...)
	out, _ := cmd.CombinedOutput() // the code says it
	return cmd.ProcessState.ExitCode(), string(out)
}

// put writes an object as it is.
func (s *spoiled) put(kind string, body []byte) (name string) {
	plain := fmt.Sprintf("%s %d\x00%s", kind, len(body), body)
	name = sum1(plain)
	s.body[name], s.kind[name] = body, kind
	dir := filepath.Join(s.dir, ".git/objects", name[:2])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name[2:]), deflate(plain), 0o644); err != nil && !errors.Is(err, os.ErrPermission) {
		s.t.Fatal(err)
	}
	return name
}

// alone reports whether git complains of an object that nothing broken stands beside: what is broken may have named what this one names, as another kind.
func (s *spoiled) alone(id string, flags ...string) bool {
	fresh := newSpoiled(s.t)
	fresh.put(s.kind[id], s.body[id])
	_, said := fresh.git(flags...)
	return complaints(said)[id] != ""
}

// whole reports whether an object names only such as were there before, as what they are: what names others is looked at elsewhere.
func (s *spoiled) whole(kind string, body []byte) bool {
	return !slices.ContainsFunc(linksOf(kind, body, 40), func(l link) bool { return s.kinds[l.id] != l.kind })
}

// agrees reports whether an object names each other one as the objects before it do; else git would complain of any of them.
func (s *spoiled) agrees(kind string, body []byte) bool {
	links := linksOf(kind, body, 40)
	if slices.ContainsFunc(links, func(l link) bool { return s.named[l.id] != "" && s.named[l.id] != l.kind }) {
		return false
	}
	for _, l := range links {
		s.named[l.id] = l.kind
	}
	return true
}

// spoil makes another object of one that git made.
func (s *spoiled) spoil(r *rand.Rand, kind string) []byte {
	parts := bytes.SplitAfter(s.templates[kind], []byte("\n"))
	if kind == "tree" {
		parts = nil
		for body := s.templates[kind]; len(body) > 0; {
			end := bytes.IndexByte(body, 0) + 21
			parts, body = append(parts, body[:end]), body[end:]
		}
	}
	parts = slices.Clone(parts)
	for range 1 + r.IntN(3) {
		i := r.IntN(len(parts))
		switch j := r.IntN(len(parts)); r.IntN(8) {
		case 0:
			parts = slices.Delete(parts, i, i+1)
		case 1:
			parts = slices.Insert(parts, i, parts[j])
		case 2:
			parts[i], parts[j] = parts[j], parts[i]
		case 3:
			parts = append(parts[:i:i], parts[i][:r.IntN(len(parts[i])+1)]) // the rest is gone
		case 4, 5, 6: // a word is another
			words := bytes.SplitAfter(parts[i], []byte(" "))
			k := r.IntN(len(words))
			end := ""
			if k == len(words)-1 && len(words[k]) > 0 { // with what ends the entry
				end = string(words[k][max(0, len(words[k])-1):])
				if at := bytes.IndexByte(words[k], 0); kind == "tree" && at >= 0 {
					end = string(words[k][at:])
				}
			} else {
				end = " "
			}
			words[k] = []byte(formWords[r.IntN(len(formWords))] + end)
			parts[i] = bytes.Join(words, nil)
		default:
			one := bytes.Clone(parts[i])
			if len(one) > 0 {
				one[r.IntN(len(one))] = "\x00\n <>0a/.\xff"[r.IntN(10)]
			}
			parts[i] = one
		}
		if len(parts) == 0 {
			return nil
		}
	}
	return bytes.Join(parts, nil)
}

// formWords are what stands where something else belongs.
var formWords = []string{
	"", " ", "tree", "parent", "author", "committer", "object", "type", "tag", "tagger", "commit", "blob", "gpgsig", "0", "00", "1", "01", "-1", "99999999999999999999", "9223372036854775807",
	"9223372036854775808", "+0000", "+000", "-00000", "<>", "<a@b>", "<a", "a>", "<<a>>", "100644", "0100644", "100755", "100664", "40000", "040000", "120000", "160000", "777777", "100000040000",
	".", "..", ".git", ".GIT", "git~1", ".git ", ".git.", ".git:a", "a\\.git", "a\\git~1 .\\b", ".g\u200cit", "\ufeff.git", ".gitmodules", "gitmod~1", "gi7eba~1", "~1000000", "gi7~1234", ".GITMODULES .", ".gitmodules:x", "a\\.gitmodules",
	".gitattributes", "a/b", "/", "a", "a.b", "l", "a\x00b", "a\nb", strings.Repeat("a", 5000), formID, formID[1:], formID + "a", strings.ToUpper(formID), strings.Repeat("0", 40),
}
