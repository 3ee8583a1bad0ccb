package workgraph

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// plan makes a graph of lines like "b < a: c d [state]": b is in a, waits for c and d. Older lines come first.
func plan(t testing.TB, lines ...string) *Graph {
	t.Helper()
	g := New(nil)
	for i, line := range lines {
		n := Node{State: td.Queued, Created: time.Unix(int64(i+1), 0)}
		if head, state, ok := strings.Cut(line, " ["); ok {
			line, n.State = head, td.State(strings.TrimSuffix(state, "]"))
		}
		head, blockers, _ := strings.Cut(line, ":")
		id, parent, _ := strings.Cut(head, " < ")
		n.ID, n.Parent = td.TaskID(id), td.TaskID(parent)
		for b := range strings.FieldsSeq(blockers) {
			n.Blockers = append(n.Blockers, td.TaskID(b))
		}
		g.Put(n)
	}
	return g
}

func words(ids []td.TaskID) string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return strings.Join(out, " ")
}

func TestReady(t *testing.T) {
	for _, c := range []struct{ name, plan, want string }{
		{"nothing", "", ""},
		{"the older first", "a\nb", "a b"},
		{"one waits", "a\nb: a", "a"},
		{"freed", "a [completed]\nb: a\nc: a", "b c"},
		{"a container never runs", "a\nb < a", "b"},
		{"a container's blocker", "x\na: x\nb < a", "x"},
		{"waits for a container", "a\nb < a\nc: a", "b"},
		{"a container is done", "a\nb < a [completed]\nc: a", "c"},
		{"a sibling failed", "a\nb < a [failed]\nc < a\nd", "d"},
		{"a cousin failed", "top\na < top\nb < top\nx < a [failed]\ny < b", ""},
		{"a sibling was cancelled", "a\nb < a [cancelled]\nc < a", "c"},
		{"failed blocker", "a [failed]\nb: a", ""},
		{"edge to nowhere", "b: nobody", ""},
		{"waits for itself", "a: a\nb", "b"},
		{"circle", "a: b\nb: a\nc", "c"},
		{"waits for what it is in", "a\nb < a: a", ""},
		{"waits for what is in it", "a: b\nb < a", ""},
		{"in each other", "a < b\nb < a\nc", "c"},
		{"behind a circle", "a: b\nb: a\nc: a", ""},
		{"unknown parent", "b < nobody", "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := plan(t, slices.DeleteFunc(strings.Split(c.plan, "\n"), func(s string) bool { return s == "" })...)
			if got := words(slices.Collect(g.Ready(""))); got != c.want {
				t.Errorf("ready: %q, not %q", got, c.want)
			}
		})
	}
}

func TestReadyWithin(t *testing.T) {
	g := plan(t, "p", "q", "a < p", "b < q", "c < a", "d")
	for in, want := range map[td.TaskID]string{"": "b c d", "p": "c", "q": "b", "a": "c", "d": "d", "nobody": ""} {
		if got := words(slices.Collect(g.Ready(in))); got != want {
			t.Errorf("ready in %q: %q, not %q", in, got, want)
		}
	}
}

func TestPriorityBeatsAge(t *testing.T) {
	g := plan(t, "a", "b")
	g.Put(Node{ID: "a", Priority: 2, Created: time.Unix(1, 0), State: td.Queued})
	if got := words(slices.Collect(g.Ready(""))); got != "b a" {
		t.Errorf("ready: %q", got)
	}
}

// TestMovesUpward is T-5: what follows from one task's end by itself.
func TestMovesUpward(t *testing.T) {
	g := plan(t, "top", "mid < top", "a < mid", "b < mid", "after: top")
	told := func(shifts []Shift) string {
		var out []string
		for _, s := range shifts {
			out = append(out, fmt.Sprintf("%s %s→%s", s.Task, s.From, s.To))
		}
		return strings.Join(out, ", ")
	}
	steps := []struct {
		task  td.TaskID
		state td.State
		told  string
		ready string
	}{
		{"a", td.Running, "a queued→running, mid queued→running, top queued→running", "b"},
		{"a", td.Completed, "a running→completed", "b"},
		{"b", td.Failed, "b queued→failed, mid running→failed, top running→failed", ""},
		{"b", td.Queued, "b failed→queued, mid failed→running, top failed→running", "b"},
		{"b", td.Completed, "b queued→completed, mid running→completed, top running→completed", "after"},
		{"b", td.Completed, "", "after"},
	}
	for _, s := range steps {
		if got := told(g.SetState(s.task, s.state)); got != s.told {
			t.Errorf("%s is %s: told %q, not %q", s.task, s.state, got, s.told)
		}
		if got := words(slices.Collect(g.Ready(""))); got != s.ready {
			t.Errorf("%s is %s: ready %q, not %q", s.task, s.state, got, s.ready)
		}
	}
}

