package sandbox

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/beneath"
)

const settingsOfAnn = `# Ann's
[user]
	name = "Ann \"A\" Example" ; comment
	email = ann@example.org
	signingkey = ABC
[Core]
	AutoCRLF = input
	excludesFile = ~/.gitignore_global
	fsmonitor = /home/ann/watch
	pager = less \
 -R
[init] defaultBranch = main
[commit]
	gpgsign
[filter "lfs"]
	clean = git-lfs clean -- %f
	required = true
[url "https://token-canary@example.org/"]
	insteadOf = ex:
[http]
	extraheader = Authorization: canary
[credential]
	helper = store --file canary
[include]
	path = canary
[alias]
	x = !canary
[user "canary"]
	name = canary
`

// TestGitSettings holds what commands see of a person's settings against what git itself reads of both files.
func TestGitSettings(t *testing.T) {
	settings, complete := parseGitSettings(settingsOfAnn)
	if !complete {
		t.Error("they are not understood to their end")
	}
	got := formatGitSettings(settings, gitSetting.allowed)
	if strings.Contains(strings.ReplaceAll(got, `[user "canary"]`+"\n\tname = \"canary\"", ""), "canary") {
		t.Errorf("what may hold a secret is told:\n%s", got)
	}
	dir := t.TempDir()
	read := func(name, text, key string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("git", "config", "-f", path, "--get-all", key).Output()
		if err != nil {
			t.Errorf("%s of %s: %v", key, name, err)
		}
		return string(out)
	}
	for _, key := range []string{"user.name", "user.email", "user.signingkey", "core.autocrlf", "core.excludesfile", "init.defaultbranch", "filter.lfs.clean", "filter.lfs.required"} {
		if before, after := read("theirs", settingsOfAnn, key), read("told", got, key); before != after {
			t.Errorf("%s was %q and is %q", key, before, after)
		}
	}
	for _, key := range []string{"core.pager", "core.fsmonitor", "http.extraheader", "credential.helper", "include.path", "alias.x"} {
		if out, err := exec.Command("git", "config", "-f", filepath.Join(dir, "told"), key).Output(); err == nil {
			t.Errorf("%s is told: %s", key, out)
		}
	}
}

// TestGitSettingsOfEachCommand has a job change the settings in all ways that it can find, while another command of its task uses git.
func TestGitSettingsOfEachCommand(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	y := newYard(t)
	t.Setenv("HOME", y.home)
	y.put(y.home+"/.gitconfig", "[user]\nname = Ann\n")
	y.hostileToSettings()
	if got := y.works("git config --global user.name Bob && git config --global alias.x status && git config user.name"); strings.TrimSpace(got) != "Bob" {
		t.Errorf("within the command: %q", got)
	}
	y.p.Files = ReadOnly
	y.hostileToSettings()
	y.p.Outside = true
	y.hostileToSettings()
	y.fails("git config --global user.name Bob")
	y.fails("echo x >> $GIT_CONFIG_GLOBAL")
}

// hostileToSettings is what a job of the same task tries.
func (y *yard) hostileToSettings() {
	y.t.Helper()
	p := y.p
	defer func() { y.p = p }()
	y.p.Files, y.p.Outside = WorkspaceWrite, false
	task := y.command("").Task
	job := y.command(`plant() {
	mkdir -p $(dirname $1) && printf '[core]\nsshCommand = planted\n[user]\nname = planted\n' > $1.x && mv -f $1.x $1
	printf '[user]\nname = planted\n' > $1
}
touch ready
while [ ! -e stop ]; do
	plant $TMPDIR/.gitconfig; plant $TMPDIR/git/config; plant $GIT_CONFIG_GLOBAL; plant ` + y.s.Dir + `/victim/git/config
	for p in /proc/[0-9]*; do plant $p/root$GIT_CONFIG_GLOBAL; done
done 2> /dev/null`)
	job.Task, job.Background = task, true
	for _, name := range []string{"ready", "stop"} {
		_ = os.Remove(filepath.Join(y.work, name))
	}
	proc := start(y.t, y.s, "job", job)
	eventually(y.t, "the job runs", func() bool { return exists(y.work, "ready") })
	y.p = p
	victim := y.command("for i in $(seq 100); do git config user.name; git config core.sshCommand; done | sort -u")
	victim.Task = task
	res := wait(y.t, start(y.t, y.s, "victim", victim))
	if got := strings.TrimSpace(string(res.Head)); got != "Ann" {
		y.t.Errorf("with %s the settings say %q", p.Files, got)
	}
	y.put(y.work+"/stop", "")
	wait(y.t, proc)
	for _, name := range []string{"job", "victim"} {
		if err := y.s.Remove(name); err != nil {
			y.t.Error(err)
		}
	}
}

