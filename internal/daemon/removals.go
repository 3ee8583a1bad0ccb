package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
)

var (
	fpRemoving       = failpoint.New("daemon.removal.intended")
	fpRemoved        = failpoint.New("daemon.removal.before_record")
	fpRemovalSettled = failpoint.New("daemon.removal.settled")
)

// removals has what is removed of worktrees on record, as steps of the daemon's own stream: the tasks have ended, and nobody holds
// their streams any more.
type removals struct{ *Daemon }

var _ worktree.Journal = removals{}

// Removing records what is about to be removed, with the proof that nothing is lost by it.
func (r removals) Removing(ctx context.Context, what worktree.Removal) (td.StepKey, error) {
	proof, err := json.Marshal(what)
	if err != nil {
		return "", fmt.Errorf("encode proof: %w", err)
	}
	in := td.Intent{
		Key: td.StepKey("remove/" + string(td.NewRequestID())), Kind: td.RemoveStep, Name: cmp.Or(what.Path, what.Branch), Effect: td.Keyed, Evidence: proof,
	}
	if err := r.own.append(ctx, td.StepIntended{Intent: in}); err != nil {
		return "", err
	}
	fpRemoving.Hit()
	return in.Key, nil
}

// Removed records what came of a removal.
func (r removals) Removed(ctx context.Context, key td.StepKey, err error) error {
	fpRemoved.Hit()
	res := td.ToolResult{Content: "removed"}
	if err != nil {
		res = td.ToolResult{Content: err.Error(), IsError: true}
	}
	return r.own.append(ctx, td.StepEnded{Outcome: td.Outcome{Key: key, Via: td.Ran, Tool: &res}})
}

// underWay are the steps of one kind in the daemon's own stream that the daemon before this one left in flight.
func (d *Daemon) underWay(ctx context.Context, kind td.StepKind) ([]td.Intent, error) {
	own, err := d.journal.Task(ctx, td.DaemonStream)
	if err != nil {
		return nil, err
	}
	open := map[td.StepKey]bool{}
	for _, s := range own.InFlight {
		if s.Kind == kind {
			open[s.Key] = true
		}
	}
	var left []td.Intent
	if len(open) == 0 {
		return nil, nil
	}
	for ev, err := range d.journal.Read(ctx, td.DaemonStream, 0) {
		if err != nil {
			return nil, fmt.Errorf("read the daemon's log: %w", err)
		}
		if in, is := ev.Body.(td.StepIntended); is && open[in.Key] {
			delete(open, in.Key)
			left = append(left, in.Intent)
		}
	}
	return left, nil
}

// settleRemovals brings the removals to their end that the last daemon had begun when it died, and says what became of the others. A
// repository that cannot be asked holds up no other.
func (d *Daemon) settleRemovals(ctx context.Context) error {
	work := context.WithoutCancel(ctx) // what was begun is brought to its end: a git that is killed leaves locks behind
	for _, in := range d.cutOff {
		if ctx.Err() != nil {
			return nil
		}
		var what worktree.Removal
		res := td.ToolResult{Content: "removed"}
		err := json.Unmarshal(in.Evidence, &what)
		if err == nil {
			var gone bool
			if gone, err = d.trees.Settle(work, what); err == nil && !gone {
				res = td.ToolResult{Content: "it was not begun: what it is about is there", IsError: true}
			}
		}
		if err != nil {
			res = td.ToolResult{Content: err.Error(), IsError: true}
		}
		fpRemovalSettled.Hit()
		if err := d.own.append(work, td.StepEnded{Outcome: td.Outcome{Key: in.Key, Via: td.Probed, Tool: &res}}); err != nil {
			return err
		}
		d.o.Log.Info("a removal that was cut off", "what", in.Name, "outcome", res.Content)
	}
	return nil
}
