// Package notify says to people that a task needs them or has ended: in the title of a terminal, by its
// bell, and through any command they like, a voice for one (L-13).
//
// What a task is called and what it says of itself was written by models and pages nobody knows. It
// ends up on terminals and in the environments of commands, so everything that leaves this package is
// one line of printable characters, whatever came in: no control characters, no escape sequences,
// nothing that turns the direction of reading, and not too long.
package notify

import "io"

// maxTitle is about as much as a terminal's tab shows.
const maxTitle = 120

// Title sets the title of the terminal w is. An empty text takes it back.
//
// Effect: pure in its result, for setting it twice leaves the same title; nothing is to be found out
// after an interruption. The caller knows that w is a terminal.
func Title(w io.Writer, text string) error {
	_, err := io.WriteString(w, "\x1b]2;"+line(text, maxTitle)+"\a")
	return err
}

// Bell rings the bell of the terminal w is.
//
// Effect: opaque and harmless: nobody can tell whether it rang. An interrupted one is let be; a second
// ring would call a person twice.
func Bell(w io.Writer) error {
	_, err := io.WriteString(w, "\a")
	return err
}
