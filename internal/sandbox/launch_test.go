package sandbox

import (
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// shellView is a view in which a shell and nothing else can be executed.
func shellView(t *testing.T) View {
	t.Helper()
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(shell)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v := View{Run: []string{shell}}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			raw, _ := io.ReadAll(p.Open())
			linker, err := filepath.EvalSymlinks(strings.TrimRight(string(raw), "\x00"))
			if err != nil {
				t.Fatal(err)
			}
			v.Run = append(v.Run, linker)
		}
	}
	return v
}

// say runs a line of shell in a view and returns what it said and how it ended.
func say(t *testing.T, l *Launcher, v View, line string) (string, int) {
	t.Helper()
	p, out := begin(t, l, v, line)
	raw, _ := io.ReadAll(out)
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(raw)), status.ExitStatus()
}

func begin(t *testing.T, l *Launcher, v View, line string) (*Launched, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	defer w.Close()
	p, err := l.Start(Launch{View: v, Path: v.Run[0], Args: []string{"sh", "-c", line}, Dir: "/", Nice: 5, Stdin: null, Stdout: w, Stderr: w})
	if err != nil {
		t.Fatal(err)
	}
	return p, r
}

// starts reports whether a program can be started in a view.
func starts(t *testing.T, l *Launcher, v View) bool {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	p, err := l.Start(Launch{View: v, Path: v.Run[0], Args: []string{"sh", "-c", ":"}, Dir: "/", Stdin: null, Stdout: null, Stderr: null})
	if err == nil {
		_, err = p.Wait()
	}
	return err == nil
}

