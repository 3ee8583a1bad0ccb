package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// FuzzNames checks that whatever tools are called, models can call each of them, whatever their order.
func FuzzNames(f *testing.F) {
	f.Add("a.b\na/b\na_b", "x")
	f.Add(strings.Repeat("long", 30)+"1\n"+strings.Repeat("long", 30)+"2", "server-1")
	f.Add("ä\nö\n\n__", "a_b")
	f.Add("a.b\na/b\na_b_d6f5d33b", "s")
	ok := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	f.Fuzz(func(t *testing.T, lines, server string) {
		if s := (Server{Name: server, Command: "x"}); s.check() != nil {
			return
		}
		tools := map[string]string{} // name for the server: name for models
		var list, back []*sdk.Tool
		for name := range strings.SplitSeq(lines, "\n") {
			tl := &sdk.Tool{Name: name, InputSchema: map[string]any{}}
			list, back = append(list, tl), append([]*sdk.Tool{tl}, back...)
		}
		s := &Server{Name: server}
		taken := map[string]bool{}
		good, _ := offers(s, list)
		for _, o := range good {
			if !ok.MatchString(o.Name) || !strings.HasPrefix(o.Name, "mcp__"+server+"__") || taken[o.Name] {
				t.Errorf("%q is called %q", o.Tool, o.Name)
			}
			taken[o.Name] = true
			tools[o.Tool] = o.Name
		}
		again, _ := offers(s, back)
		for _, o := range again {
			if tools[o.Tool] != o.Name {
				t.Errorf("%q is called %q, and in another order %q", o.Tool, tools[o.Tool], o.Name)
			}
		}
	})
}

// FuzzSchema checks that no schema a server sends can do harm, and that what is told is what was sent.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"type":"string","pattern":"^x"}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`,
		`{"type":"object","not":{"$ref":"#"}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/x~1y","type":"null"}},"definitions":{"x/y":{"type":"integer"}},"dependencies":{"a":["b"],"b":{"minProperties":1}}}`,
		`{"type":["object"]}`, `{"$id":"http://x/","type":"object"}`, `{"items":[{}],"additionalItems":false}`, `{"properties":{"$ref":{"type":"string"}}}`, `[]`, `null`, `true`,
	} {
		f.Add(s, `{"a":"x","b":[{"a":{"a":1}}]}`)
	}
	f.Fuzz(func(t *testing.T, sent, input string) {
		var v any
		if json.Unmarshal([]byte(sent), &v) != nil {
			return
		}
		told, err := normalize(v)
		if err != nil {
			return
		}
		check, err := compile(told)
		if err != nil {
			return
		}
		out, err := decode(check, json.RawMessage(input))
		if err != nil {
			return
		}
		if !json.Valid(out) || out[0] != '{' {
			t.Errorf("sends %s", out)
		}
	})
}

// FuzzFeed checks that what is passed on of a server's output are its lines that begin like messages, however the
// output is cut into pieces.
func FuzzFeed(f *testing.F) {
	f.Add([]byte("hello\n{\"a\":1}\n\n[x]\n  {\"b\":2}\r\nbye"))
	f.Add([]byte("{\n{\n}\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want bytes.Buffer
		for line := range bytes.SplitAfterSeq(raw, []byte("\n")) {
			if line = bytes.TrimLeft(line, " \t\r\n"); len(line) > 0 && line[0] == '{' {
				want.Write(line)
			}
		}
		for _, r := range []io.Reader{bytes.NewReader(raw), iotest.OneByteReader(bytes.NewReader(raw)), iotest.DataErrReader(bytes.NewReader(raw))} {
			noise := 0
			got, err := io.ReadAll(&feed{r: io.NopCloser(r), noise: func(l []byte) { noise += len(l) }})
			if err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%q gave %q, %v, want %q", raw, got, err, want.Bytes())
			}
		}
	})
}
