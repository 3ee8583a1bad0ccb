// Package memory keeps what was learned from one task to the next (A-7, L-2, B-5).
//
// A learning is a Markdown file with front matter in .taskdaemon/knowledge, one file each, so that people
// read, edit and review them and git carries them. The files are the truth: a full-text index follows
// them and notices what an editor or a git pull changed; it may be lost at any time.
//
// Adding is a keyed effect: adding the same learning again, after a crash or by another task, changes
// nothing, and Probe tells whether it was done. What is written is on disk when Add returns. A learning
// that cites files is void once one of them has changed: it is shown as stale and no task is told it.
//
// A Store is safe for concurrent use; several processes may use one folder.
package memory
