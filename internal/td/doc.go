// Package td holds the words of taskdaemon: ids, tasks, states, events, steps, requests, commands and
// errors, and the one table of legal moves between states.
//
// It decides and never acts: no clock, no disk, no network. A Move made here carries the events that,
// appended to the journal, change a task's state; nothing else does. Every value that is written to
// disk is named in this package, so a rename here is a change of format.
package td

//go:generate go run ./statesdoc ../../docs/states.md
//go:generate go run ./recordsdoc . ../../docs/records.md
