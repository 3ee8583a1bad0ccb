package cli

import (
	"io"
	"os"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/text/width"
)

// screen is a terminal on which no line is left to the terminal to wrap: what does not fit into a row goes on in the next
// one behind a margin. So a row that begins at the edge begins a line of taskdaemon's own, whatever a model says and
// pads it with. The width is asked for at each write, as people resize terminals. A line to type is left whole, for people copy it: it begins with a
// mark of ours, and what it names is quoted.
type screen struct {
	file  *os.File
	asian bool // characters of ambiguous width take two columns
	*cursor
}

// cursor is where a terminal writes next. Stdout and stderr are one terminal.
type cursor struct {
	mu     sync.Mutex
	column int
	begin  string // of the line, without what indents it, as long as it may turn out to be one to type
	typed  bool   // it is one
	marks  int    // combining characters since the last that took room
	escape byte   // what kind of escape sequence is being written; 0: none
	rest   []byte // the beginning of a character
}

// onScreen is w, wrapped if it is a terminal.
func onScreen(w *os.File, c *cursor, getenv func(string) string) io.Writer {
	if !isTerminal(w) {
		return w
	}
	locale := ""
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale = getenv(name); locale != "" {
			break
		}
	}
	asian := strings.HasPrefix(locale, "ja") || strings.HasPrefix(locale, "ko") || strings.HasPrefix(locale, "zh")
	return &screen{file: w, asian: asian, cursor: c}
}

// entered takes note that the person has ended a line: the terminal shows what they type.
func (c *cursor) entered() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newLine()
}

func (c *cursor) newLine() { c.column, c.marks, c.begin, c.typed = 0, 0, "", false }

// typeMarks are what lines begin with that people type.
var typeMarks = []string{"→ ", "next: "}

// notBegun stands for the beginning of a line that is none of those.
const notBegun = "\x00"

// began takes note of the next character of a line.
func (c *cursor) began(r rune) {
	if c.typed || c.begin == notBegun || c.begin == "" && r == ' ' {
		return
	}
	c.begin += string(r)
	for _, mark := range typeMarks {
		if c.begin == mark {
			c.typed = true
			return
		}
		if strings.HasPrefix(mark, c.begin) {
			return
		}
	}
	c.begin = notBegun
}

// Write shows text, row by row.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.file.Write(s.rows(p, s.width())); err != nil {
		return 0, err
	}
	return len(p), nil
}

// width is how many columns there are now. A terminal that does not say has as many as most.
func (s *screen) width() int {
	size, err := unix.IoctlGetWinsize(int(s.file.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

const tabStop = 8

// rows is text with a margin at the beginning of each row that goes on a line. Tabs become spaces, as nobody knows where
// a terminal has its stops.
func (s *screen) rows(p []byte, columns int) []byte {
	text := append(s.rest, p...)
	s.rest = nil
	columns = max(columns, len(margin)+1)
	out := make([]byte, 0, len(text)+16)
	for len(text) > 0 {
		if !utf8.FullRune(text) {
			s.rest = append([]byte(nil), text...)
			break
		}
		r, n := utf8.DecodeRune(text)
		char := text[:n]
		text = text[n:]
		switch {
		case s.inEscape(r):
		case r == '\n' || r == '\r':
			s.newLine()
		case r == '\t':
			char = []byte(strings.Repeat(" ", tabStop-s.column%tabStop))
			if s.column+len(char) > columns {
				char = nil // the next character begins a row
				s.column = columns
			}
			s.column += len(char)
		case r < 0x20:
		default:
			s.began(r)
			w := s.columns(r)
			switch over := s.column+w > columns; {
			case over && s.typed: // the terminal wraps it
				s.column = 0
			case over:
				out = append(append(out, '\n'), margin...)
				s.column = utf8.RuneCountInString(margin)
			}
			s.column += w
		}
		out = append(out, char...)
	}
	return out
}

// inEscape reports whether a character is part of an escape sequence, which takes no room: only taskdaemon's own
// come here, for colours and the title.
func (s *screen) inEscape(r rune) bool {
	switch {
	case s.escape == 0 && r == '\x1b':
		s.escape = '\x1b'
	case s.escape == 0:
		return false
	case s.escape == '\x1b':
		s.escape = 0
		if r == '[' || r == ']' {
			s.escape = byte(r)
		}
	case s.escape == '[' && r >= '@' && r <= '~', s.escape == ']' && r == '\a':
		s.escape = 0
	}
	return true
}

// columns is how much room a character takes. In doubt it is more: a row that ends early harms nobody, one that
// the terminal ends does.
func (s *screen) columns(r rune) int {
	const emojiStyle, mostMarks = 0xfe0f, 2
	if r != emojiStyle && unicode.In(r, unicode.Mn, unicode.Me) {
		switch s.marks++; {
		case !unicode.Is(surelyNarrow, r):
			return 2
		case s.marks <= mostMarks:
			return 0
		}
		return 1 // terminals do not agree on how many of them fit one place
	}
	s.marks = 0
	switch kind := width.LookupRune(r).Kind(); {
	case r == emojiStyle: // it makes the one before it wide
		return 1
	case !unicode.Is(surelyNarrow, r), kind == width.EastAsianWide, kind == width.EastAsianFullwidth, kind == width.EastAsianAmbiguous && s.asian:
		return 2
	}
	return 1
}

// surelyNarrow are the blocks whose characters every terminal gives one column, but for those that the table of widths calls wide, and whose marks it gives none. Tables differ by the version of
// Unicode they were made for, which widens characters (the hexagrams of U+4DC0, the trigrams of U+2630) and adds others; so whatever is not here takes two.
var surelyNarrow = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0020, Hi: 0x007e, Stride: 1},
		{Lo: 0x00a0, Hi: 0x06ff, Stride: 1}, // Latin, combining marks, Greek, Cyrillic, Armenian, Hebrew, Arabic
		{Lo: 0x0900, Hi: 0x0eff, Stride: 1}, // the scripts of India, Sinhala, Thai, Lao
		{Lo: 0x10a0, Hi: 0x10ff, Stride: 1}, // Georgian
		{Lo: 0x1e00, Hi: 0x1fff, Stride: 1}, // more Latin and Greek
		{Lo: 0x2000, Hi: 0x2027, Stride: 1}, // punctuation
		{Lo: 0x2030, Hi: 0x205e, Stride: 1},
		{Lo: 0x2070, Hi: 0x20bf, Stride: 1}, // raised and lowered figures, currencies
		{Lo: 0x2100, Hi: 0x243f, Stride: 1}, // letters as signs, fractions, arrows, mathematics, technical signs, pictures of controls
		{Lo: 0x2500, Hi: 0x25ff, Stride: 1}, // boxes, blocks, shapes
		{Lo: 0x2713, Hi: 0x2717, Stride: 4}, // taskdaemon's own ticks and crosses
		{Lo: 0x2800, Hi: 0x28ff, Stride: 1}, // Braille, which spinners and graphs are drawn with
		{Lo: 0xff61, Hi: 0xffdc, Stride: 1}, // half-width letters
		{Lo: 0xfffd, Hi: 0xfffd, Stride: 1}, // what stands for broken text
	},
	LatinOffset: 1,
}
