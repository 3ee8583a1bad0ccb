package daemon

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/td"
)

// Of two tasks that will conflict the second may be paused until the first has ended, if the config wants that: it begins again from the work of the first, and
// neither is done twice. Who has to wait follows from the forecast and the states of tasks alone, and is remembered nowhere.

// hold pauses tasks that have to wait for another, and lets those go on that have to no more.
func (f *forecasts) hold(ctx context.Context, repo string, tasks []td.Task, clashes []api.Clash) error {
	var after map[td.TaskID]wait
	if f.worktrees(repo).Clashes == config.ClashesPause {
		after = waits(tasks, clashes)
	}
	for _, t := range tasks {
		w, waits := after[t.ID]
		held := t.Status.Paused != nil && t.Status.Paused.By == td.ByForecast
		cmd := td.Command{At: time.Now().UTC().Round(0), By: td.ByForecast}
		switch {
		case waits && t.Status.State != td.Paused:
			// Once for each pair: a person who lets it go on all the same has decided.
			cmd.Key, cmd.Type, cmd.Text = "clash/"+string(w.first.ID), td.CmdPause, w.words()
		case held && !waits:
			cmd.Key, cmd.Type = fmt.Sprintf("clash/over/%d", t.Head), td.CmdResume
		default:
			continue
		}
		if td.Refuse(t, cmd, cmd.At) != nil {
			continue
		}
		if err := f.post(ctx, t, cmd); err != nil {
			return err
		}
	}
	return nil
}

// wait is whom a task waits for, and why.
type wait struct {
	first td.Task
	files []string
}

func (w wait) words() string {
	files := strings.Join(w.files[:min(len(w.files), 3)], ", ")
	if more := len(w.files) - 3; more > 0 {
		files += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("it changes the same lines as %s in %s; it goes on when that has ended", w.first.Handle, files)
}

// waits says of each task that will conflict with one before it whom it waits for. A subtask and those who wait for it are never among each other's, and nobody waits
// for a task that is paused, or blocked until a person does something.
func waits(tasks []td.Task, clashes []api.Clash) map[td.TaskID]wait {
	of := map[string]td.Task{}
	for _, t := range tasks {
		of[t.Handle] = t
	}
	out := map[td.TaskID]wait{}
	for _, c := range clashes {
		a, isA := of[c.A]
		b, isB := of[c.B]
		if !isA || !isB || cmp.Or(a.Root, a.ID) == cmp.Or(b.Root, b.ID) {
			continue
		}
		first, second := a, b
		if cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.ID, b.ID)) > 0 {
			first, second = b, a
		}
		if first.Status.State == td.Paused || !works(first) {
			continue
		}
		if _, known := out[second.ID]; !known {
			out[second.ID] = wait{first, c.Files}
		}
	}
	return out
}
