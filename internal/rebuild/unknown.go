package rebuild

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"taskdaemon/internal/git"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/store"
)

// mostNamed bounds how many tasks of one witness are named.
const mostNamed = 20

// unknown names the tasks that others know of and the new journal does not have: they were added so shortly before the damage that no conversation has them. What
// they did is not known, and nothing of them goes on.
func (f *filler) unknown(ctx context.Context) error {
	tasks, err := f.journal.Tasks(ctx, store.TaskFilter{Brief: true})
	if err != nil {
		return err
	}
	handles, ids, repos := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, t := range tasks {
		handles[t.Handle], ids[string(t.ID)] = true, true
		if common := git.CommonDir(t.Home()); common != "" {
			repos[common] = t.Home()
		}
	}
	for root := range f.graphs.open {
		if common := git.CommonDir(root); common != "" {
			repos[common] = root
		}
	}
	f.known = ids
	said := map[string]bool{}
	name := func(handle, why string) {
		if !handles[handle] && !said[handle] && len(said) < mostNamed {
			said[handle] = true
			f.lost("%s: %s, and neither the journal nor the conversations have it: look at what it did before you add it again", handle, why)
		}
	}
	started, err := sandbox.SpoolTasks(f.spool())
	if err != nil {
		return err
	}
	for _, id := range started {
		name(id.Handle(), "a command of it was started (one that still runs is ended when the daemon starts)")
	}
	for _, common := range slices.Sorted(maps.Keys(repos)) {
		refs, err := git.StepRefs(ctx, repos[common])
		if err != nil {
			f.lost("what the repository %s knows of tasks: %v", repos[common], err)
			continue
		}
		for _, handle := range slices.Sorted(maps.Keys(refs)) {
			name(handle, fmt.Sprintf("the repository %s has a snapshot of it of %s (%s%s)", repos[common], refs[handle].At.Local().Format("2006-01-02 15:04:05"), git.StepsPrefix, handle))
		}
	}
	return nil
}

// spool is where the commands of tasks are.
func (b *builder) spool() string { return filepath.Join(b.StateDir, "spool") }
