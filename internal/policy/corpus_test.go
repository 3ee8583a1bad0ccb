package policy

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// example is a line of the corpus: verdict, mode, action and a part of the reason, with tabs between.
// An action is a shell command, or "@Tool path" for a tool that reads or writes a file, or "@Tool" alone.
type example struct {
	at      string
	verdict Verdict
	action  Action
	reason  string
}

// place is where the corpus happens.
func place() Place {
	links := map[string]string{
		"/src/proj/keys":     "/home/ann/.ssh",
		"/src/proj/up":       "/src",
		"/src/proj/rootlink": "/",
		"/src/proj/hooklink": "/src/proj/.git/hooks",
		"/bin":               "/usr/bin",
		"/src/proj/state":    "/home/ann/.local/state/taskdaemon",
	}
	return Place{
		Workspace: "/src/proj", Home: "/home/ann", State: "/home/ann/.local/state/taskdaemon",
		Own: []string{"/home/ann/.config/taskdaemon", "/run/user/1000/taskdaemon.sock"}, Temp: []string{"/tmp/run-1"},
		Resolve: func(path string) string {
			for from, to := range links {
				if path == from || strings.HasPrefix(path, from+"/") {
					return filepath.Clean(to + "/" + path[len(from):])
				}
			}
			return path
		},
		Glob: func(string) ([]string, bool) { return nil, true },
		Git:  func(dir string) Git { return Git{Top: dir == "/src/proj", Inside: dir == "/src/proj/meta"} },
	}
}

func corpus(t testing.TB) []example {
	t.Helper()
	names, err := filepath.Glob("testdata/*.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		for n := 1; lines.Scan(); n++ {
			line := lines.Text()
			if line == "" || strings.HasPrefix(line, "# ") {
				continue
			}
			cols := strings.Split(line, "\t")
			if len(cols) != 3 && len(cols) != 4 {
				t.Fatalf("%s:%d: %d columns", name, n, len(cols))
			}
			e := example{at: filepath.Base(name) + ":" + strconv.Itoa(n), verdict: Verdict(cols[0])}
			if len(cols) == 4 {
				e.reason = cols[3]
			}
			e.action = exampleAction(cols[1], cols[2])
			out = append(out, e)
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// exampleAction reads the mode (with +sandbox, +taint and +sifts) and the action of an example.
func exampleAction(mode, text string) Action {
	a := Action{Tool: "Bash", Dir: "/src/proj"}
	parts := strings.Split(mode, "+")
	a.Mode = Mode(parts[0])
	for _, p := range parts[1:] {
		a.Sandboxed = a.Sandboxed || p == "sandbox"
		a.Tainted = a.Tainted || p == "taint"
		a.Sifts = a.Sifts || p == "sifts"
	}
	if rest, ok := strings.CutPrefix(text, "@"); ok {
		tool, arg, _ := strings.Cut(rest, " ")
		a.Tool = tool
		if strings.HasPrefix(tool, ServerPrefix) {
			a.Origin = Server
		}
		switch {
		case writesFiles(tool):
			a.Paths = []PathUse{{Path: arg, Access: Write}}
		case tool == "WebFetch":
			a.Hosts, a.Looks = []string{arg}, true
		case arg != "":
			a.Paths, a.Looks = []PathUse{{Path: arg, Access: Read}}, true
		}
		return a
	}
	a.Command = strings.NewReplacer(`\n`, "\n", `<TAB>`, "\t").Replace(text)
	return a
}

func TestCorpus(t *testing.T) {
	p, err := New(place(), nil)
	if err != nil {
		t.Fatal(err)
	}
	examples := corpus(t)
	if len(examples) < 300 {
		t.Errorf("the corpus has %d examples, want at least 300", len(examples))
	}
	for _, e := range examples {
		d := p.Decide(e.action)
		said := d.Rule + ": " + d.Why
		if d.Verdict != e.verdict || !strings.Contains(strings.ToLower(said), strings.ToLower(e.reason)) {
			t.Errorf("%s: %s %q%v\n\tgot  %s (%s)\n\twant %s (…%s…)", e.at, e.action.Tool, e.action.Command, e.action.Paths, d.Verdict, said, e.verdict, e.reason)
		}
	}
}
