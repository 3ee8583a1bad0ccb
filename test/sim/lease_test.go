package sim

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"taskdaemon/internal/coord"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// leaseWait is longer than all that a seed's tasks do one after the other: a call that waits in vain was forgotten, and
// fails, which no call of a seed may.
const leaseWait = 30 * time.Minute

// never is longer than a seed lasts, by far: on a host that looks at nothing by itself before that, a task whose wake-up is
// lost stays where it is.
const never = 1000 * time.Hour

// anvil is what every act needs, whichever folder it works in.
const anvil = "anvil"

// leases are those of a host whose tasks share folders.
func (h *host) leases(wait time.Duration) engine.Leases {
	resources, err := coord.NewResources([]coord.Resource{{Name: anvil, Capacity: 1, Match: "Act"}}, 0)
	if err != nil {
		panic(err)
	}
	return engine.Leases{
		Resources: resources, Wait: wait,
		Shares: func(td.TaskID, string) bool { return true },
		Freed:  func() { h.sched.Freed() },
	}
}

// struck notes that a process begins which needs the anvil: no other may be at it, under whichever host's shim. The world is
// locked.
func (w *world) struck(name string) {
	for other, p := range w.procs {
		if w.shared && !p.voids && !p.lost && time.Now().Before(p.ends) {
			w.faults = append(w.faults, fmt.Sprintf("%s and %s both have the %s", other, name, anvil))
		}
	}
}

// touches is the file that a call of a task uses: one of two in its folder, in which another task works.
func (h *host) touches(env *tool.Env, call string, a policy.Access) []policy.PathUse {
	if !h.shared {
		return nil
	}
	path := fmt.Sprintf("/src/proj/%s/%d", filepath.Base(env.Root.Dir()), hash(call)%2)
	return []policy.PathUse{{Path: path, Access: a}}
}

// use is a step that is at work on something leased. It lasts until its tool has ended, or, if its host died, until the
// step is taken up again.
type use struct {
	task  td.TaskID
	alone bool
}

// holdAll is hold for the files of a call.
func (h *host) holdAll(task td.TaskID, paths []policy.PathUse) (leave func()) {
	var leaves []func()
	for _, p := range paths {
		leaves = append(leaves, h.hold(task, p.Path, p.Access == policy.Write))
	}
	return func() {
		for _, leave := range leaves {
			leave()
		}
	}
}

// hold notes that a step of the task uses what it should have leased: another that excludes it is the fault that leases must
// prevent, however dead its host is.
func (h *host) hold(task td.TaskID, what string, alone bool) (leave func()) {
	w := h.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(task, what)
	for _, u := range w.uses[what] {
		if u.alone || alone {
			w.faults = append(w.faults, fmt.Sprintf("%s and %s both have %s", u.task, task, what))
		}
	}
	w.uses[what] = append(w.uses[what], use{task, alone})
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.alive[h.name] {
			w.drop(task, what)
		}
	}
}

// settled notes that what a dead host left of a step is over.
func (h *host) settled(task td.TaskID, what string) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	h.world.drop(task, what)
}

func (w *world) drop(task td.TaskID, what string) {
	w.uses[what] = slices.DeleteFunc(w.uses[what], func(u use) bool { return u.task == task })
}