// balanced has as many lines that look like settings as it has settings before one that is hidden by a section which git knows better.
const balanced = "[user]\nname = a]\n[x\r\"y\"]\n[core]\nfsmonitor = /evil\n"

// asGitReads checks that git reads the same settings of a text.
func asGitReads(t *testing.T, text string, settings []gitSetting) {
	t.Helper()
	cmd := exec.Command("git", "config", "-f", "-", "--no-includes", "--list", "-z")
	cmd.Stdin, cmd.Dir = strings.NewReader(text), t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git does not read %q: %v", text, err)
	}
	var want, got []string
	spaces := strings.NewReplacer("\t", " ", "\r", " ") // later versions of git keep them
	for one := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		name, value, has := strings.Cut(one, "\n")
		if !has {
			value = "true"
		}
		if one != "" {
			want = append(want, name+"="+spaces.Replace(value))
		}
	}
	for _, s := range settings {
		name := s.section + "." + s.variable
		if s.subsection != "" {
			name = s.section + "." + s.subsection + "." + s.variable
		}
		got = append(got, name+"="+spaces.Replace(s.value))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("of %q we read %q and git %q", text, got, want)
	}
}

// TestGitSettingsAsGit holds texts that are understood to their end against git: it must have read them, and nothing else.
func TestGitSettingsAsGit(t *testing.T) {
	parts := []string{
		"[core]", "[a.b]", "[a", " ", "\r", "\t", "\n", "\n", "\"", "\"y\"]", "]", "[x \"y z\"]\n", "[Remote \"A\"]", "b", "name = v\n", "1", "-", "=", " = ", "#", ";", "\\", "\\\n", "\\n", "\v", "\x00", ".", "\ufeff", "é",
		"fsmonitor = /evil\n", "\r\n",
	}
	random := rand.New(rand.NewPCG(1, 2))
	whole := 0
	for range 20_000 {
		text := "[core]\n"
		if random.IntN(4) == 0 {
			text = ""
		}
		for range random.IntN(9) {
			text += parts[random.IntN(len(parts))]
		}
		settings, complete := parseGitSettings(text)
		if !complete || len(settings) == 0 || whole == 200 {
			continue
		}
		whole++
		asGitReads(t, text, settings)
	}
	if whole < 100 {
		t.Errorf("only %d texts were understood", whole)
	}
}

// TestPlainIsUnderstood checks that settings count as plain only if they are understood to their end, wherever that is asked.
func TestPlainIsUnderstood(t *testing.T) {
	git, other := gitFolder(t), gitFolder(t)
	for text, plain := range map[string]bool{
		"[user]\nname = a\n": true, "[user]\nname = a]\n[remote\r\"y\"]\nurl = /x\n": true, "": true,
		balanced: false, "[user]\nname = a\n[": false, "[user]\nname = a\n[core \"fsmonitor\x00\"]\nx = /evil\n": false,
		"[user]\nname = a\n[core]\n\v\nfsmonitor = /evil\n": false, "[remote \"x\"]\nurl = /x\n[remote.x \"y\"]\nuploadpack = /evil\n": false,
	} {
		put(t, git, "config", text)
		put(t, other, worktreeSettings, text)
		put(t, other, "opts", strings.ReplaceAll(text, "[user]\nname", "[options]\nstrategy-option"))
		if got := asGitDir(other).plain(worktreeSettings); got != plain {
			t.Errorf("plain of %q is %v", text, got)
		}
		if got := nothingMore(original{Text: []byte(text)}, original{Text: []byte("[user]\nname = a\n")}); got != plain {
			t.Errorf("nothingMore of %q is %v", text, got)
		}
		if got := armed(git); got == plain {
			t.Errorf("armed of %q is %v", text, got)
		}
		if got := oddStrategy(other); !plain && !got {
			t.Errorf("oddStrategy of %q is %v", text, got)
		}
	}
}

