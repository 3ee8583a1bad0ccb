// Command hooksdoc prints docs/hooks.md: every point at which hooks fire, what a hook is told there and
// what it may do, from the table in hook itself. `go generate ./internal/hook` writes the file.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"taskdaemon/internal/hook"
)

// opening is the part of the page that is written by hand.
//
//go:embed opening.md
var opening string

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hooksdoc:", err)
		os.Exit(1)
	}
}

// run prints to the file named by its one argument, or to standard output.
func run(args []string) error {
	if len(args) == 0 {
		return write(os.Stdout)
	}
	f, err := os.Create(args[0])
	if err != nil {
		return fmt.Errorf("write %s: %w", args[0], err)
	}
	err = write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func write(to io.Writer) error {
	w := bufio.NewWriter(to)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush tells

	p("<!-- Generated from internal/hook by `go generate ./internal/hook`. Do not edit. -->\n\n")
	p("%s\n", strings.TrimSpace(opening))

	p("\n## What every hook is told\n\n| field | | |\n|---|---|---|\n")
	for _, f := range hook.HeadFields() {
		p("| `%s` | %s | %s |\n", f.Name, f.Kind, f.Doc)
	}
	sample, err := example(hook.PreToolUse)
	if err != nil {
		return err
	}
	p("\nFor example, at `PreToolUse`:\n\n```json\n%s\n```\n", sample)

	p("\n## The points at a glance\n\n")
	p("✎ a hook may change fields, ✋ it may block, ＋ it may add words for the model, ✓ it may decide on a permission.\n")
	p("\n")
	p("| point | fires when | |\n|---|---|---|\n")
	for _, t := range hook.Traits {
		p("| [%s](#%s) | %s | %s |\n", t.Point, strings.ToLower(string(t.Point)), t.Doc, marks(t))
	}

	group := hook.Group("")
	for _, t := range hook.Traits {
		if t.Group != group {
			group = t.Group
			p("\n## %s\n", group)
		}
		writePoint(p, t)
	}
	return w.Flush()
}

func writePoint(p func(string, ...any), t hook.Trait) {
	p("\n### %s\n\n%s\n\n", t.Point, t.Doc)
	if t.Subject != "" {
		p("- A matcher is held against `%s`.\n", t.Subject)
	}
	if t.Block != "" {
		p("- Block: %s.\n", t.Block)
	}
	if t.Inject != "" {
		p("- Inject: %s.\n", t.Inject)
	}
	if t.Permits {
		p("- Permission: `allow`, `ask` or `deny`.\n")
	}
	if t.Block == "" && t.Inject == "" && len(t.Modify) == 0 {
		p("- A hook here only looks on.\n")
	}
	p("\n| field | | |\n|---|---|---|\n")
	for _, f := range t.Fields() {
		changes := ""
		if slices.Contains(t.Modify, f.Name) {
			changes = " ✎"
		}
		p("| `%s`%s | %s | %s |\n", f.Name, changes, f.Kind, f.Doc)
	}
}

func marks(t hook.Trait) string {
	var s []string
	for _, m := range []struct {
		is   bool
		mark string
	}{{len(t.Modify) > 0, "✎"}, {t.Block != "", "✋"}, {t.Inject != "", "＋"}, {t.Permits, "✓"}} {
		if m.is {
			s = append(s, m.mark)
		}
	}
	return strings.Join(s, " ")
}

// example is a payload with each field on a line of its own.
func example(at hook.Point) (string, error) {
	raw, err := hook.Encode(hook.Sample(at))
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return "", fmt.Errorf("indent example: %w", err)
	}
	return strings.TrimSpace(b.String()), nil
}
