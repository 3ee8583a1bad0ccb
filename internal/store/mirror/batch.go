package mirror

import (
	"context"
	"strings"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

var (
	fpBatchStart    = failpoint.New("mirror.batch.before_start")
	fpBatchCommit   = failpoint.New("mirror.batch.after_commit")
	fpImport        = failpoint.New("mirror.batch.before_import")
	fpImported      = failpoint.New("mirror.batch.after_import")
	fpCursorFile    = failpoint.New("mirror.cursor.after_file")
	fpCursorJournal = failpoint.New("mirror.cursor.after_journal")
	fpTidy          = failpoint.New("mirror.tidy.before_start")
)

// What a batch may hold: git keeps a few bytes in memory for each object of an import.
const (
	maxCommits = 20000
	maxBytes   = 64 << 20
	maxStates  = 1024
	// backlogWindows is how many windows a batch may last while there is a backlog.
	backlogWindows = 3
	// stopGrace is how long a batch that is being written may take to end after a shutdown began.
	stopGrace = 5 * time.Second
)

// batch is one import: commits of any number of tasks.
type batch struct {
	m       *Mirror
	repo    *git.Repo
	im      *git.Import
	objects *git.Objects
	touched []*state // those with commits in im
	lost    []string // branches of conversations that are not whole any more
	commits int
}

// batch mirrors first and what else arrives while the window is open, then moves the cursor.
func (m *Mirror) batch(ctx context.Context, repo *git.Repo, first td.Record, more <-chan td.Record) error {
	if err := m.take(ctx); err != nil {
		return err
	}
	defer m.give()
	// A shutdown does not cut a batch off: what has been taken is written, within limits.
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stopGrace, cancel) })()

	b := &batch{m: m, repo: repo}
	cursor, err := b.collect(ctx, work, first, more)
	if err == nil {
		err = b.end()
	}
	if err != nil {
		return m.failed(work, b, err)
	}
	m.forget(b)
	return m.advance(work, repo, cursor)
}

// collect hands events to the import until the window closes, the batch is full, someone else wants the
// turn, or the end has come. It returns the cursor of the last. With a backlog, when the next event is
// always there already, it stays open longer: moving a branch costs a sync however many commits it gains.
func (b *batch) collect(ctx, work context.Context, first td.Record, more <-chan td.Record) (uint64, error) {
	window := time.NewTimer(b.m.o.Window)
	defer window.Stop()
	latest := time.Now().Add(backlogWindows * b.m.o.Window)
	for ev := first; ; {
		if err := b.add(work, ev); err != nil {
			return 0, err
		}
		if b.full() {
			return ev.Cursor, nil
		}
		var next td.Record
		var ok bool // false as well when the pump has ended; it says why in its own time
		select {
		case next, ok = <-more:
		case <-window.C:
			if time.Now().Before(latest) {
				select {
				case next, ok = <-more:
					window.Reset(b.m.o.Window)
				case <-time.After(b.m.o.Window / 20):
				}
			}
		case <-b.m.hurry:
		case <-ctx.Done():
		}
		if !ok {
			return ev.Cursor, nil
		}
		ev = next
	}
}

func (b *batch) full() bool {
	return b.im != nil && (b.commits >= maxCommits || b.im.Size() >= maxBytes)
}

// add mirrors one event, and any before it of the same task that are not on the branch.
func (b *batch) add(ctx context.Context, ev td.Record) error {
	if ev.Task == td.DaemonStream || b.m.skip[ev.Task] {
		return nil
	}
	s, err := b.state(ctx, ev.Task, ev.Body)
	if err != nil {
		return err
	}
	if ev.Seq > s.Seq+1 {
		if err := b.read(ctx, s, ev.Seq); err != nil {
			return err
		}
	}
	return b.put(ctx, s, ev)
}

