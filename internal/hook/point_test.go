package hook

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

func TestTraitsAreComplete(t *testing.T) {
	if len(Traits) != 30 {
		t.Errorf("%d points, want 30", len(Traits))
	}
	seen := map[Point]bool{}
	for _, tr := range Traits {
		if seen[tr.Point] {
			t.Errorf("%s is there twice", tr.Point)
		}
		seen[tr.Point] = true
		if tr.Doc == "" || tr.Group == "" || tr.sample == nil {
			t.Errorf("%s: no words, group or sample", tr.Point)
			continue
		}
		if got := tr.sample.Point(); got != tr.Point {
			t.Errorf("the sample of %s is one of %s", tr.Point, got)
		}
		names := map[string]bool{}
		for _, f := range fieldsOf(reflect.TypeOf(tr.sample)) {
			if f.Name == "" || f.Doc == "" {
				t.Errorf("%s: a field has no name or no words: %+v", tr.Point, f)
			}
			if names[f.Name] || f.Name == eventName || slices.Contains(words, f.Name) {
				t.Errorf("%s: the field %s is taken", tr.Point, f.Name)
			}
			names[f.Name] = true
		}
		for _, m := range tr.Modify {
			if !names[m] {
				t.Errorf("%s may modify %s, which it has not", tr.Point, m)
			}
			if _, common := headFields()[m]; common {
				t.Errorf("%s may modify %s, which tells hooks where they are", tr.Point, m)
			}
		}
		if tr.Subject != "" && subjectOf(tr.sample) == "" {
			t.Errorf("%s: subject %s is empty", tr.Point, tr.Subject)
		}
		if tr.Permits && tr.Block == "" {
			t.Errorf("%s decides on a permission and cannot deny", tr.Point)
		}
		if c, ok := tr.sample.(checked); ok {
			if err := c.check(); err != nil {
				t.Errorf("%s: sample: %v", tr.Point, err)
			}
		}
	}
	if Sample("Nonsense") != nil {
		t.Error("a sample of no point")
	}
}

// What a hook is told survives the way through JSON, and begins with the name of the point.
func TestEncode(t *testing.T) {
	for _, tr := range Traits {
		raw, err := Encode(tr.sample)
		if err != nil {
			t.Errorf("%s: %v", tr.Point, err)
			continue
		}
		if want := `{"hook_event_name":"` + string(tr.Point) + `","task_id":"`; !strings.HasPrefix(string(raw), want) {
			t.Errorf("%s: %.80s", tr.Point, raw)
		}
		if strings.Count(string(raw), "\n") != 1 || raw[len(raw)-1] != '\n' {
			t.Errorf("%s: not one line", tr.Point)
		}
		back := reflect.New(reflect.TypeOf(tr.sample))
		if err := json.Unmarshal(raw, back.Interface()); err != nil {
			t.Errorf("%s: %v", tr.Point, err)
		} else if got := back.Elem().Interface(); !reflect.DeepEqual(got, tr.sample) {
			t.Errorf("%s: came back as %+v", tr.Point, got)
		}
	}
	raw, _ := Encode(samplePreToolUse)
	if !strings.Contains(string(raw), " && ") {
		t.Errorf("a command is not readable: %s", raw)
	}
	bad := samplePreToolUse
	bad.ToolInput = json.RawMessage(`{"half`)
	if _, err := Encode(bad); err == nil {
		t.Error("a broken payload was encoded")
	}
}

func TestHeadOf(t *testing.T) {
	task := td.NewTask(td.Spec{ID: "id", Handle: "t-1", Title: "title", Dir: "/ws", Prompt: "p", Labels: []string{"a"}})
	task.Run, task.Iteration, task.Turns, task.Cost = "run", 2, 5, 1_500_000
	at := time.Unix(1, 0)
	want := Head{TaskID: "id", Handle: "t-1", Title: "title", RunID: "run", Parent: "parent", Cwd: "/ws", Iteration: 2, Turn: 5, At: at}
	if got := HeadOf(task, "parent", at); got != want {
		t.Errorf("got %+v", got)
	}
	if got := AskedOf(task.Spec); got.Prompt != "p" || len(got.Labels) != 1 {
		t.Errorf("got %+v", got)
	}
	if got := SpentOf(task); got.CostUSD != 1.5 {
		t.Errorf("got %+v", got)
	}
}
