package frontmatter

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// Problem is a file that could not be used. Whoever reads a folder of files goes on with the others and
// tells a person.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // from 1; 0: the file as a whole
	Msg  string `json:"msg"`
}

func (p Problem) Error() string {
	if p.Line > 0 {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Msg)
	}
	return fmt.Sprintf("%s: %s", p.File, p.Msg)
}

// maxMsg is how long a problem's text gets, in characters: it may quote what somebody wrote.
const maxMsg = 300

// ProblemOf says what err is about, on one line that is safe to print.
func ProblemOf(file string, err error) Problem {
	p := Problem{File: file, Msg: err.Error()}
	if e, ok := errors.AsType[*Error](err); ok {
		p.Line, p.Msg = e.Line, e.Msg
	}
	p.Msg = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.Join(strings.Fields(p.Msg), " "))
	if r := []rune(p.Msg); len(r) > maxMsg {
		p.Msg = string(r[:maxMsg-1]) + "…"
	}
	return p
}