// real is a temporary folder by its own name.
func realTemp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLaunchedSeesItsViewAlone(t *testing.T) {
	eachLauncher(t, func(t *testing.T, l *Launcher, mounts bool) {
		read, write, other := realTemp(t), realTemp(t), realTemp(t)
		for _, dir := range []string{read, write, other} {
			if err := os.WriteFile(dir+"/f", []byte("secret\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		v := shellView(t)
		v.Read, v.Write = []string{read}, []string{write}
		for _, c := range []struct {
			line string
			ok   bool
		}{
			{"read x < " + read + "/f && echo $x", true},
			{"echo more >> " + write + "/f", true},
			{"echo more > " + write + "/new", true},
			{"read x < " + other + "/f", false},
			{"read x < /etc/hostname", false},
			{"echo x > " + read + "/f", false},
			{"echo x > " + read + "/new", false},
			{"echo x > " + other + "/f", false},
			{"echo x > /new", false},
			{"/bin/ls /", false},
			{"/usr/bin/env true", false},
			{"kill -9 " + strconv.Itoa(os.Getpid()), false},
			{": > /dev/null && read x < /dev/null; [ $? = 1 ]", true},
		} {
			if said, code := say(t, l, v, c.line); (code == 0) != c.ok {
				t.Errorf("%s: %d, %q", c.line, code, said)
			}
		}
		if mounts { // which cover what Landlock does not: mode, owner, times
			if _, code := say(t, l, v, "[ -w "+read+"/f ]"); code == 0 {
				t.Error("what can be read is not mounted read-only")
			}
			if _, code := say(t, l, v, "[ -w "+write+"/f ]"); code != 0 {
				t.Error("what can be written is mounted read-only")
			}
		}
		// What is executable by its mode is not by its place.
		program := write + "/program"
		if err := os.WriteFile(program, []byte("#!"+v.Run[0]+"\necho ran\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if said, code := say(t, l, v, program); code == 0 || strings.Contains(said, "ran") {
			t.Errorf("a program in the workspace: %d, %q", code, said)
		}
		if len(v.Run) > 1 {
			raw, err := os.ReadFile("/bin/true") // which cannot fail for another reason
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(write+"/true", raw, 0o755); err != nil {
				t.Fatal(err)
			}
			if said, code := say(t, l, v, v.Run[1]+" "+write+"/true"); mounts && code == 0 {
				t.Errorf("a program by way of the dynamic linker: %d, %q", code, said)
			}
		}
	})
}

func TestLaunchedFindsAStandIn(t *testing.T) {
	var l Launcher
	defer l.Close()
	needMounts(t, &l)
	dir := realTemp(t)
	file := dir + "/config"
	v := shellView(t)
	v.Write, v.Files = []string{dir}, map[string]string{file: "ours\n"}
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"theirs\n", "theirs again\n"} { // the second takes the place of a file that something stood in for
		put(text)
		if said, _ := say(t, &l, v, "read x < "+file+"; echo $x; echo more >> "+file); !strings.HasPrefix(said, "ours") {
			t.Errorf("it read %q", said)
		}
		if raw, _ := os.ReadFile(file); string(raw) != text {
			t.Errorf("the file holds %q", raw)
		}
	}
	// A folder that is another one by now is seen as it is.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/f", []byte("new\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if said, _ := say(t, &l, v, "read x < "+dir+"/f; echo $x"); said != "new" {
		t.Errorf("it read %q", said)
	}
}

// Links are a matter of the view: what stands in for a file, or covers a folder, does so where the program in the view looks for it.
func TestLaunchedFollowsLinksWithinItsView(t *testing.T) {
	var l Launcher
	defer l.Close()
	needMounts(t, &l)
	dir, other := realTemp(t), realTemp(t)
	for path, text := range map[string]string{dir + "/theirs": "theirs\n", dir + "/deep/f": "", other + "/f": ""} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"config": dir + "/theirs", "logs": dir + "/deep", "out": other, "nowhere": other + "/made"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	v := shellView(t)
	v.Write, v.Files = []string{dir}, map[string]string{dir + "/config": "ours\n"}
	if said, _ := say(t, &l, v, "read x < "+dir+"/config; echo $x"); said != "ours" {
		t.Errorf("behind a link it read %q", said)
	}
	v.Blank = []string{dir + "/logs", dir + "/new/logs"}
	if said, code := say(t, &l, v, "echo x > "+dir+"/logs/x && echo x > "+dir+"/new/logs/x"); code != 0 {
		t.Errorf("it cannot write in a covered folder: %s", said)
	}
	for _, path := range []string{dir + "/deep/x", dir + "/new/logs/x"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is seen outside of the view", path)
		}
	}
	if err := os.WriteFile(dir+"/file", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/file", dir + "/file/logs"} { // where a file is in the way nothing can be covered, or be
		if v.Blank = []string{path}; !starts(t, &l, v) {
			t.Errorf("%s keeps programs from starting", path)
		}
	}
	for _, link := range []string{"out", "nowhere"} {
		v.Blank = []string{filepath.Join(dir, link, "logs")}
		if starts(t, &l, v) {
			t.Errorf("a folder was covered behind %s, which leads out of the view", link)
		}
	}
	if entries, _ := os.ReadDir(other); len(entries) != 1 {
		t.Errorf("outside of the view there is %v", entries)
	}
	for _, v := range []View{{Write: []string{dir + "/out"}}, {Read: []string{dir + "/out/f"}}} {
		v.Run = shellView(t).Run
		if starts(t, &l, v) {
			t.Errorf("%v is in a view, by way of a link", append(v.Read, v.Write...))
		}
	}
}

// One link may lead to a folder that lies behind another.
func TestLaunchedFindsLinksBehindLinks(t *testing.T) {
	var l Launcher
	defer l.Close()
	needMounts(t, &l)
	dir := realTemp(t)
	if err := os.MkdirAll(dir+"/data/p", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/data/p/f", []byte("here\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	v := shellView(t)
	v.Read = []string{dir + "/data/p"}
	v.Links = map[string]string{dir + "/home": dir + "/usr/home", dir + "/usr/home/u": dir + "/data/p"}
	for link, to := range v.Links {
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if said, code := say(t, &l, v, "read x < "+dir+"/home/u/f; echo $x"); said != "here" {
		t.Errorf("%d, %q", code, said)
	}
}

// Files of who asks for a folder are there when the helper is another one.
func TestScratchOutlivesTheHelper(t *testing.T) {
	var l Launcher
	defer l.Close()
	dir, err := l.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	own, err := l.Private()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/f", []byte("kept\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.proc.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = l.proc.Wait()
	v := shellView(t)
	if said, _ := say(t, &l, v, "read x < "+dir+"/f; echo $x"); said != "kept" {
		t.Errorf("it read %q", said)
	}
	if said, code := say(t, &l, v, "echo x > "+own+"/f"); code == 0 {
		t.Errorf("a program writes where none may: %s", said)
	}
}

func TestLauncherLives(t *testing.T) {
	var l Launcher
	v := shellView(t)
	p, _ := begin(t, &l, v, "while :; do :; done")
	p.Kill()
	if status, err := p.Wait(); err != nil || status.Signal() != syscall.SIGKILL {
		t.Errorf("killed: %v, %v", status, err)
	}
	// One whose helper was killed is made again.
	if err := l.proc.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = l.proc.Wait()
	if said, code := say(t, &l, v, "echo back"); said != "back" || code != 0 {
		t.Errorf("after the helper's death: %q, %d", said, code)
	}
	scratch, err := l.Scratch()
	if err != nil {
		t.Fatal(err)
	}
	if _, code := say(t, &l, v, "echo x > "+scratch+"/f"); code != 0 {
		t.Error("the scratch folder cannot be written to")
	}
	// A long request passes, many at once do, and more views than are kept ready.
	if said, _ := say(t, &l, v, "echo "+strings.Repeat("x", 2*maxMessage)); len(said) != 2*maxMessage {
		t.Errorf("%d bytes", len(said))
	}
	var wg sync.WaitGroup
	for range maxJails + 20 {
		dir := realTemp(t)
		wg.Go(func() {
			v := v
			v.Write = []string{dir}
			if _, code := say(t, &l, v, "echo x > "+dir+"/f"); code != 0 {
				t.Errorf("%s cannot be written to", dir)
			}
		})
	}
	wg.Wait()
	if _, err := l.Start(Launch{View: v, Path: "/bin/true"}); err == nil {
		t.Error("something that is not in Run was started")
	}
	l.Close()
	if _, err := os.Lstat(scratch); err == nil {
		t.Error("the scratch folder stays")
	}
}

// A helper whose daemon is gone lets what runs come to its end, and leaves.
func TestLauncherOutlivesItsDaemonForAMoment(t *testing.T) {
	var l Launcher
	v := shellView(t)
	dir := realTemp(t)
	v.Write = []string{dir}
	p, _ := begin(t, &l, v, "while [ ! -e "+dir+"/go ]; do :; done; echo x > "+dir+"/done")
	proc := l.proc
	_ = syscall.Close(l.socket) // as if this process had died
	_ = p.control.Close()
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if state, err := proc.Wait(); err != nil || !state.Success() {
		t.Errorf("the helper: %v, %v", state, err)
	}
	if _, err := os.Lstat(dir + "/done"); err != nil {
		t.Errorf("what ran did not come to its end: %v", err)
	}
	if _, err := os.Lstat(l.scratch); err == nil {
		t.Error("the scratch folder stays")
	}
	l.proc = nil
}

func needMounts(t *testing.T, l *Launcher) {
	t.Helper()
	if lacks, mounts, err := l.Lacks(); err != nil || !mounts {
		t.Skipf("nothing can be mounted here: %v, %v", lacks, err)
	}
}

// eachLauncher runs a test as this machine can, and as one without mounts can.
func eachLauncher(t *testing.T, f func(t *testing.T, l *Launcher, mounts bool)) {
	for _, plain := range []bool{false, true} {
		t.Run("without mounts "+strconv.FormatBool(plain), func(t *testing.T) {
			l := &Launcher{WithoutMounts: plain}
			defer l.Close()
			_, mounts, err := l.Lacks()
			if err != nil {
				t.Fatal(err)
			}
			f(t, l, mounts)
		})
	}
}

// Without any privilege the same holds: this test runs itself as nobody.
func TestLaunchedByNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it needs root to become another user; the tests beside it run as whoever this is")
	}
	dir, err := os.MkdirTemp("", "nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/test", self, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dir+"/test", "-test.run=^(TestLaunchedSeesItsViewAlone|TestLaunchedFindsAStandIn|TestLauncherLives)$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "TMPDIR=") }), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	cmd.WaitDelay = time.Minute
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestLaunchedFindsAStandIn") {
		t.Errorf("%v\n%s", err, out)
	}
}
