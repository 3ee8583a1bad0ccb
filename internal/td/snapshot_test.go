package td

import (
	"testing"
	"time"
)

func TestRewindLeavesEveryTaskPaused(t *testing.T) {
	at := time.Now().UTC()
	for _, from := range States {
		task := NewTask(Spec{ID: NewTaskID(), Handle: "t-1", CreatedAt: at})
		task.Status, task.Head = Status{State: from}, 9
		task.Requests, task.InFlight = []Request{{ID: "q"}}, []StepRef{{Key: "t1.0"}}
		cmd := Command{Key: "k", Type: CmdRewind, Rewind: &Rewind{To: "t1.0", Seq: 5, Tree: "T"}}
		for _, ev := range Obey(task, cmd, at) {
			ev.Seq = task.Head + 1
			var err error
			if task, err = task.Apply(ev); err != nil {
				t.Fatalf("from %s: %v", from, err)
			}
		}
		if task.Status.State != Paused || len(task.Requests)+len(task.InFlight) > 0 || !task.Cuts.Has(6) || task.Cuts.Has(5) || task.Cuts.Has(10) {
			t.Errorf("from %s: %+v, cut %v", from, task.Status, task.Cuts)
		}
	}
	task := NewTask(Spec{ID: NewTaskID(), CreatedAt: at})
	for _, bad := range []*Rewind{nil, {To: "t1.0"}, {To: "t1.0", Seq: 7}} {
		if err := Refuse(task, Command{Type: CmdRewind, Rewind: bad}, at); err == nil {
			t.Errorf("rewound to %+v", bad)
		}
	}
}

func TestCuts(t *testing.T) {
	var c Cuts
	c = c.Rewind(5, 10)  // 6…9 are gone
	c = c.Rewind(12, 20) // and 13…19
	for _, seq := range []uint64{6, 9, 13, 19} {
		if !c.Has(seq) {
			t.Errorf("%v has not %d", c, seq)
		}
	}
	for _, seq := range []uint64{5, 10, 11, 12, 20, 21} {
		if c.Has(seq) {
			t.Errorf("%v has %d", c, seq)
		}
	}
	// Back to 8, which was cut: what was cut by then comes back, and all since goes.
	if c = c.Rewind(8, 30); c.Has(7) || !c.Has(9) || !c.Has(11) || !c.Has(25) {
		t.Errorf("cuts %v", c)
	}
}