// read mirrors the events of a task that are not on its branch, up to but without the one numbered end.
// Retention may have removed the oldest.
func (b *batch) read(ctx context.Context, s *state, end uint64) error {
	for ev, err := range b.m.o.Journal.Read(ctx, s.Task, s.Seq) {
		if err != nil {
			return err
		}
		if ev.Seq >= end {
			return nil
		}
		if err := b.put(ctx, s, td.Record{Event: ev}); err != nil {
			return err
		}
	}
	return nil
}

// put renders one event and hands the commits that it makes to the import.
func (b *batch) put(ctx context.Context, s *state, ev td.Record) error {
	if ev.Seq <= s.Seq {
		return nil
	}
	before := s.Lost
	commits, err := s.take(ev)
	if err != nil {
		return err
	}
	if before == 0 && s.Lost > 0 {
		b.lost = append(b.lost, strings.TrimPrefix(s.branch(), BranchPrefix))
	}
	for _, c := range commits {
		if err := b.commit(ctx, s, c); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) commit(ctx context.Context, s *state, c git.Commit) (err error) {
	if b.im == nil {
		fpBatchStart.Hit()
		if b.im, err = b.repo.Import(ctx); err != nil {
			return err
		}
	}
	if s.in != b {
		s.in, c.Onto = b, s.tip
		b.touched = append(b.touched, s)
	}
	if err := b.im.Add(c); err != nil {
		return err
	}
	b.commits++
	fpBatchCommit.Hit()
	return nil
}

// state is where the task's branch stands: as remembered, or as its tip says.
func (b *batch) state(ctx context.Context, task td.TaskID, body td.Body) (*state, error) {
	if s, ok := b.m.states[task]; ok {
		return s, nil
	}
	s := &state{Version: version, Task: task, Next: 1}
	if created, ok := body.(td.Created); ok {
		s.Spec = brief(created.Spec)
	} else if t, err := b.m.o.Journal.Task(ctx, task); err == nil {
		s.Spec = brief(t.Spec)
	} else if !td.IsKind(err, td.NotFound) {
		return nil, err
	}
	if b.objects == nil {
		var err error
		if b.objects, err = b.repo.Objects(ctx); err != nil {
			return nil, err
		}
	}
	branch := s.branch()
	_, tip, err := b.objects.Get(branch)
	if err != nil {
		return nil, err
	}
	if tip != "" {
		raw, _, err := b.objects.Get(tip + ":" + stateFile)
		if err != nil {
			return nil, err
		}
		if loaded, err := parseState(raw, task); err == nil {
			s = loaded
			s.tip = tip
		} else if err := b.m.aside(ctx, b.repo, branch, tip); err != nil {
			return nil, err
		}
	}
	b.m.states[task] = s
	return s, nil
}

// end writes the batch for good.
func (b *batch) end() error {
	if b.objects != nil {
		b.objects.Close()
		b.objects = nil
	}
	if b.im == nil {
		return nil
	}
	if err := noteLost(b.repo.Path(), b.lost); err != nil { // before there is a branch that looks like all there was
		return err
	}
	fpImport.Hit()
	tips, err := b.im.Done()
	if err != nil {
		return err
	}
	fpImported.Hit()
	for _, s := range b.touched {
		s.tip = tips[s.branch()]
	}
	return nil
}

// advance records how far the mirror has come, in the repository and then in the journal.
func (m *Mirror) advance(ctx context.Context, repo *git.Repo, cursor uint64) error {
	if err := writeCursor(repo, cursor); err != nil {
		return err
	}
	fpCursorFile.Hit()
	m.mirrored.Store(cursor)
	if err := m.o.Journal.SetCursor(ctx, cursorName, cursor); err != nil {
		return err
	}
	fpCursorJournal.Hit()
	return nil
}

// forget keeps the memory small: an ended task, or one too many, is read from its branch when needed.
func (m *Mirror) forget(b *batch) {
	for id, s := range m.states {
		if s.Live.Status.State.Terminal() || len(m.states) > maxStates && s.in != b {
			delete(m.states, id)
		}
	}
}

// abort gives the batch up: no branch has moved.
func (b *batch) abort() {
	if b.objects != nil {
		b.objects.Close()
	}
	if b.im != nil {
		b.im.Abort()
	}
}
