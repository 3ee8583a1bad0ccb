// Package sqlite keeps the journal in one SQLite database, with bodies too large for it in files
// beside it. docs/journal.md is the format.
//
// One goroutine writes. Whatever was handed to it meanwhile goes into the next transaction, so that many
// writers share one fsync. Each call in the group is checked before it writes anything, so a call that is
// refused spoils no other. A commit only writes the log (WAL, synchronous=NORMAL); a second goroutine
// syncs it while the next group is written, and then publishes the group's events on the bus and tells its
// callers. Readers use connections of their own. What they read may be ahead of the disk: a read returns
// when it is not.
//
// A failed fsync is not papered over: the kernel may have dropped what it could not write, so the calls
// of that group return td.Unknown and the store refuses every further write until it is opened anew.
// Opening checkpoints the write-ahead log, so that nothing is shown that a power cut could take back.
package sqlite
