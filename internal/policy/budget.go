package policy

// Judging happens in the daemon, and what is judged was written by a model: it may be made to cost a lot. So every
// judgement has a budget. What is beyond it is not judged, and is asked about.
const (
	maxValue    = 64 << 10 // bytes of one word or variable; a longer one counts as known only when it runs
	maxPath     = 4 << 10  // bytes of a path that the system takes
	maxWork     = 1 << 20  // bytes of all words, and what the rest of the work costs in bytes
	maxFindings = 500      // different reasons to ask
	maxUses     = 4000     // different paths
	wordCost    = 64       // of a word besides its bytes: it is compared with many lists
	globCost    = 4 << 10  // of looking a pattern up in the file system
)

// budget is what is left for a judgement. It is shared by all walkers of one.
type budget struct {
	stmts int
	work  int
}

func newBudget() *budget { return &budget{stmts: maxStmts, work: maxWork} }

// spent reports whether nothing is left.
func (b *budget) spent() bool { return b.work < 0 || b.stmts < 0 }

// take reports whether so much work was left.
func (b *budget) take(n int) bool {
	b.work -= min(n, maxWork)
	b.work = max(b.work, -1) // many small refusals must not add up
	return b.work >= 0
}

// over asks when a judgement could not be finished. It is said once, at the end: what a loop finds out in silence is
// thrown away.
func (w *walker) over() {
	switch {
	case w.left.stmts < 0:
		w.r.full = true
		w.r.ask(askUnparsed, "There are more than %d commands to judge.", maxStmts)
	case w.left.spent() || w.r.full:
		w.r.full = true
		w.r.ask(askUnparsed, "The command is too much to judge.")
	}
}
