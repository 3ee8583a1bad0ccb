// Package hook lets a person step into a loop at thirty named points: look on, change what passes
// through, stop it, or add words for the model (G-10).
//
// A Point says what may be done there; its Payload says what a hook is told. A Spec is one configured
// hook: a shell command, an address, or a function of the daemon itself. New checks all of them at once,
// Match says which of them a payload meets, in order, and Fire lets each work on what the one before it
// left. What a hook said, whichever way it was asked, becomes a Result: plain data, fit for the journal.
//
// The package records nothing. A command is an effect that must survive the daemon, so asking one comes
// in pieces, for whoever keeps the steps: Encode makes what it reads, Prepare puts that into a folder,
// Wrap is the script to run under the shim, Collect reads what it wrote, and Interpret, which is pure,
// says what that means. The next daemon can go on at any of them. HTTP and Call are whole.
//
// A hook that fails (a wrong exit, half an object, a flood, too slow, a change of what is not its to
// change) decides nothing: its Spec says whether things then go on (open) or stop (closed), and the
// Result carries what went wrong either way.
package hook

//go:generate go run ./hooksdoc ../../docs/hooks.md
