package rebuild

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/graph"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// graphs are the work graphs of the projects that this state folder knows.
type graphs struct {
	b    *builder
	open map[string]*graph.Store // nil: it cannot be opened
}

func (g *graphs) close() {
	for _, s := range g.open {
		if s != nil {
			s.Close()
		}
	}
}

// at is the graph of a project; nil: there is none that can be read.
func (g *graphs) at(ctx context.Context, root string) *graph.Store {
	if s, known := g.open[root]; known {
		return s
	}
	if g.open == nil {
		g.open = map[string]*graph.Store{}
	}
	s, err := graph.Open(ctx, graph.Options{Root: root, Index: graph.IndexPath(g.b.Graphs, root), Log: g.b.Log})
	if err != nil {
		g.b.lost("the graph of %s: %v", root, err)
		s = nil
	}
	g.open[root] = s
	return s
}

// verdict is how a task ended by the graph of its project; nil: it has not, or nobody can say.
func (g *graphs) verdict(ctx context.Context, spec td.Spec) (*graph.Verdict, error) {
	if spec.Project == "" {
		return nil, nil
	}
	s := g.at(ctx, spec.Project)
	if s == nil {
		return nil, nil
	}
	t, err := s.Task(ctx, spec.ID)
	if td.IsKind(err, td.NotFound) {
		return nil, nil // somebody deleted it
	}
	if err != nil {
		return nil, err
	}
	return t.Verdict, nil
}

// count looks at every graph whose index is in the state folder, and at those that tasks are of.
func (g *graphs) count(ctx context.Context) error {
	entries, err := os.ReadDir(g.b.Graphs)
	if err != nil && !os.IsNotExist(err) {
		return td.Errorf(td.Storage, "look for graphs: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".db") {
			continue
		}
		if root, ok := graph.ProjectOf(filepath.Join(g.b.Graphs, e.Name())); ok {
			g.at(ctx, root)
		}
	}
	for root, s := range g.open {
		if s == nil {
			continue
		}
		p := Project{Root: root}
		err := s.View(ctx, func(w *workgraph.Graph) {
			for _, id := range w.InOrder("") {
				p.Tasks++
				if st, _ := w.Standing(id); !st.State.Terminal() {
					p.Open++
					if g.b.known != nil && !g.b.known[string(id)] && len(w.Children(id)) == 0 {
						p.Unknown = append(p.Unknown, id.Handle())
					}
				}
			}
		})
		if err != nil {
			return err
		}
		g.b.report.Projects = append(g.b.report.Projects, p)
	}
	slices.SortFunc(g.b.report.Projects, func(a, b Project) int { return strings.Compare(a.Root, b.Root) })
	return nil
}
