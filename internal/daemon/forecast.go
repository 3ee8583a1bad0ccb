package daemon

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/td"
)

// forecastEvery is how often the work of tasks is merged with each other for a trial. What did not change since is not tried
// again.
const forecastEvery = 5 * time.Second

// forecasts tells loops and people early that work will conflict when it is merged (K-6).
type forecasts struct {
	*Daemon
	of map[string]*git.Forecast // by repository

	mu  sync.Mutex
	now []api.Clash
}

func newForecasts(d *Daemon) *forecasts {
	return &forecasts{Daemon: d, of: map[string]*git.Forecast{}}
}

// clashes are those that are known now.
func (f *forecasts) clashes() []api.Clash {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// run looks until ctx ends.
func (f *forecasts) run(ctx context.Context) error {
	tick := time.NewTicker(forecastEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := f.look(ctx); err != nil && ctx.Err() == nil {
				f.o.Log.Warn("forecast conflicts", "err", err)
			}
		}
	}
}

// look merges what the live tasks of each repository have by now, with each other and with what is merged. A repository that cannot be
// looked at holds up no other.
func (f *forecasts) look(ctx context.Context) error {
	live, err := f.trunks.live(ctx)
	if err != nil {
		return err
	}
	byRepo := map[string][]td.Task{}
	for at, tasks := range live {
		byRepo[at.repo] = append(byRepo[at.repo], tasks...)
	}
	var found []api.Clash
	for repo, tasks := range byRepo {
		clashes, err := f.lookAt(ctx, repo, tasks)
		if err != nil {
			f.o.Log.Warn("forecast conflicts", "repo", repo, "err", err)
			continue
		}
		found = append(found, clashes...)
	}
	for repo := range f.of {
		if byRepo[repo] == nil {
			delete(f.of, repo)
		}
	}
	f.mu.Lock()
	f.now = found
	f.mu.Unlock()
	return nil
}

func (f *forecasts) lookAt(ctx context.Context, repo string, tasks []td.Task) ([]api.Clash, error) {
	heads, owners := map[string]string{}, map[string]td.Task{}
	refs, err := git.Refs(ctx, repo, "refs/heads/taskdaemon/", git.StepsPrefix)
	if err != nil {
		return nil, err
	}
	for _, t := range tasks {
		head, err := newest(ctx, repo, refs[git.StepsPrefix+t.Handle], refs["refs/heads/"+t.Worktree.Branch])
		if err != nil {
			return nil, err
		}
		if head != "" {
			heads[t.Handle], owners[t.Handle] = head, t
		}
		if into := refs["refs/heads/"+t.Worktree.Into]; into != "" {
			heads[t.Worktree.Into] = into
		}
	}
	if f.of[repo] == nil {
		f.of[repo] = git.NewForecast(repo)
	}
	clashes, err := f.of[repo].Clashes(ctx, heads)
	if err != nil {
		return nil, err
	}
	var found []api.Clash
	for _, c := range clashes {
		if owners[c.A].ID == "" && owners[c.B].ID == "" {
			continue // features meet on the trunk
		}
		found = append(found, api.Clash{Repo: repo, A: c.A, B: c.B, Files: c.Files})
		if err := f.tell(ctx, c, owners); err != nil && ctx.Err() == nil {
			f.o.Log.Warn("tell of a conflict to come", "err", err) // the person sees it all the same
		}
	}
	return found, f.hold(ctx, repo, tasks, found)
}

// newest is what a task has by now: what its worktree held after its newest step, if that was written down and the branch did not go
// on since.
func newest(ctx context.Context, repo, step, branch string) (string, error) {
	if step == "" || branch == "" {
		return cmp.Or(step, branch), nil
	}
	if after, err := git.IsAncestor(ctx, repo, branch, step); err != nil || !after {
		return branch, err
	}
	return step, nil
}

// mostClashing bounds the files that a loop is told of.
const mostClashing = 20

// tell tells both owners, once for the same files.
func (f *forecasts) tell(ctx context.Context, c git.Clash, owners map[string]td.Task) error {
	sum := sha256.Sum256([]byte(strings.Join(c.Files, "\x00")))
	files := strings.Join(c.Files[:min(len(c.Files), mostClashing)], "\n")
	for _, side := range [][2]string{{c.A, c.B}, {c.B, c.A}} {
		owner, has := owners[side[0]]
		if !has {
			continue
		}
		text := fmt.Sprintf("Your work and that of %s change the same lines. As they stand, the one that is merged second will conflict in:\n%s", side[1], files)
		if other, is := owners[side[1]]; is {
			text = fmt.Sprintf("Your work and that of %s (%s) change the same lines. As they stand, the one that is merged second will conflict in:\n%s", other.Handle, other.Title, files)
		}
		letter := td.Letter{ID: fmt.Sprintf("forecast/%s/%s/%s", c.A, c.B, hex.EncodeToString(sum[:8])), To: []string{owner.Handle}, Text: text}
		if _, err := f.deliver(ctx, sender{by: td.ByTaskdaemon}, letter, []td.Task{owner}); err != nil {
			return fmt.Errorf("tell %s: %w", owner.Handle, err)
		}
	}
	return nil
}
