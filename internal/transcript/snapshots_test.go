package transcript

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/td"
)

// stream numbers bodies as the journal does.
func stream(bodies ...td.Body) (events []td.Event) {
	for i, b := range bodies {
		events = append(events, td.Event{Seq: uint64(i + 1), Body: b})
	}
	return events
}

func intends(key td.StepKey, name string, effect td.Effect) td.StepIntended {
	return td.StepIntended{Intent: td.Intent{Key: key, Kind: td.ToolStep, Name: name, Effect: effect}}
}

func calls(key td.StepKey) td.StepIntended {
	return td.StepIntended{Intent: td.Intent{Key: key, Kind: td.ModelStep, Effect: td.Pure}}
}

func shot(step td.StepKey, tree string) td.Snapshotted {
	return td.Snapshotted{Step: step, Tree: tree, Commit: "c-" + tree}
}

// work is a task of two turns: a Write, then a Read and two calls of Bash, of which the second was not made at record 13.
func work() []td.Body {
	return []td.Body{
		td.Created{}, // 1
		td.ContextSet{Iteration: 1, Opening: td.Message{Role: td.User, Blocks: []td.Block{text("do it")}}}, // 2
		calls("t1.model"),                      // 3
		shot("t1.start", "T0"),                 // 4: taken while the model was asked
		answer(text("one"), use("a", "Write")), // 5
		intends("t1.0", "Write", td.Keyed),     // 6
		result("t1.0", "wrote"),                // 7
		shot("t1.0", "T1"),                     // 8
		calls("t2.model"),                      // 9
		answer(text("two"), use("b", "Read"), use("c", "Bash"), use("d", "Bash")), // 10
		result("t2.0", "read"),             // 11
		intends("t2.1", "Bash", td.Opaque), // 12
		result("t2.1", "ran"),              // 13
		shot("t2.1", "T2"),                 // 14
		intends("t2.2", "Bash", td.Opaque), // 15
		result("t2.2", "ran again"),        // 16
		shot("t2.2", "T3"),                 // 17
	}
}

