package workgraph

import (
	"iter"
	"slices"

	"taskdaemon/internal/td"
)

// Obstacle is what sort of thing is in a task's way.
type Obstacle string

// The obstacles, the one that matters most first.
const (
	Free    Obstacle = ""        // nothing
	InCycle Obstacle = "cycle"   // it waits for itself
	Unknown Obstacle = "unknown" // a blocker is not in the graph
	Failed  Obstacle = "failed"  // a blocker, or what it is in, failed, was cancelled or abandoned
	Waits   Obstacle = "waits"   // a blocker is not completed yet
)

// Standing is where a task stands.
type Standing struct {
	State     td.State
	Container bool
	Ready     bool
	Obstacle  Obstacle
	By        []td.TaskID // who is in the way; a circle in its order
}

// Standing is where a task stands, if it is there. A task that is queued and can only go on when a person does
// something counts as blocked.
func (g *Graph) Standing(id td.TaskID) (Standing, bool) {
	i, ok := g.at[id]
	if !ok || !g.nodes[i].there {
		return Standing{}, false
	}
	n := g.nodes[i]
	s := Standing{State: n.state, Container: n.container(), Ready: n.ready}
	if n.state != td.Queued {
		return s, true
	}
	s.Obstacle, s.By = g.obstacle(i)
	if s.Obstacle != Free && s.Obstacle != Waits {
		s.State = td.Blocked
	}
	return s, true
}

// InTheWay is what would be in the way of a task if it were to begin now, whatever it is doing.
func (g *Graph) InTheWay(id td.TaskID) (Obstacle, []td.TaskID) {
	i, ok := g.at[id]
	if !ok || !g.nodes[i].there {
		return Free, nil
	}
	return g.obstacle(i)
}

// obstacle is the worst that is in the way of a node or of what it is in.
func (g *Graph) obstacle(i int) (Obstacle, []td.TaskID) {
	found := map[Obstacle][]td.TaskID{}
	for up := range g.upward(i) {
		n := g.nodes[up]
		if n.cycle != nil && found[InCycle] == nil {
			found[InCycle] = n.cycle
		}
		if up != i && n.state == td.Failed {
			found[Failed] = append(found[Failed], g.culprits(up)...)
		}
		for _, b := range n.blockers {
			b := g.nodes[b]
			switch {
			case b.satisfied():
			case !b.there:
				found[Unknown] = append(found[Unknown], b.ID)
			case b.state.Terminal():
				found[Failed] = append(found[Failed], b.ID)
			default:
				found[Waits] = append(found[Waits], b.ID)
			}
		}
	}
	for _, o := range []Obstacle{InCycle, Unknown, Failed, Waits} {
		if by := found[o]; by != nil {
			return o, once(by, o)
		}
	}
	return Free, nil
}

