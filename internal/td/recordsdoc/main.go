// Command recordsdoc prints docs/records.md: every type of record and its fields, from the sources of td. `go generate ./internal/td` writes the file.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "recordsdoc:", err)
		os.Exit(1)
	}
}

// run reads the sources in the folder of its first argument and prints to the file of its second.
func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("want a folder with sources and a file to write")
	}
	f, err := os.Create(args[1])
	if err != nil {
		return fmt.Errorf("write %s: %w", args[1], err)
	}
	err = write(f, args[0])
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// types are the structs of a package with their comments, by name.
type types map[string]*declared

type declared struct {
	doc    string
	fields *ast.StructType
}

func read(dir string) (types, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	found := types{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if gen, ok := d.(*ast.GenDecl); ok && gen.Tok == token.TYPE {
				found.add(gen)
			}
		}
	}
	return found, nil
}

func (t types) add(gen *ast.GenDecl) {
	for _, s := range gen.Specs {
		spec, ok := s.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if is, ok := spec.Type.(*ast.StructType); ok {
			doc := spec.Doc
			if doc == nil {
				doc = gen.Doc
			}
			t[spec.Name.Name] = &declared{doc: words(doc), fields: is}
		}
	}
}

func words(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }

type field struct{ name, kind, doc string }

// of are the fields of a struct as they are on disk, those of embedded structs included.
func (t types) of(name string) (out []field) {
	known := t[name]
	if known == nil {
		return nil
	}
	for _, f := range known.fields.Fields.List {
		kind := kindOf(f.Type)
		if len(f.Names) == 0 {
			out = append(out, t.of(strings.TrimPrefix(kind, "*"))...)
			continue
		}
		tag := ""
		if f.Tag != nil {
			tag, _, _ = strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
		}
		if tag == "-" || !f.Names[0].IsExported() {
			continue
		}
		if tag == "" {
			tag = f.Names[0].Name
		}
		doc := words(f.Doc)
		if doc == "" {
			doc = words(f.Comment)
		}
		out = append(out, field{tag, kind, doc})
	}
	return out
}

// kindOf is a type as the source writes it.
func kindOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return "*" + kindOf(e.X)
	case *ast.ArrayType:
		return "[]" + kindOf(e.Elt)
	case *ast.MapType:
		return "map[" + kindOf(e.Key) + "]" + kindOf(e.Value)
	case *ast.SelectorExpr:
		return kindOf(e.X) + "." + e.Sel.Name
	}
	return "value"
}

// part is the struct of this package that a kind is made of, or empty.
func (t types) part(kind string) string {
	kind = kind[strings.LastIndexAny(kind, "*]")+1:]
	if t[kind] != nil {
		return kind
	}
	return ""
}

func write(to io.Writer, dir string) error {
	known, err := read(dir)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(to)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush tells
	var parts []string
	table := func(name string) {
		fields := known.of(name)
		if len(fields) == 0 {
			return
		}
		p("| field | type | |\n|---|---|---|\n")
		for _, f := range fields {
			kind := "`" + f.kind + "`"
			if part := known.part(f.kind); part != "" {
				kind = fmt.Sprintf("[%s](#%s)", strings.Trim(kind, "`"), strings.ToLower(part))
				if !slices.Contains(parts, part) {
					parts = append(parts, part)
				}
			}
			p("| `%s` | %s | %s |\n", f.name, kind, strings.ReplaceAll(f.doc, "|", "\\|"))
		}
		p("\n")
	}
	p("<!-- Generated from internal/td by `go generate ./internal/td`. Do not edit. -->\n\n")
	p("# Records\n\n")
	p("Every type of record in the journal, as it is on disk, in `records/*.jsonl` of the mirror and on the wire. Names are never changed and never used for something else;\n")
	p("a field that is not there has no value. Types are those of `internal/td`; a duration is a number of nanoseconds, money millionths of a dollar.\n\n")
	for b := range td.Bodies() {
		name := reflect.TypeOf(b).Name()
		p("## %s\n\n", b.Type())
		if d := known[name]; d != nil && d.doc != "" {
			p("%s\n\n", d.doc)
		}
		table(name)
	}
	p("# Parts of records\n\n")
	for i := 0; i < len(parts); i++ { // it grows
		p("## %s\n\n", parts[i])
		if doc := known[parts[i]].doc; doc != "" {
			p("%s\n\n", doc)
		}
		table(parts[i])
	}
	return w.Flush()
}
