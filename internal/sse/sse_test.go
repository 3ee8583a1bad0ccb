package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// all are the events of a stream as "name=data", and how it ended.
func all(r *Reader) (out []string, err error) {
	for {
		e, err := r.Next()
		if err != nil {
			return out, err
		}
		out = append(out, fmt.Sprintf("%s=%s", e.Name, e.Data))
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		bare         bool
		want         []string
	}{
		{"nothing", "", false, nil},
		{"one", "event: a\ndata: 1\n\n", false, []string{"a=1"}},
		{"no name", "data:1\n\n", false, []string{"=1"}},
		{"one space belongs to the colon", "data:  1 \n\n", false, []string{"= 1 "}},
		{"names do not outlive their event", "event: a\ndata: 1\n\ndata: 2\n\n", false, []string{"a=1", "=2"}},
		{"nor one without data", "event: a\n\ndata: 2\n\n", false, []string{"=2"}},
		{"the last name counts", "event: a\nevent: b\ndata: 1\n\n", false, []string{"b=1"}},
		{"lines", "data: 1\ndata\ndata: 3\n\n", false, []string{"=1\n\n3"}},
		{"an empty line of data is data", "data:\n\ndata\ndata: 2\n\n", false, []string{"=", "=\n2"}},
		{"carriage returns", "event: a\r\ndata: 1\r\n\r\n", false, []string{"a=1"}},
		{"comments and strangers", ": ping\n\nid: 7\nretry: 3\n: x\ndata: 1\nwhat\n\n", false, []string{"=1"}},
		{"broken off", "data: 1\n\ndata: 2\n", false, []string{"=1"}},
		{"broken off in a line", "data: 1\n\ndata: 2", false, []string{"=1"}},
		{"a bare error is no field", "error: no\n\ndata: 1\n\n", false, []string{"=1"}},
		{"unless it is", "error: no\n\ndata: 1\n\n", true, []string{"error=no", "=1"}},
	} {
		for how, in := range map[string]io.Reader{
			"at once": strings.NewReader(c.stream), "byte by byte": iotest.OneByteReader(strings.NewReader(c.stream)),
		} {
			r := NewReader(in, 1<<20)
			r.BareErrors = c.bare
			if got, err := all(r); !slices.Equal(got, c.want) || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: %q, %v, want %q", c.name, how, got, err, c.want)
			}
		}
	}
}

func TestLimit(t *testing.T) {
	const limit = 10_000
	fits := "data: " + strings.Repeat("x", limit-len("data: ")) + "\n\n"
	for _, c := range []struct {
		name, stream string
		events       int
		want         error
	}{
		{"as long as it may be", fits + fits, 2, io.EOF},
		{"a line too long", "data: 1\n\ndata: " + strings.Repeat("x", 3*limit) + "\n\n", 1, ErrTooLong},
		{"a line that never ends", strings.Repeat("x", 3*limit), 0, ErrTooLong},
		{"too many lines", "data: 1\n\n" + strings.Repeat("data: 123456789\n", limit/10+1) + "\n", 1, ErrTooLong},
		{"comments are not kept", strings.Repeat(": 1\n", limit) + "data: 1\n\n", 1, io.EOF},
	} {
		if got, err := all(NewReader(strings.NewReader(c.stream), limit)); len(got) != c.events || !errors.Is(err, c.want) {
			t.Errorf("%s: %d events, %v, want %d, %v", c.name, len(got), err, c.events, c.want)
		}
	}
}

func TestErrorOfTheStream(t *testing.T) {
	broken := errors.New("broken")
	got, err := all(NewReader(io.MultiReader(strings.NewReader("data: 1\n\ndata: 2"), iotest.ErrReader(broken)), 100))
	if len(got) != 1 || !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}

// The same bytes in other portions are the same events, and what is written as events is read as such.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		"", "data: 1\n\n", "event: a\r\ndata: 1\r\ndata\r\n\r\n", ": here\n\nevent: live\ndata: {}\n\nevent: end\n\n",
		"id: 1\nevent: event\ndata: {\"cursor\":1}\n\n", "data\ndata:\ndata: a\n\nevent\n\n", "error: no\n\n", "data: x", "\r\n\n\r\n",
		"event: message_start\ndata: {\"type\":\"message_start\"}\n\ndata: [DONE]\n\n", "data: \xff\x00\n\n", "::\n:\n\n",
	} {
		f.Add([]byte(seed), 1, false)
		f.Add([]byte(seed), 3, true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, size int, bare bool) {
		const limit = 64
		read := func(in io.Reader, limit int) ([]string, error) {
			r := NewReader(in, limit)
			r.BareErrors = bare
			return all(r)
		}
		whole, err := read(bytes.NewReader(raw), 1<<20)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("ended with %v", err)
		}
		parts, _ := read(bufio.NewReaderSize(&dribble{raw, max(size, 1)}, 16), 1<<20)
		if !slices.Equal(whole, parts) {
			t.Fatalf("whole %q, in parts %q", whole, parts)
		}
		short, err := read(bytes.NewReader(raw), limit)
		if len(short) > len(whole) || !slices.Equal(short, whole[:len(short)]) || errors.Is(err, io.EOF) && len(short) < len(whole) {
			t.Fatalf("limited %q, %v, without a limit %q", short, err, whole)
		}
		var again strings.Builder
		for _, e := range whole {
			name, data, _ := strings.Cut(e, "=")
			if strings.Contains(e, "\r") || strings.Count(e, "=") > 1 {
				return
			}
			fmt.Fprintf(&again, "event: %s\ndata: %s\n\n", name, strings.ReplaceAll(data, "\n", "\ndata: "))
		}
		if got, _ := read(strings.NewReader(again.String()), 1<<20); !slices.Equal(got, whole) {
			t.Fatalf("%q was written down and read as %q", whole, got)
		}
	})
}

// dribble gives n bytes at a time.
type dribble struct {
	raw []byte
	n   int
}

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.raw) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), d.n)], d.raw)
	d.raw = d.raw[n:]
	return n, nil
}
