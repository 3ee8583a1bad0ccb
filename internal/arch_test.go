// Package internal holds no code of its own. Its test keeps the layers apart: a package imports only
// packages on lower floors, and a subpackage may import its parent. Imports are read from the sources
// themselves, so that a cached build cannot hide one.
package internal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "taskdaemon/internal/"

// floors are the layers, lowest first. Where a floor has two rows, packages of the second may import
// those of the first. A package that is not here fails the test: decide where it belongs.
var floors = [][]string{
	// 0: words
	{"td", "failpoint", "redact", "typo", "words", "schema", "sse", "yamltree", "fence", "heap", "beneath", "gitfile"},
	{"frontmatter", "disk"}, // YAML inside Markdown; folders and files that last
	// 1: single crafts, and contracts
	{"window", "sigil"}, // the transcript applies what was decided, and knows what was said
	{"td/statesdoc", "td/recordsdoc", "bus", "sandbox", "sandbox/proxy", "policy", "workgraph", "planfile", "awl", "llm", "llm/exchange", "vault", "config", "telemetry", "jsonl", "api", "api/wire", "transcript", "notify", "strategy", "merge"},
	{"git"},            // every git is confined
	{"query", "stats"}, // questions about what a transcript tells, and the journal
	// 2: the store, what tools and models are, and the edges
	{"store", "hook", "tool", "skill", "webfetch", "llm/anthropic", "llm/openai", "llm/rehearsal", "llm/cassette", "server", "client", "tui", "web", "channel"},
	{"store/rule", "hook/hooksdoc"}, // what all stores decide alike; a page of the documentation
	{"llm/gateway"},                 // before all models
	{"store/sqlite", "store/mem", "store/mirror", "store/clean"},
	// 3: durable work
	{"durable", "coord", "memory", "notes", "graph", "tool/mcp", "worktree"},
	{"rebuild"},   // the journal, made again from what is kept beside it
	{"knowledge"}, // the learnings of a project, lent to runners and tools
	// 4: runners, and before them the scheduler whose contract they fulfil
	{"scheduler"},
	{"engine", "acp", "workflow", "assistant", "tool/builtin", "rulebook"},
	// 5, 6
	{"daemon"},
	{"cli"},
	{cmd},
}

// cmd stands for all of cmd/.
const cmd = "cmd"

// suites are for tests: any test may import them, nothing else may.
var suites = []string{"store/storetest", "llm/llmtest", "api/apitest", "tool/mcp/mcptest", "channel/channeltest", "worktree/worktreetest", "disk/disktest", "crash"}

// edges speak to the outside. They know the words and the contract of the API, never what is behind it.
var (
	edges     = []string{"server", "client", "tui", "web", "channel"}
	edgesKnow = []string{"td", "api", "telemetry", "failpoint", "sse"}
)

func floorOf(pkg string) int {
	return slices.IndexFunc(floors, func(f []string) bool { return slices.Contains(f, pkg) })
}

// startsGit are the files of package git that may start a program: to find git, and to start one over the network or in a test.
var startsGit = []string{"run.go", "site.go", "standin.go"}

// file is a source file with what it imports.
type file struct {
	pkg     string // relative to internal/, or cmd
	path    string
	test    bool
	imports []string
	callers []string // positions where it starts git
}

func TestLayers(t *testing.T) {
	files := sources(t)
	if len(files) < 20 {
		t.Fatalf("only %d files found: the test is blind", len(files))
	}
	for _, f := range files {
		for _, imp := range f.imports {
			if why := refuse(f, imp); why != "" {
				t.Errorf("%s: imports %s: %s", f.path, imp, why)
			}
		}
		if f.pkg == "git" && !f.test && slices.Contains(f.imports, "os/exec") && !slices.Contains(startsGit, filepath.Base(f.path)) {
			t.Errorf("%s: imports os/exec: every git is made in run.go and started in standin.go", f.path)
		}
		if f.pkg != "git" && !f.test {
			for _, at := range f.callers {
				t.Errorf("%s: starts git: only internal/git may", at)
			}
		}
	}
	for _, f := range files {
		if floorOf(f.pkg) < 0 && !slices.Contains(suites, f.pkg) && f.pkg != "." {
			t.Errorf("%s: package %s stands on no floor: give it one in internal/arch_test.go", f.path, f.pkg)
		}
	}
}

