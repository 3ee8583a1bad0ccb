package redact

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestString(t *testing.T) {
	r := New("hunter2hunter2", "short", "  padded-value\n", "three secret words")
	for _, c := range []struct{ name, in, want string }{
		{"value", "pw=hunter2hunter2;", "pw=[redacted];"},
		{"overlapping values", "hunter2hunter2hunter2", "[redacted]"},
		{"touching values", "hunter2hunter2padded-value", "[redacted]"},
		{"value with spaces", "say three secret words now, three secret word", "say [redacted] now, three secret word"},
		{"short values are words", "short", "short"},
		{"trimmed", "a padded-value b", "a [redacted] b"},
		{"nothing", "plain text", "plain text"},
		{"anthropic", "key sk-ant-api03-abc_DEF-123 end", "key [redacted] end"},
		{"openai", "sk-proj-abcdefghijklmnopqrstuv", "[redacted]"},
		{"not a key", "task-force and risk-taking sk-1", "task-force and risk-taking sk-1"},
		{"github", "ghp_abcdefghijklmnopqrst0123456789", "[redacted]"},
		{"github fine", "github_pat_11ABCDEFG0abcdefghijkl", "[redacted]"},
		{"slack", "xoxb-1234567890-abcdef", "[redacted]"},
		{"aws", "AKIAIOSFODNN7EXAMPLE", "[redacted]"},
		{"bearer", "Authorization: Bearer abc.def-ghi_jkl", "Authorization: Bearer [redacted]"},
		{"bearer of news", "the bearer of news", "the bearer of news"},
		{"basic", "Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic [redacted]"},
		{"url", "https://bob:s3cr3t@example.com/x", "https://bob:[redacted]@example.com/x"},
		{"url without password", "https://bob@example.com:8080/x", "https://bob@example.com:8080/x"},
		{"jwt", "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "[redacted]"},
		{"private key", "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[redacted]\nb"},
		{"open private key", "a -----BEGIN PRIVATE KEY-----\nMIIE", "a [redacted]"},
		{"certificate", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := r.String(c.in); got != c.want {
				t.Errorf("String(%q) = %q, want %q", c.in, got, c.want)
			}
			if got := string(r.Bytes([]byte(c.in))); got != c.want {
				t.Errorf("Bytes(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestNilKnowsShapes(t *testing.T) {
	var r *Redactor
	if got := r.String("sk-ant-api03-abcdefgh"); got != "[redacted]" {
		t.Errorf("nil: %q", got)
	}
}

func TestMarkIsNeverPartOfAValue(t *testing.T) {
	r := New("redacted", "ed]abc", "<x>{y}***")
	for _, in := range []string{"redacted", "redactedabc", "xredactedabcdef ed]abc <x>{y}***"} {
		out := r.String(in)
		for _, v := range []string{"redacted", "ed]abc", "<x>{y}***"} {
			if strings.Contains(out, v) {
				t.Errorf("String(%q) = %q holds %q", in, out, v)
			}
		}
	}
}

func TestEveryByteUsed(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	r := New("x"+string(all)+"x", "secret")
	if got := r.String("a secsecretret b"); got != "a  b" {
		t.Errorf("got %q", got)
	}
}

// A small alphabet makes values overlap, repeat themselves and touch the marks.
func TestNoValueEverComesOut(t *testing.T) {
	letters := rapid.SampledFrom([]byte("ab[]re*# "))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.SliceOfN(letters, MinLength, 9), 1, 4).Draw(t, "values")
		pieces := rapid.SliceOfN(rapid.OneOf(
			rapid.SliceOfN(letters, 0, 8),
			rapid.SampledFrom(values),
		), 0, 12).Draw(t, "pieces")
		r := New()
		for _, v := range values {
			r.Add(string(v))
		}
		values = slices.DeleteFunc(values, func(v []byte) bool { return len(bytes.TrimSpace(v)) < MinLength })
		in := bytes.Join(pieces, nil)
		whole := r.String(string(in))
		for _, v := range values {
			v = bytes.TrimSpace(v)
			if strings.Contains(whole, string(v)) {
				t.Fatalf("String(%q) = %q holds %q", in, whole, v)
			}
		}
	})
}

func FuzzRedact(f *testing.F) {
	f.Add("secret-value", "a secret-value b")
	f.Add("[redacted]", "x[redacted]y")
	f.Add("-----BEGIN", "-----BEGIN PRIVATE KEY-----")
	f.Fuzz(func(t *testing.T, value, text string) {
		r := New(value)
		text += value + text
		v := strings.TrimSpace(value)
		if out := r.String(text); len(v) >= MinLength && strings.Contains(out, v) {
			t.Errorf("%q came out in %q", v, out)
		}
	})
}
