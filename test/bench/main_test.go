// Package bench takes the figures of docs/benchmarks.md, all in one run, through the real binary as
// processes of their own. Each figure stands beside something bare that was measured in the same minute
// on the same disk, and the ratio of the two comes first: it means something on any machine, the
// milliseconds only on this one.
//
// Every benchmark measures itself and repeats what it needs to; run them with -benchtime 1x. A missed goal
// is said in the table and fails nothing: a busy machine is no defect.
package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binary is the program under test.
var binary string

// bareArg makes this test binary the bare client instead.
const bareArg = "bare"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == bareArg {
		os.Exit(bareMain(os.Args[2:]))
	}
	os.Exit(build(m))
}

// build makes the binary as the Makefile does, runs the benchmarks and prints the table.
func build(m *testing.M) int {
	dir, err := os.MkdirTemp("", "taskdaemon-bench")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "taskdaemon")
	cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "taskdaemon/cmd/taskdaemon")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	figures.print(os.Stdout, dir)
	return code
}
