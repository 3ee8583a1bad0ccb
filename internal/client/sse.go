package client

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxMessage bounds one message of a stream.
const maxMessage = 256 << 20

var errTooLong = errors.New("message too long")

// message is one server-sent event.
type message struct {
	name string
	data []byte
}

// streamReader takes server-sent events apart, as the WHATWG specification says, except that lines end
// with \n or \r\n only: our server never sends a lone \r.
type streamReader struct {
	r   *bufio.Reader
	max int
}

func newStreamReader(r io.Reader) *streamReader {
	return &streamReader{r: bufio.NewReaderSize(r, 32<<10), max: maxMessage}
}

// next is the next message with data. A message the stream breaks off in is none.
func (s *streamReader) next() (message, error) {
	var m message
	size := 0
	for {
		line, err := s.line(s.max - size)
		if err != nil {
			return message{}, err
		}
		size += len(line)
		if len(line) == 0 {
			if m.data != nil {
				return m, nil
			}
			m, size = message{}, 0
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			m.name = string(value)
		case "data":
			if m.data != nil {
				m.data = append(m.data, '\n')
			}
			m.data = append(m.data, value...)
			if m.data == nil {
				m.data = []byte{}
			}
		}
	}
}

// line is the next line without its end, of at most limit bytes.
func (s *streamReader) line(limit int) ([]byte, error) {
	var long []byte
	for {
		part, err := s.r.ReadSlice('\n')
		if len(long)+len(part) > limit+2 {
			return nil, errTooLong
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if long != nil {
			part = append(long, part...)
		}
		return bytes.TrimSuffix(part[:len(part)-1], []byte("\r")), nil
	}
}
