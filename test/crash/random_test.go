package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// TestRandomKills keeps two hundred tasks at work and kills the daemon again and again at any moment. Every
// task that was acknowledged ends well, and every mark it was to leave is there once.
func TestRandomKills(t *testing.T) {
	const live, steps = 200, 6
	kills := soak(50, 5000)
	rnd := rand.New(rand.NewPCG(seed(t), 3))
	s := newStage(t, "limits: {loops: 200}\n")
	s.ctx = t.Context()
	// The latencies make a task outlive many daemons: an answer that a kill cuts off is asked for again.
	var script strings.Builder
	script.WriteString("turns:\n")
	for i := range steps {
		fmt.Fprintf(&script, "  - {latency: 60ms, tools: [{name: Bash, input: {command: \"echo NAME-%d >> COUNTER; sleep 0.02\"}}]}\n", i)
		fmt.Fprintf(&script, "  - {latency: 100ms, tools: [{name: Write, input: {path: out%d, content: NAME}}]}\n", i)
		script.WriteString("  - {latency: 200ms, tools: [{name: Glob, input: {pattern: \"*\"}}]}\n")
	}
	script.WriteString("  - tools: [{name: Complete, input: {summary: done}}]\n")

	acked := map[string]td.TaskID{}
	add := func(name string) error {
		dir := s.path("work/" + name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		task, err := s.person.svc.AddTask(s.ctx, api.AddTask{
			Key: name, Title: name, Prompt: name, Dir: dir, Yes: true,
			Rehearsal: strings.NewReplacer("NAME", name, "COUNTER", s.person.counter).Replace(script.String()),
		})
		if err == nil {
			acked[name] = task.ID
		}
		return err
	}
	for n := range kills {
		s.start(nil)
		for k := range live / 10 { // the first ten lives are killed while tasks are being added
			if name := fmt.Sprintf("n%d", n*live/10+k); n < 10 && add(name) != nil {
				t.Fatalf("%s was not taken", name)
			}
		}
		<-time.After(time.Duration(20+rnd.IntN(300)) * time.Millisecond)
		s.d.kill()
	}
	s.start(nil)
	end := time.Now().Add(5 * time.Minute)
	for {
		st, err := s.person.svc.Status(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		ended := 0
		for state, n := range st.Tasks {
			if state.Terminal() {
				ended += n
			}
		}
		if ended >= len(acked) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after five minutes: %v", st.Tasks)
		}
		<-time.After(50 * time.Millisecond)
	}
	tasks, err := s.person.svc.Tasks(s.ctx, api.TaskQuery{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]td.Task{}
	for _, task := range tasks {
		found[task.Title] = task
	}
	marks := map[string]int{}
	for m := range strings.FieldsSeq(s.person.marks()) {
		marks[m]++
	}
	for name, id := range acked {
		task := found[name]
		if task.ID != id || task.Status.State != td.Completed {
			t.Errorf("%s was acknowledged and is %q: %+v", name, task.Status.State, task.Status)
		}
		for i := range steps {
			if n := marks[fmt.Sprintf("%s-%d", name, i)]; n != 1 {
				t.Errorf("%s: step %d was done %d times", name, i, n)
			}
		}
	}
	if err := s.doctor(s.ctx); err != nil {
		t.Error(err)
	}
	recoveries := 0
	for _, task := range found {
		recoveries += task.Recoveries
	}
	t.Logf("%d kills, %d tasks, %d times a task was recovered", kills, len(acked), recoveries)
	s.d.stop()
	if orphans, err := sandbox.Orphans(s.path("state/spool")); err != nil || len(orphans) > 0 {
		t.Errorf("orphans: %v %v", orphans, err)
	}
}
