package gitfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func put(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Nothing that can be put in the place of a file keeps its reader waiting, or fills its memory.
func TestWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	endless := filepath.Join(dir, "endless")
	if err := os.Symlink("/dev/zero", endless); err != nil {
		t.Fatal(err)
	}
	long := put(t, filepath.Join(dir, "long"), "gitdir: /"+strings.Repeat("x", longest))
	for _, path := range []string{pipe, endless, long, dir} {
		if raw, err := Read(path, longest); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %d bytes, %v", path, len(raw), err)
		}
		if to := Gitdir(path); to != "" {
			t.Errorf("%s leads to %s", path, to)
		}
	}
	if _, err := Read(filepath.Join(dir, "none"), longest); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}

// A .git file is read as git reads it: here git itself is asked where each leads.
func TestGitdirIsWhatGitTakesItFor(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	for _, name := range []string{"plain", "spaces behind  ", "  before", "tab\tin", "ümlaut"} {
		for _, form := range []string{"gitdir: %", "gitdir: %\n", "gitdir: %\r\n\n", "gitdir: ../%/.\n", "gitdir:%\n", "gitdir:  %\n", " gitdir: %\n", "Gitdir: %\n", "gitdir: % \n", "gitdir: %\x00more\n", "gitdir: %\n\x00", "gitdir: \n", ""} {
			dir := t.TempDir()
			if out, err := exec.Command(git, "init", "-q", "--bare", filepath.Join(dir, name)).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			to := filepath.Join(dir, name)
			if strings.Contains(form, "..") {
				to = name
			}
			file := put(t, filepath.Join(dir, "work", ".git"), strings.ReplaceAll(form, "%", to))
			cmd := exec.Command(git, "rev-parse", "--absolute-git-dir")
			cmd.Dir, cmd.Env = filepath.Join(dir, "work"), append(os.Environ(), "GIT_CEILING_DIRECTORIES="+dir)
			out, _ := cmd.Output() // it may be none
			want := strings.TrimSuffix(string(out), "\n")
			got := Gitdir(file)
			if _, err := os.Stat(filepath.Join(got, "HEAD")); got == "" || err != nil {
				got = ""
			}
			if want != got && filepath.Clean(want) != got {
				t.Errorf("%q leads git to %q, and us to %q", strings.ReplaceAll(form, "%", to), want, got)
			}
		}
	}
}

