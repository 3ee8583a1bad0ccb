package openai

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
	data []byte
	line []byte // of a line that does not fit the reader's buffer
}

func newEvents(r io.Reader) *events { return &events{r: bufio.NewReader(r)} }

// next is the data of the next event, and whether it goes by the name of an error; it is valid until the
// one after. An event that the stream breaks off in the middle of is not an event: next returns the error
// that ended the stream.
func (e *events) next() (data []byte, failed bool, err error) {
	e.data = e.data[:0]
	for {
		line, err := e.readLine()
		if err != nil {
			return nil, false, err
		}
		if len(line) == 0 {
			if len(e.data) == 0 {
				failed = false
				continue
			}
			return e.data, failed, nil
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			failed = string(value) == "error"
			continue
		case "error": // so llama.cpp once wrote them
			failed = true
		case "data":
		default:
			continue
		}
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		if e.data = append(e.data, value...); len(e.data) > maxEvent {
			return nil, false, errEventTooLong
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

// chunk has the fields of a stream's events that this package reads.
type chunk struct {
	Model   words           `json:"model"`
	Choices []choice        `json:"choices"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type choice struct {
	Index  int    `json:"index"`
	Finish string `json:"finish_reason"`
	Delta  struct {
		Content string     `json:"content"`
		Refusal string     `json:"refusal"`
		Calls   []callPart `json:"tool_calls"`
		// What a model thinks aloud goes by two names, and where by both, says the same.
		ReasoningContent words `json:"reasoning_content"`
		Reasoning        words `json:"reasoning"`
	} `json:"delta"`
}

// callPart is a piece of a tool call.
type callPart struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"` // a string, by the protocol
	} `json:"function"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"` // with those read from and written to the cache
	Completion int64 `json:"completion_tokens"`
	Details    struct {
		Cached  int64 `json:"cached_tokens"`
		Written int64 `json:"cache_write_tokens"`
	} `json:"prompt_tokens_details"`
}

// words is a string the answer does not depend on: anything else in its place is passed over.
type words string

// UnmarshalJSON takes strings.
func (w *words) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*w = words(s)
	}
	return nil
}