func TestStanding(t *testing.T) {
	g := plan(t, "f [failed]", "r [running]", "box", "bad < box [failed]", "ok < box", "a: r f nobody", "b: f r", "c: r", "d: e", "e: d", "g: d")
	for id, want := range map[td.TaskID]string{
		"a":  "blocked unknown nobody",
		"b":  "blocked failed f",
		"c":  "queued waits r",
		"d":  "blocked cycle d e d",
		"e":  "blocked cycle e d e",
		"g":  "queued waits d",
		"ok": "blocked failed bad",
	} {
		s, _ := g.Standing(id)
		if got := fmt.Sprintf("%s %s %s", s.State, s.Obstacle, words(s.By)); got != want {
			t.Errorf("%s: %q, not %q", id, got, want)
		}
	}
	if _, ok := g.Standing("nobody"); ok {
		t.Error("a task that others only name is there")
	}
}

func TestACircleThatIsOpenedLetsGo(t *testing.T) {
	g := plan(t, "a: b", "b: c", "c: a")
	g.Put(Node{ID: "c", Created: time.Unix(3, 0), State: td.Queued})
	for _, id := range []td.TaskID{"a", "b", "c"} {
		if s, _ := g.Standing(id); s.Obstacle == InCycle {
			t.Errorf("%s still waits in a circle %v", id, s.By)
		}
	}
	if got := words(slices.Collect(g.Ready(""))); got != "c" {
		t.Errorf("ready: %q", got)
	}
}

func TestCheckNamesTheCircle(t *testing.T) {
	g := plan(t, "a", "b: a", "c: b", "box", "x < box", "y: box")
	for _, c := range []struct {
		err  error
		want string
	}{
		{g.CheckBlocker("a", "c"), "a → c → b → a"},
		{g.CheckBlocker("a", "a"), "a → a"},
		{g.CheckBlocker("x", "box"), "x → box → x"},
		{g.CheckBlocker("box", "x"), "box → x → box"},
		{g.CheckBlocker("x", "y"), "x → y → box → x"},
		{g.CheckParent("box", "x"), "box → x → box"},
		{g.CheckParent("y", "box"), "y → box → y"},
		{g.CheckNew(Node{ID: "n", Parent: "box", Blockers: []td.TaskID{"box"}}), "n → box → n"},
		{g.CheckNew(Node{ID: "n", Parent: "box", Blockers: []td.TaskID{"y"}}), "n → y → box → n"},
		{g.CheckNew(Node{ID: "n", Parent: "box", Blockers: []td.TaskID{"x", "c"}}), ""},
		{g.CheckNew(Node{ID: "n", Blockers: []td.TaskID{"box"}}), ""},
		{g.CheckBlocker("c", "a"), ""},
		{g.CheckBlocker("a", "nobody"), ""},
		{g.CheckParent("a", "box"), ""},
	} {
		got := ""
		if e, ok := errors.AsType[*CircleError](c.err); ok {
			got = e.Circle.String()
		}
		if got != c.want {
			t.Errorf("got %q, not %q", got, c.want)
		}
	}
}

func TestImpact(t *testing.T) {
	g := plan(t, "a", "b: a", "c: b", "box: a", "x < box", "other", "in < other", "y: other", "z")
	for id, want := range map[td.TaskID]string{"a": "b box c x", "b": "c", "in": "y", "z": "", "nobody": ""} {
		if got := words(g.Impact(id)); got != want {
			t.Errorf("what waits for %s: %q, not %q", id, got, want)
		}
	}
}

func TestCriticalPath(t *testing.T) {
	g := plan(t, "done [completed]", "a: done", "b: a", "c: b", "d: a", "box", "x < box: c", "y: box", "p: q", "q: p", "r: q")
	if got := words(g.CriticalPath("")); got != "a b c x y" {
		t.Errorf("got %q", got)
	}
	if got := words(g.CriticalPath("box")); got != "x" {
		t.Errorf("in the box: got %q", got)
	}
	if got := words(New(nil).CriticalPath("")); got != "" {
		t.Errorf("of nothing: got %q", got)
	}
}

// TestLongChains must not run out of stack or time.
func TestLongChains(t *testing.T) {
	const n = 100_000
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{ID: name(i), State: td.Queued, Created: time.Unix(int64(i), 0)}
		if i > 0 {
			nodes[i].Blockers = []td.TaskID{name(i - 1)}
		}
	}
	g := New(nodes)
	if got := len(g.CriticalPath("")); got != n {
		t.Errorf("the longest chain has %d", got)
	}
	if got := len(g.Impact(name(0))); got != n-1 {
		t.Errorf("%d wait for the first", got)
	}
	if err := g.CheckBlocker(name(0), name(n-1)); err == nil {
		t.Error("the chain may be closed")
	}
	nodes[0].Blockers = []td.TaskID{name(n - 1)}
	g.Put(nodes[0])
	if s, _ := g.Standing(name(n / 2)); s.Obstacle != InCycle {
		t.Errorf("in a closed chain: %+v", s.Obstacle)
	}
}

func name(i int) td.TaskID { return td.TaskID(fmt.Sprintf("t%06d", i)) }