// Whom a repository borrows objects from is read as git reads it: here git itself is asked.
func TestLendersAreWhomGitBorrowsFrom(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("there is no git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	names := strings.Fields("a b c d e f g h i j")
	at := func(name string) string { return filepath.Join(dir, name, "objects") }
	for _, name := range append(names, `"a`, "x\ny", "#n") {
		if out, err := exec.Command(git, "init", "-q", "--bare", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	chain := map[string]string{}
	for i, name := range names[:len(names)-1] {
		chain[name] = "%" + names[i+1] + "%"
	}
	wide := map[string]string{}
	for _, name := range names[1:] {
		wide["a"] += "%" + name + "%\n"
	}
	for form, lists := range map[string]map[string]string{
		"one after the other": chain, "side by side": wide,
		"found deep and listed after that": {"a": "%b%\n%g%", "b": "%c%", "c": "%d%", "d": "%e%", "e": "%f%", "f": "%g%", "g": "%h%"},
		"each other":                       {"a": "%b%", "b": "%a%\n%c%"},
		"relative":                         {"a": "../../b/objects\n./../../c/objects/\n"},
		"quoted":                           {"a": `"%b%"`},
		"quoted, and more":                 {"a": `"%b%"x`},
		"quoted, and another":              {"a": `"%b%"x%c%`},
		"quoted, a pair":                   {"a": `"%b%""%c%"`},
		"quoted, and a comment":            {"a": `"%b%"x#%c%`},
		"quoted, no end":                   {"a": "\"%b%\n%c%"},
		"quoted, beside":                   {"a": "\"../../b/objects\n%c%"},
		"a quote in a name":                {"a": `../../"a/objects`},
		"quoted, a break":                  {"a": "\"../../x\ny/objects\"\n%c%"},
		"quoted, a break by name":          {"a": `"../../x\ny/objects"`},
		"quoted, octal":                    {"a": `"../../\142/objects"`},
		"quoted, octal too short":          {"a": `"../../\14/objects"`},
		"quoted, octal too large":          {"a": `"../../\442/objects"`},
		"quoted, hexadecimal":              {"a": `"../../\x62/objects"`},
		"quoted, unicode":                  {"a": `"../../\u0062/objects"`},
		"quoted, unknown":                  {"a": "\"%b%\\q\"\n%c%"},
		"quoted, zero":                     {"a": `"%b%\000x"`},
		"quoted, nothing":                  {"a": "\"\"\n%c%"},
		"a zero":                           {"a": "%b%\x00\n%c%"},
		"comments and empty lines":         {"a": "# %b%\n\n#\n %d%\n%c%\n"},
		"no comment":                       {"a": "../../#n/objects"},
		"a return":                         {"a": "%b%\r\n%c%\n"},
	} {
		t.Run(form, func(t *testing.T) {
			for _, name := range names {
				text := lists[name]
				for _, to := range names {
					text = strings.ReplaceAll(text, "%"+to+"%", at(to))
				}
				put(t, filepath.Join(at(name), "info", "alternates"), text)
			}
			cmd := exec.Command(git, "-C", filepath.Join(dir, "a"), "count-objects", "-v")
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for l := range strings.Lines(string(out)) {
				if path, is := strings.CutPrefix(l, "alternate: "); is {
					want = append(want, UnquoteAlternate(strings.TrimSuffix(path, "\n")))
				}
			}
			got := slices.DeleteFunc(Lenders(at("a")), func(path string) bool {
				info, err := os.Stat(path)
				return err != nil || !info.IsDir() || path == at("a") // which git skips
			})
			if !slices.Equal(got, want) {
				t.Errorf("git borrows from %q, and we take it to do so from %q", want, got)
			}
		})
	}
}

// A list that has no end is not followed without one.
func TestLendersAreBounded(t *testing.T) {
	dir := t.TempDir()
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "/x/%d\n", i)
	}
	put(t, filepath.Join(dir, "info", "alternates"), lines.String())
	if got := Lenders(dir); len(got) != mostLenders {
		t.Errorf("it borrows from %d", len(got))
	}
}

func FuzzGitdir(f *testing.F) {
	f.Add("gitdir: /a/b\n")
	f.Add("gitdir: ../x \r\n")
	f.Add("gitdir:x")
	f.Fuzz(func(t *testing.T, text string) {
		if to := ParseGitdir(text); strings.ContainsRune(to, 0) || to != "" && !strings.HasPrefix(text, "gitdir: "+to) {
			t.Errorf("%q gave %q", text, to)
		}
	})
}

func FuzzAlternates(f *testing.F) {
	f.Add("/src/proj/.git/objects\n")
	f.Add("\"/a: \\\"b\\\\\\n/objects\"\n# no\n../up\n")
	f.Add("\"\n\"\\q\"\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		for _, path := range Alternates(text) {
			if path == "" || strings.ContainsRune(path, 0) {
				t.Errorf("%q gave %q", text, path)
			}
		}
	})
}

// Git itself is asked of every folder that has some of the names.
func TestResembles(t *testing.T) {
	for some := range 1 << len(RepositoryNames) {
		dir := t.TempDir()
		has := func(name string) bool { return some&(1<<slices.Index(RepositoryNames, name)) != 0 }
		for _, name := range RepositoryNames {
			switch {
			case !has(name):
			case name == "HEAD":
				put(t, filepath.Join(dir, name), "ref: refs/heads/main\n")
			case name == "commondir":
				other := filepath.Join(t.TempDir(), "other")
				if out, err := exec.Command("git", "init", "-q", "--bare", other).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				put(t, filepath.Join(dir, name), other+"\n")
			default:
				put(t, filepath.Join(dir, name, "x"), "")
			}
		}
		cmd := exec.Command("git", "-c", "safe.bareRepository=all", "rev-parse", "--git-dir")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		if takes := cmd.Run() == nil; takes != Resembles(has) || takes && !ResemblesNearly(has) {
			t.Errorf("%04b: git takes it for a repository: %v, it resembles one: %v, nearly: %v", some, takes, Resembles(has), ResemblesNearly(has))
		}
	}
}
