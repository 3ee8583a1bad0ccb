package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// writeHelp writes a command's help: what it does, how it is called, and at the end its exit codes and
// one example.
func writeHelp(w io.Writer, cmd *cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n", text)
	if len(cmd.Commands()) > 0 && cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s <command>\n\nCommands:\n", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-12s %s\n", c.Name(), c.Short)
			}
		}
	} else {
		fmt.Fprintf(w, "  %s\n", cmd.UseLine())
	}
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(w, "\nAlso called: %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if cmd.HasAvailableLocalFlags() && cmd.HasParent() {
		fmt.Fprintf(w, "\nFlags:\n%s", cmd.LocalNonPersistentFlags().FlagUsagesWrapped(100))
	}
	flags := cmd.InheritedFlags()
	if !cmd.HasParent() {
		flags = cmd.PersistentFlags()
	}
	if flags.HasAvailableFlags() {
		fmt.Fprintf(w, "\nFlags of every command:\n%s", flags.FlagUsagesWrapped(100))
	}
	if lines := exitLines(cmd); len(lines) > 0 {
		fmt.Fprintf(w, "\nExit codes:\n%s\n", strings.Join(lines, "\n"))
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExample:\n%s\n", cmd.Example)
	}
}

// Reference is docs/cli.md: the help of every command.
func Reference() string {
	root := newRootCmd(&app{})
	var b strings.Builder
	b.WriteString("# Command line\n\n" +
		"stdout is data, stderr is talk; every command has `--json`. Commands that need the daemon start it.\n" +
		"A task is named by its handle (`t-4k7q2m9x`), its id, or any fragment that fits only one.\n\n" +
		"## Exit codes\n\n| code | meaning |\n|--:|---|\n")
	codes := make([]int, 0, len(exitMeanings))
	for c := range exitMeanings {
		codes = append(codes, c)
	}
	slices.Sort(codes)
	for _, c := range codes {
		fmt.Fprintf(&b, "| %d | %s |\n", c, exitMeanings[c])
	}
	b.WriteString("\nErrors are printed to stderr with what to type next; with `--json` as one object with `kind`,\n" +
		"`message` and `hint`.\n")
	eachCommand(root, func(cmd *cobra.Command) {
		fmt.Fprintf(&b, "\n## %s\n\n```text\n", cmd.CommandPath())
		writeHelp(&b, cmd)
		b.WriteString("```\n")
	})
	return b.String()
}

func eachCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			eachCommand(c, visit)
		}
	}
}
