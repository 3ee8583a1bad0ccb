package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
)

// shape is what happens in a seed, and how much. Most are small: they find the most faults a second. Some are
// crowds: many more tasks than loops, so that tasks queue, hosts take over from hosts that took over,
// and one crash cuts through many tasks at once.
type shape struct {
	hosts, tasks, crashes int
	shared                bool // two tasks work in each folder, and there is one anvil for all
	alone                 bool // there is one host, which never looks at a task that nobody wakes
	branches              bool // tasks work in worktrees, and their work is merged
	failing               int  // with branches: every so many of what is done to the repository finds the disk full
}

const crowd = 100

// shapeOf makes one seed in 50 a crowd, and of these one in ten a crowd for each host.
func shapeOf(seed uint64, rnd *rand.Rand) shape {
	switch {
	case seed%500 == 0:
		hosts := 3 + rnd.IntN(3)
		return shape{hosts: hosts, tasks: hosts * crowd, crashes: 8 + rnd.IntN(9)}
	case seed%50 == 0:
		return shape{hosts: 3 + rnd.IntN(3), tasks: crowd, crashes: 4 + rnd.IntN(9)}
	}
	sh := shape{hosts: 2, tasks: 2 + rnd.IntN(8), crashes: 1 + rnd.IntN(6), shared: seed%8 == 1 || seed%8 == 5, alone: seed%8 == 5}
	if sh.alone {
		sh.hosts = 1
	}
	if sh.branches = seed%4 == 3; sh.branches && rnd.IntN(2) == 0 {
		sh.failing = 5 + rnd.IntN(20)
	}
	return sh
}

// tally is what all seeds came to.
type tally struct {
	mu      sync.Mutex
	crowds  int // seeds with that many tasks or more
	shared  int // seeds whose tasks share folders
	alone   int // of these, with one host that has to be woken
	merging int // seeds whose tasks work in worktrees
	tasks   int
	crashes int
}

func (s *tally) add(sh shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh.tasks >= crowd {
		s.crowds++
	}
	if sh.shared {
		s.shared++
	}
	if sh.alone {
		s.alone++
	}
	if sh.branches {
		s.merging++
	}
	s.tasks += sh.tasks
	s.crashes += sh.crashes
}

func (s *tally) String() string {
	return fmt.Sprintf("%d with %d tasks or more on 3 to 5 hosts, %d with shared folders, %d of them on one host that must be woken, %d with worktrees; %d tasks, %d crashes in all", s.crowds, crowd, s.shared, s.alone, s.merging, s.tasks, s.crashes)
}
