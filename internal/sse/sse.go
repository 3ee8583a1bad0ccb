// Package sse takes streams of server-sent events apart, as the WHATWG specification says, with two
// exceptions: a line ends with \n or \r\n, never with a lone \r, and an event that the stream breaks off
// in the middle of is not an event.
//
// Who sends the stream is not trusted: no line and no event is longer than the reader's limit. A line is
// looked at once, however small the pieces are in which it arrives.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// ErrTooLong is a line or an event beyond the limit of its reader.
var ErrTooLong = errors.New("an event is too long")

// Event is one event with data.
type Event struct {
	Name []byte // empty if it has none
	Data []byte // its lines, joined by \n
}

// Reader reads the events of one stream.
type Reader struct {
	// BareErrors takes a field "error" for the data of an event of that name, as llama.cpp once wrote them.
	BareErrors bool

	r    *bufio.Reader
	max  int
	name []byte
	data []byte
	line []byte // of a line that does not fit the buffer of r
}

// NewReader reads r, events of at most limit bytes each. If r is a *bufio.Reader, its buffer is used.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: bufio.NewReader(r), max: limit}
}

// Next is the next event that has data; it is valid until the one after. The error is the one that ended
// the stream, io.EOF if nothing else did, or ErrTooLong.
func (r *Reader) Next() (Event, error) {
	r.forget()
	some := false // a line of data, be it empty
	for {
		line, err := r.readLine()
		if err != nil {
			return Event{}, err
		}
		if len(line) == 0 {
			if some {
				return Event{Name: r.name, Data: r.data}, nil
			}
			r.forget()
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			r.name = append(r.name[:0], value...)
			continue
		case "error":
			if !r.BareErrors {
				continue
			}
			r.name = append(r.name[:0], field...)
		case "data":
		default:
			continue
		}
		if some {
			r.data = append(r.data, '\n')
		}
		some = true
		if r.data = append(r.data, value...); len(r.data) > r.max {
			return Event{}, ErrTooLong
		}
	}
}

func (r *Reader) forget() { r.name, r.data = r.name[:0], r.data[:0] }

// readLine is the next line without its end.
func (r *Reader) readLine() ([]byte, error) {
	line, err := r.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		r.line = append(r.line[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(r.line) > r.max {
				return nil, ErrTooLong
			}
			line, err = r.r.ReadSlice('\n')
			r.line = append(r.line, line...)
		}
		line = r.line
	}
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}
