package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// homesDir is where tests make homes that lie in no temp folder; other users are given one of their own there.
var homesDir = func() string {
	if dir := os.Getenv("SANDBOX_TEST_HOMES"); dir != "" {
		return dir
	}
	return "/var/lib"
}()

// newHome is a yard whose home is that of the environment, outside of any temp folder.
func newHome(t *testing.T) *yard {
	t.Helper()
	if os.Geteuid() != 0 && homesDir == "/var/lib" {
		t.Skip("needs root to make a home that lies in no temp folder")
	}
	y := newYardIn(t, homesDir)
	t.Setenv("HOME", y.home)
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "GOCACHE", "GOMODCACHE", "GOPATH"} {
		t.Setenv(name, "")
	}
	y.p.See = append(y.p.See, Readable(os.Getenv)...)
	y.p.Cache, y.p.Blank = Caches(os.Getenv), Blanks(os.Getenv)
	return y
}

// attributes are commands that change of a file what Landlock has no right for. Each says which of its ways worked, if one did.
func attributes(file string) []string {
	var shell strings.Builder
	for _, way := range []string{"chmod 600", "chmod 4777", "chown $(id -u)", "chgrp $(id -g)", "touch -d 2001-01-01", "touch -a", "touch -h -d 2001-01-01"} {
		shell.WriteString("{ " + way + " " + file + " 2>/dev/null && echo worked: '" + way + "' && bad=1; }; ")
	}
	var python strings.Builder
	python.WriteString("import os, sys\nf, bad, o = sys.argv[1], 0, os.O_RDONLY\n")
	for _, way := range []string{
		`os.chmod(f, 0o600)`, `os.chown(f, os.getuid(), os.getgid())`, `os.lchown(f, os.getuid(), os.getgid())`, `os.utime(f)`, `os.utime(f, follow_symlinks=False)`,
		`os.setxattr(f, "user.x", b"1")`, `os.fchmod(os.open(f, o), 0o600)`, `os.fchown(os.open(f, o), os.getuid(), -1)`, `os.setxattr(os.open(f, o), "user.x", b"1")`,
		`os.utime(os.open(f, o))`, `os.chmod("/proc/self/root" + f, 0o600)`, `os.chmod("/proc/self/fd/%d" % os.open(f, os.O_PATH), 0o600)`,
		`os.link(f, "linked"); os.chmod("linked", 0o600)`, `os.link("/proc/self/fd/%d" % os.open(f, o), "linked", follow_symlinks=True)`, `os.rename(f, "moved")`,
		`os.symlink(f, "via"); os.chmod("via", 0o600)`, `d = os.open(os.path.dirname(f), os.O_PATH); os.chmod(os.path.basename(f), 0o600, dir_fd=d)`,
	} {
		python.WriteString("try:\n " + way + "\n print(\"worked\", " + strconv.Quote(way) + "); bad = 1\nexcept OSError: pass\n")
	}
	python.WriteString("sys.exit(0 if bad else 1)")
	return []string{shell.String() + `[ "$bad" ]`, "rm -f via; python3 -c '" + python.String() + "' " + file}
}

// like is all that attributes could change of a file.
func like(t *testing.T, path string) string {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	n, _ := unix.Llistxattr(path, nil)
	return strings.Join([]string{
		strconv.Itoa(int(st.Mode)), strconv.Itoa(int(st.Uid)), strconv.Itoa(int(st.Gid)), strconv.FormatInt(st.Mtim.Nano(), 10),
		strconv.FormatInt(st.Ctim.Nano(), 10), strconv.FormatUint(uint64(st.Nlink), 10), strconv.Itoa(n),
	}, " ")
}

// hostileToAttributes changes mode, owner, times and attributes of what lies outside, which all is the user's own.
func hostileToAttributes(t *testing.T) {
	y := newYard(t)
	y.put(y.home+"/.bashrc", "mine")
	for _, file := range []string{y.out + "/file", y.out, y.home + "/.bashrc", y.home} {
		before := like(t, file)
		for _, script := range attributes(file) {
			y.fails(script)
			if now := like(t, file); now != before {
				t.Fatalf("%s: %s was %s and is %s", script, file, before, now)
			}
		}
	}
	// What a command may write it may do all of that to.
	y.works("echo x > f && chmod 755 f && touch -d 2001-01-01 f && chown $(id -u) f && ln f g && mkdir -p d && mv g d/ && rm -r d")
	y.works("echo x > $TMPDIR/f && chmod 700 $TMPDIR/f && touch /dev/shm/x && chmod 600 /dev/shm/x")
	y.p.Write = []string{y.out}
	y.works("chmod 640 " + y.out + "/file && touch " + y.out + "/file && echo untouched > " + y.out + "/new")
}

