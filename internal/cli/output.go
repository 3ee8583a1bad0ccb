package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/td"
)

// style colours text, or does not.
type style struct{ on bool }

// styleFor colours only on a terminal, and not where NO_COLOR is set.
func styleFor(w io.Writer, getenv func(string) string) style {
	return style{on: isTerminal(w) && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
}

// isTerminal reports whether a person sits at the other end.
func isTerminal(v any) bool {
	if _, ok := v.(*screen); ok {
		return true
	}
	f, ok := v.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func (s style) with(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string   { return s.with("1", text) }
func (s style) dim(text string) string    { return s.with("2", text) }
func (s style) red(text string) string    { return s.with("31", text) }
func (s style) green(text string) string  { return s.with("32", text) }
func (s style) warn(text string) string   { return s.with("33", text) }
func (s style) bright(text string) string { return s.with("97", text) }
func (s style) cyan(text string) string   { return s.with("36", text) }

// state colours a state by what it asks of a person.
func (s style) state(state td.State, text string) string {
	switch state {
	case td.Completed:
		return s.green(text)
	case td.Failed, td.Abandoned:
		return s.red(text)
	case td.Waiting, td.Blocked, td.Paused:
		return s.warn(text)
	case td.Running:
		return s.cyan(text)
	default:
		return text
	}
}

// printJSON writes one value as data.
func (a *app) printJSON(v any) error {
	return encodeJSON(a.stdout, v, "  ")
}

// encodeJSON writes a value as data. What acts on a terminal is spelled out, which is the same data.
func encodeJSON(w io.Writer, v any, indent string) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return td.Errorf(td.Internal, "encode output: %w", err)
	}
	if s, ok := w.(*screen); ok {
		w = s.file // data stays as it is, to be copied
	}
	_, err := io.WriteString(w, spelledOut(out.String()))
	return written(err)
}

// written gives an error about stdout its kind.
func written(err error) error {
	if err != nil {
		return td.Errorf(td.Storage, "write output: %w", err)
	}
	return nil
}

// say talks to the person; scripts do not read it.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.stderr, format+"\n", args...)
}

// patience is after how long a command says what it is at, and every how long again.
const patience = 3 * time.Second

// saying calls f, and says again and again what it is at while that takes long.
func (a *app) saying(what string, every time.Duration, f func() error) error {
	done := make(chan error, 1)
	begun := time.Now()
	go func() { done <- f() }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(every):
			a.say("%s", a.talk.dim(fmt.Sprintf("%s: %s so far", what, time.Since(begun).Round(time.Second))))
			every = min(2*every, time.Minute)
		}
	}
}

// printError says what went wrong and what to type next.
func (a *app) printError(cmd *cobra.Command, err error) {
	e := wire.ErrorOf(err)
	if e.Hint == "" && e.Kind == td.Invalid && cmd != nil {
		e.Hint = cmd.CommandPath() + " --help"
	}
	e.Hint = a.typeable(e.Hint)
	if a.json {
		raw, encErr := json.Marshal(map[string]any{"error": e})
		if encErr == nil {
			fmt.Fprintln(a.stderr, string(raw))
			return
		}
	}
	fmt.Fprintf(a.stderr, "%s %s\n", a.talk.red("error:"), quoted(e.Message))
	if e.Hint != "" {
		fmt.Fprintf(a.stderr, "%s %s\n", a.talk.dim("next: "), quoted(e.Hint))
	}
}

// table writes rows of cells in columns. Only the last cell of a row may be coloured: the others would
// be measured with their codes.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		if _, err := fmt.Fprintln(tw, strings.Join(r, "\t")); err != nil {
			return written(err)
		}
	}
	return written(tw.Flush())
}

// age is how long ago something was, in one unit.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// took is a duration as people say it.
func took(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	default:
		return d.Round(time.Second).String()
	}
}

// costWords is what a task has cost, with its subtasks, and what nobody knows of it.
func costWords(cost, tree td.Money, unpriced int) string {
	words := money(cost)
	if tree != cost {
		words += ", " + money(tree) + " with its subtasks"
	}
	if unpriced > 0 {
		words += " and " + plural(unpriced, "call") + " of unknown price"
	}
	return words
}

// money is an amount as people read it.
func money(m td.Money) string {
	switch {
	case m == 0:
		return "$0"
	case m < 10_000:
		return fmt.Sprintf("$%.4f", m.Dollars())
	default:
		return fmt.Sprintf("$%.2f", m.Dollars())
	}
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
