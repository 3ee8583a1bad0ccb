package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// benchLog is a log of n lines as a project of some months has it: tasks with a few changes each.
func benchLog(b *testing.B, n int) []byte {
	b.Helper()
	var log []byte
	var err error
	start := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	for i := range n {
		task := i / 4
		c := Change{
			Op:   Stamp{Wall: start.Add(time.Duration(i) * time.Minute).UnixMilli(), Actor: fmt.Sprintf("clone-%d", i%3)},
			Task: td.TaskID(fmt.Sprintf("019a86d3-b5c0-7000-8000-%012x", task)),
		}
		set := map[string]any{"state": "queued", "priority": i % 5}
		if i%4 == 0 {
			set["title"] = fmt.Sprintf("Make the login form of tenant %d remember who was there", task)
			set["text"] = "When somebody comes back within a day, the name is filled in.\nNot the password, and not on <shared> machines."
			c.Add = map[string][]string{"labels": {"ui", "login"}, "blocks": {fmt.Sprintf("019a86d3-b5c0-7000-8000-%012x", task/2)}}
		}
		c.Set = make(map[string]json.RawMessage)
		for field, v := range set {
			raw, _ := json.Marshal(v)
			c.Set[field] = raw
		}
		if log, err = Append(log, c); err != nil {
			b.Fatal(err)
		}
	}
	return log
}

// unmarshalAll is what reading the same bytes takes at least, with the standard library.
func unmarshalAll(b *testing.B, log []byte) {
	b.Helper()
	for line := range bytes.Lines(log) {
		var c struct {
			Op     string                     `json:"op"`
			Task   string                     `json:"task"`
			Set    map[string]json.RawMessage `json:"set"`
			Add    map[string][]string        `json:"add"`
			Remove map[string][]string        `json:"remove"`
		}
		if err := json.Unmarshal(line, &c); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFold reads and folds 100,000 lines. "x_unmarshal" is the time as a multiple of that which
// json.Unmarshal takes for the same lines.
func BenchmarkFold(b *testing.B) {
	log := benchLog(b, 100_000)
	b.SetBytes(int64(len(log)))
	var ours, theirs time.Duration
	for b.Loop() {
		start := time.Now()
		f := NewFold()
		for e, err := range Read(bytes.NewReader(log), Place{}) {
			if err != nil || e.Bad != nil {
				b.Fatal(e.Bad, err)
			}
			f.Apply(e.Change)
		}
		ours += time.Since(start)
		if n := len(f.Records()); n != 25_000 {
			b.Fatalf("%d records", n)
		}
		b.StopTimer()
		start = time.Now()
		unmarshalAll(b, log)
		theirs += time.Since(start)
		b.StartTimer()
	}
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "x_unmarshal")
}

// BenchmarkMerge merges two logs of 100,000 lines that have half of them in common.
func BenchmarkMerge(b *testing.B) {
	log := benchLog(b, 150_000)
	third := bytes.IndexByte(log[len(log)/3:], '\n') + len(log)/3 + 1
	rest := bytes.IndexByte(log[len(log)/3*2:], '\n') + len(log)/3*2 + 1
	one, two := log[:rest], log[third:]
	b.SetBytes(int64(len(one) + len(two)))
	for b.Loop() {
		if got := Merge(one, two); len(got) != len(log) {
			b.Fatalf("%d bytes of %d", len(got), len(log))
		}
	}
}
