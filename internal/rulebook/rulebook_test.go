package rulebook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
)

func book(t *testing.T, c config.Config) (*Book, string) {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	return New(Options{UserDir: filepath.Join(dir, "user"), StateDir: filepath.Join(dir, "state"), Home: filepath.Join(dir, "home"), Config: c}), work
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func verdict(t *testing.T, b *Book, dir, command string, own ...td.KeptRule) policy.Verdict {
	t.Helper()
	p, err := b.Policy(dir, "", own)
	if err != nil {
		t.Fatal(err)
	}
	return p.Decide(policy.Action{Tool: "Bash", Command: command, Mode: policy.ModeAcceptEdits}).Verdict
}

func allow(match, in string) td.KeptRule {
	return td.KeptRule{Verdict: "allow", Match: match, In: in, By: "ada"}
}

func TestKept(t *testing.T) {
	b, work := book(t, config.Config{})
	if got := verdict(t, b, work, "shuf -eo x"); got != policy.Ask {
		t.Fatalf("with no rules: %s", got)
	}
	for range 2 { // the same rule again changes nothing
		if err := b.Keep(t.Context(), []td.KeptRule{allow("Bash(shuf *)", work), allow("Bash(it's 'odd' *)", "")}); err != nil {
			t.Fatal(err)
		}
	}
	if got := verdict(t, b, work, "shuf -eo x"); got != policy.Allow {
		t.Errorf("kept: %s", got)
	}
	if got := verdict(t, b, filepath.Dir(work), "shuf -eo x"); got != policy.Ask {
		t.Errorf("kept for another folder: %s", got)
	}
	rules, err := b.Rules(work)
	if err != nil || len(rules) != 2 || !rules[0].Kept {
		t.Fatalf("rules %+v, %v", rules, err)
	}
	if got := verdict(t, b, work, "mkdir x", allow("Bash(mkdir *)", "")); got != policy.Allow {
		t.Errorf("of the task: %s", got)
	}
	if err := b.Remove(t.Context(), allow("Bash(shuf *)", work)); err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, b, work, "shuf -eo x"); got != policy.Ask {
		t.Errorf("forgotten: %s", got)
	}
	if err := b.Remove(t.Context(), allow("Bash(shuf *)", work)); !td.IsKind(err, td.NotFound) {
		t.Errorf("forgotten twice: %v", err)
	}
	if err := b.Keep(t.Context(), []td.KeptRule{allow("Bash(touch", "")}); !td.IsKind(err, td.Invalid) {
		t.Errorf("a broken rule: %v", err)
	}
}

// Folders of other tasks lie in that of one that works in place, and are none of its files.
func TestOthersWorkInTheirFolders(t *testing.T) {
	b, work := book(t, config.Config{})
	for command, want := range map[string]policy.Verdict{"touch .worktrees/t-1/x": policy.Deny, "rm -rf .worktrees": policy.Deny, "cat .worktrees/t-1/x": policy.Allow} {
		if got := verdict(t, b, work, command); got != want {
			t.Errorf("%s: %s", command, got)
		}
	}
}

