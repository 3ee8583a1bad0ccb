package scheduler

import (
	"path/filepath"
	"sync"

	"taskdaemon/internal/td"
)

// folders counts the tasks that may touch files, by folder, so that a run can tell without asking the
// journal whether it shares its own. Whatever runs was put here before.
type folders struct {
	mu sync.Mutex
	of map[td.TaskID]string
	at map[string]int // in this very folder
	in map[string]int // in this folder or below
}

func newFolders() *folders {
	return &folders{of: map[td.TaskID]string{}, at: map[string]int{}, in: map[string]int{}}
}

// put takes in what became of a task. One that has ended touches nothing, nor does one that waits for its
// subtask.
func (f *folders) put(t td.Task) {
	b := t.Status.Blocked
	counts := !t.Status.State.Terminal() && (b == nil || b.Child == "")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch dir, counted := f.of[t.ID]; {
	case counts && !counted:
		f.of[t.ID] = t.Dir
		f.count(t.Dir, 1)
	case !counts && counted:
		delete(f.of, t.ID)
		f.count(dir, -1)
	}
}

func (f *folders) count(dir string, by int) {
	add(f.at, dir, by)
	each(dir, func(d string) { add(f.in, d, by) })
}

func add(m map[string]int, key string, by int) {
	if m[key] += by; m[key] == 0 {
		delete(m, key)
	}
}

// each gives the folder and all those it lies in.
func each(dir string, f func(dir string)) {
	for {
		f(dir)
		up := filepath.Dir(dir)
		if up == dir {
			return
		}
		dir = up
	}
}

// shared reports whether a task other than this one is counted in the folder, above or below.
func (f *folders) shared(id td.TaskID, dir string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.in[dir]
	each(dir, func(d string) {
		if d != dir {
			n += f.at[d]
		}
	})
	if _, counted := f.of[id]; counted {
		n--
	}
	return n > 0
}

// Shares reports whether another task that has not ended may touch the files of this task's folder. It is
// cheap, and any goroutine may ask.
func (s *Scheduler) Shares(id td.TaskID, dir string) bool { return s.folders.shared(id, dir) }
