package workgraph

import (
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// Who waits for whom is a graph of its own. Each task has two points in it, its start and its end:
//
//	the end of a task waits for its start, and for the ends of those in it;
//	its start waits for the ends of its blockers, and for the start of what it is in.
//
// A circle in it can never be left.

func start(i int) int  { return 2 * i }
func end(i int) int    { return 2*i + 1 }
func taskAt(p int) int { return p / 2 }

// awaits are the points that a point waits for.
func (g *Graph) awaits(p int) []int {
	i := taskAt(p)
	n := g.nodes[i]
	if !n.there {
		return nil
	}
	var out []int
	if p == end(i) {
		out = append(out, start(i))
		for _, c := range n.children {
			out = append(out, end(c))
		}
		return out
	}
	for _, b := range n.blockers {
		out = append(out, end(b))
	}
	if n.parent >= 0 {
		out = append(out, start(n.parent))
	}
	return out
}

// path is a way from one point to another, both included, or nil. The points must be among those that inside
// allows; nil allows all.
func (g *Graph) path(from, to int, inside map[int]bool) []int {
	came := map[int]int{}
	for todo := []int{from}; len(todo) > 0; todo = todo[1:] {
		for _, next := range g.awaits(todo[0]) {
			if _, seen := came[next]; seen || inside != nil && !inside[next] {
				continue
			}
			came[next] = todo[0]
			if next == to {
				way := []int{to}
				for at := came[to]; ; at = came[at] {
					way = append(way, at)
					if at == from {
						slices.Reverse(way)
						return way
					}
				}
			}
			todo = append(todo, next)
		}
	}
	return nil
}

// tasks are the tasks whose points a way passes, each step of it once.
func (g *Graph) tasks(way []int) []td.TaskID {
	var out []td.TaskID
	for _, p := range way {
		if id := g.nodes[taskAt(p)].ID; len(out) == 0 || out[len(out)-1] != id {
			out = append(out, id)
		}
	}
	return out
}

// CheckBlocker returns an error that names the circle if a task that waits for the blocker could never run.
func (g *Graph) CheckBlocker(task, blocker td.TaskID) error {
	return g.check(task, blocker, func(t, b int) []int { return g.path(end(b), start(t), nil) })
}

// CheckParent returns an error that names the circle if a task in the parent could never run.
func (g *Graph) CheckParent(task, parent td.TaskID) error {
	return g.check(task, parent, func(t, p int) []int {
		if way := g.path(start(p), start(t), nil); way != nil {
			return way
		}
		return g.path(end(t), end(p), nil)
	})
}

// CheckNew returns an error that names the circle if a task that is not there yet could never run. Only what it is to
// be part of can wait for it.
func (g *Graph) CheckNew(n Node) error {
	p, ok := g.at[n.Parent]
	if n.Parent == "" || !ok {
		return nil
	}
	for _, id := range n.Blockers {
		b, ok := g.at[id]
		if !ok {
			continue
		}
		way := []int{end(p)}
		if b != p {
			way = g.path(end(b), end(p), nil)
		}
		if way != nil {
			return Circle(append(append([]td.TaskID{n.ID}, g.tasks(way)...), n.ID)).err()
		}
	}
	return nil
}

func (g *Graph) check(task, other td.TaskID, way func(t, o int) []int) error {
	if task == other {
		return Circle{task, task}.err()
	}
	t, ok := g.at[task]
	o, ok2 := g.at[other]
	if !ok || !ok2 {
		return nil // nothing waits for a task that is not there
	}
	if w := way(t, o); w != nil {
		circle := g.tasks(w)
		if circle[0] != task {
			circle = append([]td.TaskID{task}, circle...)
		}
		if circle[len(circle)-1] != task {
			circle = append(circle, task)
		}
		return Circle(circle).err()
	}
	return nil
}

// Circle is tasks each of which waits for the next; the last is the first.
type Circle []td.TaskID

func (c Circle) String() string {
	words := make([]string, len(c))
	for i, id := range c {
		words[i] = string(id)
	}
	return strings.Join(words, " → ")
}

// CircleError says that tasks would wait for each other.
type CircleError struct{ Circle Circle }

func (e *CircleError) Error() string { return "dependency cycle: " + e.Circle.String() }

func (c Circle) err() error { return &CircleError{c} }

// cycleOf are the nodes that are in a circle with this one.
func (g *Graph) cycleOf(i int) []int {
	if g.nodes[i].cycle == nil {
		return nil
	}
	var out []int
	for j, n := range g.nodes {
		if j != i && n.cycle != nil {
			out = append(out, j) // it may be another circle's: looking again does no harm
		}
	}
	return out
}

// mayCircle reports whether a circle can pass through a node: somebody must wait for it, or for what it is in.
func (g *Graph) mayCircle(i int) bool {
	if g.nodes[i].container() {
		return true
	}
	for up := range g.upward(i) {
		if len(g.nodes[up].dependents) > 0 {
			return true
		}
	}
	return false
}

// namedEach is up to how many points a knot may have for each of its tasks to be told its own way around.
const namedEach = 64

// findCycles looks for circles that can be reached from some nodes, marks who is in one, and returns them.
func (g *Graph) findCycles(from []int) (found []int) {
	s := &search{g: g, number: map[int]int{}, low: map[int]int{}, open: map[int]bool{}}
	for _, i := range from {
		if g.mayCircle(i) {
			s.visit(end(i))
		}
	}
	for _, knot := range s.knots {
		inside := map[int]bool{}
		for _, p := range knot {
			inside[p] = true
		}
		var circle []td.TaskID
		for _, p := range knot {
			n := g.nodes[taskAt(p)]
			if n.cycle != nil {
				continue
			}
			if circle == nil || len(knot) <= namedEach {
				circle = g.tasks(g.path(p, p, inside))
				if len(circle) == 1 {
					circle = append(circle, circle[0]) // it waits for itself
				}
			}
			n.cycle = circle
			found = append(found, taskAt(p))
		}
	}
	return found
}

// search finds strongly connected points (Tarjan), without recursion: chains of tasks may be long.
type search struct {
	g           *Graph
	number, low map[int]int
	open        map[int]bool
	stack       []int
	knots       [][]int // of more than one point
}

type frame struct {
	point int
	next  []int
}

func (s *search) enter(p int) frame {
	s.number[p] = len(s.number) + 1
	s.low[p] = s.number[p]
	s.stack = append(s.stack, p)
	s.open[p] = true
	return frame{p, s.g.awaits(p)}
}

func (s *search) visit(p int) {
	if s.number[p] != 0 {
		return
	}
	for frames := []frame{s.enter(p)}; len(frames) > 0; {
		f := &frames[len(frames)-1]
		if len(f.next) > 0 {
			next := f.next[0]
			f.next = f.next[1:]
			if s.number[next] == 0 {
				frames = append(frames, s.enter(next))
			} else if s.open[next] {
				s.low[f.point] = min(s.low[f.point], s.number[next])
			}
			continue
		}
		done := f.point
		frames = frames[:len(frames)-1]
		if len(frames) > 0 {
			above := frames[len(frames)-1].point
			s.low[above] = min(s.low[above], s.low[done])
		}
		if s.low[done] == s.number[done] {
			s.close(done)
		}
	}
}

// close takes the points off the stack that hang together with the one where the search met them first.
func (s *search) close(first int) {
	at := len(s.stack) - 1
	for ; s.stack[at] != first; at-- {
		delete(s.open, s.stack[at])
	}
	delete(s.open, first)
	if knot := s.stack[at:]; len(knot) > 1 {
		s.knots = append(s.knots, slices.Clone(knot))
	}
	s.stack = s.stack[:at]
}
