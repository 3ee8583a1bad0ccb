package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// foreign are the packages that read or write files in places that a repository or an agent decides about. They open them
// with package beneath, which follows no symbolic link.
var foreign = []string{"tool", "tool/builtin", "engine", "skill", "memory", "knowledge", "graph", "notes", "worktree"}

// byPath are the functions that open files by a path, links and all.
var byPath = []string{"Open", "OpenFile", "ReadFile", "WriteFile", "Create", "CreateTemp", "OpenRoot", "OpenInRoot", "DirFS", "CopyFS", "ReadDir", "Rename", "Truncate"}

// TestForeignFilesAreOpenedBeneath fails where one of those packages opens a file by its path.
func TestForeignFilesAreOpenedBeneath(t *testing.T) {
	seen := 0
	for _, pkg := range foreign {
		files, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			seen++
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if in, ok := sel.X.(*ast.Ident); ok && in.Name == "os" && slices.Contains(byPath, sel.Sel.Name) {
					t.Errorf("%s: os.%s follows links: use package beneath", set.Position(sel.Pos()), sel.Sel.Name)
				}
				return true
			})
		}
	}
	if seen < 50 {
		t.Fatalf("only %d files found: the test is blind", seen)
	}
}
