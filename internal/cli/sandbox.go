package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

func newSandboxCmd(a *app) *cobra.Command {
	return group("sandbox", "What confines the commands of agents", "taskdaemon sandbox check", newSandboxCheckCmd(a))
}

func newSandboxCheckCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Try what this machine can enforce", Args: args(cobra.NoArgs, "no arguments"),
		Long: `Try what this machine can enforce, and say how to get what is missing. With sandbox.mode preferred,
commands run with what there is; with required, they are refused unless all of it is there.`,
		Example: "  taskdaemon sandbox check --json", Annotations: exits(exitOK, exitUsage, exitFailed),
		RunE: func(cmd *cobra.Command, _ []string) error { return runSandboxCheck(cmd.Context(), a) },
	}
}

func runSandboxCheck(ctx context.Context, a *app) error {
	self, err := os.Executable()
	if err != nil {
		return td.Errorf(td.Internal, "find this program: %w", err)
	}
	found, err := sandbox.Check(ctx, self)
	if err != nil {
		return err
	}
	missing := 0
	for _, f := range found {
		if !f.OK {
			missing++
		}
	}
	if a.json {
		err = a.printJSON(found)
	} else {
		err = a.printFindings(found, missing)
	}
	if err == nil && missing > 0 {
		return outcome(exitFailed)
	}
	return err
}

func (a *app) printFindings(found []sandbox.Finding, missing int) error {
	for _, f := range found {
		mark := a.style.green("ok     ")
		if !f.OK {
			mark = a.style.red("missing")
		}
		if _, err := fmt.Fprintf(a.stdout, "%s %s: %s\n", mark, f.Name, plainText(f.Detail)); err != nil {
			return written(err)
		}
		if f.Hint != "" {
			fmt.Fprintf(a.stdout, "        %s %s\n", a.style.dim("→"), f.Hint)
		}
	}
	if missing == 0 {
		a.say("commands can be confined entirely")
	} else {
		a.say("%s missing", plural(missing, "thing"))
	}
	return nil
}
