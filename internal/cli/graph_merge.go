package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// newGraphMergeCmd is what git calls to merge two versions of a graph's log. People have no need of it.
func newGraphMergeCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "merge-driver <base> <ours> <theirs>", Short: "Merge logs of a graph for git", Hidden: true,
		Args:        args(cobra.MinimumNArgs(3), "the files of the base, ours and theirs"),
		Example:     "  taskdaemon graph merge-driver %O %A %B",
		Annotations: exits(exitOK, exitUsage, exitStorage),
		RunE:        func(_ *cobra.Command, args []string) error { return runGraphMerge(args[0], args[1], args[2]) },
	}
}

// runGraphMerge leaves in ours what all of them say. It cannot conflict.
func runGraphMerge(base, ours, theirs string) error {
	var logs [][]byte
	for _, file := range []string{base, ours, theirs} {
		raw, err := os.ReadFile(file)
		if err != nil && (file != base || !errors.Is(err, fs.ErrNotExist)) {
			return td.Errorf(td.Storage, "read a log to merge: %w", err)
		}
		logs = append(logs, raw)
	}
	if err := os.WriteFile(ours, jsonl.Merge(logs...), 0o600); err != nil {
		return td.Errorf(td.Storage, "write the merged log: %w", err)
	}
	return nil
}
