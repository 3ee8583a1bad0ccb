package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// told is what reading a log says, a line each.
func told(t failer, r io.Reader, from Place) (lines []string, next Place) {
	t.Helper()
	next = from
	for e, err := range Read(r, from) {
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		next = e.Next
		switch {
		case e.Bad != nil:
			lines = append(lines, fmt.Sprintf("%d@%d bad: %s", e.Bad.Line, e.Bad.Offset, e.Bad.Why))
		case e.Torn:
			lines = append(lines, fmt.Sprintf("%d@%d torn", e.Lines+1, e.Offset))
		default:
			lines = append(lines, fmt.Sprintf("%d@%d %s", e.Lines+1, e.Offset, e.Change.Op))
		}
	}
	return lines, next
}

func TestRead(t *testing.T) {
	one, two := string(line(t, set(short(1, "ana"), "title", `"a"`))), string(line(t, set(short(2, "ana"), "text", `"ü"`)))
	op1, op2 := short(1, "ana"), short(2, "ana")
	n := len(one)
	for _, c := range []struct {
		name, log string
		want      []string
		next      Place
	}{
		{"nothing", "", nil, Place{}},
		{"two", one + two, []string{"1@0 " + op1, fmt.Sprintf("2@%d %s", n, op2)}, Place{2, int64(n + len(two))}},
		{"blank lines", "\n" + one + " \t\r\n\n" + two + "\n", []string{"2@1 " + op1, fmt.Sprintf("5@%d %s", 1+n+5, op2)}, Place{5, int64(1 + n + 5 + len(two))}},
		{"CRLF", strings.ReplaceAll(one+two, "\n", "\r\n"), []string{"1@0 " + op1, fmt.Sprintf("2@%d %s", n+1, op2)}, Place{2, int64(n + len(two) + 2)}},
		{"a byte order mark", "\uFEFF" + one, []string{"1@0 " + op1}, Place{1, int64(n + 3)}},
		{"byte order marks of files put together", "\uFEFF\uFEFF" + one + "\uFEFF" + two, []string{"1@0 " + op1, fmt.Sprintf("2@%d %s", n+6, op2)}, Place{2, int64(n + len(two) + 9)}},
		{"no newline at the end, and whole", one + strings.TrimSuffix(two, "\n"), []string{"1@0 " + op1, fmt.Sprintf("2@%d %s", n, op2)}, Place{1, int64(n)}},
		{"torn", one + two[:40], []string{"1@0 " + op1, fmt.Sprintf("2@%d torn", n)}, Place{1, int64(n)}},
		{"torn in a character", one + two[:strings.Index(two, "ü")+1], []string{"1@0 " + op1, fmt.Sprintf("2@%d torn", n)}, Place{1, int64(n)}},
		{"torn and wrong already", one + `{"op":1`, []string{"1@0 " + op1, fmt.Sprintf(`2@%d bad: "op": column 7: a string is expected`, n)}, Place{1, int64(n)}},
		{"torn, with a newline", two[:40] + "\n" + one, []string{"1@0 bad: it ends in the middle", "2@41 " + op1}, Place{2, int64(n + 41)}},
		{"whole, and half a character", strings.TrimSuffix(one, "\n") + "\xc3", []string{fmt.Sprintf("1@0 bad: column %d: not valid UTF-8", n)}, Place{}},
		{"a conflict", "<<<<<<< HEAD\n" + one + "=======\r\n" + two + ">>>>>>> theirs\n", []string{
			"1@0 bad: a conflict marker that git wrote", "2@13 " + op1, fmt.Sprintf("3@%d bad: a conflict marker that git wrote", 13+n),
			fmt.Sprintf("4@%d %s", 13+n+9, op2), fmt.Sprintf("5@%d bad: a conflict marker that git wrote", 13+n+9+len(two)),
		}, Place{5, int64(13 + n + 9 + len(two) + 15)}},
		{"NULs where a crash left a hole", one + "\x00\x00\x00\x00\n" + two, []string{"1@0 " + op1, fmt.Sprintf("2@%d bad: column 1: a NUL byte", n), fmt.Sprintf("3@%d %s", n+5, op2)}, Place{3, int64(n + 5 + len(two))}},
		{"a line in two", one[:20] + "\n" + one[20:], []string{"1@0 bad: it ends in the middle", "2@21 bad: column 1: a JSON object is expected"}, Place{2, int64(n + 1)}},
		{"blank and torn", one + "  ", []string{"1@0 " + op1}, Place{1, int64(n)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, r := range map[string]io.Reader{
				"at once": strings.NewReader(c.log), "byte by byte": iotest.OneByteReader(strings.NewReader(c.log)),
				"with the error at the end": iotest.DataErrReader(strings.NewReader(c.log)),
			} {
				got, next := told(t, r, Place{})
				if !reflect.DeepEqual(got, c.want) || next != c.next && len(c.want) > 0 {
					t.Errorf("%s:\n%q, next %v, want\n%q, next %v", how, got, next, c.want, c.next)
				}
			}
		})
	}
}

