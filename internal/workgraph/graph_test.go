package workgraph

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"taskdaemon/internal/td"
)

// oracle says of a few nodes what the graph should, the slow way: it looks at everything each time.
type oracle map[td.TaskID]*Node

func (o oracle) kids(id td.TaskID) (out []td.TaskID) {
	for k, n := range o {
		if n.Parent == id && !n.gone() {
			out = append(out, k)
		}
	}
	return out
}

// A node without a creation time stands for one that was deleted.
func (n *Node) gone() bool { return n.Created.IsZero() }

func (o oracle) there(id td.TaskID) bool { return o[id] != nil && !o[id].gone() }

func (o oracle) state(id td.TaskID, deep int) td.State {
	kids := o.kids(id)
	if !o.there(id) || deep > len(o) {
		return ""
	}
	if len(kids) == 0 {
		return o[id].State
	}
	counts := map[td.State]int{}
	for _, k := range kids {
		counts[o.state(k, deep+1)]++
	}
	switch {
	case counts[td.Failed]+counts[td.Abandoned] > 0:
		return td.Failed
	case counts[td.Cancelled] == len(kids):
		return td.Cancelled
	case counts[td.Cancelled]+counts[td.Completed] == len(kids):
		return td.Completed
	case counts[td.Cancelled]+counts[td.Queued]+counts[td.Blocked] == len(kids):
		return td.Queued
	}
	return td.Running
}

func (o oracle) up(id td.TaskID) (out []td.TaskID) {
	for ; o.there(id) && len(out) <= len(o); id = o[id].Parent {
		out = append(out, id)
	}
	return out
}

type point struct {
	id  td.TaskID
	end bool
}

func (o oracle) awaits(p point) (out []point) {
	switch {
	case !o.there(p.id):
	case p.end:
		out = append(out, point{p.id, false})
		for _, k := range o.kids(p.id) {
			out = append(out, point{k, true})
		}
	default:
		for _, b := range o[p.id].Blockers {
			out = append(out, point{b, true})
		}
		if o[p.id].Parent != "" {
			out = append(out, point{o[p.id].Parent, false})
		}
	}
	return out
}

func (o oracle) reaches(from, to point) bool {
	seen := map[point]bool{}
	todo := o.awaits(from)
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if p == to {
			return true
		}
		if !seen[p] {
			seen[p] = true
			todo = append(todo, o.awaits(p)...)
		}
	}
	return false
}

func (o oracle) circular(id td.TaskID) bool {
	return o.reaches(point{id, true}, point{id, true}) || o.reaches(point{id, false}, point{id, false})
}

func (o oracle) ready(id td.TaskID) bool {
	if !o.there(id) || len(o.kids(id)) > 0 || o[id].State != td.Queued {
		return false
	}
	for _, up := range o.up(id) {
		if o.circular(up) || o.state(up, 0) == td.Failed {
			return false
		}
		for _, b := range o[up].Blockers {
			deleted := o[b] != nil && o[b].gone()
			if !deleted && o.state(b, 0) != td.Completed {
				return false
			}
		}
	}
	return true
}

var states = []td.State{td.Queued, td.Queued, td.Running, td.Waiting, td.Blocked, td.Completed, td.Completed, td.Failed, td.Cancelled, td.Abandoned}

// TestLikeTheOracle changes small graphs at random and compares them with one that is looked at as a whole,
// and with one that is made anew.
func TestLikeTheOracle(t *testing.T) {
	begin := time.Unix(1_700_000_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		ids := make([]td.TaskID, 8)
		for i := range ids {
			ids[i] = td.TaskID(fmt.Sprintf("t%d", i))
		}
		some := rapid.SampledFrom(ids)
		o, g := oracle{}, New(nil)
		circularParents := rapid.Bool().Draw(t, "parents in each other")
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id := some.Draw(t, "task")
			before := o.states()
			var shifts []Shift
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				o[id] = &Node{ID: id}
				shifts = g.Remove(id)
			case 1, 2:
				s := rapid.SampledFrom(states).Draw(t, "state")
				if o.there(id) {
					o[id].State = s
				}
				shifts = g.SetState(id, s)
			default:
				n := Node{
					ID: id, Priority: rapid.IntRange(0, 2).Draw(t, "priority"),
					Created:  begin.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "age")) * time.Second),
					State:    rapid.SampledFrom(states).Draw(t, "state"),
					Blockers: rapid.SliceOfN(some, 0, 2).Draw(t, "blockers"),
				}
				if rapid.Bool().Draw(t, "has parent") {
					n.Parent = some.Draw(t, "parent")
					if !circularParents && n.Parent >= n.ID {
						n.Parent = ""
					}
				}
				c := n
				o[id] = &c
				shifts = g.Put(n)
			}
			if circularParents {
				continue // what state containers have that are in each other is nobody's business
			}
			for _, s := range shifts {
				if before[s.Task] = s.To; s.To == "" {
					delete(before, s.Task)
				}
			}
			if diff := cmp.Diff(o.states(), before); diff != "" {
				t.Fatalf("the changes that were told do not add up (-want +got):\n%s", diff)
			}
		}
		var nodes []Node
		var deleted []td.TaskID
		for id, n := range o {
			if n.gone() {
				deleted = append(deleted, id)
			} else {
				nodes = append(nodes, *n)
			}
		}
		fresh := New(nodes, deleted...)
		for name, g := range map[string]*Graph{"changed": g, "made anew": fresh} {
			o.compare(t, name, g, circularParents)
		}
	})
}

func (o oracle) states() map[td.TaskID]td.State {
	out := map[td.TaskID]td.State{}
	for id := range o {
		if o.there(id) {
			out[id] = o.state(id, 0)
		}
	}
	return out
}

func (o oracle) compare(t *rapid.T, name string, g *Graph, circularParents bool) {
	var want []*Node
	for id, n := range o {
		s, ok := g.Standing(id)
		if ok != o.there(id) {
			t.Fatalf("%s: %s is there: %v", name, id, ok)
		}
		if !ok {
			continue
		}
		if circular := s.Obstacle == InCycle; circular != (o.circularAbove(id) && o.state(id, 0) == td.Queued) && !circularParents {
			t.Fatalf("%s: %s is in a circle: %v, %+v", name, id, circular, s)
		}
		if s.Obstacle == InCycle && (len(s.By) < 2 || s.By[0] != s.By[len(s.By)-1]) {
			t.Fatalf("%s: %s waits in a circle %v", name, id, s.By)
		}
		if !circularParents && s.State != td.Blocked && s.State != o.state(id, 0) {
			t.Fatalf("%s: %s is %s, not %s", name, id, s.State, o.state(id, 0))
		}
		if s.Ready != (s.State == td.Queued && !s.Container && s.Obstacle == Free) {
			t.Fatalf("%s: %s: %+v", name, id, s)
		}
		if o.ready(id) {
			want = append(want, n)
		}
	}
	if circularParents {
		return
	}
	slices.SortFunc(want, func(a, b *Node) int { return before(&node{Node: *a}, &node{Node: *b}) })
	var ids []td.TaskID
	for _, n := range want {
		ids = append(ids, n.ID)
	}
	if got := slices.Collect(g.Ready("")); !slices.Equal(got, ids) {
		t.Fatalf("%s: ready %v, not %v", name, got, ids)
	}
}

func (o oracle) circularAbove(id td.TaskID) bool {
	return slices.ContainsFunc(o.up(id), o.circular)
}