// A link that leads to nothing yet is judged by where it leads: what is written through it is made there.
func TestLinkToNothing(t *testing.T) {
	b, work := book(t, config.Config{})
	if err := os.Symlink(filepath.Join(filepath.Dir(work), "nothing", "there"), filepath.Join(work, "out")); err != nil {
		t.Fatal(err)
	}
	if got := ResolveLinks(filepath.Join(work, "out", "x")); got != filepath.Join(filepath.Dir(work), "nothing", "there", "x") {
		t.Errorf("it leads to %s", got)
	}
	p, err := b.Policy(work, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := p.Decide(policy.Action{Tool: "Bash", Command: "echo x > out", Mode: policy.ModeAcceptEdits, Sandboxed: true}); d.Verdict != policy.Ask {
		t.Errorf("%s by %s", d.Verdict, d.Rule)
	}
}

func TestWhatAPersonWroteIsNotSpoiled(t *testing.T) {
	b, work := book(t, config.Config{})
	text := `# mine
rules:
  - deny: Bash(shuf *)   # never
    why: because

  # about mkdir
  - {allow: "Bash(mkdir *)"}`
	write(t, b.File(), text)
	if err := b.Keep(t.Context(), []td.KeptRule{allow("Bash(rmdir *)", "")}); err != nil {
		t.Fatal(err)
	}
	data, _ := os.ReadFile(b.File())
	if got := string(data); !strings.HasPrefix(got, text+"\n") || !strings.Contains(got, "rmdir") {
		t.Errorf("the file is\n%s", got)
	}
	if got := verdict(t, b, work, "shuf -eo x"); got != policy.Deny {
		t.Errorf("touch: %s", got)
	}
	if err := b.Remove(t.Context(), td.KeptRule{Verdict: "deny", Match: "Bash(shuf *)"}); err != nil {
		t.Fatal(err)
	}
	if got := verdict(t, b, work, "mkdir x"); got != policy.Allow {
		t.Errorf("mkdir: %s", got)
	}
	for _, odd := range []string{"rules: []\n", "rules: [{allow: Read}]\n", "rules:\n    - allow: Read\n"} {
		write(t, b.File(), odd)
		err := b.Keep(t.Context(), []td.KeptRule{allow("Bash(rmdir *)", "")})
		if after, _ := os.ReadFile(b.File()); !td.IsKind(err, td.Invalid) || string(after) != odd {
			t.Errorf("%q: %v, and the file is now %q", odd, err, after)
		}
	}
}

func TestRulesThatCannotBeRead(t *testing.T) {
	b, work := book(t, config.Config{})
	for text, want := range map[string]string{
		"rules: [":                       "permissions.yaml",
		"rules: [{allow: 'Bash('}]":      "bracket",
		"rules: [{permit: x}]":           "permit",
		"limits: {loops: 99}":            "rules only",
		strings.Repeat("#", 2<<20) + "x": "larger",
	} {
		write(t, b.File(), text)
		if _, err := b.Policy(work, "", nil); !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v", text, err)
		}
		if err := b.Keep(t.Context(), []td.KeptRule{allow("Bash(x *)", "")}); want != "bracket" && err == nil {
			t.Errorf("%.40s: a rule was added", text)
		}
	}
	write(t, b.File(), "")
	write(t, filepath.Join(work, config.ProjectFile), "rules: [{allow: Bash}]")
	if _, err := b.Policy(work, "", nil); err == nil || !strings.Contains(err.Error(), "may only tighten") {
		t.Errorf("a project that loosens: %v", err)
	}
	write(t, filepath.Join(work, config.ProjectFile), "rules: [{deny: 'Bash(mkdir *)'}]")
	if got := verdict(t, b, work, "mkdir x"); got != policy.Deny {
		t.Errorf("a project that tightens: %s", got)
	}
}

