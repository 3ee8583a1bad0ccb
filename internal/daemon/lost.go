package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/git"
	"taskdaemon/internal/graph"
	"taskdaemon/internal/jsonl"
)

// restoreFix is what a person types to have lost tasks written again.
const restoreFix = "taskdaemon doctor --fix"

// lost are the tasks that the log of a graph had and lacks. It was meant so if somebody moved the branch of the graph to a commit
// that is without them; else the file was damaged. With look the branch is compared as well, if the index knows of nothing.
func (p *projects) lost(ctx context.Context, s *graph.Store, look bool) ([]graph.Named, error) {
	lost, err := s.Lost(ctx)
	if err != nil || len(lost) == 0 && !look {
		return nil, err
	}
	g, err := git.OpenGraph(ctx, s.Root(), p.sharing("", s.Root()))
	if err != nil {
		return lost, nil //nolint:nilerr // a plain folder; else who commits says what is wrong with the branch
	}
	head, text, err := g.Committed(ctx)
	if err != nil {
		return lost, err
	}
	if seen, err := s.Seen(); err != nil {
		return lost, err
	} else if seen != "" && seen != head {
		if meant, err := s.Meant(ctx, text); err != nil || meant {
			return nil, err
		}
	}
	if look {
		if err := s.Witness(ctx, text); err != nil {
			return lost, err
		}
	}
	return s.Lost(ctx)
}

// lostWords say what the plan of a project lacks.
func lostWords(root string, lost []graph.Named) string {
	const most = 5
	var names []string
	for _, n := range lost[:min(most, len(lost))] {
		names = append(names, fmt.Sprintf("%s (%s)", n.Handle, oneLine(n.Title, 40)))
	}
	more := ""
	if len(lost) > most {
		more = fmt.Sprintf(" and %d more", len(lost)-most)
	}
	return fmt.Sprintf("%s was damaged: it lacks changes that were in it, of %s%s", filepath.Join(root, graph.Folder, graph.LogFile), strings.Join(names, ", "), more)
}

// damaged says which plans lack something, of those that are open, as they were last looked at, for people.
func (p *projects) damaged(ctx context.Context) (out []string) {
	for _, s := range p.all() {
		if _, err := os.Lstat(filepath.Join(s.Root(), graph.Folder, graph.LogFile)); errors.Is(err, fs.ErrNotExist) {
			if root, n, gone := graph.Gone(graph.IndexPath(p.indexes(), s.Root())); gone {
				out = append(out, goneWords(root, n)+"; to restore it: "+restoreFix)
			}
			continue
		}
		if !s.Damaged() {
			continue
		}
		if lost, err := p.lost(ctx, s, false); err == nil && len(lost) > 0 {
			out = append(out, lostWords(s.Root(), lost)+"; to restore them: "+restoreFix)
		}
	}
	slices.Sort(out)
	return out
}

func goneWords(root string, tasks int) string {
	return fmt.Sprintf("%s is gone, with %d tasks", filepath.Join(root, graph.Folder, graph.LogFile), tasks)
}

// checkGone looks for plans whose file is gone from a folder that is there. One that is to be restored is made anew, without its
// tasks: they are what it lacks then.
func (p *projects) checkGone(c *api.Check, fix bool) {
	entries, _ := os.ReadDir(p.indexes()) // who opens them says what is wrong
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".db" {
			continue
		}
		root, n, gone := graph.Gone(filepath.Join(p.indexes(), e.Name()))
		if !gone {
			continue
		}
		if fix {
			if err := graph.Make(root); err == nil {
				continue
			}
		}
		c.Findings = append(c.Findings, goneWords(root, n))
		c.Fix = restoreFix
	}
}

// checkLost looks for what is wrong with the lines of a log: tasks that it had and lacks, and lines that are no changes. It mends that if it is to, and reports whether
// nothing of it is left to do for a person.
func (p *projects) checkLost(ctx context.Context, s *graph.Store, c *api.Check, bad []jsonl.Bad, fix bool) (whole bool) {
	lost, err := p.lost(ctx, s, true)
	if err != nil {
		c.Findings = append(c.Findings, fmt.Sprintf("%s: %v", s.Root(), err))
		return false
	}
	if len(lost) > 0 {
		c.Findings = append(c.Findings, lostWords(s.Root(), lost))
	}
	log := filepath.Join(s.Root(), graph.Folder, graph.LogFile)
	for _, b := range bad {
		c.Findings = append(c.Findings, fmt.Sprintf("%s, %s", log, b))
	}
	if len(lost) == 0 && len(bad) == 0 {
		return true
	}
	c.Fix = restoreFix
	if !fix {
		return true
	}
	m, err := s.Mend(ctx)
	if err != nil {
		c.Findings = append(c.Findings, fmt.Sprintf("%s: it cannot be restored: %v", s.Root(), err))
		return false
	}
	p.touch(s.Root())
	if m.Lines > 0 {
		c.Findings = append(c.Findings, fmt.Sprintf("%s: damaged lines were taken out (%d) and are kept in %s", log, m.Lines, m.Aside))
	}
	h, err := s.Health(ctx)
	if err != nil || len(h.Bad) > 0 { // two lines that disagree, and nobody knows which of them is right
		c.Fix = "look at " + log
		return false
	}
	return true
}
