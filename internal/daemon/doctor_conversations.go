package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mirror"
	"taskdaemon/internal/td"
)

func (d *Daemon) checkConversations(ctx context.Context, fix bool) (c api.Check, err error) {
	c = api.Check{Name: "conversations", Detail: "git fsck of the conversations' repository (packs that were unpacked before are compared by hash), and the journal has their tasks"}
	last, err := d.journal.Last(ctx)
	if err != nil {
		return c, err
	}
	if behind := last - min(last, d.mirror.Mirrored()); !d.mirrors(last, 3*time.Second) && behind > 0 {
		c.Detail += fmt.Sprintf("; %d records still to be mirrored, so that tasks without a conversation were not looked for", behind)
	}
	defer func() {
		for _, aside := range git.PutAside(d.repo()) {
			c.Findings = append(c.Findings, fmt.Sprintf("%s was damaged and put aside: of tasks that ended long ago it may have the only conversation", aside))
			if c.Fix == "" {
				c.Fix = "git -C " + aside + " log --all; when you need nothing of it: rm -r " + aside
			}
		}
	}()
	if _, err := os.Stat(d.repo()); errors.Is(err, fs.ErrNotExist) {
		return c, nil // the mirror has not begun yet
	}
	repo, err := git.OpenBare(ctx, d.repo())
	if err == nil {
		if repo.Aside() != "" {
			d.mirror.Restart()
		}
		err = repo.Fsck(ctx)
	}
	if err != nil {
		c.Findings = append(c.Findings, err.Error())
		c.Fix = "taskdaemon doctor --fix"
		if !fix {
			return c, nil
		}
		return c, d.repairConversations(ctx, &c)
	}
	_, err = d.compareConversations(ctx, repo, &c, fix)
	return c, err
}

// repairConversations keeps what can be read of a damaged mirror, and says what cannot.
func (d *Daemon) repairConversations(ctx context.Context, c *api.Check) error {
	_, unread, err := d.mirror.Repair(ctx)
	if err != nil {
		c.Findings = append(c.Findings, fmt.Sprintf("it cannot be repaired: %v", err))
		c.Fix = ""
		return context.Cause(ctx)
	}
	for _, name := range unread {
		c.Findings = append(c.Findings, fmt.Sprintf("%s could not be read; it is written again as far as the journal has it", name))
	}
	repo, err := git.OpenBare(ctx, d.repo())
	if err != nil {
		return err
	}
	last, err := d.journal.Last(ctx)
	if err != nil {
		return err
	}
	if !d.mirrors(last, time.Minute) { // what it writes again may turn out not to be whole
		c.Findings = append(c.Findings, "what the journal has of the conversations is still being written")
		c.Fix = "taskdaemon doctor"
		return nil
	}
	c.Fixed, err = d.compareConversations(ctx, repo, c, true)
	return err
}

// compareConversations looks for tasks that have a conversation and are not in the journal, which was deleted, or is another one than the mirror is of; and for tasks that
// have ended and have no conversation, which are written again as far as the journal has them. Well: nothing is left to do.
func (d *Daemon) compareConversations(ctx context.Context, repo *git.Repo, c *api.Check, fix bool) (well bool, err error) {
	tasks, err := d.journal.Tasks(ctx, store.TaskFilter{Brief: true})
	if err != nil {
		return false, err
	}
	last, err := d.journal.Last(ctx)
	if err != nil {
		return false, err
	}
	all := d.mirrors(last, 3*time.Second)
	tips, err := repo.Branches(ctx)
	if err != nil {
		return false, err
	}
	known, missing := map[string]bool{}, []td.Task(nil)
	for _, t := range tasks {
		branch := mirror.Branch(t.Spec)
		known[branch] = true
		if tips[branch] == "" && t.Status.State.Terminal() && all { // else it may be about to be written
			missing = append(missing, t)
		}
	}
	unknown := 0
	for branch := range tips {
		if known[branch] {
			continue
		}
		_, err := d.journal.Resolve(ctx, strings.TrimPrefix(branch, mirror.BranchPrefix)) // it may have been added just now
		if td.IsKind(err, td.NotFound) {
			unknown++
		} else if err != nil {
			return false, err
		}
	}
	if unknown > 0 {
		c.Findings = append(c.Findings, fmt.Sprintf("%d of %d tasks with a conversation are not in the journal: it was lost, or put in the place of another", unknown, len(tips)))
		c.Fix = "taskdaemon daemon stop && taskdaemon doctor --rebuild"
	}
	written := d.writeAgain(ctx, missing, c, fix)
	lost := d.lostConversations()
	if lost != "" {
		c.Findings = append(c.Findings, lost+": retention had removed them from the journal, and conversations.git was deleted or damaged. How the tasks ended and what they cost is still known")
		c.Fix = fmt.Sprintf("put back %s from a backup while no daemon runs; to go on without: rm %s", d.repo(), mirror.LostFile(d.repo()))
	}
	well = written && unknown == 0 && lost == ""
	c.Fixed = fix && well && len(missing) > 0
	return well, nil
}

// writeAgain has conversations written that are missing in the repository. It reports whether all are there again, as far as the journal has them.
func (d *Daemon) writeAgain(ctx context.Context, missing []td.Task, c *api.Check, fix bool) (all bool) {
	all = true
	for _, t := range missing {
		c.Findings = append(c.Findings, fmt.Sprintf("the conversation of %s is missing in conversations.git", t.Handle))
		if c.Fix == "" {
			c.Fix = restoreFix
		}
		if !fix {
			continue
		}
		if _, err := d.mirror.Flush(ctx, t.ID); err != nil {
			c.Findings = append(c.Findings, fmt.Sprintf("%s: it cannot be written again: %v", t.Handle, err))
			all = false
		}
	}
	return all
}

// mostLost is how many lost conversations are named.
const mostLost = 10

// lostConversations says which conversations are nowhere any more; empty: none.
func (d *Daemon) lostConversations() string {
	lost, err := mirror.Lost(d.repo())
	if err != nil {
		return err.Error()
	}
	if len(lost) == 0 {
		return ""
	}
	names, more := lost, ""
	if len(lost) > mostLost {
		names, more = lost[:mostLost], fmt.Sprintf(" and %d more", len(lost)-mostLost)
	}
	task := "tasks"
	if len(lost) == 1 {
		task = "task"
	}
	return fmt.Sprintf("the conversations of %d %s are lost: %s%s", len(lost), task, strings.Join(names, ", "), more)
}