func TestStepsAreTiedToTrees(t *testing.T) {
	var got [][2]any
	for _, s := range Steps(stream(work()...)) {
		got = append(got, [2]any{string(s.Key) + " " + s.Name + " " + s.Before + ">" + s.Tree.Tree, s.Seq})
	}
	want := [][2]any{
		{"t1.start  >T0", uint64(2)}, {"t1.0 Write T0>T1", uint64(7)}, {"t2.1 Bash T1>T2", uint64(13)}, {"t2.2 Bash T2>T3", uint64(16)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The conversation ends at the step: what follows is not seen, and calls that were not made are not in it.
func TestRewound(t *testing.T) {
	for _, c := range []struct {
		to   td.StepKey
		seq  uint64
		last td.Message
		n    int
	}{
		{"t1.start", 2, td.Message{Role: td.User, Blocks: []td.Block{text("do it")}}, 1},
		{"t1.0", 7, td.Message{Role: td.User, Blocks: []td.Block{{Type: td.ToolResultBlock, ID: "a", Text: "wrote"}}}, 3},
		{"t2.1", 13, td.Message{Role: td.User, Blocks: []td.Block{
			{Type: td.ToolResultBlock, ID: "b", Text: "read"}, {Type: td.ToolResultBlock, ID: "c", Text: "ran"},
		}}, 5},
	} {
		events := stream(append(work(), td.Rewound{Rewind: td.Rewind{To: c.to, Seq: c.seq, Tree: "T"}})...)
		tr := Of(events)
		if len(tr.Messages) != c.n || cmp.Diff(c.last, tr.Messages[len(tr.Messages)-1]) != "" || tr.Open() || tr.Ended {
			t.Errorf("%s: %d messages, ending with %+v", c.to, len(tr.Messages), tr.Messages[len(tr.Messages)-1])
		}
		if c.n == 5 && len(tr.Messages[3].ToolUses()) != 2 {
			t.Errorf("%s: the answer has the calls %+v", c.to, tr.Messages[3].ToolUses())
		}
		if tr.ModelKey() != "t3.model" {
			t.Errorf("%s: the next call is %s: no name is given twice", c.to, tr.ModelKey())
		}
		if tr.Snapshot().Tree != "T" || tr.Unsnapped() != "" || tr.Touching() {
			t.Errorf("%s: the workspace holds %+v", c.to, tr.Snapshot())
		}
		if diff := cmp.Diff(At(events, c.seq).Messages, tr.Messages); diff != "" {
			t.Errorf("%s: At is another conversation: %s", c.to, diff)
		}
	}
}

// Rewound twice, and back to a step that was cut off.
func TestRewoundAgain(t *testing.T) {
	bodies := append(work(),
		td.Rewound{Rewind: td.Rewind{To: "t1.0", Seq: 7}}, // 18
		td.Said{Text: "otherwise", By: "me"},              // 19
		calls("t3.model"),                                 // 20
		answer(text("three")),                             // 21
	)
	first := Of(stream(bodies...))
	if got := first.LastText(); got != "three" || len(first.Messages) != 4 || first.People[0] != "otherwise" {
		t.Errorf("after the first: %q in %d messages", got, len(first.Messages))
	}
	again := Of(stream(append(bodies, td.Rewound{Rewind: td.Rewind{To: "t2.2", Seq: 16}})...))
	if got := again.LastText(); got != "two" || len(again.Messages) != 5 || len(again.People) != 0 {
		t.Errorf("back to what was cut off: %q in %d messages", got, len(again.Messages))
	}
	before := Of(stream(append(bodies, td.Rewound{Rewind: td.Rewind{To: "t1.start", Seq: 2}})...))
	if len(before.Messages) != 1 || before.ModelKey() != "t4.model" {
		t.Errorf("back to the start: %d messages, next %s", len(before.Messages), before.ModelKey())
	}
}

func TestUnsnapped(t *testing.T) {
	all := work()
	for _, c := range []struct {
		n         int
		unsnapped td.StepKey
		touching  bool
		tree      string
	}{
		{6, "", true, "T0"}, {7, "t1.0", false, "T0"}, {8, "", false, "T1"},
		{12, "", true, "T1"}, {13, "t2.1", false, "T1"}, {15, "", true, "T2"},
	} {
		tr := Of(stream(all[:c.n]...))
		if tr.Unsnapped() != c.unsnapped || tr.Touching() != c.touching || tr.Snapshot().Tree != c.tree {
			t.Errorf("after %d records: unsnapped %q, touching %v, %+v", c.n, tr.Unsnapped(), tr.Touching(), tr.Snapshot())
		}
	}
	// The next step began before the snapshot of the one before was on disk: it would show what both did.
	if tr := Of(stream(append(all[:7:7], intends("t1.1", "Bash", td.Opaque))...)); tr.Unsnapped() != "" {
		t.Errorf("unsnapped %q", tr.Unsnapped())
	}
}

// What a repository has a snapshot of, the journal knows of: in every order in which a crash can leave them.
func TestIntended(t *testing.T) {
	open := &Transcript{Calls: []Call{
		{Key: "t3.0", Intent: &td.Intent{Key: "t3.0"}}, {Key: "t3.1", Outcome: &td.Outcome{Key: "t3.1"}}, {Key: "t3.2"},
	}}
	for key, want := range map[td.StepKey]bool{
		"t2.7": true, "t3.0": true, "t3.0~2": true, "t3.1": true, "t3.start": true, "t4.start": true, "t3.0.validate": true,
		"rewind.01890000": true, "": true, "t": true, "t.0": true, "tx.0": true, "t-1.0": true,
		"t3.2": false, "t4.0": false, "t5.start": false, "t4.0.validate": false, "t99999999.0": false,
	} {
		if got := open.Intended(key, 3); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if !(&Transcript{}).Intended("t3.2", 3) {
		t.Error("a turn that has ended counts as one that never was")
	}
}