// hostileToEverything is for commands of a plan, which may only look: nothing but the temp folder can be written, and nobody be reached.
func hostileToEverything(t *testing.T) {
	y := newYard(t)
	y.p.Files, y.p.Network = ReadOnly, NetworkOff
	y.put(y.work+"/file", "mine")
	victim := exec.Command("sleep", "600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
	pid := strconv.Itoa(victim.Process.Pid)
	file := y.work + "/file"
	before := like(t, file)
	for _, script := range slices.Concat(attributes(file), []string{
		"echo x > file", "echo x >> file", "truncate -s 0 file", "rm file", "mv file other", "cp file other", "mkdir d", "ln file other", "ln -s file other", "mkfifo p",
		"echo x > " + y.out + "/new", "echo x > " + y.home + "/new", "mkdir -p " + y.home + "/.cache/x", "git init -q .",
		"echo 1 > /proc/sys/kernel/sysrq", "echo x > /proc/sys/kernel/core_pattern", "echo 1 > /proc/sys/vm/drop_caches", "echo 0 > /proc/self/oom_score_adj", "echo x > /sys/kernel/uevent_helper",
		"python3 -c 'open(\"/proc/" + pid + "/mem\", \"r+b\")'", "cat /proc/" + pid + "/environ", "echo x > /proc/" + pid + "/cwd/x", "kill -9 " + pid, "kill -STOP " + pid, "kill -9 $PPID",
		"python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).ptrace(16, " + pid + ", 0, 0) == 0 else 1)'",
		"python3 -c 'import socket as s; s.socket(s.AF_UNIX).bind(\"" + y.work + "/s\")'", "python3 -c 'import socket as s; s.create_connection((\"192.0.2.1\", 80), 2)'",
		"mount -o remount,rw / && echo x > file", "umount -l " + y.work, "unshare -Urm true",
	}) {
		y.fails(script)
		if now := like(t, file); now != before {
			t.Fatalf("%s: the file was %s and is %s", script, before, now)
		}
		if st, err := readStat(victim.Process.Pid); err != nil || st.dead() || st.state == 'T' {
			t.Fatalf("%s: the victim is %+v, %v", script, st, err)
		}
	}
	entries, err := os.ReadDir(y.work)
	if err != nil || len(entries) != 1 {
		t.Errorf("the workspace has %v, %v", entries, err)
	}
	y.works("cat file && echo x > $TMPDIR/x && chmod 700 $TMPDIR/x && echo x > /dev/shm/x && ls -la . > /dev/null && git --version")
	if _, err := os.Stat("/dev/shm/x"); err == nil {
		t.Error("/dev/shm is everybody's")
	}
}

// hostileToClosed looks for files that no list names, in the home, in other homes and in /etc.
func hostileToClosed(t *testing.T) {
	y := newHome(t)
	for _, name := range []string{".secret-tool-x", ".config/tool/token", ".bashrc", "notes/diary", ".cargo/config.toml", ".local/share/keys/x", ".npmrc", "other-project/.env"} {
		y.put(filepath.Join(y.home, name), "canary")
		y.fails("grep canary " + filepath.Join(y.home, name))
		y.fails("ls " + filepath.Join(y.home, name))
		y.fails("grep canary /proc/self/root" + filepath.Join(y.home, name))
	}
	y.fails("echo x > " + y.home + "/new")
	if os.Geteuid() == 0 {
		strange, err := os.CreateTemp("/etc", "taskdaemon-test-*.conf")
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(strange.Name())
		if _, err := strange.WriteString("canary"); err != nil {
			t.Fatal(err)
		}
		if err := strange.Close(); err != nil {
			t.Fatal(err)
		}
		y.fails("cat " + strange.Name())
	}
	var allowed []string
	for _, place := range append(readableEtc(), ordinary...) {
		if name, ok := strings.CutPrefix(place, "/etc/"); ok {
			name, _, _ = strings.Cut(name, "/")
			allowed = append(allowed, name)
		}
	}
	for name := range strings.FieldsSeq(y.works("ls -A /etc")) {
		if !slices.Contains(allowed, name) {
			t.Errorf("/etc/%s is in sight", name)
		}
	}
	if got := strings.Fields(y.works("ls -A /home /root | grep -v : ; true")); slices.Contains(got, ".bashrc") || slices.Contains(got, ".gitconfig") {
		t.Errorf("other homes hold %q", got)
	}
	y.fails("cat /etc/shadow")
	y.fails("cat /etc/fstab")

	// What programs need is there, and what a person adds.
	for _, name := range []string{"go/bin/tool", ".cargo/bin/cargo", ".rustup/settings.toml", ".nvm/nvm.sh", ".local/bin/x", ".cargo/registry/index"} {
		y.put(filepath.Join(y.home, name), "needed")
		y.works("grep needed " + filepath.Join(y.home, name))
	}
	y.put(y.home+"/opt/thing/bin/run", "needed")
	y.put(y.home+"/opt/thing/lib/run.so", "needed")
	y.put(y.home+"/opt/thing/token", "canary")
	t.Setenv("PATH", os.Getenv("PATH")+":"+y.home+"/opt/thing/bin")
	y.p.See = Readable(os.Getenv)
	y.works("grep needed " + y.home + "/opt/thing/bin/run " + y.home + "/opt/thing/lib/run.so")
	y.fails("cat " + y.home + "/opt/thing/token")
	y.works("id && getent passwd root && getent hosts localhost && ls / > /dev/null && date && cd ~ && pwd && ls -a > /dev/null")
	y.p.See = append(y.p.See, y.home+"/notes")
	y.works("grep canary " + y.home + "/notes/diary")
	y.fails("echo x > " + y.home + "/notes/diary")
	y.fails("chmod 600 " + y.home + "/notes/diary")

	// Hidden stays hidden in what is shown.
	y.p.Hide = append(y.p.Hide, y.home+"/notes/diary")
	y.fails("grep canary " + y.home + "/notes/diary")

	// git knows who the person is, and not what else their settings say.
	y.put(y.home+"/.gitconfig", "[user]\n\tname = Ann\n\temail = ann@example.org\n[url \"https://canary@example.org/\"]\n\tinsteadOf = ex:\n[http]\n\textraheader = canary\n")
	if got := y.works("git config user.name; git config --list"); !strings.Contains(got, "Ann") || strings.Contains(got, "canary") {
		t.Errorf("git says %q", got)
	}

	// A folder of a repository sees the repository, and nothing beside it.
	y.put(y.home+"/big/.git/HEAD", "ref: refs/heads/main\n")
	y.put(y.home+"/big/shared/x", "needed")
	y.put(y.home+"/big/part/x", "needed")
	y.work, y.p.Workspace = y.home+"/big/part", y.home+"/big/part"
	y.works("grep needed ../shared/x")
	y.fails("echo x > ../shared/x")
	y.fails("cat ../../.secret-tool-x")
}

// hostileToCaches writes to the caches that a person's own programs use later.
func hostileToCaches(t *testing.T) {
	y := newHome(t)
	prompt, module, built := y.home+"/.cache/p10k-instant-prompt-x.zsh", y.home+"/go/pkg/mod/m/m.go", y.home+"/.cache/go-build/00/x"
	for _, path := range []string{prompt, module, built} {
		y.put(path, "mine")
	}
	task := y.command("true").Task
	run := func(script string) ProcessResult {
		cmd := y.command(script)
		cmd.Task = task
		res := wait(t, start(t, y.s, "cache", cmd))
		if err := y.s.Remove("cache"); err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := run("grep mine " + module + " " + built + " && ! grep mine " + prompt); res.Exit != 0 {
		t.Errorf("read: %s", res.Head)
	}
	for _, path := range []string{prompt, module, built} {
		before := like(t, path)
		if res := run("echo canary > " + path + "; chmod 777 " + path + "; echo canary > " + filepath.Dir(path) + "/new; mv " + path + " " + path + ".old; rm -rf " + filepath.Dir(path)); res.Exit != 0 {
			t.Logf("%s: %s", path, res.Head)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "mine" || like(t, path) != before {
			t.Errorf("%s: %q, %v", path, raw, err)
		}
		if _, err := os.Stat(filepath.Dir(path) + "/new"); err == nil {
			t.Errorf("%s got company", path)
		}
	}
	// The task's next command finds what the one before left, and no other task does.
	if res := run("mkdir -p ~/.cache/go-build/01 ~/.cache/new ~/go/pkg/mod/n && echo kept | tee ~/.cache/go-build/01/y ~/.cache/new/y ~/go/pkg/mod/n/y"); res.Exit != 0 {
		t.Errorf("fill: %s", res.Head)
	}
	if res := run("cat ~/.cache/go-build/01/y ~/.cache/new/y ~/go/pkg/mod/n/y"); strings.Count(string(res.Head), "kept") != 3 {
		t.Errorf("the next command reads %s", res.Head)
	}
	y.fails("cat ~/.cache/go-build/01/y")
	y.fails("cat ~/go/pkg/mod/n/y")
	// A link in place of a cache leads the next command nowhere.
	if res := run("rm -rf ~/.cache/pip; ln -s " + y.out + " ~/.cache/pip; ln -s " + y.out + " ~/.cache/uv"); res.Exit != 0 {
		t.Errorf("link: %s", res.Head)
	}
	y.put(y.home+"/.cache/pip/x", "mine")
	if res := run("grep mine ~/.cache/pip/x; echo canary > ~/.cache/uv/x; echo canary > ~/.cache/pip/x"); !strings.Contains(string(res.Head), "mine") {
		t.Errorf("after links: %s", res.Head)
	}
	if names, err := os.ReadDir(y.out); err != nil || len(names) != 1 {
		t.Errorf("outside: %v, %v", names, err)
	}
	// Two at once do not share a layer.
	one, two := y.command("echo 1 > ~/go/pkg/mod/one; touch began; until [ -e stop ]; do sleep 0.01; done"),
		y.command("until [ -e began ]; do sleep 0.01; done; test ! -e ~/go/pkg/mod/one; seen=$?; touch stop; exit $seen")
	two.Task = one.Task
	p := start(t, y.s, "one", one)
	if res := wait(t, start(t, y.s, "two", two)); res.Exit != 0 {
		t.Errorf("at the same time: %s", res.Head)
	}
	if res := wait(t, p); res.Exit != 0 {
		t.Errorf("at the same time: %s", res.Head)
	}
}

// TestClosedWithoutMounts is what Landlock alone keeps: content of closed folders cannot be read, and caches are not changed.
func TestClosedWithoutMounts(t *testing.T) {
	if os.Getenv("SANDBOX_TEST_BARE") == "" {
		inBareProcess(t)
		return
	}
	y := newYard(t)
	t.Setenv("HOME", y.home)
	y.p.Required, y.p.See = false, Readable(os.Getenv)
	y.p.Cache, y.p.Blank = Caches(os.Getenv), Blanks(os.Getenv)
	for _, name := range []string{".secret-tool-x", ".config/tool/token", ".cargo/config.toml", ".gitconfig"} {
		y.put(filepath.Join(y.home, name), "[user]\nname = Ann\n[http]\nextraheader = canary")
		y.fails("grep canary " + filepath.Join(y.home, name))
	}
	y.put(y.home+"/.cargo/bin/x", "needed")
	y.put(y.home+"/go/pkg/mod/m.go", "needed")
	y.put(y.home+"/.cache/go-build/x", "needed")
	y.works("grep needed ~/.cargo/bin/x ~/go/pkg/mod/m.go && id && getent passwd root && ls / > /dev/null")
	for _, script := range []string{"cat /etc/fstab", "cat /etc/shadow", "cat ~/open", "echo x > ~/go/pkg/mod/m.go", "echo x > ~/.cache/p10k-x", "echo x > ~/.cache/go-build/x", "mkdir ~/.cache/x"} {
		y.fails(script)
	}
	y.works("mkdir -p $GOCACHE $XDG_CACHE_HOME && echo x > $GOCACHE/x && echo x > inside")
	if got := y.works("git config --list"); !strings.Contains(got, "user.name=Ann") || strings.Contains(got, "canary") {
		t.Errorf("git says %q", got)
	}
	y.hostileToSettings()
	y.works("git config --global user.name Bob && test $(git config user.name) = Bob")
	y.works("test $(git config user.name) = Ann")
}

// TestClosedCheckout is what a command in a task's worktree sees of the checkout that it belongs to, where no other folder is closed.
func TestClosedCheckout(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a checkout that lies in no home and no temp folder")
	}
	y := newYardIn(t, "/opt")
	repo := y.out + "/repo"
	y.put(repo+"/.env", "canary")
	y.put(repo+"/private/notes", "canary")
	y.put(repo+"/node_modules/m/m.js", "needed")
	y.work = repo + "/.worktrees/t-x"
	y.put(y.work+"/f", "mine")
	y.p.Workspace, y.p.Close, y.p.See = y.work, []string{repo}, append(y.p.See, repo+"/node_modules")
	y.fails("grep -r canary " + repo)
	y.fails("cat ../../.env")
	y.works("grep needed ../../node_modules/m/m.js && echo x > g && grep mine f")
}
