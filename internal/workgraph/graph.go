package workgraph

import (
	"iter"
	"slices"

	"taskdaemon/internal/td"
)

// Graph holds tasks and what lies between them.
type Graph struct {
	nodes []*node
	at    map[td.TaskID]int
	ready []int // what may run now, in order
}

// New makes a graph of nodes, and of tasks that were deleted: who waits for one of those need not. Of two nodes with one
// id the later counts.
func New(nodes []Node, deleted ...td.TaskID) *Graph {
	g := &Graph{at: make(map[td.TaskID]int, len(nodes)), nodes: make([]*node, 0, len(nodes))}
	for _, id := range deleted {
		g.nodes[g.index(id)].deleted = true
	}
	for _, n := range nodes {
		at := g.nodes[g.index(n.ID)]
		at.Node, at.there = n, true
	}
	known := len(g.nodes)
	for i := range known {
		g.tie(i)
	}
	all := make([]int, known)
	for i := range known {
		all[i] = i
		g.refresh(i, nil)
	}
	g.findCycles(all)
	for i, n := range g.nodes {
		if n.ready = g.free(i); n.ready {
			g.ready = append(g.ready, i)
		}
	}
	slices.SortFunc(g.ready, func(a, b int) int { return before(g.nodes[a], g.nodes[b]) })
	return g
}

// Shift is a task that everybody sees in another state than before.
type Shift struct {
	Task     td.TaskID
	From, To td.State // empty: it was not there, or is no more
}

// Put adds a task, or replaces what was known of it. It returns the states that changed by that.
func (g *Graph) Put(next Node) (shifts []Shift) {
	i := g.index(next.ID)
	n := g.nodes[i]
	moved := !n.there || n.Parent != next.Parent || !slices.Equal(n.Blockers, next.Blockers)
	g.drop(i) // its place in the order may change
	if !moved {
		n.Node = next
		g.refresh(i, &shifts)
		g.recheck(i)
		return shifts
	}
	suspects := append(g.cycleOf(i), i)
	above := g.untie(i)
	n.Node, n.there = next, true
	g.tie(i)
	g.refresh(i, &shifts)
	g.rearranged(i, above, suspects, &shifts)
	return shifts
}

// Remove takes a task out that was deleted, also one that others only name so far. Those it blocked no longer wait for
// it, and those in it are in nothing.
func (g *Graph) Remove(id td.TaskID) (shifts []Shift) {
	i := g.index(id)
	g.nodes[i].deleted = true
	return g.takeOut(i)
}

// Retract takes back that a task was put in: it is not there, and deleted only if it was before.
func (g *Graph) Retract(id td.TaskID) (shifts []Shift) {
	return g.takeOut(g.index(id))
}

func (g *Graph) takeOut(i int) (shifts []Shift) {
	n := g.nodes[i]
	g.drop(i)
	suspects := append(g.cycleOf(i), i)
	above := g.untie(i)
	n.there = false
	n.Node = Node{ID: n.ID}
	g.refresh(i, &shifts)
	g.rearranged(i, above, suspects, &shifts)
	return shifts
}

// rearranged follows up on a node whose ties have changed: the one it was in, the one it is in, and who may be
// in a circle now, or no more.
func (g *Graph) rearranged(i, above int, suspects []int, shifts *[]Shift) {
	for _, s := range suspects {
		g.nodes[s].cycle = nil
	}
	suspects = append(suspects, g.findCycles(suspects)...)
	for _, p := range []int{above, g.nodes[i].parent} {
		if p >= 0 {
			g.refresh(p, shifts)
			g.recheck(p) // with its first child it is a container, without its last it is none
		}
	}
	for _, s := range suspects {
		g.recheckIn(s)
	}
	for _, d := range g.nodes[i].dependents {
		g.recheckIn(d)
	}
}

// SetState records the state of a task. It returns the states that changed by that: the task's own, and those
// of the containers it is in.
func (g *Graph) SetState(id td.TaskID, s td.State) (shifts []Shift) {
	i, ok := g.at[id]
	if !ok || !g.nodes[i].there {
		return nil
	}
	g.nodes[i].State = s
	g.refresh(i, &shifts)
	g.recheck(i)
	return shifts
}

// refresh derives a node's state, and if it changed, those of the containers above. Whoever may run by that, or
// no more, is looked at.
func (g *Graph) refresh(i int, shifts *[]Shift) {
	for up := range g.upward(i) {
		n := g.nodes[up]
		was, is := n.state, n.derive()
		if was == is {
			return
		}
		freed := n.satisfied()
		n.state = is
		if n.parent >= 0 {
			g.nodes[n.parent].count(was, -1)
			g.nodes[n.parent].count(is, 1)
		}
		if shifts == nil {
			continue // the graph is being made
		}
		*shifts = append(*shifts, Shift{n.ID, was, is})
		if freed != n.satisfied() {
			for _, d := range n.dependents {
				g.recheckIn(d)
			}
		}
		if n.container() && (was == td.Failed) != (is == td.Failed) {
			g.recheckIn(up)
		}
	}
}

