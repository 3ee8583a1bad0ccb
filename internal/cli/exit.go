package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"taskdaemon/internal/td"
)

// The exit codes. Scripts rely on them: never renumber.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitCancelled   = 4
	exitPerson      = 5
	exitConflict    = 6
	exitUnavailable = 7
	exitLocked      = 8
	exitStorage     = 9
	exitInterrupted = 130

	// Those of run.
	exitRunBlocked = 2
	exitRunNoPlan  = 3
)

// exitMeanings is the table in the help and in docs/cli.md.
var exitMeanings = map[int]string{
	exitOK:          "success (with --wait: the task completed)",
	exitFailed:      "failure (with --wait: the task failed or was abandoned)",
	exitUsage:       "wrong flags, arguments or settings",
	exitNotFound:    "no such task, or more than one matches",
	exitCancelled:   "the task that was waited for was cancelled",
	exitPerson:      "the task that was waited for needs a person: it waits, is paused or is blocked",
	exitConflict:    "not possible in the present state, or not allowed",
	exitUnavailable: "no daemon, or it does not answer",
	exitLocked:      "another daemon has the state folder",
	exitStorage:     "the disk or the journal is not well; doctor found problems",
	exitInterrupted: "interrupted before it was done",
}

// exitCode is the code that goes with an error.
func exitCode(err error) int {
	if errors.Is(err, context.Canceled) {
		return exitInterrupted
	}
	switch td.KindOf(err) {
	case td.Invalid:
		return exitUsage
	case td.NotFound, td.Ambiguous:
		return exitNotFound
	case td.Conflict, td.Fenced, td.Refused, td.Busy, td.OverBudget:
		return exitConflict
	case td.Unavailable, td.Timeout, td.Unknown:
		return exitUnavailable
	case td.Locked:
		return exitLocked
	case td.Storage, td.Corrupt, td.Newer:
		return exitStorage
	case td.Interrupted:
		return exitInterrupted
	default:
		return exitFailed
	}
}

// outcome is an exit code of a command that did its work: there is no error to print.
type outcome int

func (o outcome) Error() string { return "exit code " + strconv.Itoa(int(o)) }

// outcomeOf is the exit code of a task that was waited for.
func outcomeOf(t td.Task) error {
	switch t.Status.State {
	case td.Completed:
		return nil
	case td.Failed, td.Abandoned:
		return outcome(exitFailed)
	case td.Cancelled:
		return outcome(exitCancelled)
	case td.Waiting, td.Paused, td.Blocked:
		return outcome(exitPerson)
	default:
		return outcome(exitInterrupted)
	}
}

const exitsKey = "exits"

// exits says in a command's annotations which codes it uses.
func exits(codes ...int) map[string]string {
	words := make([]string, len(codes))
	for i, c := range codes {
		words[i] = strconv.Itoa(c)
	}
	return map[string]string{exitsKey: strings.Join(words, " ")}
}

// exitKey names what a code means of one command besides.
func exitKey(code int) string { return exitsKey + " " + strconv.Itoa(code) }

// talks are the codes of every command that talks to the daemon.
func talks(more ...int) map[string]string {
	return exits(append([]int{exitOK, exitFailed, exitUsage, exitUnavailable}, more...)...)
}

// exitLines are the lines of the help about exit codes.
func exitLines(cmd *cobra.Command) []string {
	var lines []string
	for word := range strings.FieldsSeq(cmd.Annotations[exitsKey]) {
		code, err := strconv.Atoi(word)
		if err != nil {
			continue
		}
		meaning := exitMeanings[code]
		if own := cmd.Annotations[exitKey(code)]; own != "" {
			meaning = own + "; or: " + meaning
		}
		lines = append(lines, fmt.Sprintf("%3d  %s", code, meaning))
	}
	return lines
}
