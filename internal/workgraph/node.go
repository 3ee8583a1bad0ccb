package workgraph

import (
	"cmp"
	"slices"
	"time"

	"taskdaemon/internal/td"
)

// Node is a task as the graph needs to know it.
type Node struct {
	ID       td.TaskID
	Parent   td.TaskID   // the container it is part of; empty: none
	Blockers []td.TaskID // tasks that must be completed before it may run
	Priority int         // 0 first
	Created  time.Time   // ties go to the older
	State    td.State    // what is recorded of it; that of a container does not count
	Holds    bool        // it is a container though nothing may be in it yet: it never runs
}

// node is a Node with its ties. A task that others only name has a node, too.
type node struct {
	Node
	there    bool // it is known, and not deleted
	deleted  bool // it was, and unless it is there again it is in nobody's way
	parent   int  // -1: none
	blockers []int

	children   []int // those that are there
	dependents []int // those that it blocks

	state  td.State         // as everybody sees it
	states map[td.State]int // of its children
	ready  bool             // it is in Graph.ready
	cycle  []td.TaskID      // what waits for each other in a circle it is in; in a large knot one for all
}

func (n *node) container() bool { return n.Holds || len(n.children) > 0 }

// satisfied reports whether those that the node blocks need not wait for it.
func (n *node) satisfied() bool { return n.deleted && !n.there || n.state == td.Completed }

// Deleted reports whether a task was deleted: those that it blocked do not wait for it.
func (g *Graph) Deleted(id td.TaskID) bool {
	i, known := g.at[id]
	return known && g.nodes[i].deleted && !g.nodes[i].there
}

// derive is the state that follows from what is recorded.
func (n *node) derive() td.State {
	all := len(n.children)
	open := n.states[td.Queued] + n.states[td.Blocked]
	switch {
	case !n.there:
		return ""
	case all == 0:
		return n.State
	case n.states[td.Failed]+n.states[td.Abandoned] > 0:
		return td.Failed
	case n.states[td.Cancelled] == all:
		return td.Cancelled
	case n.states[td.Completed]+n.states[td.Cancelled] == all:
		return td.Completed
	case open+n.states[td.Cancelled] == all:
		return td.Queued
	}
	return td.Running
}

// count keeps the states of the node's children.
func (n *node) count(s td.State, by int) {
	if s == "" {
		return
	}
	if n.states == nil {
		n.states = map[td.State]int{}
	}
	n.states[s] += by
}

// before is the order in which ready tasks are taken: by priority, then by age.
func before(a, b *node) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

func without(list []int, i int) []int {
	at := slices.Index(list, i)
	if at < 0 {
		return list
	}
	return slices.Delete(list, at, at+1)
}
