package redact

import (
	"encoding/json"
	"strings"
	"testing"
)

// In the encoded form a key that begins a line follows the letter of an escape, and looks like the end of a word.
func TestRequestFindsKeysWhereverTheyStand(t *testing.T) {
	r := New("hunter2hunter2")
	treat := func(key string) Treatment {
		if key == "prompt" {
			return Words
		}
		return Exact
	}
	const key = "sk-ant-api03-abc_DEF-123"
	for _, before := range []string{"use this:\n", "use this:\t", "\r\n", "\"", "\\", "", "\u2028", "ü"} {
		for _, secret := range []string{key, "hunter2hunter2", "ghp_abcdefghijklmnopqrst0123456789"} {
			for _, field := range []string{"prompt", "command"} {
				raw, err := json.Marshal(map[string]any{"list": []any{map[string]string{field: before + secret}}})
				if err != nil {
					t.Fatal(err)
				}
				clean, refused := r.Request(raw, treat)
				if field == "command" && refused != "command" || field == "prompt" && strings.Contains(string(clean), secret) {
					t.Errorf("%s: %s, refused %q", raw, clean, refused)
				}
			}
		}
	}
	plain := []byte(`{"prompt": "add a test", "command": "go test ./..."}`)
	if clean, refused := r.Request(plain, treat); string(clean) != string(plain) || refused != "" {
		t.Errorf("%s, refused %q", clean, refused)
	}
}

// Two names that are secrets have one mark, and none of their values is lost.
func TestJSONWithSecretNames(t *testing.T) {
	r := New("hunter2hunter2", "secret-of-mine")
	got := r.JSON([]byte(`{"hunter2hunter2": 1, "secret-of-mine": {"secret-of-mine": 2}, "x": 3}`))
	if want := `{"[redacted]":1,"[redacted]'":{"[redacted]":2},"x":3}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
