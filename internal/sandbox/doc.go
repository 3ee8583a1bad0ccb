// Package sandbox runs the commands of tools under a shim that outlives the daemon, and finds out after
// a crash what became of each of them.
//
// A command is started at most once. The daemon makes a folder under the spool, named by the step, and
// hands it to a shim: the same binary, as `taskdaemon exec`. The two share nothing but that folder and a
// pipe, so that either may be killed at any instant:
//
//	reserved     the folder was made before it was on record that the command is to run; without a spec no shim knows of it
//	spec.json    what to run, written by the daemon before the folder gets its name
//	lock         flocked exclusively by the shim until the result is on disk; holds the shim's identity
//	started      made by the shim, under the lock, before the command is executed
//	void         made by the daemon, under a shared lock: a shim that finds it runs nothing
//	out          the output as it comes, up to OutputCap bytes
//	still-*      a daemon asks that the command be kept still while another, a person's, runs
//	held-*       the shim keeps it still for that; both go when the other has ended
//	claim        touched by a daemon that adopts the command: the time limit counts anew from there
//	result.json  how it ended; on disk (fsync, rename, fsync of the folder) before the daemon is told. Room for it is
//	             reserved before the command is executed
//
// Find reads this as: lock held, running; result there, finished; started without either, or no folder, lost;
// otherwise never started, and void from now on. Nothing here is synced before the result is, because
// the page cache survives the death of a process; it does not survive that of the host, so a folder of
// another boot that holds no result is lost, whatever else it says. A folder that never reached the
// disk cannot be found at all: whoever keeps the intent of an opaque step compares boot ids as well.
// A result that is found needs no sync: one of another boot was read from the disk, and one of this boot is
// journaled, which syncs it, before its folder is removed.
//
// The shim is a session leader and the subreaper of all that the command starts. When the command's
// main process ends, whatever it left behind is killed, daemonised or not, so that a command that has
// ended is over. The shim enforces the time limit itself, and ends the tree on SIGTERM. When the daemon
// dies the shim goes on, at most to its limit: a command that nobody claims does not live for ever.
//
// A shim whose command ended by itself serves the next one of the same task, which saves the start of a
// process. It never serves another task, and none after it was told to end one, so that no late signal
// meets the wrong command. It leaves when the daemon does.
//
// A command may have a Profile. The shim then gives up rights on a thread of its own (cell), before the command
// counts as started, and starts the command from there: Landlock and mounts for files, a network namespace
// (island), a filter of system calls, limits. docs/adr/0007-sandbox.md says why.
//
// The package is for Linux: it relies on /proc, pidfds and subreapers.
package sandbox
