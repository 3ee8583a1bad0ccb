package anthropic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxEvent is the longest event that is read.
const maxEvent = 32 << 20

var errEventTooLong = &garbled{fmt.Errorf("an event is longer than %d MiB", maxEvent>>20)}

// events splits a stream of server-sent events. The SDK's splitter looks at a line again from its start
// whenever a piece of it arrives, which makes a long line of small pieces cost the square of its length.
type events struct {
	r    *bufio.Reader
	name []byte
	data []byte
	line []byte // of a line that does not fit the reader's buffer
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReader(r)} }

// next is the next event; it is valid until the one after. An event that the stream breaks off in the
// middle of is not an event: next returns the error that ended the stream.
func (e *events) next() (name, data []byte, err error) {
	e.name, e.data = e.name[:0], e.data[:0]
	for {
		line, err := e.readLine()
		if err != nil {
			return nil, nil, err
		}
		if len(line) == 0 {
			if len(e.name) == 0 && len(e.data) == 0 {
				continue
			}
			return e.name, e.data, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name = append(e.name[:0], value...)
		case "data":
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			if e.data = append(e.data, value...); len(e.data) > maxEvent {
				return nil, nil, errEventTooLong
			}
		}
	}
}

// readLine is the next line without its end.
func (e *events) readLine() ([]byte, error) {
	line, err := e.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		e.line = append(e.line[:0], line...)
		for errors.Is(err, bufio.ErrBufferFull) {
			if len(e.line) > maxEvent {
				return nil, errEventTooLong
			}
			line, err = e.r.ReadSlice('\n')
			e.line = append(e.line, line...)
		}
		line = e.line
	}
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

// event has the fields of every event this package reads.
type event struct {
	Type    string `json:"type"`
	Index   *int   `json:"index"`
	Message *struct {
		Model string `json:"model"`
		Usage *usage `json:"usage"`
	} `json:"message"`
	ContentBlock *struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta *struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage *usage    `json:"usage"`
	Error *apiError `json:"error"`
}

type usage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}
