package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

var (
	fpRewindKept     = failpoint.New("engine.rewind.kept")
	fpRewindIntended = failpoint.New("engine.rewind.before_files")
	fpRewindFiles    = failpoint.New("engine.rewind.files")
	fpRewindRecorded = failpoint.New("engine.rewind.recorded")
)

// rewindEvidence is what the workspace held before the first attempt at a rewind.
type rewindEvidence struct {
	Kept    string   `json:"kept"`               // the commit
	LeftOut []string `json:"left_out,omitempty"` // of it, because they are too large
}

// rewind carries out the command to go back: what the workspace holds is kept, its files become those of the step, and
// then the conversation ends there. It is a keyed step: after a crash the command is still in the inbox, the record of
// the step says what was kept, and the files are brought to the tree from wherever they are. What cannot be done is
// recorded as ignored, with the reason.
func (r *run) rewind(ctx context.Context, c td.Command) error {
	key := td.StepKey("rewind." + c.Key)
	before, why, err := r.restore(ctx, key, *c.Rewind)
	if err != nil {
		return err
	}
	if why != "" {
		evs := []td.Event{{Task: r.log.Task().ID, At: r.log.Now(), Takes: c.Key, Body: td.Ignored{Command: c.Type, Why: why}}}
		if r.log.Transcript().Rewinding() != nil {
			out := toolError(why)
			out.Key, out.Via = key, td.Ran
			evs = append(evs, td.Event{Task: r.log.Task().ID, At: r.log.Now(), Body: td.StepEnded{Outcome: out}})
		}
		return r.log.AppendEvents(ctx, evs...)
	}
	fpRewindFiles.Hit()
	to := *c.Rewind
	to.Kept = before.Kept
	to.LeftOut = slices.Compact(slices.Sorted(slices.Values(slices.Concat(to.LeftOut, before.LeftOut))))
	c.Rewind = &to
	if err := r.log.AppendEvents(ctx, td.Obey(r.log.Task(), c, r.log.Now())...); err != nil {
		return err
	}
	fpRewindRecorded.Hit()
	r.wires = nil
	return r.log.Reread(ctx)
}

// restore does to the files what a rewind does. why is set when it cannot be done.
func (r *run) restore(ctx context.Context, key td.StepKey, to td.Rewind) (before rewindEvidence, why string, err error) {
	t := r.log.Task()
	others, err := r.Journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Running}, Dir: t.Dir, Brief: true})
	if err != nil {
		return before, "", err
	}
	for _, o := range others {
		if o.ID != t.ID {
			return before, fmt.Sprintf("%s runs in the same folder: pause it first", o.Handle), nil
		}
	}
	if err := r.snapped(ctx); err != nil {
		return before, "", err
	}
	album := r.keeps(ctx)
	if album == nil {
		return before, "no snapshots are kept of its workspace", nil
	}
	if in := r.log.Transcript().Rewinding(); in != nil && in.Key == key {
		if err := json.Unmarshal(in.Evidence, &before); err != nil {
			return before, "", td.Errorf(td.Corrupt, "read the record of the rewind: %w", err)
		}
	} else {
		// What still writes there would spoil both trees.
		if err := r.reap(ctx, "the task is rewound"); err != nil {
			return before, "", err
		}
		now, err := album.Take(ctx, key, true)
		if err != nil {
			return before, fmt.Sprintf("what the workspace holds cannot be kept: %v", err), context.Cause(ctx)
		}
		fpRewindKept.Hit()
		before = rewindEvidence{Kept: now.Commit, LeftOut: now.LeftOut}
		evidence, err := json.Marshal(before)
		if err != nil {
			return before, "", fmt.Errorf("name what is kept: %w", err)
		}
		if err := r.log.Append(ctx, td.StepIntended{Intent: td.Intent{
			Key: key, Kind: td.RewindStep, Name: string(to.To), Effect: td.Keyed, Evidence: evidence,
		}}); err != nil {
			return before, "", err
		}
	}
	fpRewindIntended.Hit()
	if err := album.Restore(ctx, to.Tree); err != nil {
		return before, fmt.Sprintf("%v; what the workspace held is in commit %s", err, before.Kept), context.Cause(ctx)
	}
	return before, "", nil
}
