// Package sqlite keeps the journal in one SQLite database, with bodies too large for it in files
// beside it. docs/journal.md is the format.
//
// One goroutine writes. Whatever was handed to it while the last commit ran goes into the next
// transaction, so that many writers share one fsync (WAL, synchronous=FULL). Each call in the group is
// checked before it writes anything, so a call that is refused spoils no other. Events are published
// on the bus after the commit and before the call returns. Readers use connections of their own and
// never wait for the writer.
//
// A failed fsync is not papered over: the kernel may have dropped what it could not write, so the calls
// of that group return td.Unknown and the store refuses every further write until it is opened anew.
// Opening checkpoints the write-ahead log, so that nothing is shown that a power cut could take back.
package sqlite
