//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Enabled reports whether Hit can kill this process.
const Enabled = true

type counter struct{ atomic.Int64 }

// target is "name:n": die at the n-th hit of name, counted from 1 in this process. With the name "*"
// hits of all points count together.
var (
	target, at = parse(os.Getenv("TASKDAEMON_FAILPOINT"))
	total      atomic.Int64
	// trace, if set, is a file that gets a line for each hit: the suite learns from it which points a
	// scenario reaches and how often.
	trace = openTrace(os.Getenv("TASKDAEMON_FAILPOINT_TRACE"))
	// words, if set, are what the process panics with, instead of being killed.
	words = os.Getenv("TASKDAEMON_FAILPOINT_PANIC")
)

func parse(s string) (string, int64) {
	name, n, ok := strings.Cut(s, ":")
	if !ok {
		return name, 1
	}
	k, err := strconv.ParseInt(n, 10, 64)
	if err != nil {
		panic("TASKDAEMON_FAILPOINT: want name:number, got " + s)
	}
	return name, k
}

func openTrace(path string) *os.File {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic("TASKDAEMON_FAILPOINT_TRACE: " + err.Error())
	}
	return f
}

// Hit kills the process, with no chance to clean up, if this is the hit it was told to die at.
func (p *Point) Hit() {
	n := p.count.Add(1)
	all := total.Add(1)
	if trace != nil {
		fmt.Fprintln(trace, p.name)
	}
	if target == p.name && n == at || target == "*" && all == at {
		if words != "" {
			go func() { panic(words) }() // where nobody recovers
		} else {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		select {} // it may take a moment
	}
}