// TestPlainAddresses checks that no address names a program, wherever git takes one from, and that a partial clone is plain for everybody.
func TestPlainAddresses(t *testing.T) {
	git := gitFolder(t)
	partial := "[remote \"o\"]\nurl = /x\nfetch = +refs/heads/*:refs/remotes/o/*\npromisor = true\npartialclonefilter = blob:none\n[extensions]\npartialclone = o\n"
	for text, plain := range map[string]bool{
		partial: true, "[branch \"main\"]\nremote = o\nmerge = refs/heads/main\n" + partial: true, "[branch \"main\"]\nremote = .\n": true,
		"[branch \"main\"]\nremote = foo::x\n": false, "[branch \"main\"]\nremote = --upload-pack=x\n": false, "[remote \"o\"]\nurl = foo::x\n": false,
		"[remote \"foo::x\"]\nfetch = +refs/heads/*:refs/remotes/o/*\n": false, strings.Replace(partial, "/x", "http://x/y", 1): false, strings.Replace(partial, "/x", "host:x", 1): false, partial + "uploadpack = x\n[remote \"o\"]\nuploadpack = x\n": false,
	} {
		put(t, git, "config", text)
		if got := armed(git); got == plain {
			t.Errorf("armed of %q is %v", text, got)
		}
		if got := nothingMore(original{Text: []byte(text)}, original{Text: []byte{}}); got != plain {
			t.Errorf("nothingMore of %q is %v", text, got)
		}
		if taken := disarmSettings(git); (len(taken) == 0) != plain {
			t.Errorf("of %q is taken: %v", text, taken)
		}
	}
}

// gitFolder is a folder of git as git makes it.
func gitFolder(t *testing.T) *beneath.Folder {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	git, err := beneath.OpenResolved(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = git.Close() })
	return git
}

// put writes a file of a folder, after making what it lies in.
func put(t *testing.T, folder *beneath.Folder, name, text string) {
	t.Helper()
	at := filepath.Join(folder.Name(), name)
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	if err == nil {
		err = os.WriteFile(at, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func FuzzGitSettings(f *testing.F) {
	for _, seed := range []string{
		settingsOfAnn, balanced, "[user]name=x", "[a.b \"c\"]\nd", "[a]\n1 = x", "[a]\nb # c", "[a \"\"]\nb", "[a]\nb = \\", "[a]\v\nb", "[core \"fsmonitor\x00\"]\nx = y", "[a \"b\\", "[user]\nname=\\", "[a.b]\nc", "[user \"x\\\"y\"]\nname = \"a\\n\\tb\"", "[user]\nname = a # b\n[", "\ufeff[user]\r\nname = x\r\n", "[user]\nname = \"a",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		settings, complete := parseGitSettings(text)
		if complete {
			asGitReads(t, text, settings)
		}
		told := formatGitSettings(settings, gitSetting.allowed)
		again, whole := parseGitSettings(told)
		if !whole {
			t.Fatalf("%q is not understood", told)
		}
		for _, s := range again {
			if !s.allowed() {
				t.Fatalf("%q tells %+v", text, s)
			}
		}
		if twice := formatGitSettings(again, gitSetting.allowed); twice != told {
			t.Fatalf("%q is read as %q", told, twice)
		}
		if n := strings.Count(told, "\n\t"); n != len(again) {
			t.Fatalf("%q has %d settings and not %d", told, len(again), n)
		}
	})
}

// TestReadableOpensNoHome checks that no variable opens the home as a whole.
func TestReadableOpensNoHome(t *testing.T) {
	for _, name := range slices.Concat(toolVariables, []string{"PATH", "GOPATH"}) {
		for _, value := range []string{"/home/ann", "/home", "/", "/home/ann/", "/home/ann/x/..", "/home/ann:/home"} {
			env := map[string]string{"HOME": "/home/ann", name: value}
			got := Readable(func(name string) string { return env[name] })
			if slices.ContainsFunc(got, func(p string) bool {
				return covered("/home/ann", []string{p}) || covered("/home/ann/.ssh", []string{p})
			}) {
				t.Errorf("%s=%s opens %q", name, value, got)
			}
		}
	}
}

// TestBuildsFindTheirCache builds with the cache of whoever runs the test, without a network: nothing is compiled that was before.
func TestBuildsFindTheirCache(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("go is not installed")
	}
	y := newYard(t)
	y.put(y.work+"/go.mod", "module example.org/m\n\ngo 1.21\n")
	y.put(y.work+"/main.go", "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"built\") }\n")
	cmd := exec.Command("go", "build", "-o", "/dev/null", ".")
	cmd.Dir = y.work
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	y.p.Network, y.p.See = NetworkOff, append(y.p.See, Readable(os.Getenv)...)
	y.p.Cache, y.p.Blank = Caches(os.Getenv), Blanks(os.Getenv)
	if out := y.works("go build -v -o prog . && ./prog"); strings.Contains(out, "fmt") || !strings.Contains(out, "built") {
		t.Errorf("compiled anew: %s", out)
	}
	y.put(y.work+"/main.go", "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"built again\") }\n")
	if out := y.works("go build -v -o prog . && ./prog && go vet ."); strings.Contains(out, "fmt") || !strings.Contains(out, "built again") {
		t.Errorf("compiled anew: %s", out)
	}
}
