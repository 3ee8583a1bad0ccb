// Command statesdoc prints docs/states.md: the states of a task, what each carries, and the legal moves
// between them, from the table in td itself. `go generate ./internal/td` writes the file.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "statesdoc:", err)
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

// meanings say what each state is and what it carries beside the time since when and the reason.
var meanings = map[td.State]struct{ what, carries, crash string }{
	td.Queued:    {"may be picked up", "–", "stays queued"},
	td.Running:   {"one claim holds it and works", "run, phase, the model or tool at work, start, iteration", "recovered: back to queued, on from its last record"},
	td.Waiting:   {"a person must answer; holds no claim", "kind (conversation, permission, question, credential), request, prompt, options", "asked again, same request"},
	td.Blocked:   {"something it needs is not there", "cause, resource, holder; without an answer from the model: since when, next try", "tried again; a rest goes on until its next try"},
	td.Paused:    {"a person or a limit stopped it; only a person resumes it", "by whom, where it goes on (queued or waiting)", "stays paused"},
	td.Completed: {"the work is in", "summary, iterations, cost, evidence (tree, command, exit)", "nothing"},
	td.Failed:    {"it cannot go on", "error, hint, whether a resume may help, retries", "nothing"},
	td.Cancelled: {"a person ended it", "–", "nothing"},
	td.Abandoned: {"too old to recover", "–", "nothing"},
}

func write(to io.Writer) error {
	w := bufio.NewWriter(to)
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) } // Flush tells

	p("<!-- Generated from internal/td by `go generate ./internal/td`. Do not edit. -->\n\n")
	p("# States of a task\n\n")
	p("A task is in exactly one of these states. Each carries since when and, where there is one, the\n")
	p("reason. The last column says what a crash of the daemon does to it.\n\n")
	p("| state | meaning | carries | after a crash |\n|---|---|---|---|\n")
	for _, s := range td.States {
		m, ok := meanings[s]
		if !ok {
			return fmt.Errorf("state %s has no meaning here", s)
		}
		name := "`" + string(s) + "`"
		if s.Terminal() {
			name += " (end)"
		}
		p("| %s | %s | %s | %s |\n", name, m.what, m.carries, m.crash)
	}

	p("\n## Moves\n\nNothing else changes a state. A move is an event in the journal; an append that is no legal\n")
	p("move from the task's present state is refused.\n\n")
	p("| verb | from | to | when |\n|---|---|---|---|\n")
	for _, r := range td.Table {
		p("| `%s` | %s | %s | %s |\n", r.Verb, list(r.From), list(r.To), r.Why)
	}

	p("\n## Diagram\n\n```mermaid\nstateDiagram-v2\n    [*] --> queued: create\n")
	for _, e := range edges() {
		p("    %s --> %s: %s\n", e.from, e.to, strings.Join(e.verbs, ", "))
	}
	for _, s := range td.States {
		if s.Terminal() {
			p("    %s --> [*]\n", s)
		}
	}
	p("```\n")
	return w.Flush()
}

func list(states []td.State) string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// edge is an arrow of the diagram: all verbs between two states share one.
type edge struct {
	from, to td.State
	verbs    []string
}

func edges() []edge {
	var out []edge
	for _, from := range td.States {
		for _, to := range td.States {
			e := edge{from: from, to: to}
			for _, r := range td.Table {
				if slices.Contains(r.From, from) && slices.Contains(r.To, to) {
					e.verbs = append(e.verbs, string(r.Verb))
				}
			}
			if len(e.verbs) > 0 {
				out = append(out, e)
			}
		}
	}
	return out
}
