package sandbox

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestGitStore checks that what a command adds to a repository is there for everybody, also while it runs, and that nothing that was
// there can be changed.
func TestGitStore(t *testing.T) {
	t.Parallel()
	t.Run("what is there stays", storeStays)
	t.Run("what is added is there", storeAdds)
	t.Run("while a job runs", storeFollows)
	t.Run("packs", storeUnpacks)
	t.Run("odd packs", storeOdd)
	t.Run("too many packs", storeManyPacks)
	t.Run("a shim that is killed", storeReclaims)
	t.Run("borrowed objects", storeBorrows)
	t.Run("longer names", storeNames)
}

// objectFile is where a repository keeps a single object.
func objectFile(objects, name string) string { return filepath.Join(objects, name[:2], name[2:]) }

func storeStays(t *testing.T) {
	y := gitYard(t)
	objects := y.work + "/.git/objects"
	blob := y.git("rev-parse", "main:f")
	other := y.git("rev-parse", "side:f")
	y.git("pack-objects", "--all", "-q", objects+"/pack/pack")
	had := filesIn(t, objects)
	for _, script := range []string{
		"chmod -R u+w .git/objects; cp -f .git/objects/%[2]s .git/objects/%[1]s; cp -f " + "$(cat .git/objects/info/alternates)/%[2]s .git/objects/%[1]s",
		"rm -rf .git/objects/*", "cd .git/objects; for i in $(seq 0 255); do x=$(printf %%02x $i); mkdir -p $x; rm -rf $x/*; done; rm -f pack/*; echo x > pack/pack-1.pack",
		"d=$(cat .git/objects/info/alternates); chmod 777 $d $d/*; rm -rf $d/*; touch $d/x; cp -f $d/%[2]s $d/%[1]s; mv $d /tmp/away; umount $d",
		"echo /tmp > .git/objects/info/alternates; ln -s /tmp .git/objects/link; ln -sfn /tmp .git/objects/info; mkdir .git/objects/aa; ln -s " + y.out + "/file .git/objects/aa/" + strings.Repeat("b", 38),
		"cd .git; perl -e 'rename(\"objects\", \"o\") or die $!'; umount objects; mount -o remount,rw objects",
	} {
		y.run(fmt.Sprintf(script, objectFile("", blob), objectFile("", other)))
		if has := filesIn(t, objects); has != had {
			t.Errorf("%s: the objects were\n%sand are\n%s", script, had, has)
		}
	}
	if said := y.git("fsck", "--full"); strings.Contains(said, "error") {
		t.Error(said)
	}
	y.works("git fsck --full && git log --oneline && git show side:f | grep 3")
}

