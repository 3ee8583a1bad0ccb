package daemon

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/config"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree/worktreetest"
)

// simOther is the branch that a person works on beside the trunk, in some seeds.
const simOther = "release"

// beginSomething has a person begin a rebase, a merge or a bisection, and leave it open.
func (l *life) beginSomething(rnd *rand.Rand) {
	o := l.trees
	if o.repo.Begin([]worktreetest.Midst{worktreetest.Rebase, worktreetest.Rebase, worktreetest.Merge, worktreetest.Bisect}[rnd.IntN(4)]) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.midst++
	}
}

// commitByHand has a person commit something to the branch that they have checked out.
func (l *life) commitByHand(rnd *rand.Rand) {
	text := fmt.Sprintf("{%d}", rnd.Uint64())
	branch := l.trees.repo.CommitByHand("by hand "+text, text)
	l.trees.mu.Lock()
	defer l.trees.mu.Unlock()
	l.trees.byHand[text] = branch
}

// apart holds against each of two trunks that it has nothing of what was done for the other: nobody merged them. The ledger is locked.
func (l *life) apart() {
	o := l.trees
	other := map[string]string{simTrunk: simOther, simOther: simTrunk}
	for text, branch := range o.byHand {
		if branch != "" && o.repo.Holds(other[branch], text) {
			l.faultf("%s has %s, which a person committed to %s", other[branch], text, branch)
		}
	}
	for id, marks := range o.marks {
		for _, mark := range marks {
			if trunk := o.lines[id].Trunk; o.repo.Holds(other[trunk], mark) {
				l.faultf("%s has %s, which %s wrote for %s", other[trunk], mark, id, trunk)
			}
		}
	}
}

// changeBranch has a person check out the other one of their branches, in seeds that have two.
func (l *life) changeBranch() {
	if l.shape.trunks && !l.trees.repo.Switch(simOther) {
		l.trees.repo.Switch(simTrunk)
	}
}

// quiet lets everybody come to rest, with what people left open, and holds what is called completed against the trunks.
func (l *life) quiet() {
	<-time.After(3 * trunksEvery)
	if l.isDead() {
		return
	}
	o := l.trees
	o.mu.Lock()
	o.quiet++
	o.mu.Unlock()
	if moved := o.repo.Trespass(); moved != "" {
		l.faultf("%s", moved)
	}
	if l.shape.trunk == config.TrunkAuto {
		l.landed(l.excused)
	}
}

// excused reports whether a trunk may lack work for a reason in a quiet moment: it is true now, or a person has to decide.
func (l *life) excused(u td.Unlanded) bool {
	dirty, in := l.trees.repo.InTheWay(u.Trunk)
	switch {
	case strings.Contains(u.Reason, "changes in the way"):
		return dirty
	case strings.Contains(u.Reason, "in the midst of"):
		return in != ""
	case strings.Contains(u.Reason, errFull.Error()):
		return l.shape.failing > 0 && !l.trees.room.Load()
	}
	return decided(u)
}

// decided reports whether a trunk lacks work because a person has to decide.
func decided(u td.Unlanded) bool {
	return strings.Contains(u.Reason, "was rewritten") || strings.Contains(u.Reason, "conflicts with")
}

// landed holds against the trunks that work is completed: all of it is there, or named as lacking for a reason that excuses it. Nothing that takes simulated time is done with
// the ledger locked.
func (l *life) landed(excused func(td.Unlanded) bool) {
	o := l.trees
	o.mu.Lock()
	done, lines := maps.Clone(o.done), maps.Clone(o.lines)
	o.mu.Unlock()
	lacking, err := l.d.trees.Unlanded(l.ctx, l.root)
	if err != nil {
		if !l.isDead() && !td.IsKind(err, td.Storage) {
			l.faultf("look what trunks lack: %v", err)
		}
		return
	}
	named := map[string]bool{}
	for _, u := range lacking {
		if !excused(u) {
			dirty, in := o.repo.InTheWay(u.Trunk)
			l.faultf("%s lacks the work of %v on %s: %q (changes in the way: %v, in the midst of: %q)", u.Trunk, u.Tasks, u.Into, u.Reason, dirty, in)
		}
		for _, handle := range u.Tasks {
			named[handle] = true
		}
	}
	missing := 0
	for _, id := range slices.Sorted(maps.Keys(done)) {
		t, err := l.journal.Task(l.ctx, id)
		for _, mark := range done[id] {
			switch {
			case o.repo.Holds(lines[id].Trunk, mark):
			case err == nil && named[t.Handle]:
				missing = 1
			default:
				l.story(id)
				l.faultf("%s (%s) is completed, %s is not on %s, and nobody says so: %v", id, t.Handle, mark, lines[id].Trunk, err)
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.named += missing
}
