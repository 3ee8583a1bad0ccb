package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// Whatever is written, no row but the first of a line begins without the margin, and none is wider than the terminal.
func TestRowsHaveAMargin(t *testing.T) {
	pad := func(s string, n int) string { return s + strings.Repeat(" ", n-len([]rune(s))) }
	for name, text := range map[string]string{
		"padded":     pad("I have looked.", 76) + pad("✓ completed: all pass", 80) + pad("? q-7h2m4k9x Allow Bash rm -rf ~?", 80) + "» root: yes",
		"wide":       strings.Repeat("漢", 38) + "✓ completed" + strings.Repeat("漢", 60),
		"combining":  strings.Repeat("e\u0301", 76) + strings.Repeat("e\u0301", 60),
		"many marks": strings.Repeat("e\u0301\u0301\u0301\u0301", 200),
		"pictures":   strings.Repeat("❤\ufe0f", 100) + strings.Repeat("🏴", 60),
		"hexagrams":  strings.Repeat("\u4dc0", 38) + "? q-7h2m4k9x Allow Bash rm -rf ~ (y/n)",
		"trigrams":   strings.Repeat("\u2630", 38) + "? q-7h2m4k9x Allow Bash rm -rf ~ (y/n)",
		"tabs":       strings.Repeat("a\t", 40),
		"colours":    "\x1b[31m" + strings.Repeat("x", 200) + "\x1b[0m\x1b]2;title\a" + strings.Repeat("y", 90),
	} {
		for _, piece := range []int{1, 7, 1000} { // as it comes from a model
			var out strings.Builder
			s := &screen{cursor: &cursor{}}
			for b := []byte(margin + text); len(b) > 0; {
				n := min(piece, len(b))
				out.Write(s.rows(b[:n], 80))
				b = b[n:]
			}
			rows := strings.Split(out.String(), "\n")
			for i, row := range rows {
				if !strings.HasPrefix(row, margin) {
					t.Errorf("%s in pieces of %d: row %d has no margin: %q", name, piece, i, row)
				}
				took := 0
				counter := &screen{cursor: &cursor{}}
				for _, r := range row {
					switch {
					case counter.inEscape(r) || r < 0x20:
					case r == 0x4dc0 || r == 0x2630: // as terminals with a newer table have them
						took += 2
					default:
						took += counter.columns(r)
					}
				}
				if took > 80 {
					t.Errorf("%s in pieces of %d: row %d takes %d columns: %q", name, piece, i, took, row)
				}
			}
			if len(rows) < 2 {
				t.Errorf("%s: it is not wrapped at all", name)
			}
			if bare := strings.ReplaceAll(out.String(), "\n"+margin, ""); name != "tabs" && bare != margin+text {
				t.Errorf("%s in pieces of %d: the text is another: %q", name, piece, bare)
			}
		}
	}
}

// A line to type can be copied, however long it is; no other line passes for one.
func TestLinesToTypeAreWhole(t *testing.T) {
	long := strings.Repeat("/folder", 30)
	for line, whole := range map[string]bool{
		"  → git -C " + long:        true,
		"next:  taskdaemon " + long: true,
		"\x1b[2m→\x1b[0m x " + long: true,
		margin + "→ git " + long:    false,
		"the model: → git " + long:  false,
		"nextly " + long:            false,
	} {
		for _, piece := range []int{1, 5, 1000} {
			var out strings.Builder
			s := &screen{cursor: &cursor{}}
			for b := []byte("first\n" + line); len(b) > 0; {
				n := min(piece, len(b))
				out.Write(s.rows(b[:n], 80))
				b = b[n:]
			}
			if got := !strings.Contains(out.String(), "\n"+margin+""); line != "" && !strings.HasPrefix(line, margin) && got != whole {
				t.Errorf("%q in pieces of %d: %q", line, piece, out.String())
			} else if strings.HasPrefix(line, margin) && strings.Count(out.String(), margin) < 2 {
				t.Errorf("%q in pieces of %d is not wrapped: %q", line, piece, out.String())
			}
		}
	}
}

// What the person types moves on to the next line, as they see it.
func TestEnteredLineEnds(t *testing.T) {
	s := &screen{cursor: &cursor{}}
	s.rows([]byte(strings.Repeat("a", 70)), 80)
	s.entered()
	if out := string(s.rows([]byte(strings.Repeat("b", 40)), 80)); strings.Contains(out, "\n") {
		t.Errorf("%q", out)
	}
}

// What is not known to be narrow in every terminal takes two columns, marks among them; the text of most people is known.
func TestUnknownIsWide(t *testing.T) {
	narrow := "Grüße, élève; Привет κόσμε שלום سلام हिन्दी ไทย ქართული → ≤ … │ ┃ █ ⠋ ✓ ✗ ␛ € ｱ �"
	wide := "漢字한글" + // by every table
		"\u4dc0\u4dff\u2630\u2637\u268a\U0001d300\U0001d360" + // by that of Unicode 16
		"\u2600\u2708\u2b50\U0001f3f4\U0001fae9" + // pictures
		"\u0870\u2e3a\ua9c1\U000120ab\ue000\U000e0100\U0003fffd\u302a\u1ae0" // rare, wide in some fonts, private, not assigned, marks
	for text, want := range map[string]int{narrow: 1, wide: 2} {
		for _, r := range text {
			s := &screen{cursor: &cursor{}}
			if got := s.columns(r); got > 1 != (want > 1) {
				t.Errorf("%U %c takes %d columns, want %d", r, r, got, want)
			}
		}
	}
}

func TestAmbiguousWidth(t *testing.T) {
	for asian, want := range map[bool]int{false: 1, true: 2} {
		s := &screen{asian: asian, cursor: &cursor{}}
		if got := s.columns('…'); got != want {
			t.Errorf("asian %v: … takes %d columns, want %d", asian, got, want)
		}
	}
}

// The real program, on a terminal of 60 columns.
func TestTerminalIsWrapped(t *testing.T) {
	if os.Getenv("TD_SCREEN") != "" {
		var at cursor
		w := onScreen(os.Stdout, &at, os.Getenv)
		if _, err := w.Write([]byte(strings.Repeat("x", 59) + "✓ completed\n")); err != nil {
			t.Fatal(err)
		}
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestTerminalIsWrapped$")
	cmd.Env = append(os.Environ(), "TD_SCREEN=1")
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 20, Cols: 60})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	var out strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := tty.Read(buf)
		out.Write(buf[:n])
		if err != nil {
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err, out.String())
	}
	if want := strings.Repeat("x", 59) + "✓\r\n" + margin + " completed\r\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func FuzzRows(f *testing.F) {
	f.Add([]byte(strings.Repeat("a漢\u0301\t", 50)), 20)
	f.Fuzz(func(t *testing.T, text []byte, columns int) {
		s := &screen{cursor: &cursor{}}
		for row := range strings.SplitSeq(string(s.rows([]byte(plainLine(string(text), 1000)), columns%500)), "\n") {
			if row != "" && len([]rune(row)) > 4*max(columns%500, len(margin)+1) {
				t.Errorf("%d columns: %q", columns, row)
			}
		}
	})
}
