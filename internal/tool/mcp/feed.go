package mcp

import (
	"errors"
	"io"
	"os"
	"time"
)

// What a server may send.
const (
	maxLine     = 8 << 20  // one message
	maxFlow     = 64 << 20 // bytes in flowWindow
	maxMessages = 10_000   // messages in flowWindow
	flowWindow  = 10 * time.Second
	maxNoise    = 200 // bytes shown of a line that is no message
)

var errFlood = errors.New("it sends more than anyone can read")

// meter counts what comes in a while.
type meter struct {
	since    time.Time
	bytes    int
	messages int
}

// add counts n bytes with these messages, and says whether it is too much.
func (m *meter) add(n, messages int) error {
	if now := time.Now(); now.Sub(m.since) > flowWindow {
		*m = meter{since: now}
	}
	m.bytes += n
	m.messages += messages
	if m.bytes > maxFlow || m.messages > maxMessages {
		return errFlood
	}
	return nil
}

// feed is what a server writes, line by line, without the lines that are no messages: many programs, and what
// starts them, greet on their standard output. A line that begins like a message is passed on whatever it is.
type feed struct {
	r     io.ReadCloser
	noise func(line []byte) // told of what is dropped

	meter meter
	state feedState
	lost  []byte // the beginning of the line that is being dropped
}

type feedState int

const (
	between feedState = iota
	inMessage
	inNoise
)

// Read implements io.Reader. It leaves nothing behind to be read later.
func (f *feed) Read(p []byte) (int, error) {
	for {
		n, err := f.r.Read(p)
		kept, messages := f.sift(p[:n])
		if over := f.meter.add(n, messages); over != nil {
			return 0, over // without a byte: an error that comes with some may be forgotten over them
		}
		if kept > 0 || err != nil || len(p) == 0 {
			return kept, err
		}
	}
}

// sift moves what belongs to messages to the front of p, and counts it and the messages that end in it.
func (f *feed) sift(p []byte) (kept, messages int) {
	for _, c := range p {
		if f.state == between {
			switch c {
			case ' ', '\t', '\r', '\n':
				continue
			case '{':
				f.state = inMessage
			default:
				f.state = inNoise
			}
		}
		if f.state == inMessage {
			p[kept] = c
			kept++
		} else if len(f.lost) < maxNoise && c != '\n' {
			f.lost = append(f.lost, c)
		}
		if c == '\n' {
			if f.state == inMessage {
				messages++
			} else {
				f.noise(f.lost)
				f.lost = f.lost[:0]
			}
			f.state = between
		}
	}
	return kept, messages
}

// Close implements io.Closer.
func (f *feed) Close() error { return f.r.Close() }

// pump is a server's standard input. A server that does not read for a while is given up: whoever writes holds
// up all who want to write.
type pump struct {
	w     *os.File
	limit time.Duration
	fail  func(error)
}

// Write implements io.Writer.
func (p *pump) Write(b []byte) (int, error) {
	if err := p.w.SetWriteDeadline(time.Now().Add(p.limit)); err != nil {
		return 0, err
	}
	n, err := p.w.Write(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("it does not read what it is sent")
		p.fail(err) // half a message may be written: nothing can follow it
	}
	return n, err
}

// Close implements io.Closer.
func (p *pump) Close() error { return p.w.Close() }
