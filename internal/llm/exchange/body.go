package exchange

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"unicode/utf8"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// Body is a request's body in parts, so that the conversation is not copied for each call.
type Body struct {
	parts  [][]byte
	length int64
}

// Add appends a part. It must stay as it is until the call has ended.
func (b *Body) Add(part []byte) {
	b.parts = append(b.parts, part)
	b.length += int64(len(part))
}

// Open gives the body from its beginning, as often as it is asked.
func (b *Body) Open() (io.ReadCloser, error) {
	readers := make([]io.Reader, len(b.parts))
	for i, p := range b.parts {
		readers[i] = bytes.NewReader(p)
	}
	return io.NopCloser(io.MultiReader(readers...)), nil
}

// Give makes it the body of req.
func (b *Body) Give(req *http.Request) {
	req.ContentLength = b.length
	req.GetBody = b.Open // lets the transport send again on a new connection if the pooled one was dead
	req.Body, _ = b.Open()
}

// Conversation encodes the messages of req, each by encode, through the Wire it brings: only those that
// are new cost anything. The Wire says where each ends.
func Conversation(req llm.Request, encode func([]byte, td.Message) ([]byte, error)) ([]byte, *llm.Wire, error) {
	wire := req.Wire
	if wire == nil {
		wire = &llm.Wire{}
	}
	messages, err := wire.Extend(req.Messages, encode)
	return messages, wire, err
}

const hexDigits = "0123456789abcdef"

// AppendTemperature writes the temperature of a call, unless it is the provider's own.
func AppendTemperature(b []byte, t json.Number) []byte {
	if t == "" {
		return b
	}
	b = append(b, `,"temperature":`...)
	return append(b, t...)
}

// AppendString writes s as a JSON string. Bytes that are not UTF-8 become U+FFFD, as encoding/json has it.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || n != 1 {
				i += n
				continue
			}
			b = append(append(b, s[from:i]...), "\ufffd"...)
			i++
			from = i
			continue
		}
		b = append(b, s[from:i]...)
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, '\\', 'n')
		case '\t':
			b = append(b, '\\', 't')
		case '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
