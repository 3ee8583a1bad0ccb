package sandbox

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/disk"
)

// nobodyUser is the unprivileged user that the escape suite runs as a second time.
const nobodyUser = 65534

// TestEscapeUnprivileged runs the whole escape suite again as a user without any privilege.
func TestEscapeUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root to become another user; the suite runs as this user anyway")
	}
	binary := copySelf(t)
	dir := filepath.Dir(binary)
	cmd := exec.Command(binary, "-test.run", "^TestEscape$|^TestWorks$|^TestGit|^TestWorkspaceInTemp$|^TestCheck|^TestNobodyToAsk$", "-test.v")
	cmd.Dir = dir
	homes, err := os.MkdirTemp(homesDir, "escape")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.RemoveAll(homes) })
	if err := os.Chmod(homes, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "HOME="+dir, "TMPDIR="+dir, "SANDBOX_TEST_HIDDEN=1", "SANDBOX_TEST_HOMES="+homes)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobodyUser, Gid: nobodyUser}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestEscape") {
		t.Errorf("as user %d: %v\n%s", nobodyUser, err, out)
	}
}

// copySelf puts the test binary where any user can run it, in a folder that any user can write to.
func copySelf(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "escape")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	raw, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "sandbox.test")
	if err := os.WriteFile(binary, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return binary
}

// yard is a place with a home, a workspace in it, and things outside that must stay as they are.
type yard struct {
	t                     *testing.T
	s                     *Spool
	home, work, out, priv string
	p                     Profile
}

// newYard lies in /var/tmp, so that /tmp can be covered, and all of it can be seen.
func newYard(t *testing.T) *yard {
	t.Helper()
	y := newYardIn(t, "/var/tmp")
	y.p.See = append(y.p.See, filepath.Dir(y.home))
	return y
}

// newYardIn lies where only what a command needs can be seen.
func newYardIn(t *testing.T, dir string) *yard {
	t.Helper()
	base, err := os.MkdirTemp(dir, "yard")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.RemoveAll(base) })
	y := &yard{t: t, home: base + "/home", work: base + "/home/work", out: base + "/outside", priv: base + "/home/.ssh"}
	for _, dir := range []string{y.work, y.out, y.priv} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	y.put(y.out+"/file", "untouched")
	y.put(y.priv+"/id", "secret")
	y.put(y.home+"/open", "to be read")
	y.s = openAt(t, base+"/state/spool")
	y.p = Profile{Files: WorkspaceWrite, Network: NetworkFull, Workspace: y.work, Required: true, GitWrite: true, Hide: []string{y.priv, base + "/state"}, See: Readable(os.Getenv)}
	return y
}

func (y *yard) put(path, text string) {
	y.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		y.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		y.t.Fatal(err)
	}
}

func (y *yard) command(script string) Command {
	cmd := command(y.t, script)
	cmd.Dir, cmd.Profile = y.work, &y.p
	return cmd
}

var runs atomic.Int64

// next is a name for a command that no other has: yards may share a spool.
func (y *yard) next() string { return "c" + strconv.FormatInt(runs.Add(1), 10) }

func (y *yard) run(script string) ProcessResult {
	y.t.Helper()
	return wait(y.t, start(y.t, y.s, y.next(), y.command(script)))
}

// works expects the script to succeed.
func (y *yard) works(script string) string {
	y.t.Helper()
	res := y.run(script)
	if res.Exit != 0 {
		y.t.Errorf("%s: exit %d: %s", script, res.Exit, res.Head)
	}
	return string(res.Head)
}

// fails expects the script to be stopped.
func (y *yard) fails(script string) string {
	y.t.Helper()
	res := y.run(script)
	switch {
	case res.Exit == 0:
		y.t.Errorf("%s: it worked: %s", script, res.Head)
	case res.Exit == 127:
		y.t.Logf("not shown, for this machine has no such program: %s", script)
	}
	return string(res.Head)
}

func (y *yard) untouched() {
	y.t.Helper()
	if raw, err := os.ReadFile(y.out + "/file"); err != nil || string(raw) != "untouched" {
		y.t.Errorf("the file outside: %q, %v", raw, err)
	}
}

