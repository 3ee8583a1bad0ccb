// Package workgraph decides what of a graph of tasks may run now, and what is in the way of the rest.
// It is pure: whoever owns a task's text and state puts them in, and asks.
//
// A task may have a parent, which makes the parent a container, and blockers, which must be completed
// first. A container never runs. Its state follows from its children: completed when all of them are, failed
// when one is, and so on upward; cancelled children do not count as long as there are others. What blocks a
// container blocks everything in it.
//
// What a task waits for is never stored, so nothing has to be put right after a crash: a graph that is made
// anew from the same nodes says the same. A graph changes with one node at a time and looks only at what that
// node touches. It belongs to one goroutine at a time.
package workgraph
