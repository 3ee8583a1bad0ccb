package engine

import (
	"context"
	"fmt"
	"strings"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

var (
	fpSnapshotBegun    = failpoint.New("engine.snapshot.before_take")
	fpSnapshotTaken    = failpoint.New("engine.snapshot.taken")
	fpSnapshotRecorded = failpoint.New("engine.snapshot.recorded")
)

// Album keeps what the workspace of one task held, step by step. It is for one goroutine at a time.
type Album interface {
	// Take writes down what the workspace holds, under the name of a step. unseen says that something may have written
	// since the last that the kernel does not tell of.
	Take(ctx context.Context, step td.StepKey, unseen bool) (td.Snapshotted, error)
	// Restore makes the workspace hold a tree, after writing down what it holds. Conflict when something is in the way,
	// and then nothing was changed. It may be done again.
	Restore(ctx context.Context, tree string) error
	// Changed says what differs between two trees, one file a line.
	Changed(ctx context.Context, from, to string) ([]string, error)
	// Close lets go of what it holds in memory. It may be used again afterwards.
	Close()
}

// Albums opens the album of a task. It is nil, without an error, where none is kept: the workspace is not under git,
// or people want none.
type Albums func(ctx context.Context, t td.Task) (Album, error)

// snapshots is how a run keeps what its workspace held (B-1). The intent of a step that may change files is the intent
// of its snapshot, too: a crash that takes the snapshot's record away leaves a step without one, and it is taken again if
// nothing has touched the files since. It is taken while the model is asked, and awaited before the next such step.
type snapshots struct {
	album  Album
	looked bool          // whether there is an album
	remade bool          // the workspace is not the one in which the last step ended
	taking chan snapshot // what is being taken; nil: nothing
}

type snapshot struct {
	td.Snapshotted
	err error
}

// close lets go of what the album holds.
func (s *snapshots) close() {
	if s.album != nil {
		s.album.Close()
	}
}

// keeps gives the album of the task, or nil.
func (r *run) keeps(ctx context.Context) Album {
	if !r.shots.looked && r.Albums != nil {
		r.shots.looked = true
		album, err := r.Albums(ctx, r.log.Task())
		if err != nil {
			r.Log.Warn("keep snapshots", "task", r.log.Task().Handle, "err", err)
			return nil
		}
		r.shots.album = album
	}
	return r.shots.album
}

// behind pauses a task whose repository has a snapshot of a step that the journal knows nothing of: an older copy of the state folder was put back, and
// what was done since would be done again. The snapshot is recorded together with that, so that a person who resumes the task has settled it.
func (r *run) behind(ctx context.Context) (bool, error) {
	if r.Newest == nil {
		return false, nil
	}
	task, t := r.log.Task(), r.log.Transcript()
	found := r.Newest(ctx, task)
	if found.Commit == "" || t.Intended(found.Step, task.Turns) {
		return false, nil
	}
	if last := t.Snapshot(); last != nil && last.Commit == found.Commit {
		return false, nil
	}
	return true, r.pause(ctx, "taskdaemon", Behind(task, found.Step), found)
}

// Behind says what is wrong with a task whose repository has a snapshot of a step that the journal knows nothing of, and what to do.
func Behind(t td.Task, step td.StepKey) string {
	return fmt.Sprintf("the state folder is an older copy: the repository has step %s, the journal ends at turn %d. "+
		"Put the newer copy back, or do again what was done since: taskdaemon resume %s; or end it: taskdaemon task cancel %s", step, t.Turns, t.Handle, t.Handle)
}

// snapStart takes what an earlier life did not get to, or what the workspace holds before the next answer: people edit
// between runs. Nothing is taken while a step is in flight, whose files those would be.
func (r *run) snapStart(ctx context.Context) {
	t := r.log.Transcript()
	switch {
	case t.Touching():
	case t.Unsnapped() != "" && !r.shots.remade:
		r.snap(ctx, t.Unsnapped(), true)
	default:
		r.snap(ctx, t.StartKey(), true)
	}
}

// unseen reports whether a step may have written to the workspace in ways that the kernel does not tell of: by way of a hard link to a place outside of it, which a command can make unless
// it is confined, or through mapped memory, until the process that has it ends. held is what confined the command, if it was one.
func (r *run) unseen(effect td.Effect, held *sandbox.Profile) bool {
	confined := effect == td.Keyed || held != nil && held.Files != sandbox.Full
	return !confined || len(r.log.Task().Jobs) > 0
}

// snap begins to take a snapshot.
func (r *run) snap(ctx context.Context, step td.StepKey, unseen bool) {
	album := r.keeps(ctx)
	if album == nil || r.shots.taking != nil {
		return
	}
	fpSnapshotBegun.Hit()
	taking := make(chan snapshot, 1)
	r.shots.taking = taking
	ctx = r.ctx // not the step's, which ends before this does
	r.cleaning.Go(func() {
		shot, err := album.Take(ctx, step, unseen)
		fpSnapshotTaken.Hit()
		taking <- snapshot{shot, err}
	})
}

// snapped waits for the snapshot that is being taken. Its record rides with the next append.
func (r *run) snapped(ctx context.Context) error {
	if r.shots.taking == nil {
		return nil
	}
	select {
	case shot := <-r.shots.taking:
		return r.recordSnapshot(shot)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// snappedYet is snapped for who does not wait.
func (r *run) snappedYet() error {
	select {
	case shot := <-r.shots.taking: // nil: never
		return r.recordSnapshot(shot)
	default:
		return nil
	}
}

// recordSnapshot stages the record. A snapshot that could not be taken stops nothing: the step has none.
func (r *run) recordSnapshot(shot snapshot) error {
	r.shots.taking = nil
	t := r.log.Transcript()
	if shot.err != nil {
		if r.ctx.Err() == nil {
			r.Log.Warn("take snapshot", "task", r.log.Task().Handle, "err", shot.err)
		}
		return nil
	}
	if last := t.Snapshot(); last != nil && last.Tree == shot.Tree && (last.Base == shot.Base || last.Commit == "") && shot.Step != t.Unsnapped() {
		return nil // nobody edited between the runs
	}
	err := r.log.Stage(shot.Snapshotted)
	fpSnapshotRecorded.Hit()
	return err
}

// maxChanged is how many changed files a person is shown.
const maxChanged = 20

// changedSince says what changed in the workspace since the newest snapshot, in words for a person who is asked what
// became of a step.
func (r *run) changedSince(ctx context.Context) string {
	album, last := r.keeps(ctx), r.log.Transcript().Snapshot()
	if album == nil || last == nil || r.shots.taking != nil {
		return ""
	}
	now, err := album.Take(ctx, last.Step, true)
	var changed []string
	if err == nil {
		changed, err = album.Changed(ctx, last.Tree, now.Tree)
	}
	switch {
	case err != nil:
		return fmt.Sprintf("What changed in the workspace since is not known: %v", err)
	case len(changed) == 0:
		return "Nothing changed in the workspace since before it started."
	}
	more := ""
	if n := len(changed) - maxChanged; n > 0 {
		changed, more = changed[:maxChanged], fmt.Sprintf("\n  and %d more", n)
	}
	return fmt.Sprintf("Changed in the workspace since before it started:\n  %s%s\nTo undo that first: taskdaemon loop rewind %s --to %s",
		strings.Join(changed, "\n  "), more, r.log.Task().Handle, last.Step)
}