// TestWorks is what people do all day, in the sandbox.
func TestWorks(t *testing.T) {
	y := newYard(t)
	for _, script := range []string{
		"echo x > new && cat new && mkdir -p a/b && mv new a/b/ && ln -s a/b/new link && cat link && ln a/b/new hard && rm -r a link",
		"cat " + y.home + "/open",
		"ls / /etc /proc " + y.home + " > /dev/null",
		"echo x > /tmp/t && cat /tmp/t && echo y > $TMPDIR/u && mktemp && cat <<E\nhere\nE",
		"echo x > /dev/stderr; echo y > /dev/stdout; : > /dev/null; head -c 1 /dev/urandom > /dev/null",
		"echo x | tee >(cat) | wc -c",
		"test -w . && id && ps > /dev/null",
		"for f in /proc/$$/fd/*; do case ${f##*/} in 0|1|2|255) ;; *) test ! -e $f || { ls -l $f; exit 1; } ;; esac; done", // nothing is inherited
		"sleep 60 & kill $! && ! wait $!",
		"python3 -c 'import multiprocessing as m; q=m.Queue(); q.put(1); assert q.get()==1' || ! command -v python3",
	} {
		y.works(script)
	}
	if _, err := os.Stat("/tmp/t"); err == nil {
		t.Error("the command's /tmp is everybody's")
	}
}

func TestEscape(t *testing.T) {
	t.Run("files", func(t *testing.T) {
		y := newYard(t)
		for _, script := range []string{
			"echo x > " + y.out + "/file", "rm " + y.out + "/file", "mv " + y.out + "/file x", "ln " + y.out + "/file x && echo bad > x",
			"ln -s " + y.out + "/file link; echo bad > link", "truncate -s 0 " + y.out + "/file", "touch " + y.out + "/new", "mkdir " + y.out + "/dir",
			"echo x > " + y.home + "/new", "echo x > /proc/self/root" + y.out + "/file", "echo x > /proc/$PPID/root" + y.out + "/file",
			"cat " + y.priv + "/id", "cat /proc/self/root" + y.priv + "/id", "cat /proc/$PPID/root" + y.priv + "/id", "ln -s " + y.priv + " l; cat l/id",
			"ln " + y.priv + "/id hard && cat hard", "mv " + y.priv + " here && cat here/id",
			"cat /proc/$PPID/environ", "cat /proc/$PPID/maps", "readlink /proc/$PPID/fd/3", "cat /proc/$PPID/fd/4", "echo x > /proc/$PPID/oom_score_adj",
			"cat " + y.s.Dir + "/*/spec.json", "echo x > " + y.s.Dir + "/x",
		} {
			y.fails(script)
			y.untouched()
		}
		if names := y.run("ls -A " + y.priv); len(names.Head) > 0 {
			t.Errorf("names of what is hidden: %s", names.Head)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		y := newYard(t)
		y.p.Files = ReadOnly
		y.put(y.work+"/file", "mine")
		y.works("cat file; echo x > $TMPDIR/x")
		for _, script := range []string{"echo x > file", "rm file", "touch new", "echo x > " + y.out + "/file"} {
			y.fails(script)
		}
		y.untouched()
	})
	t.Run("attributes", func(t *testing.T) { hostileToAttributes(t) })
	t.Run("plan", func(t *testing.T) { hostileToEverything(t) })
	t.Run("closed", func(t *testing.T) { hostileToClosed(t) })
	t.Run("caches", func(t *testing.T) { hostileToCaches(t) })
	t.Run("git", func(t *testing.T) { hostileToGit(t) })
	t.Run("outside", func(t *testing.T) { hostileToOutside(t) })
	t.Run("modes", func(t *testing.T) { hostileToModes(t) })
	t.Run("network", func(t *testing.T) { hostileToNetwork(t) })
	t.Run("sockets", func(t *testing.T) { hostileToSockets(t) })
	t.Run("processes", func(t *testing.T) { hostileToProcesses(t) })
	t.Run("others", func(t *testing.T) { hostileToOthers(t) })
	t.Run("standing", func(t *testing.T) { hostileToStanding(t) })
	t.Run("git folders", func(t *testing.T) { hostileToGitFolders(t) })
	t.Run("memory", func(t *testing.T) { hostileToMemory(t) })
	t.Run("limits", func(t *testing.T) { hostileToLimits(t) })
}

func hostileToNetwork(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	u, err := net.Listen("unix", "@taskdaemon-escape-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed: nothing to open sockets with")
	}
	y := newYard(t)
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	python := func(code string) string { return "python3 -c '\nimport socket as s\n" + code + "'" }
	abstract := python(`s.socket(s.AF_UNIX).connect("\0` + u.Addr().String()[1:] + `")`)
	y.works(python(`s.create_connection(("127.0.0.1", ` + port + `))`))
	y.fails(abstract)
	y.p.Network = NetworkOff
	y.works(python(`l=s.create_server(("127.0.0.1", 0)); s.create_connection(l.getsockname())`)) // a loopback of its own
	y.works(python(`l=s.create_server(("::1", 0), family=s.AF_INET6); s.create_connection(l.getsockname()[:2])`))
	for _, code := range []string{
		`s.create_connection(("127.0.0.1", ` + port + `))`,
		`s.create_connection(("192.0.2.1", 80), 2)`,
		`s.socket(s.AF_INET, s.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))`,
		`k=s.socket(s.AF_INET, s.SOCK_STREAM, 262); k.settimeout(2); k.connect(("192.0.2.1", 80))`, // MPTCP
		`s.socket(s.AF_INET, s.SOCK_RAW, s.IPPROTO_ICMP)`,
		`s.socket(s.AF_PACKET, s.SOCK_RAW)`,
		`s.socket(s.AF_VSOCK, s.SOCK_STREAM)`,
	} {
		y.fails(python(code))
	}
	y.fails(abstract)
}

