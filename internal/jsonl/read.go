package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"unicode/utf8"
)

// Place is where a line begins. The zero value is the beginning of a log.
type Place struct {
	Lines  int   // how many lines are before it
	Offset int64 // how many bytes
}

// Entry is one line of a log: a change, or what is wrong with it.
type Entry struct {
	Place
	Change Change
	Bad    *Bad // nil for a change
	Torn   bool // the last line, without its end: no change yet, and not bad either
	// Line is what the change was read from. It is good until the next entry is asked for.
	Line []byte

	// Next is where reading goes on another time. Behind a line without a newline it is the beginning of
	// that line, which is to be read again when there is more of it.
	Next Place
}

// Bad is a line that cannot be read. It stays in the log, and counts for nothing.
type Bad struct {
	Line   int // the first is 1
	Offset int64
	Why    string
}

func (b Bad) String() string { return fmt.Sprintf("line %d: %s", b.Line, b.Why) }

// chunk is how much is read at once.
const chunk = 256 << 10

// Read gives the lines of a log that r reads from the given place on. Blank lines are passed over. An
// error is one of r, and the last thing given.
//
// Nothing in a log stops the reading of what comes after it. A line longer than MaxLine is bad and is not
// held in memory. A line may end with \r\n, and may begin with a byte order mark, as editors and files
// that were put together have it.
func Read(r io.Reader, from Place) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		in := input{r: r}
		var d decoder
		for at := from; ; {
			l, err := in.line()
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Entry{Place: at, Next: at}, err)
				}
				return
			}
			e := Entry{Place: at, Next: at}
			if l.ended {
				e.Next = Place{Lines: at.Lines + 1, Offset: at.Offset + l.size}
			}
			at = e.Next
			if !l.long && isBlank(trim(l.text)) {
				if !l.ended {
					return
				}
				continue
			}
			d.entry(&e, l)
			if !yield(e, nil) || !l.ended {
				return
			}
		}
	}
}

// entry says what a line that is not blank holds.
func (d *decoder) entry(e *Entry, l rawLine) {
	err := error(errTooLong)
	if !l.long {
		text := trim(l.text)
		if e.Change, err = d.decode(text); err != nil && !l.ended && d.mayGrow(text) {
			e.Torn = true
			return
		}
		e.Line = text
	}
	if err != nil {
		e.Bad = &Bad{Line: e.Lines + 1, Offset: e.Offset, Why: err.Error()}
	}
}

// mayGrow reports whether text, which is no change, may be the beginning of one.
func (d *decoder) mayGrow(text []byte) bool {
	if at := badUTF8(text); at >= 0 && !utf8.FullRune(text[at:]) {
		text = text[:at]
	}
	_, err := d.decode(text)
	return errors.Is(err, errShort)
}

// trim takes away what programs put around a line.
func trim(line []byte) []byte {
	line = bytes.TrimRight(line, "\r")
	for bytes.HasPrefix(line, byteOrderMark) {
		line = line[len(byteOrderMark):]
	}
	return line
}

var byteOrderMark = []byte("\uFEFF")

func isBlank(line []byte) bool { return len(bytes.TrimLeft(line, " \t\r")) == 0 }

// rawLine is a line as it stands in the log.
type rawLine struct {
	text  []byte // without its newline; nothing if it is too long
	size  int64  // with its newline
	ended bool   // it has one
	long  bool
}

// input reads lines. A buffer is never written over, since changes share its memory: when it is full, the
// next one takes over what is left.
type input struct {
	r   io.Reader
	buf []byte // what was read and not yet given
	err error  // that ended the reading
}

// line is the next line; the error is the one that came after the last.
func (in *input) line() (rawLine, error) {
	looked := 0
	for {
		if at := bytes.IndexByte(in.buf[looked:], '\n'); at >= 0 {
			text := in.give(looked + at + 1)
			return in.whole(text[:len(text)-1], int64(len(text)), true), nil
		}
		looked = len(in.buf)
		if looked > MaxLine+slack {
			return in.skip()
		}
		if in.err != nil {
			if looked == 0 || !errors.Is(in.err, io.EOF) {
				return rawLine{}, in.err
			}
			return in.whole(in.give(looked), int64(looked), false), nil
		}
		in.fill()
	}
}

// slack is how much longer a line may be for what trim takes away.
const slack = 64

func (in *input) whole(text []byte, size int64, ended bool) rawLine {
	if len(trim(text)) > MaxLine {
		return rawLine{size: size, ended: ended, long: true}
	}
	return rawLine{text: text, size: size, ended: ended}
}

func (in *input) give(n int) []byte {
	text := in.buf[:n:n]
	in.buf = in.buf[n:]
	return text
}

// skip passes over a line that is too long.
func (in *input) skip() (rawLine, error) {
	size := int64(0)
	scratch := in.buf
	for {
		if at := bytes.IndexByte(in.buf, '\n'); at >= 0 {
			in.buf = in.buf[at+1:]
			return rawLine{size: size + int64(at) + 1, ended: true, long: true}, nil
		}
		size += int64(len(in.buf))
		in.buf = nil
		if in.err != nil {
			if !errors.Is(in.err, io.EOF) {
				return rawLine{}, in.err
			}
			return rawLine{size: size, long: true}, nil
		}
		in.buf = scratch[:0] // nothing of this line was given to anybody
		in.fill()
	}
}

// fill reads more, as much as there is room for.
func (in *input) fill() {
	if len(in.buf) == cap(in.buf) {
		in.buf = slices.Grow(in.buf, max(chunk, len(in.buf)))
	}
	for range 100 {
		n, err := in.r.Read(in.buf[len(in.buf):cap(in.buf)])
		in.buf = in.buf[:len(in.buf)+n]
		if n > 0 || err != nil {
			in.err = err
			return
		}
	}
	in.err = io.ErrNoProgress
}
