package transcript

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"taskdaemon/internal/td"
)

// A conversation of sixty turns as a journal has it, with a kill, compactions, a fallback, hooks, an MCP server, a subtask and
// a learning, is read by every later version as it was: journals outlive programs. The script sixty_turns makes its like.
func TestRecordedConversation(t *testing.T) {
	f, err := os.Open("testdata/sixty_turns.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var evs []td.Event
	var task td.Task
	types := map[td.EventType]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var ev td.Event
		if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
			t.Fatalf("record %d: %v", len(evs)+1, err)
		}
		if u, is := ev.Body.(td.Unreadable); is {
			t.Errorf("record %d cannot be read: %s", len(evs)+1, u.Err)
		}
		if task, err = task.Apply(ev); err != nil {
			t.Fatalf("record %d: %v", len(evs)+1, err)
		}
		types[ev.Body.Type()]++
		evs = append(evs, ev)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if task.Status.State != td.Completed || task.Turns != 60 {
		t.Errorf("the task is %s after %d turns", task.Status.State, task.Turns)
	}
	if n := types[td.Compacted{}.Type()]; n < 2 {
		t.Errorf("%d compactions", n)
	}
	answered := map[string]bool{}
	for i, m := range Of(evs).Messages {
		if role := []td.Role{td.User, td.Assistant}[i%2]; m.Role != role {
			t.Fatalf("message %d is of the %s", i, m.Role)
		}
		for _, b := range m.Blocks {
			if b.Type == td.ToolResultBlock && !answered[b.ID] {
				t.Errorf("message %d answers %s, which nobody called", i, b.ID)
			}
			if b.Type == td.ToolUseBlock {
				answered[b.ID] = true
			}
		}
	}
	if len(answered) == 0 {
		t.Error("no call is in the conversation")
	}
}