// pattern reads as a log whose second line has the given length, without having it in memory.
func pattern(before string, length int64, after string) io.Reader {
	return io.MultiReader(strings.NewReader(before), io.LimitReader(endless{}, length), strings.NewReader("\n"+after))
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// A line that is far too long is passed over, and takes no more memory than the longest that may be.
func TestReadPassesOverLongLines(t *testing.T) {
	one := string(line(t, set(short(1, "ana"), "title", `"a"`)))
	n := len(one)
	for _, length := range []int64{MaxLine + 1, MaxLine + slack, MaxLine + slack + 1, 4 * MaxLine} {
		got, next := told(t, pattern(one, length, one), Place{})
		want := []string{"1@0 " + short(1, "ana"), fmt.Sprintf("2@%d bad: longer than 10485760 bytes", n), fmt.Sprintf("3@%d %s", int64(n)+length+1, short(1, "ana"))}
		if !reflect.DeepEqual(got, want) || next.Offset != int64(2*n)+length+1 {
			t.Errorf("%d: %q, next %v", length, got, next)
		}
	}
	if got, _ := told(t, pattern(one, MaxLine, one), Place{}); len(got) != 3 || !strings.Contains(got[1], "a JSON object is expected") {
		t.Errorf("the longest: %q", got)
	}
	unended := io.MultiReader(strings.NewReader(one), io.LimitReader(endless{}, MaxLine+100))
	if got, next := told(t, unended, Place{}); len(got) != 2 || !strings.Contains(got[1], "longer than") || next != (Place{1, int64(n)}) {
		t.Errorf("without an end: %q, next %v", got, next)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	told(t, pattern(one, 100<<20, one), Place{})
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 6*MaxLine {
		t.Errorf("%d MiB for a line of 100", took>>20)
	}
}

func TestReadSaysWhatBroke(t *testing.T) {
	broken := errors.New("the disk is gone")
	one := line(t, set(short(1, "ana"), "title", `"a"`))
	long := io.LimitReader(endless{}, MaxLine*2)
	for name, r := range map[string]io.Reader{
		"between lines":  io.MultiReader(bytes.NewReader(one), iotest.ErrReader(broken)),
		"inside a line":  io.MultiReader(bytes.NewReader(one), strings.NewReader("{"), iotest.ErrReader(broken)),
		"in a long line": io.MultiReader(bytes.NewReader(one), long, iotest.ErrReader(broken)),
	} {
		changes, failed := 0, error(nil)
		for _, err := range Read(r, Place{}) {
			if err != nil {
				failed = err
			} else {
				changes++
			}
		}
		if changes != 1 || !errors.Is(failed, broken) {
			t.Errorf("%s: %d changes, %v", name, changes, failed)
		}
	}
	var failed error
	for _, err := range Read(stuck{}, Place{}) {
		failed = err
	}
	if !errors.Is(failed, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", failed)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

func TestReadStopsWhenTold(t *testing.T) {
	one := line(t, set(short(1, "ana"), "title", `"a"`))
	for range Read(io.MultiReader(bytes.NewReader(one), bytes.NewReader(one)), Place{}) {
		break
	}
}

// A log that grows, read each time from where the last reading ended, says the same as when it is whole,
// wherever it was cut.
func TestReadGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawLog(t)
		whole, end := told(t, bytes.NewReader(log), Place{})
		cut := rapid.IntRange(0, len(log)).Draw(t, "cut")
		before, next := told(t, bytes.NewReader(log[:cut]), Place{})
		if next.Offset > int64(cut) {
			t.Fatalf("cut at %d, next %v", cut, next)
		}
		sure := before
		if cut > 0 && log[cut-1] != '\n' && len(before) > 0 {
			if last := before[len(before)-1]; strings.HasPrefix(last, fmt.Sprintf("%d@%d ", next.Lines+1, next.Offset)) {
				sure = before[:len(before)-1] // it had no newline, so it comes again
			}
		}
		after, last := told(t, bytes.NewReader(log[next.Offset:]), next)
		if got := append(sure[:len(sure):len(sure)], after...); fmt.Sprint(got) != fmt.Sprint(whole) {
			t.Fatalf("cut at %d of %q:\n%q and\n%q, want\n%q", cut, log, before, after, whole)
		}
		if len(after) > 0 && last != end {
			t.Fatalf("ends at %v, want %v", last, end)
		}
	})
}

// drawLog draws a log with lines of all sorts.
func drawLog(t *rapid.T) []byte {
	var log []byte
	for range rapid.IntRange(0, 8).Draw(t, "lines") {
		switch rapid.IntRange(0, 8).Draw(t, "sort") {
		case 0:
			log = append(log, rapid.SampledFrom(badLines).Draw(t, "bad").line...)
		case 1:
			log = append(log, rapid.SampledFrom([]string{"", " ", "\r", "\uFEFF", "\uFEFF\r", "\x00", "=======", "<<<<<<< a", ">>>>>>> b\r"}).Draw(t, "odd")...)
		case 2:
			c := drawChange(t, drawStamp(t))
			log = append(log, bytes.Replace(line(t, c), []byte(":"), []byte(" : "), 1)...)
		case 3, 4:
			log = append(log, line(t, drawCompact(t))...)
			continue
		default:
			log = append(log, line(t, drawChange(t, drawStamp(t)))...)
			continue
		}
		log = append(log, '\n')
	}
	if rapid.IntRange(0, 3).Draw(t, "torn") == 0 {
		whole := line(t, drawChange(t, drawStamp(t)))
		log = append(log, whole[:rapid.IntRange(0, len(whole)-1).Draw(t, "length")]...)
	}
	return log
}

func FuzzRead(f *testing.F) {
	one := line(f, set(short(1, "ana"), "title", `"ü"`))
	f.Add(one, 5)
	f.Add(append(append([]byte("\uFEFF<<<<<<< HEAD\r\n"), one...), one[:30]...), 20)
	f.Add([]byte("\n\n\x00\r\n{"), 3)
	f.Add(bytes.ReplaceAll(append(one, one...), []byte("\n"), []byte("\r\n")), 100)
	for _, c := range badLines {
		f.Add([]byte(c.line+"\n"), 1)
	}
	f.Fuzz(func(t *testing.T, log []byte, piece int) {
		whole, end := told(t, bytes.NewReader(log), Place{})
		pieces, last := told(t, &pieceReader{log, max(1, piece)}, Place{})
		if !reflect.DeepEqual(whole, pieces) || end != last {
			t.Fatalf("%q:\n%q, in pieces\n%q", log, whole, pieces)
		}
		if end.Offset > int64(len(log)) || end.Lines > bytes.Count(log, []byte("\n")) {
			t.Fatalf("%q ends at %v", log, end)
		}
		at := Place{}
		for e := range Read(bytes.NewReader(log), Place{}) {
			if e.Offset < at.Offset || e.Lines < at.Lines || e.Lines != bytes.Count(log[:e.Offset], []byte("\n")) {
				t.Fatalf("%q: %v after %v", log, e.Place, at)
			}
			if e.Bad == nil && !e.Torn {
				asRead(t, e.Change)
			}
			at = e.Next
		}
	})
}

// pieceReader gives a few bytes at a time.
type pieceReader struct {
	rest []byte
	n    int
}

func (r *pieceReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.rest[:min(r.n, len(r.rest))])
	r.rest = r.rest[n:]
	return n, nil
}
