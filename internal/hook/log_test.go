package hook

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"taskdaemon/internal/td"
)

// logKeys are the keys of the lines, each of which must be whole.
func logKeys(t *testing.T, path string) (keys []string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var l Logged
		if err := json.Unmarshal([]byte(line), &l); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("line %q: %v", line, err)
		}
		if !strings.Contains(string(l.Payload), `"hook_event_name":"PreToolUse"`) {
			t.Errorf("payload %s", l.Payload)
		}
		keys = append(keys, l.Key)
	}
	return keys
}

// Wherever a crash cuts a line off, the firing made again leaves one whole line, and lines before it stay.
func TestLogIsKeyed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	log := func(f Firing) {
		t.Helper()
		if r, err := Log(path)(t.Context(), samplePreToolUse, f); err != nil || r.Blocked {
			t.Fatal(r, err)
		}
	}
	const long = "much longer than others"
	log(Firing{Key: "a"})
	first, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log(Firing{Key: long})
	both, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := len(first); cut <= len(both); cut += step(len(both) - cut) {
		for _, next := range []string{long, "c"} { // the same firing again, or another one first
			if err := os.WriteFile(path, both[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			want := "[a " + long + "]"
			if next == "c" {
				log(Firing{Key: next})
				if want = "[a c " + long + "]"; cut == len(both) {
					want = "[a " + long + " c]"
				}
			}
			log(Firing{Key: long, Again: true})
			if got := fmt.Sprint(logKeys(t, path)); got != want {
				t.Fatalf("cut at %d of %d, then %s: %s, want %s", cut, len(both), next, got, want)
			}
		}
	}
}

func TestLogOfManyAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hooks.jsonl")
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			for _, again := range []bool{false, true} {
				if _, err := Log(path)(t.Context(), samplePreToolUse, Firing{Key: fmt.Sprint(i), Again: again}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if keys := logKeys(t, path); len(keys) != 20 {
		t.Errorf("%d lines of 20 firings: %v", len(keys), keys)
	}
}

func TestLogSaysWhatItCannotDo(t *testing.T) {
	if _, err := Log(t.TempDir())(t.Context(), samplePreToolUse, Firing{}); !td.IsKind(err, td.Storage) {
		t.Errorf("a folder where the file should be: %v", err)
	}
}

// step goes over a line in leaps, and to its very end one by one.
func step(left int) int {
	if left > 40 {
		return 31
	}
	return 1
}
