// Package load puts one real daemon under as much work as it may ever see at once: 500 tasks that take turns
// as fast as they can, and 200 subscribers, each on five of them. Some of them go away and come back, some
// stay away until the daemon has long forgotten in memory what they missed, and one connects and never
// reads. What each of them saw is held against the journal on disk when the daemon is gone.
//
// Nothing here fails for being slow: how many events a second became durable is said, and judged by nobody.
package load

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	taskCount       = flag.Int("load.tasks", 500, "tasks that run at the same time")
	subscriberCount = flag.Int("load.subscribers", 200, "subscribers, each on five tasks")
	turnCount       = flag.Int("load.turns", 10, "turns of a task")
	atLeast         = flag.Duration("load.for", 0, "how long round follows round; 0: one round, or ten minutes with TASKDAEMON_SOAK")
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	if *atLeast == 0 && os.Getenv("TASKDAEMON_SOAK") != "" {
		*atLeast = 10 * time.Minute
	}
	os.Exit(build(m))
}

// build makes the binary as the Makefile does, unless there is one to be tested, and runs the tests.
func build(m *testing.M) int {
	if binary = os.Getenv("TASKDAEMON_LOAD_BINARY"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "taskdaemon-load")
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
	return m.Run()
}
