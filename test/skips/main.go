// Skips reads what `go test -json` prints and shows what `go test` would have shown: a line for a package that passed, all that a failed test
// said. Which tests were skipped, and why, it adds to the file that it is given, a line for each.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go test -json … | skips FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "skips:", err)
		os.Exit(1)
	}
}

func run(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the list: %w", err)
	}
	if err := show(os.Stdin, os.Stdout, f); err != nil {
		return err
	}
	return f.Close()
}

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action, Package, Test, Output string
}

// said is what the tests of a package have said that have not ended, and the package itself under the empty name.
type said map[string]*strings.Builder

func (s said) add(e event) {
	if s[e.Test] == nil {
		s[e.Test] = &strings.Builder{}
	}
	s[e.Test].WriteString(e.Output)
}

// take is what a test has said, without the lines that tell which test speaks.
func (s said) take(test string) string {
	b := s[test]
	if b == nil {
		return ""
	}
	delete(s, test)
	var out strings.Builder
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "=== ") && line != "PASS\n" {
			out.WriteString(line)
		}
	}
	return out.String()
}

func show(in io.Reader, out, skips io.Writer) error {
	packages := map[string]said{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			if err := showLine(packages, line, out, skips); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read what go test says: %w", err)
		}
	}
}

func showLine(packages map[string]said, line []byte, out, skips io.Writer) error {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		_, err := out.Write(line) // not of a test: go's own words
		return err
	}
	p := packages[e.Package]
	if p == nil {
		p = said{}
		packages[e.Package] = p
	}
	var err error
	switch {
	case e.Action == "build-output":
		_, err = io.WriteString(out, e.Output)
	case e.Action == "output":
		p.add(e)
	case e.Action == "fail" && e.Test != "":
		_, err = io.WriteString(out, p.take(e.Test))
	case e.Action == "fail": // what a panic or the time limit cut off has not ended
		for _, test := range slices.Sorted(maps.Keys(p)) {
			if test != "" {
				_, err = io.WriteString(out, p.take(test))
			}
		}
		if err == nil {
			_, err = io.WriteString(out, p.take(""))
		}
		delete(packages, e.Package)
	case e.Action == "skip" && e.Test != "":
		_, err = fmt.Fprintf(skips, "%s %s: %s\n", e.Package, e.Test, reason(p.take(e.Test)))
	case e.Action == "pass" && e.Test != "":
		p.take(e.Test)
	case e.Action == "pass" || e.Action == "skip":
		_, err = io.WriteString(out, verdict(p.take("")))
		delete(packages, e.Package)
	}
	return err
}

// reason is why a test was skipped, in one line: what it said, but for its end.
func reason(text string) string {
	var words []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--- ") {
			words = append(words, line)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	all := []rune(strings.Join(words, " "))
	if len(all) > 300 {
		return "… " + string(all[len(all)-300:]) // a log ends with it
	}
	return string(all)
}

// verdict is the line of go test on a package that did not fail.
func verdict(text string) string {
	last := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") || strings.HasPrefix(line, "\t") {
			last = line
		}
	}
	return last
}
