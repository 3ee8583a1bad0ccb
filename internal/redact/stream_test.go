package redact

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However a text is cut, no secret in it comes out, and all else does.
func TestStream(t *testing.T) {
	text := "one\nkey=hunter2hunter2 two\n-----BEGIN RSA PRIVATE KEY-----\nMIIEsecretA\nMIIEsecretB\n-----END RSA PRIVATE KEY-----\n" +
		"Authorization: Bearer abcdefgh.ijkl\nthree " + "ghp" + "_abcdefghijklmnopqrst0123456789"
	rapid.Check(t, func(t *rapid.T) {
		s := Stream{Redactor: New("hunter2hunter2")}
		var out strings.Builder
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 40)).Draw(t, "cut")
			out.Write(s.Write([]byte(rest[:n])))
			rest = rest[n:]
		}
		out.Write(s.Close())
		for _, secret := range []string{"hunter2", "MIIE", "abcdefgh.ijkl", "ghp_"} {
			if strings.Contains(out.String(), secret) {
				t.Fatalf("%q came out in %q", secret, out.String())
			}
		}
		for _, word := range []string{"one\n", " two\n", "\nthree ", "Bearer ["} {
			if !strings.Contains(out.String(), word) {
				t.Fatalf("%q is missing in %q", word, out.String())
			}
		}
	})
}

func TestStreamOfNoLines(t *testing.T) {
	var s Stream
	if got := s.Write([]byte(strings.Repeat(".", maxHeld+1))); len(got) != maxHeld+1 {
		t.Errorf("%d bytes were let through", len(got))
	}
}

func TestStreamOfValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const value = "ababac"
		text := rapid.StringOfN(rapid.SampledFrom([]rune("abc")), 0, 40, -1).Draw(t, "text")
		whole := New(value)
		s := Stream{Redactor: whole, Known: true}
		var out strings.Builder
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			out.Write(s.Write([]byte(rest[:n])))
			rest = rest[n:]
		}
		out.Write(s.Close())
		if strings.Contains(out.String(), value) {
			t.Fatalf("%q came out of %q", out.String(), text)
		}
		if !strings.Contains(text, value) && out.String() != text {
			t.Fatalf("%q became %q", text, out.String())
		}
	})
	s := Stream{Redactor: New("secret-value"), Known: true}
	if got := string(s.Write([]byte("a word "))); got != "a word " {
		t.Errorf("words that begin no value are held back: %q", got)
	}
}

// TestStreamOfATerminal: a value that a sequence of a terminal splits is whole for whoever leaves those out.
func TestStreamOfATerminal(t *testing.T) {
	const value = "sk-ant-KNOWNVALUE-zq8Xw7Vt6Su5Rr4Qp3"
	for _, sequence := range []string{"\x1b[0m", "\x1b[38;5;1m\x1b[K", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\", "\x1b(B"} {
		text := "a " + value[:12] + sequence + value[12:] + " b\nnext \x1b[1mbold\n"
		for size := 1; size <= len(text); size++ {
			s := Stream{Redactor: New(value)}
			var out []byte
			for at := 0; at < len(text); at += size {
				out = append(out, s.Write([]byte(text[at:min(len(text), at+size)]))...)
			}
			out = append(out, s.Close()...)
			if strings.Contains(string(out), value[:12]) || strings.Contains(string(out), value[12:]) || !strings.HasSuffix(string(out), " b\nnext \x1b[1mbold\n") {
				t.Fatalf("%q in pieces of %d: %q", sequence, size, out)
			}
		}
	}
	s := Stream{Redactor: New(value)}
	long := "\x1b]0;" + strings.Repeat("never done ", 1000) + "\n"
	if got := string(s.Write([]byte(long))); got != long {
		t.Errorf("%d of %d bytes are shown", len(got), len(long))
	}
}
