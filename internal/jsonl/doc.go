// Package jsonl is the log of changes that a work graph is kept in, tasks.jsonl: how a change is written,
// what changes add up to, and how the logs of two clones become one. It is pure: bytes in, bytes out, no
// files and no clock of its own. Whoever owns the file locks it, appends to it and syncs it.
//
// A line is one change of one task, as a JSON object:
//
//	{"add":{"labels":["ui"]},"op":"019a86d3b5c0-000000-ana","set":{"title":"Log in"},"task":"019a…"}
//
// op is the reading of a hybrid logical clock and the actor who read it; it names the change, and its text
// sorts like time. set gives fields a value (null takes it away), add and remove change the members of
// sets. Keys that this version does not know are kept. A task is deleted by setting its field deleted.
//
// A task is the fold of its changes. Of each field, and of each member of each set, the newest op is the
// one that counts; if one op says two things of it, the value that is bytewise larger counts, and adding
// counts more than removing. So the fold is the same in whatever order changes come, however often.
//
// A compact line stands for many changes. It is a change with at, which says for each field and member
// whose op is not the line's own which op it is. Folded beside the changes it stands for, in part or in
// whole, it gives the same record as these alone.
//
// Merge is the union of lines, sorted, without the ones that compact lines make needless. It is
// commutative, associative and idempotent down to the byte, so clones that merge in any order end with
// the same file. Bad lines are kept and reported, and never stop the reading of others.
//
// There is one canonical way to write a change: no space between tokens, keys and members sorted bytewise
// and once, only those characters escaped that must be. Numbers stay as they were written. Decode takes
// other ways, too, and gives the same change for them; Append and Merge write the canonical one.
package jsonl