func TestTrustedServersAreAllowed(t *testing.T) {
	b, work := book(t, config.Config{MCP: []config.Server{{Name: "notes", Trusted: true}, {Name: "other"}}})
	p, err := b.Policy(work, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for tool, want := range map[string]policy.Verdict{"mcp__notes__write": policy.Allow, "mcp__other__write": policy.Ask} {
		if got := p.Decide(policy.Action{Tool: tool, Origin: policy.Server}).Verdict; got != want {
			t.Errorf("%s: %s", tool, got)
		}
	}
}

func TestManyKeepAtOnce(t *testing.T) {
	b, work := book(t, config.Config{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			other := New(Options{UserDir: filepath.Dir(b.File()), StateDir: "/s", Home: "/h"})
			if err := other.Keep(t.Context(), []td.KeptRule{allow(fmt.Sprintf("Bash(tool%d *)", i), "")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if rules, err := b.Rules(work); err != nil || len(rules) != 20 {
		t.Errorf("%d rules, %v", len(rules), err)
	}
}

// TestOnlyPrivateTempIsFree checks that a folder which all of the machine share is outside like any other.
func TestOnlyPrivateTempIsFree(t *testing.T) {
	b, work := book(t, config.Config{})
	b.fixed = []policy.Rule{{Verdict: policy.Allow, Match: "Bash(echo *)"}}
	shared := filepath.Join(os.TempDir(), "x")
	if got := verdict(t, b, work, "echo y > "+shared); got != policy.Ask {
		t.Errorf("in everybody's temp folder: %s", got)
	}
	c, work := book(t, config.Config{})
	c.fixed = b.fixed
	c.temps = func(workspace string) []string {
		if workspace != work {
			t.Errorf("asked about %s", workspace)
		}
		return []string{"/tmp"}
	}
	if got := verdict(t, c, work, "echo y > /tmp/x"); got != policy.Allow {
		t.Errorf("in the command's own: %s", got)
	}
	if got := verdict(t, c, work, "echo y > /var/tmp/x"); got != policy.Ask {
		t.Errorf("beside it: %s", got)
	}
}

// A checkout of a workspace is judged by what holds there for where it is.
func TestLocalRulesGoWithACheckout(t *testing.T) {
	b, work := book(t, config.Config{})
	if err := b.Keep(t.Context(), []td.KeptRule{allow("Bash(shuf *)", work), allow("Bash(elsewhere *)", work+"2")}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(work, config.ProjectFile), "rules: [{deny: 'Bash(paint *)'}]")
	local, err := b.Local(work)
	if err != nil || len(local) != 2 {
		t.Fatalf("local rules %+v, %v", local, err)
	}
	other := t.TempDir()
	for command, want := range map[string]policy.Verdict{"shuf -eo x": policy.Allow, "paint it": policy.Deny, "elsewhere x": policy.Ask} {
		if got := verdict(t, b, other, command, local...); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	write(t, filepath.Join(work, config.ProjectFile), "permissions: what")
	if _, err := b.Local(work); err == nil {
		t.Error("rules that cannot be read are none")
	}
}

// What the person's checkout forbids is forbidden in a task's worktree, whatever its branch makes of the file there.
func TestWorktreesAreBoundByTheCheckout(t *testing.T) {
	b, work := book(t, config.Config{})
	dir := filepath.Join(work, td.WorktreeFolder, "t-4k7q2m9x", "sub")
	write(t, filepath.Join(work, "sub", config.ProjectFile), "rules: [{deny: 'Bash(paint *)'}]")
	write(t, filepath.Join(dir, config.ProjectFile), "rules: [{deny: 'Bash(draw *)'}]")
	for command, want := range map[string]policy.Verdict{"paint it": policy.Deny, "draw it": policy.Deny, "sing it": policy.Ask} {
		if got := verdict(t, b, dir, command); got != want {
			t.Errorf("%s: %s, want %s", command, got, want)
		}
	}
	write(t, filepath.Join(dir, config.ProjectFile), "rules: [{deny: 'Bash(paint *)'}]")
	if rules, err := b.Rules(dir); err != nil || len(rules) != 1 {
		t.Errorf("the same rule in both: %+v, %v", rules, err)
	}
	write(t, filepath.Join(work, "sub", config.ProjectFile), "rules: [{deny: 'Bash(sing *)'}]")
	if got := verdict(t, b, dir, "sing it"); got != policy.Deny {
		t.Errorf("a rule that the person adds meanwhile: %s", got)
	}
}

// TestProjectFileThatIsALink: what a link leads to is not read, and nothing of it is told, as content or as what is wrong
// with it.
func TestProjectFileThatIsALink(t *testing.T) {
	b, work := book(t, config.Config{})
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "token-5d1f is the first line\n")
	file := filepath.Join(work, config.ProjectFile)
	for name, make := range map[string]func() error{
		"link":    func() error { return os.Symlink(secret, file) },
		"inside":  func() error { write(t, filepath.Join(work, "notes"), "token-5d1f\n"); return os.Symlink("notes", file) },
		"regular": func() error { write(t, file, "token-5d1f is the first line\n"); return nil },
		"key":     func() error { write(t, file, "token-5d1f: 1\n"); return nil },
		"pipe":    func() error { return syscall.Mkfifo(file, 0o600) },
		"folder":  func() error { return os.Mkdir(file, 0o700) },
	} {
		if err := make(); err != nil {
			t.Fatal(err)
		}
		_, err := b.Policy(work, "", nil)
		if !td.IsKind(err, td.Invalid) || strings.Contains(err.Error(), "token") || strings.Contains(td.HintOf(err), "token") {
			t.Errorf("%s: %v", name, err)
		}
		_, err = b.Check(work)
		if !td.IsKind(err, td.Invalid) || name == "link" && (strings.Contains(err.Error(), "token") || !strings.Contains(err.Error(), "symbolic link")) {
			t.Errorf("%s is checked: %v", name, err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	// A workspace that is a link by now has no rules that anybody agreed to.
	write(t, file, "rules: [{deny: 'Bash(mkdir *)'}]")
	other := filepath.Join(t.TempDir(), "other")
	if err := os.Symlink(work, other); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Policy(other, "", nil); !td.IsKind(err, td.Invalid) {
		t.Errorf("the workspace is a link: %v", err)
	}
}
