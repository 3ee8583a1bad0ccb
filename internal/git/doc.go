// Package git is the only caller of the git binary.
//
// It never lets the caller's surroundings in: variables that point git at another repository, index or
// object store are dropped, hooks and file-system monitors are off, nothing prompts, and messages come
// in one language. Everything that must last is written with core.fsync=all, because git's own default
// loses commits at a power cut.
//
// A user's repository is only read, except by Snapshot, which adds objects and one private ref, by Graph, which keeps
// a branch and a worktree of its own in it, by Worktree, which does the same for a run, and by MoveRef. The index, HEAD and
// the files of a user's checkout are never touched, except by FastForward, and only while they are clean. Checkout makes a throw-away copy of one, which is a repository of its own. Repo is
// a bare repository that belongs to taskdaemon alone; its caller makes sure that one process at a time writes to it.
//
// Errors carry a td.Kind: Unavailable (no git, or a remote that does not answer), NotFound (no such
// repository), Locked, Storage, Corrupt, Conflict, Auth, Refused, Interrupted, and quote what git said.
package git