// filesIn lists the files below a folder with what they hold. Empty folders are none.
func filesIn(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("sh", "-c", `cd "$0" && find . ! -type d -printf '%m %l ' -exec sha1sum {} \; | sort -k3`, dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func storeAdds(t *testing.T) {
	y := gitYard(t)
	y.works("echo new > g && mkdir -p d && echo deep > d/h && git add g d && " + gitAs + "commit -qm new && git tag t")
	if got := y.git("show", "main:d/h"); got != "deep" {
		t.Error(got)
	}
	y.git("fsck", "--full", "--strict")
	linked := *y
	linked.work = y.home + "/linked"
	linked.p.Workspace = linked.work
	y.git("worktree", "add", "-q", linked.work)
	linked.works("git show t:d/h | grep deep && echo more > m && git add m && " + gitAs + "commit -qm more")
	if got := y.git("show", "linked:m"); got != "more" {
		t.Error(got)
	}
	// One that was fetched, though it is large.
	y.git("clone", "-q", y.work, y.home+"/upstream")
	cmd := exec.Command("sh", "-c", "for i in $(seq 150); do echo $i > n$i; done; git add . && "+gitAs+"commit -qm many")
	cmd.Dir = y.home + "/upstream"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	y.works("git fetch -q " + y.home + "/upstream HEAD && git branch fetched FETCH_HEAD")
	if got := y.git("show", "fetched:n150"); got != "150" {
		t.Error(got)
	}
	y.works("git clone -q . /tmp/clone && (cd /tmp/clone && echo c > c && git add c && " + gitAs + "commit -qm c && git fsck) && git fetch -q /tmp/clone HEAD && git branch cloned FETCH_HEAD")
	if got := y.git("show", "cloned:c"); got != "c" {
		t.Error(got)
	}
}

// storeFollows checks that a person's git finds what a job has committed while the job goes on.
func storeFollows(t *testing.T) {
	for name, script := range map[string]string{
		"single": "echo x > g && git add g && " + gitAs + "commit -qm g && touch done && sleep 600",
		"many":   "for i in $(seq 300); do echo $i > n$i; done; git add . && " + gitAs + "commit -qm g && touch done && sleep 600",
	} {
		y := gitYard(t)
		p := start(t, y.s, y.next(), y.command(script))
		eventually(t, "done is there", func() bool { return exists(y.work, "done") })
		eventually(t, name+": the repository is whole", func() bool { return exec.Command("git", "-C", y.work, "fsck", "--full").Run() == nil })
		if got := y.git("log", "-1", "--format=%s"); got != "g" {
			t.Errorf("%s: %s", name, got)
		}
		if err := p.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func storeUnpacks(t *testing.T) {
	y := gitYard(t)
	y.works("echo packed > g && git add g && " + gitAs + "commit -qm g && git repack -qad && git gc -q --prune=now && git count-objects -v | grep -q '^count: 0'")
	y.works("git fast-import --quiet <<'X'\ncommit refs/heads/imported\ncommitter a <a@b> 0 +0000\ndata 1\nx\nM 644 inline i\ndata 8\nimported\nX\n")
	if a, b := y.git("show", "main:g"), y.git("show", "imported:i"); a != "packed" || b != "imported" {
		t.Error(a, b)
	}
	y.git("fsck", "--full")
	if n := strings.Count(y.git("count-objects", "-v"), "count: "); n != 1 {
		t.Error("objects are not counted")
	}
	if res := y.run("mkdir -p .git/objects/pack; echo nonsense > .git/objects/pack/pack-x.pack"); !strings.Contains(string(res.Head), "could not be stored") {
		t.Errorf("a pack that is none: %s", res.Head)
	}
	// An index that lies about a pack has no effect.
	had := y.git("rev-parse", "main:g")
	y.works("echo other > h && git add h && " + gitAs + "commit -qm h && git repack -qad && cd .git/objects/pack && for i in *.idx; do chmod u+w $i; printf 'x' | dd of=$i bs=1 seek=2000 conv=notrunc 2>/dev/null; done")
	if y.git("fsck", "--full"); y.git("rev-parse", "main:g") != had {
		t.Error("another object")
	}
}

// storeOdd checks that a pack with something that git cannot read is left out, and one with history that is only odd is not.
func storeOdd(t *testing.T) {
	y := gitYard(t)
	pack := func(object string) string {
		return object + " && cd .git/objects && echo $c $b $t | tr ' ' '\\n' | grep . | git --git-dir=.. pack-objects -q pack/pack && rm -f ??/*"
	}
	res := y.run(pack("c=$(printf 'garbage\\n' | git hash-object -w -t commit --literally --stdin)"))
	if !strings.Contains(string(res.Head), "could not be stored") {
		t.Errorf("a commit that is none: %s", res.Head)
	}
	y.git("gc", "-q")
	y.works(pack("b=$(echo hi | git hash-object -w --stdin) && t=$(printf \"0100644 f\\\\0$(echo $b | sed 's/../\\\\x&/g')\" | perl -pe 's/\\\\x(..)/chr hex $1/ge; s/\\\\0/\\0/' | git hash-object -w -t tree --literally --stdin) && " +
		"c=$(printf \"tree $t\\nauthor a <a@b 0 +0000\\ncommitter a <a@b> 0 +051800\\n\\nodd\\n\" | git hash-object -w -t commit --literally --stdin) && git update-ref refs/heads/odd $c"))
	if got := y.git("cat-file", "tree", "odd^{tree}"); !strings.HasPrefix(got, "0100644 f") {
		t.Errorf("the tree is %q, which is not odd", got)
	}
	if got := y.git("show", "odd:f"); got != "hi" {
		t.Errorf("a file of odd history: %q", got)
	}
	y.git("gc", "-q")
}

// storeManyPacks checks that packs that are none do not keep the shim busy.
func storeManyPacks(t *testing.T) {
	y := gitYard(t)
	res := y.run("mkdir -p .git/objects/pack && cd .git/objects/pack && echo PACKPACKPACKPACKPACKPACKPACKPACKPACKPACK > pack-0.pack && for i in $(seq 200); do cp pack-0.pack pack-$i.pack; done")
	if want := fmt.Sprintf(" %d objects of git could not be stored", mostBadPacks+1); !strings.Contains(string(res.Head), want) {
		t.Errorf("it was told %s", res.Head)
	}
}

// storeReclaims checks that a commit is whole though the shim was killed before it could copy the objects, and the whole tree with it.
func storeReclaims(t *testing.T) {
	y := gitYard(t)
	name := y.next()
	p := start(t, y.s, name, y.command("touch begun; until test -e go; do sleep .01; done; echo x > g && git add g && "+gitAs+"commit -qm g && touch done && sleep 600"))
	eventually(t, "begun is there", func() bool { return exists(y.work, "begun") })
	h, err := load(filepath.Join(y.s.Dir, name), lockFile, decodeHolder)
	if err == nil {
		err = signal(h, syscall.SIGSTOP) // so that nothing is copied
	}
	if err != nil {
		t.Fatal(err)
	}
	y.put(y.work+"/go", "")
	eventually(t, "done is there", func() bool { return exists(y.work, "done") })
	if exec.Command("git", "-C", y.work, "fsck", "--full").Run() == nil {
		t.Error("it was copied, so this shows nothing")
	}
	if err := signal(h, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context(), nil); !errors.Is(err, ErrLost) {
		t.Errorf("it ended: %v", err)
	}
	if got := y.git("show", "main:g"); got != "x" {
		t.Error(got)
	}
	y.git("fsck", "--full")
}

// storeBorrows checks that a repository that borrows objects, by a relative path too, is whole in a command.
func storeBorrows(t *testing.T) {
	y := gitYard(t)
	borrower := *y
	borrower.work = y.home + "/borrower"
	borrower.p.Workspace = borrower.work
	y.git("clone", "-q", "--shared", y.work, borrower.work)
	y.put(borrower.work+"/.git/objects/info/alternates", "../../../work/.git/objects\n")
	said := borrower.works("git fsck 2>&1 && git log --oneline && echo b > b && git add b && " + gitAs + "commit -qm b 2>&1")
	if strings.Contains(said, "error") || strings.Contains(said, "does not exist") {
		t.Error(said)
	}
	if got := borrower.git("show", "HEAD:b"); got != "b" {
		t.Error(got)
	}
}

func storeNames(t *testing.T) {
	y := gitYard(t)
	sha256 := *y
	sha256.work = y.home + "/sha256"
	sha256.p.Workspace = sha256.work
	if out, err := exec.Command("git", "init", "-q", "--object-format=sha256", sha256.work).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sha256.works("echo s > s && git add s && " + gitAs + "commit -qm s")
	if got := sha256.git("show", "HEAD:s"); got != "s" {
		t.Error(got)
	}
}

func TestCheckObject(t *testing.T) {
	sum256 := func(text string) string { s := sha256.Sum256([]byte(text)); return hex.EncodeToString(s[:]) }
	const plain = "blob 3\x00abc"
	id := strings.Repeat("a", 40)
	object := func(kind, body string) string { return fmt.Sprintf("%s %d\x00%s", kind, len(body), body) }
	commit := object("commit", "tree "+id+"\nauthor a <a@b> 0 +0000\ncommitter a <a@b> 0 +0000\n\nx\n")
	tag := object("tag", "object "+id+"\ntype commit\ntag t\n")
	tree := object("tree", "100644 d\x00"+strings.Repeat("x", 20)+"40000 f\x00"+strings.Repeat("y", 20))
	within := func(names ...string) string {
		var body strings.Builder
		for _, name := range names {
			body.WriteString("100644 " + name + "\x00" + strings.Repeat("x", 20))
		}
		return object("tree", body.String())
	}
	for _, c := range []struct {
		what, name string
		raw        []byte
		ok         bool
	}{
		{"an object", sum1(plain), deflate(plain), true},
		{"one of another kind of name", sum256(plain), deflate(plain), true},
		{"an empty one", sum1("blob 0\x00"), deflate("blob 0\x00"), true},
		{"a commit", sum1(commit), deflate(commit), true},
		{"a tag", sum1(tag), deflate(tag), true},
		{"a tree", sum1(tree), deflate(tree), true},
		{"another's name", sum1("blob 3\x00abd"), deflate(plain), false},
		{"more behind it", sum1(plain), append(deflate(plain), 'x'), false},
		{"two of them", sum1(plain), append(deflate(plain), deflate(plain)...), false},
		{"half of it", sum1(plain), deflate(plain)[:8], false},
		{"a wrong check sum", sum1(plain), append(deflate(plain)[:len(deflate(plain))-1], 0), false},
		{"too long for its size", sum1("blob 2\x00abc"), deflate("blob 2\x00abc"), false},
		{"too short for its size", sum1("blob 4\x00abc"), deflate("blob 4\x00abc"), false},
		{"no size", sum1("blob x\x00abc"), deflate("blob x\x00abc"), false},
		{"a size with a sign", sum1("blob +3\x00abc"), deflate("blob +3\x00abc"), false},
		{"a size with zeros", sum1("blob 003\x00abc"), deflate("blob 003\x00abc"), false},
		{"less than nothing", sum1("blob -1\x00"), deflate("blob -1\x00"), false},
		{"an unknown kind", sum1("blub 3\x00abc"), deflate("blub 3\x00abc"), false},
		{"a header without end", sum1(strings.Repeat("b", 999)), deflate(strings.Repeat("b", 999)), false},
		{"a commit of nothing", sum1("commit 5\x00hello"), deflate("commit 5\x00hello"), false},
		{"a tag of nothing", sum1("tag 5\x00hello"), deflate("tag 5\x00hello"), false},
		{"a tree with git in it", sum1(within(".GIT")), deflate(within(".GIT")), false},
		{"a tree that leads out", sum1(within("..")), deflate(within("..")), false},
		{"a tree with a path", sum1(within("a/b")), deflate(within("a/b")), false},
		{"a tree with one name twice", sum1(within("f", "g", "f")), deflate(within("f", "g", "f")), false},
		{"a tree with like names", sum1(within("...", ".gitignore", "F", "f")), deflate(within("...", ".gitignore", "F", "f")), true},
		{"half a tree", sum1("tree 5\x00hello"), deflate("tree 5\x00hello"), false},
		{"nothing", sum1(""), nil, false},
		{"no zlib", sum1(plain), []byte(plain), false},
	} {
		n, err := checkObject(bytes.NewReader(c.raw), c.name)
		if (err == nil) != c.ok || c.ok && n != int64(len(c.raw)) || err != nil && !errors.Is(err, errNoObject) {
			t.Errorf("%s: %v after %d bytes", c.what, err, n)
		}
	}
	late := &effort{until: time.Now().Add(-time.Second)}
	if _, err := checkObject(bounded{bytes.NewReader(deflate(plain)), late}, sum1(plain)); !errors.Is(err, errEnough) || errors.Is(err, errNoObject) {
		t.Errorf("too late: %v", err)
	}
	if _, err := checkObject(bytes.NewReader(deflate("blob 99999999999\x00abc")), id); !errors.Is(err, errTooLarge) {
		t.Errorf("too large: %v", err)
	}
}

// deflate is text as git stores it, and sum1 its name.
func deflate(text string) []byte {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

func sum1(text string) string { s := sha1.Sum([]byte(text)); return hex.EncodeToString(s[:]) }

func FuzzCheckObject(f *testing.F) {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write([]byte("blob 3\x00abc"))
	_ = w.Close()
	f.Add(b.Bytes(), "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, raw []byte, name string) {
		if n, err := checkObject(bytes.NewReader(raw), name); err == nil && n != int64(len(raw)) {
			t.Errorf("%q was taken for an object after %d bytes", raw, n)
		}
	})
}

// TestReadIndex holds what is read of indexes against git itself, and refuses those by which it would write elsewhere.
func TestReadIndex(t *testing.T) {
	for _, form := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "3", "4"} {
			dir := t.TempDir()
			script := "git init -q --object-format=" + form + " . && git init -q --object-format=" + form + " sub && git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && " +
				"mkdir -p a/b && for n in $(seq 50); do echo $n > a/b/file$n; done && echo x > 'odd name' && echo y > ümlaut && git add . 2>/dev/null && git add -N a && " +
				"echo new > later && git add later && git write-tree > /dev/null && git update-index --index-version " + version
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			digits := map[string]int{"sha1": 40, "sha256": 64}[form]
			links, err := indexIn(t, dir, digits)
			if err != nil || !slices.Equal(links, []string{"sub"}) {
				t.Errorf("%s, version %s: %v, %v", form, version, links, err)
			}
			raw, err := os.ReadFile(dir + "/.git/index")
			if err != nil {
				t.Fatal(err)
			}
			// Without what it remembers git makes the same of it.
			before := gitOut(t, dir, "ls-files", "--stage", "-z")
			_, end, err := readIndex(raw, digits)
			if err != nil {
				t.Fatal(err)
			}
			plain := forgetful(raw, end, digits)
			if len(plain) == len(raw) {
				t.Errorf("%s, version %s: it remembers nothing", form, version)
			}
			if err := os.WriteFile(dir+"/.git/index", plain, 0o644); err != nil {
				t.Fatal(err)
			}
			if after := gitOut(t, dir, "ls-files", "--stage", "-z"); after != before {
				t.Errorf("%s, version %s: it was\n%s\nand is\n%s", form, version, before, after)
			}
			for old, bad := range map[string]string{"odd name": "../passwd", "a/b/file7": "a/../file", "later": "/root", "a/b/file9": ".GiT/hook"} {
				if changed := strings.Replace(string(raw), old, bad, 1); changed != string(raw) && len(old) == len(bad) {
					if _, _, err := readIndex([]byte(changed), digits); err == nil {
						t.Errorf("%s, version %s: %q was taken", form, version, bad)
					}
				}
			}
			if _, _, err := readIndex(raw[:len(raw)/2], digits); err == nil {
				t.Errorf("%s, version %s: half of it was taken", form, version)
			}
		}
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "git init -q . && for n in $(seq 20); do echo $n > f$n; done && git add . && git update-index --split-index && echo z > f3 && echo w > g && git add f3 g")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := indexIn(t, dir, 40); err != nil {
		t.Errorf("a split one: %v", err)
	}
}

func gitOut(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func indexIn(t *testing.T, dir string, digits int) ([]string, error) {
	t.Helper()
	raw, err := os.ReadFile(dir + "/.git/index")
	if err != nil {
		t.Fatal(err)
	}
	links, _, err := readIndex(raw, digits)
	return links, err
}

// indexOf is an index of version 4 in which each entry is what differs from the one before: how many bytes go, and what comes.
func indexOf(mode uint32, count int, first string, next func(i int) (cut int, more string)) []byte {
	raw := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x04"), uint32(count))
	cut, path := 0, first
	for i := range count {
		if i > 0 {
			cut, path = next(i)
		}
		raw = append(raw, make([]byte, 24)...)
		raw = binary.BigEndian.AppendUint32(raw, mode)
		raw = append(raw, make([]byte, 12+20)...)
		raw = append(raw, 0x0f, 0xff, byte(cut))
		raw = append(append(raw, path...), 0)
	}
	sum := sha1.Sum(raw)
	return append(raw, sum[:]...)
}

// TestIndexBounds checks that an index takes neither more memory nor more time than one that git makes of as many bytes.
func TestIndexBounds(t *testing.T) {
	counted := func(i int) (int, string) { return 8, fmt.Sprintf("%08d", i) }
	deep := strings.Repeat("a/", 2000)
	for name, raw := range map[string][]byte{
		"one path again and again":     indexOf(modeLink, 2000, "x", func(int) (int, string) { return 0, "" }),
		"a path that is none":          indexOf(0o100644, 2, strings.Repeat("a/", 30_000)+"b", func(int) (int, string) { return 1, "c" }),
		"not sorted":                   indexOf(0o100644, 2, "b", func(int) (int, string) { return 1, "a" }),
		"too many repositories":        indexOf(modeLink, mostNamed+1, "00000000", counted),
		"more than all paths together": indexOf(0o100644, mostPaths/4000+2, deep+"00000000", counted),
	} {
		began := time.Now()
		if links, _, err := readIndex(raw, 40); err == nil {
			t.Errorf("%s: it was taken, with %d repositories", name, len(links))
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
	if links, _, err := readIndex(indexOf(modeLink, 1000, "00000000", counted), 40); err != nil || len(links) != 1000 || links[999] != "00000999" {
		t.Errorf("a thousand repositories: %d, %v", len(links), err)
	}
}

func FuzzReadIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00"), true)
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"), false)
	f.Fuzz(func(t *testing.T, raw []byte, long bool) {
		digits := 40
		if long {
			digits = 64
		}
		links, end, err := readIndex(raw, digits)
		if err == nil && len(raw) > end+digits/2 && len(forgetful(raw, end, digits)) > len(raw) {
			t.Error("it became longer")
		}
		for _, link := range links {
			if err == nil && !filepath.IsLocal(link) {
				t.Errorf("%q leads out", link)
			}
		}
	})
}
