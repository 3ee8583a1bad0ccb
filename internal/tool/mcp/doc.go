// Package mcp offers the tools of MCP servers to the loop. One pool holds a client per server for all loops.
//
// A server is started when it is first needed, never before, and serves all loops at once. It is ended when
// nobody has called it for a while, with all the processes it started, and started again at the next call.
// One that dies is started again at the next call, too, but not before a pause that grows with each failure
// in a row. A call waits for a short pause and is refused at once in a long one, so that no turn hangs.
//
// Nothing a server sends is trusted. The length of a line, the number of lines and bytes in a while, the
// number and size of tools and the length of a result are bounded; lines that are no messages are dropped;
// a schema that is broken, or would make its reader run for ever, costs the server that tool; what a model
// sends is held against the schema before the server sees it. Only of a server that the config calls
// trusted is it believed that a tool merely looks.
//
// What a run is offered is a value, []Offer, for the run's own record: a server that changes its list changes
// what later runs are offered, not what this one is. Bind makes tools of offers without asking the server.
//
// Calls are opaque, unless they are pure: the pool sends a call once and never again by itself, and after a
// crash nobody can tell whether one in flight took effect. Servers die with the daemon; what one leaves
// behind when the daemon is killed is found by a mark in its environment, see KillStrays.
//
// The package is for Linux: it relies on /proc, pidfds and the parent-death signal.
package mcp
