package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/sandbox"
)

// MaxOutput is the most characters a tool's result holds (L-8).
const MaxOutput = 30_000

// escapes are the sequences by which programs colour and move; a model has no use for them and a
// person's terminal should not obey them.
var escapes = regexp.MustCompile(`\x1b(?:\[[0-9;?<=>]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Za-z])`)

// overprinted is a character with the backspace that has the next one printed over it, as man has it for bold.
var overprinted = regexp.MustCompile(`[^\x00-\x1f]\x08`)

// Clean makes bytes from outside fit to be read by models and shown to people: valid UTF-8, no terminal
// sequences, no control characters but newline and tab. Of what is printed over, what is seen stays.
func Clean(raw []byte) string {
	s := escapes.ReplaceAllString(strings.ToValidUTF8(string(raw), "\uFFFD"), "")
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if strings.Contains(s, "\b") {
		s = overprinted.ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return '\n'
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			return utf8.RuneError
		}
		return r
	}, s)
}

// Output is what a process wrote, cleaned, without secrets, and cut in the middle when it is more than MaxOutput
// characters. Secrets are taken out before it is cut: of one that a cut goes through, both halves would be left.
func Output(secrets *redact.Redactor, r sandbox.ProcessResult) string {
	if r.Omitted == 0 { // one piece: a character may lie across the two
		all := []rune(secrets.String(Clean(slices.Concat(r.Head, r.Tail))))
		if len(all) <= MaxOutput {
			return string(all)
		}
		return join(all[:MaxOutput/2], all[len(all)-MaxOutput/2:], fmt.Sprintf("%d characters", len(all)-MaxOutput))
	}
	head, tail := []rune(secrets.Piece(Clean(r.Head), false, true)), []rune(secrets.Piece(Clean(r.Tail), true, false))
	omitted := r.Omitted
	if len(head) > MaxOutput/2 {
		omitted += int64(len(string(head[MaxOutput/2:])))
		head = head[:MaxOutput/2]
	}
	if len(tail) > MaxOutput/2 {
		omitted += int64(len(string(tail[:len(tail)-MaxOutput/2])))
		tail = tail[len(tail)-MaxOutput/2:]
	}
	return join(head, tail, fmt.Sprintf("%d bytes", omitted))
}

// Text is what a tool has of a text of others, as Output.
func Text(secrets *redact.Redactor, text string) string {
	return Output(secrets, sandbox.ProcessResult{Head: []byte(text)})
}

// AtMost is the result of a tool, cut in the middle when it is beyond what any tool has reason to say: a net below the bounds of each.
func AtMost(content string) string {
	const most = 2 * MaxOutput
	if len(content) <= most {
		return content
	}
	all := []rune(content)
	if len(all) <= most {
		return content
	}
	return join(all[:most/2], all[len(all)-most/2:], fmt.Sprintf("%d characters", len(all)-most))
}

func join(head, tail []rune, omitted string) string {
	return string(head) + "\n[truncated, " + omitted + " omitted]\n" + string(tail)
}
