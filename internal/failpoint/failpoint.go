// Package failpoint names the instants at which the crash suite kills the process.
//
// A point is a package-level variable made with New, so that the suite can list every point that is
// linked into a binary and none can be forgotten. In a normal build Hit does nothing and is inlined
// away; a binary built with the tag `failpoint` kills itself with SIGKILL at the hit that the
// environment variable TASKDAEMON_FAILPOINT names.
package failpoint

import (
	"slices"
	"sync"
)

// Point is one named instant.
type Point struct {
	name  string
	count counter
}

var (
	mu  sync.Mutex
	all []string
)

// New registers a point. Call it from a package-level var; a name used twice panics.
func New(name string) *Point {
	mu.Lock()
	defer mu.Unlock()
	if slices.Contains(all, name) {
		panic("failpoint: " + name + " named twice")
	}
	all = append(all, name)
	return &Point{name: name}
}

// Names lists the points linked into this binary, sorted.
func Names() []string {
	mu.Lock()
	defer mu.Unlock()
	names := slices.Clone(all)
	slices.Sort(names)
	return names
}
