package daemon

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"taskdaemon/internal/config"
)

// shape is how much happens in a seed. Most are small: they find the most faults a second.
type shape struct {
	tasks   int // in the plan, at most
	deaths  int
	bustle  time.Duration // of people in a life, at most
	trees   bool          // tasks work in worktrees, and their work is merged
	failing int           // with trees: one in so many changes of the repository finds the disk full; 0: none does
	trunk   string        // with trees: whether the trunk follows

	features int  // with trees: PRDs in the plan, each with an integration branch of its own
	trunks   bool // with trees: the person changes between two branches, so that tasks work for either
}

func shapeOf(seed uint64, rnd *rand.Rand) shape {
	s := shape{tasks: 3 + rnd.IntN(7), deaths: rnd.IntN(4), bustle: 20 * time.Second, trees: seed%4 != 0, trunk: config.TrunkAuto}
	if seed%25 == 0 {
		s.tasks, s.deaths, s.bustle = 25, rnd.IntN(6), time.Minute
	}
	if rnd.IntN(3) == 0 {
		s.failing = 5 + rnd.IntN(30)
	}
	switch rnd.IntN(6) {
	case 0:
		s.trunk = config.TrunkAsk
	case 1:
		s.trunk = config.TrunkBranch
	}
	if s.trees {
		s.features, s.trunks = rnd.IntN(4), rnd.IntN(3) == 0
	}
	return s
}

// tallied is what all seeds came to.
type tallied struct {
	mu                                                             sync.Mutex
	tasks, runs, deaths, trees, merged, cleared, taken, shed, held int
	features, others, midst, quiet, named                          int
}

func (s *tallied) add(w *world) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks, s.runs, s.deaths = s.tasks+w.planned, s.runs+w.ran, s.deaths+w.lives-1
	if o := w.trees; o != nil {
		s.trees, s.merged, s.cleared = s.trees+1, s.merged+o.merged, s.cleared+o.cleared
		s.taken, s.shed, s.held = s.taken+int(o.taken.Load()), s.shed+o.repo.Shed(), s.held+int(o.held.Load())
		s.features, s.others = s.features+o.features, s.others+o.others
		s.midst, s.quiet, s.named = s.midst+o.midst, s.quiet+o.quiet, s.named+o.named
	}
}

func (s *tallied) all() []int {
	return []int{s.tasks, s.runs, s.deaths, s.trees, s.merged, s.cleared, s.taken, s.shed, s.held, s.features, s.others, s.midst, s.quiet, s.named}
}

func (s *tallied) String() string {
	return fmt.Sprintf("%d tasks, %d runs, %d deaths; %d seeds with worktrees, %d tasks merged, %d worktrees removed, %d commits taken from the trunk, %d branches rid of them, %d times a run paused by it; "+
		"%d tasks of features merged, %d for a second trunk; %d times a person in the middle of something; %d quiet moments, in which %d times a trunk lacked work and said why",
		s.tasks, s.runs, s.deaths, s.trees, s.merged, s.cleared, s.taken, s.shed, s.held,
		s.features, s.others, s.midst, s.quiet, s.named)
}
