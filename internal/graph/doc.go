// Package graph keeps the work graph of one project: its tasks, what lies between them, and how they ended.
//
// The truth is tasks.jsonl, a log of changes (package jsonl) in the project's .taskdaemon folder, which people
// share through git. A change is appended and synced before anyone is told. An index in SQLite follows the log
// by offset and hash, so that opening a large graph does not read it again; it may be deleted at any time. What
// others did to the file meanwhile, be it a pull, a hand edit or a rewrite, is noticed with the next call.
//
// Every change goes through the same checks, whoever asks for it: ids exist, nothing waits for itself, text has
// bounds. What comes in with the file has had no checks: it is shown as it is, and what is wrong with it is said.
//
// What runs is not its business: states of tasks that run are put in from outside (Store.SetState) and are not
// written to the log, which keeps closing verdicts only.
package graph