// refuse says why f may not import imp, or nothing.
func refuse(f file, imp string) string {
	to, ours := strings.CutPrefix(imp, module)
	if f.pkg == "td" && !f.test && (ours || strings.Contains(imp, ".") && imp != "github.com/google/uuid") {
		return "td knows the standard library and uuid only"
	}
	switch {
	case !ours, f.pkg == to:
		return ""
	case slices.Contains(suites, to):
		if !f.test && !slices.Contains(suites, f.pkg) {
			return "it is for tests"
		}
		return ""
	case f.test, slices.Contains(suites, f.pkg):
		return "" // a test may put together whatever it needs
	case within(f.pkg, edges) && !within(to, edgesKnow) && !within(to, []string{f.pkg}):
		return fmt.Sprintf("an edge knows only %s", strings.Join(edgesKnow, ", "))
	case strings.HasPrefix(f.pkg, to+"/"):
		return "" // its parent
	case floorOf(to) < 0:
		return "it stands on no floor"
	case floorOf(f.pkg) >= 0 && floorOf(to) >= floorOf(f.pkg):
		return fmt.Sprintf("it stands on row %d, %s on row %d", floorOf(to), f.pkg, floorOf(f.pkg))
	}
	return ""
}

// within reports whether pkg is one of these or inside one.
func within(pkg string, of []string) bool {
	return slices.ContainsFunc(of, func(o string) bool { return pkg == o || strings.HasPrefix(pkg, o+"/") })
}

func sources(t *testing.T) []file {
	t.Helper()
	var all []file
	for _, root := range []string{".", "../cmd"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "testdata":
				return fs.SkipDir
			case d.IsDir() || filepath.Ext(path) != ".go":
				return nil
			}
			f, err := read(path)
			if err != nil {
				return err
			}
			if root != "." {
				f.pkg = cmd
			}
			all = append(all, f)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func read(path string) (file, error) {
	set := token.NewFileSet()
	src, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return file{}, err
	}
	f := file{pkg: filepath.ToSlash(filepath.Dir(path)), path: path, test: strings.HasSuffix(path, "_test.go")}
	for _, spec := range src.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return file{}, err
		}
		f.imports = append(f.imports, imp)
	}
	ast.Inspect(src, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Command", "CommandContext", "LookPath"}, sel.Sel.Name) {
			return true
		}
		for _, arg := range call.Args {
			if lit, ok := arg.(*ast.BasicLit); ok && lit.Value == `"git"` {
				f.callers = append(f.callers, set.Position(lit.Pos()).String())
			}
		}
		return true
	})
	return f, nil
}

// The rules themselves, on imports nobody has written.
func TestRefuse(t *testing.T) {
	for _, c := range []struct {
		from string
		test bool
		to   string
		ok   bool
	}{
		{"td", false, "time", true},
		{"td", false, "github.com/google/uuid", true},
		{"td", false, "github.com/goccy/go-yaml", false},
		{"td", false, module + "failpoint", false},
		{"td", true, "pgregory.net/rapid", true},
		{"store", false, module + "td", true},
		{"store", false, module + "store/sqlite", false},
		{"store/sqlite", false, module + "store", true},
		{"store/sqlite", false, module + "store/mem", false},
		{"store/sqlite", false, module + "bus", true},
		{"store/sqlite", false, module + "store/storetest", false},
		{"store/sqlite", true, module + "store/storetest", true},
		{"engine", false, module + "acp", false},
		{"engine", false, module + "scheduler", true},
		{"scheduler", false, module + "engine", false},
		{"engine", false, module + "daemon", false},
		{"daemon", false, module + "engine", true},
		{"client", false, module + "api/wire", true},
		{"client", false, module + "store", false},
		{"server", false, module + "client", false},
		{"server", false, module + "failpoint", true},
		{"daemon", false, module + "newcomer", false},
		{cmd, false, module + "cli", true},
	} {
		why := refuse(file{pkg: c.from, test: c.test}, c.to)
		if (why == "") != c.ok {
			t.Errorf("%s imports %s: %q", c.from, c.to, why)
		}
	}
}