func hostileToProcesses(t *testing.T) {
	y := newYard(t)
	victim := exec.Command("sleep", "600")
	victim.Env = []string{"SECRET=canary"}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = victim.Process.Kill(); _ = victim.Wait() }()
	pid := strconv.Itoa(victim.Process.Pid)
	for _, script := range []string{
		"kill -9 " + pid, "kill -STOP $PPID", "kill -9 $PPID", "cat /proc/" + pid + "/environ", "cat /proc/" + pid + "/root" + y.priv + "/id",
		"python3 -c 'import os; os.kill(" + pid + ", 9)'", "strace -p " + pid, "gdb -p " + pid + " -batch",
		"python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).ptrace(16, " + pid + ", 0, 0) == 0 else 1)'",
		"python3 -c 'import os; f=os.pidfd_open(" + pid + "); import signal; signal.pidfd_send_signal(f, 9)'",
		"unshare -Ur true", "unshare -m true", "unshare -n true", "nsenter -t 1 -m true", "mount -t tmpfs none .", "umount /tmp", "umount -l /proc",
		"chroot / true", "mknod disk b 8 0", "sudo -n true", "echo 1 > /proc/sys/kernel/sysrq", "echo b > /proc/sysrq-trigger",
		"python3 -c 'import ctypes,sys; sys.exit(0 if ctypes.CDLL(None).syscall(250, 0, 0, 0) >= 0 else 1)'", // keyctl
	} {
		y.fails(script)
		if st, err := readStat(victim.Process.Pid); err != nil || st.dead() || st.state == 'T' {
			t.Fatalf("%s: the victim is %+v, %v", script, st, err)
		}
	}
	// One that leaves its session and its parents behind is gone with the command all the same.
	y.works("setsid sh -c 'echo $$ > daemon; exec env -i sleep 600' >/dev/null 2>&1 & until [ -s daemon ]; do :; done")
	raw, err := os.ReadFile(y.work + "/daemon")
	if err != nil {
		t.Fatal(err)
	}
	left, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if st, err := readStat(left); err == nil && !st.dead() {
		t.Errorf("left behind: %+v", st)
	}
}

func hostileToLimits(t *testing.T) {
	y := newYard(t)
	y.p.Limits = Limits{Memory: 200 << 20, Processes: 100, FileSize: leastFileSize}
	// Those who look do so now and then, on a busy machine seldom: what is too much stays for a while.
	if res := y.run("head -c 400000000 /dev/zero | tail -c 390000000 | sleep 60"); !strings.Contains(res.Limit, "memory") {
		t.Errorf("memory: %+v", res)
	}
	// At most 300, whoever looks or does not.
	if res := y.run("for i in $(seq 300); do sleep 60 & done; sleep 60"); !strings.Contains(res.Limit, "processes") {
		t.Errorf("processes: %+v", res)
	}
	if res := y.run("head -c 50000000 /dev/zero > big"); res.Exit == 0 {
		t.Errorf("file size: %+v", res)
	}
	if info, err := os.Stat(y.work + "/big"); err != nil || info.Size() > leastFileSize {
		t.Errorf("the file: %v, %v", info, err)
	}
	y.works("head -c 10000000 /dev/zero > fits && ulimit -c | grep -qx 0")
	var st unix.Statfs_t
	if err := unix.Statfs(y.work, &st); err != nil {
		t.Fatal(err)
	}
	y.p.Limits = Limits{Free: room(st) - 64<<20}
	if res := y.run("for i in $(seq 1000); do head -c 4000000 /dev/zero > full$i || exit; done; sleep 60"); !strings.Contains(res.Limit, "must stay free") {
		t.Errorf("many files: %+v", res)
	}
}