// once leaves out who is named before; a circle comes back to where it began.
func once(by []td.TaskID, o Obstacle) (out []td.TaskID) {
	if o == InCycle {
		return by
	}
	for _, id := range by {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// culprits are the tasks in a container whose failure is its own; the container itself if there are none.
func (g *Graph) culprits(i int) (out []td.TaskID) {
	for j := range g.downward(i) {
		if n := g.nodes[j]; !n.container() && (n.state == td.Failed || n.state == td.Abandoned) {
			out = append(out, n.ID)
		}
	}
	slices.Sort(out) // in whatever order they were put in, all see the same
	if out == nil {
		out = append(out, g.nodes[i].ID)
	}
	return out
}

// Children are the tasks directly in one, in the order in which they would be taken; of "" those that are in none.
func (g *Graph) Children(of td.TaskID) []td.TaskID {
	var kids []int
	if of != "" {
		if i, ok := g.at[of]; ok {
			kids = slices.Clone(g.nodes[i].children)
		}
	} else {
		for i, n := range g.nodes {
			if n.there && (n.parent < 0 || !g.nodes[n.parent].there) {
				kids = append(kids, i)
			}
		}
	}
	slices.SortFunc(kids, func(a, b int) int { return before(g.nodes[a], g.nodes[b]) })
	out := make([]td.TaskID, len(kids))
	for k, i := range kids {
		out[k] = g.nodes[i].ID
	}
	return out
}

// Within are the tasks in one and itself; of "" all of them. Containers come before what they hold.
func (g *Graph) Within(id td.TaskID) iter.Seq[td.TaskID] {
	return func(yield func(td.TaskID) bool) {
		if id == "" {
			for _, n := range g.nodes {
				if n.there && !yield(n.ID) {
					return
				}
			}
			return
		}
		i, ok := g.at[id]
		if !ok || !g.nodes[i].there {
			return
		}
		for j := range g.downward(i) {
			if !yield(g.nodes[j].ID) {
				return
			}
		}
	}
}

// Impact are the tasks that cannot run before one is completed, directly or because of others that wait for it,
// in the order in which they are reached. What is in a container that waits is among them.
func (g *Graph) Impact(id td.TaskID) []td.TaskID {
	i, ok := g.at[id]
	if !ok {
		return nil
	}
	var out []td.TaskID
	seen := map[int]bool{i: true}
	visit := func(j int, todo []int) []int {
		if seen[j] {
			return todo
		}
		seen[j] = true
		return append(todo, j)
	}
	for todo := []int{i}; len(todo) > 0; todo = todo[1:] {
		n := g.nodes[todo[0]]
		if todo[0] != i && n.there {
			out = append(out, n.ID)
		}
		if p := n.parent; p >= 0 && g.nodes[p].there {
			// What waits for the container waits for this, too; what else is in it does not.
			for _, d := range g.nodes[p].dependents {
				todo = visit(d, todo)
			}
			for up := range g.upward(p) {
				for _, d := range g.nodes[up].dependents {
					todo = visit(d, todo)
				}
			}
		}
		for _, d := range n.dependents {
			todo = visit(d, todo)
		}
		if todo[0] != i {
			for _, c := range n.children {
				todo = visit(c, todo)
			}
		}
	}
	return out
}

// CriticalPath is the longest chain of tasks that are not completed and wait for one another, the first to run
// first: however many run at once, it cannot be done in fewer rounds. Circles are left out.
func (g *Graph) CriticalPath(in td.TaskID) []td.TaskID {
	length, next := map[int]int{}, map[int]int{}
	var order []int
	for i, n := range g.nodes {
		if n.there && !n.container() && !n.state.Terminal() && n.cycle == nil && (in == "" || g.within(i, in)) {
			order = append(order, i)
		}
	}
	wanted := map[int]bool{}
	for _, i := range order {
		wanted[i] = true
	}
	best := -1
	for _, i := range order {
		g.measure(i, wanted, length, next)
		if best < 0 || length[i] > length[best] {
			best = i
		}
	}
	var out []td.TaskID
	for i := best; i >= 0; {
		out = append(out, g.nodes[i].ID)
		after, ok := next[i]
		if !ok {
			break
		}
		i = after
	}
	slices.Reverse(out)
	return out
}

// measure finds the longest chain that ends in a node. It walks with a stack of its own: chains may be long.
func (g *Graph) measure(i int, wanted map[int]bool, length, before map[int]int) {
	open := map[int]bool{}
	for stack := []int{i}; len(stack) > 0; {
		at := stack[len(stack)-1]
		if length[at] > 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		open[at] = true
		longest, pending := 0, false
		for _, b := range g.leavesBefore(at) {
			switch {
			case !wanted[b] || open[b] && length[b] == 0:
			case length[b] == 0:
				stack, pending = append(stack, b), true
			case length[b] > longest:
				longest, before[at] = length[b], b
			}
		}
		if !pending {
			length[at] = longest + 1
			stack = stack[:len(stack)-1]
		}
	}
}

// Before are the tasks that run by themselves and must be completed before one may run.
func (g *Graph) Before(id td.TaskID) (out []td.TaskID) {
	if i, ok := g.at[id]; ok {
		for _, j := range g.leavesBefore(i) {
			out = append(out, g.nodes[j].ID)
		}
	}
	return out
}

// leavesBefore are the tasks that run by themselves and must be completed before a node may run.
func (g *Graph) leavesBefore(i int) (out []int) {
	for up := range g.upward(i) {
		for _, b := range g.nodes[up].blockers {
			for j := range g.downward(b) {
				if !g.nodes[j].container() {
					out = append(out, j)
				}
			}
		}
	}
	return out
}

// Dependents are the tasks that wait for one directly.
func (g *Graph) Dependents(of td.TaskID) (out []td.TaskID) {
	i, ok := g.at[of]
	if !ok {
		return nil
	}
	for _, d := range g.nodes[i].dependents {
		out = append(out, g.nodes[d].ID)
	}
	slices.Sort(out)
	return out
}

// Depth is how many containers a task is in.
func (g *Graph) Depth(of td.TaskID) int {
	depth := -1
	if i, ok := g.at[of]; ok {
		for up := range g.upward(i) {
			if g.nodes[up].there {
				depth++
			}
		}
	}
	return max(depth, 0)
}

// InOrder are the tasks in one, or all, in the order in which they would be taken if nothing were in the way.
func (g *Graph) InOrder(in td.TaskID) []td.TaskID {
	var found []*node
	for i, n := range g.nodes {
		if n.there && (in == "" || n.ID != in && g.within(i, in)) {
			found = append(found, n)
		}
	}
	slices.SortFunc(found, before)
	out := make([]td.TaskID, len(found))
	for i, n := range found {
		out[i] = n.ID
	}
	return out
}