// Ready are the tasks that may run now, in the order in which they should: all of them, or those that are in a
// container, or one task itself. The graph must not change meanwhile.
func (g *Graph) Ready(in td.TaskID) iter.Seq[td.TaskID] {
	return func(yield func(td.TaskID) bool) {
		for _, i := range g.ready {
			if (in == "" || g.within(i, in)) && !yield(g.nodes[i].ID) {
				return
			}
		}
	}
}

// free reports whether a node may run.
func (g *Graph) free(i int) bool {
	n := g.nodes[i]
	if !n.there || n.container() || n.State != td.Queued {
		return false
	}
	for up := range g.upward(i) {
		n := g.nodes[up]
		if n.cycle != nil || n.state == td.Failed || slices.ContainsFunc(n.blockers, func(b int) bool { return !g.nodes[b].satisfied() }) {
			return false
		}
	}
	return true
}

// recheck puts a node among the ready ones or takes it out.
func (g *Graph) recheck(i int) {
	if !g.free(i) {
		g.drop(i)
		return
	}
	if n := g.nodes[i]; !n.ready {
		n.ready = true
		at, _ := slices.BinarySearchFunc(g.ready, n, func(j int, n *node) int { return before(g.nodes[j], n) })
		g.ready = slices.Insert(g.ready, at, i)
	}
}

// recheckIn rechecks a node and all that is in it.
func (g *Graph) recheckIn(i int) {
	for j := range g.downward(i) {
		g.recheck(j)
	}
}

// drop takes a node out of the ready ones. Its order must still be the one it was put in by.
func (g *Graph) drop(i int) {
	n := g.nodes[i]
	if !n.ready {
		return
	}
	n.ready = false
	at, _ := slices.BinarySearchFunc(g.ready, n, func(j int, n *node) int { return before(g.nodes[j], n) })
	g.ready = slices.Delete(g.ready, at, at+1)
}

// index is the place of a task. One that is not there gets one.
func (g *Graph) index(id td.TaskID) int {
	if i, ok := g.at[id]; ok {
		return i
	}
	i := len(g.nodes)
	g.nodes = append(g.nodes, &node{Node: Node{ID: id}, parent: -1})
	g.at[id] = i
	return i
}

// tie ties a node to its parent and its blockers.
func (g *Graph) tie(i int) {
	n := g.nodes[i]
	if n.Parent != "" {
		n.parent = g.index(n.Parent)
		p := g.nodes[n.parent]
		p.children = append(p.children, i)
		p.count(n.state, 1)
	}
	for _, id := range n.Blockers {
		if b := g.index(id); !slices.Contains(n.blockers, b) {
			n.blockers = append(n.blockers, b)
			g.nodes[b].dependents = append(g.nodes[b].dependents, i)
		}
	}
}

// untie undoes tie and returns the parent that it was tied to, or -1.
func (g *Graph) untie(i int) (above int) {
	n := g.nodes[i]
	if above = n.parent; above >= 0 {
		p := g.nodes[above]
		p.children = without(p.children, i)
		p.count(n.state, -1)
	}
	for _, b := range n.blockers {
		g.nodes[b].dependents = without(g.nodes[b].dependents, i)
	}
	n.parent, n.blockers = -1, nil
	return above
}

// within reports whether a node is the task, or in it.
func (g *Graph) within(i int, id td.TaskID) bool {
	for up := range g.upward(i) {
		if g.nodes[up].ID == id {
			return true
		}
	}
	return false
}

// upward are a node, what it is in, and so on. It ends even where containers are in each other.
func (g *Graph) upward(i int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for steps := 0; i >= 0 && steps <= len(g.nodes); steps++ {
			up := g.nodes[i].parent
			if !yield(i) {
				return
			}
			i = up
		}
	}
}

// downward are a node and all that is in it, containers before what they hold.
func (g *Graph) downward(i int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(g.nodes[i].children) == 0 {
			yield(i)
			return
		}
		seen := map[int]bool{i: true}
		for todo := []int{i}; len(todo) > 0; {
			at := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if !yield(at) {
				return
			}
			for _, c := range slices.Backward(g.nodes[at].children) {
				if !seen[c] {
					seen[c] = true
					todo = append(todo, c)
				}
			}
		}
	}
}
