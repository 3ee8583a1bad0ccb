package storetest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// modelTask is what the contract promises about a task, in the simplest form.
type modelTask struct {
	said    []string
	head    uint64
	epoch   uint64
	holder  int // pid, zero when free
	inbox   map[string]bool
	pending []string
}

// model runs random calls on the journal and on maps, and compares.
func model(t *testing.T, open Open) {
	rapid.Check(t, func(r *rapid.T) {
		f := newFixture(t, open)
		defer func() {
			if err := f.Close(); err != nil {
				r.Fatal(err)
			}
		}()
		m := &machine{f: f, tasks: map[td.TaskID]*modelTask{}, keys: map[string]td.TaskID{}, at: time.Unix(1e9, 0)}
		r.Repeat(map[string]func(*rapid.T){
			"create":  m.create,
			"claim":   m.claim,
			"release": m.release,
			"append":  m.append,
			"post":    m.post,
			"reopen":  func(*rapid.T) { f.again() },
			"":        m.check,
		})
	})
}

type machine struct {
	f     *fixture
	ids   []td.TaskID
	tasks map[td.TaskID]*modelTask
	keys  map[string]td.TaskID
	at    time.Time
	total int
}

func (m *machine) pick(r *rapid.T) (td.TaskID, *modelTask) {
	if len(m.ids) == 0 {
		r.Skip("no task yet")
	}
	id := rapid.SampledFrom(m.ids).Draw(r, "task")
	return id, m.tasks[id]
}

func (m *machine) create(r *rapid.T) {
	key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "key")
	task, err := m.f.Create(m.f.ctx, spec("task "+key, m.at), key)
	if err != nil {
		r.Fatal(err)
	}
	if first, again := m.keys[key]; again {
		if task.ID != first {
			r.Fatalf("key %s gave %s and then %s", key, first, task.ID)
		}
		return
	}
	m.keys[key], m.total = task.ID, m.total+1
	m.ids = append(m.ids, task.ID)
	m.tasks[task.ID] = &modelTask{head: 1, inbox: map[string]bool{}}
}

func (m *machine) claim(r *rapid.T) {
	id, t := m.pick(r)
	pid := rapid.IntRange(1, 2).Draw(r, "pid")
	c, err := m.f.Claim(m.f.ctx, id, holder(pid))
	if t.holder != 0 && t.holder != pid {
		if !td.IsKind(err, td.Conflict) {
			r.Fatalf("claimed what %d holds: %v", t.holder, err)
		}
		return
	}
	if err != nil || c.Epoch <= t.epoch {
		r.Fatalf("got epoch %d after %d, %v", c.Epoch, t.epoch, err)
	}
	t.epoch, t.holder = c.Epoch, pid
}

func (m *machine) release(r *rapid.T) {
	id, t := m.pick(r)
	epoch := rapid.Uint64Range(0, t.epoch).Draw(r, "epoch")
	if err := m.f.Release(m.f.ctx, td.Claim{Task: id, Epoch: epoch}); err != nil {
		r.Fatal(err)
	}
	if epoch == t.epoch {
		t.holder = 0
	}
}

func (m *machine) append(r *rapid.T) {
	id, t := m.pick(r)
	epoch := t.epoch - uint64(min(int(t.epoch), rapid.IntRange(0, 9).Draw(r, "epochs back")/9))
	after := t.head - uint64(rapid.IntRange(0, 9).Draw(r, "heads back")/9)
	words := rapid.SliceOfN(rapid.StringN(0, 8, 32), 1, 3).Draw(r, "words")
	takes := rapid.SampledFrom([]string{"", "", "x", "y"}).Draw(r, "takes")
	evs := make([]td.Event, len(words))
	for i, w := range words {
		m.at = m.at.Add(time.Nanosecond)
		evs[i] = td.Event{At: m.at, Body: td.Said{Text: w}}
	}
	evs[0].Takes = takes
	got, err := m.f.Append(m.f.ctx, td.Claim{Task: id, Epoch: epoch}, after, evs...)
	switch {
	case t.holder == 0 || epoch != t.epoch:
		m.refused(r, err, td.Fenced)
	case after != t.head, takes != "" && !t.inbox[takes]:
		m.refused(r, err, td.Conflict)
	default:
		if err != nil || got.Head != t.head+uint64(len(words)) {
			r.Fatalf("head %d after %d events at %d: %v", got.Head, len(words), t.head, err)
		}
		t.head = got.Head
		t.said = append(t.said, words...)
		m.total += len(words)
		if takes != "" {
			t.inbox[takes] = false
			t.pending = slices.DeleteFunc(t.pending, func(k string) bool { return k == takes })
		}
		again, err := m.f.Append(m.f.ctx, td.Claim{Task: id, Epoch: epoch}, after, evs...)
		if err != nil || again.Head != t.head {
			r.Fatalf("a repeat gave head %d, %v", again.Head, err)
		}
	}
}

func (m *machine) refused(r *rapid.T, err error, kind td.Kind) {
	if !td.IsKind(err, kind) {
		r.Fatalf("got %v, want %s", err, kind)
	}
}

func (m *machine) post(r *rapid.T) {
	id, t := m.pick(r)
	key := rapid.SampledFrom([]string{"x", "y"}).Draw(r, "key")
	if err := m.f.Post(m.f.ctx, id, command(key, m.at)); err != nil {
		r.Fatal(err)
	}
	if _, known := t.inbox[key]; !known {
		t.inbox[key] = true
		t.pending = append(t.pending, key)
	}
}

// check compares all that can be read.
func (m *machine) check(r *rapid.T) {
	f := m.f
	if all := f.all(store.EventFilter{}, 0); len(all) != m.total {
		r.Fatalf("the journal has %d events, want %d", len(all), m.total)
	}
	for id, t := range m.tasks {
		var said []string
		for i, ev := range f.read(id, 1) {
			if ev.Seq != uint64(i)+2 {
				r.Fatalf("event %d at place %d", ev.Seq, i)
			}
			said = append(said, ev.Body.(td.Said).Text)
		}
		if !slices.Equal(said, t.said) {
			r.Fatalf("read %q, want %q", said, t.said)
		}
		if got := f.task(id); got.Head != t.head {
			r.Fatalf("head %d, want %d", got.Head, t.head)
		}
		c, held, err := f.HolderOf(f.ctx, id)
		if err != nil || held != (t.holder != 0) || held && (c.Holder.Pid != t.holder || c.Epoch != t.epoch) {
			r.Fatalf("held by %+v (%v, %v), want %d at %d", c, held, err, t.holder, t.epoch)
		}
		if !held {
			continue
		}
		cmds, err := f.Take(f.ctx, c)
		if err != nil || !slices.EqualFunc(cmds, t.pending, func(c td.Command, k string) bool { return c.Key == k }) {
			r.Fatalf("took %v (%v), want %v", cmds, err, t.pending)
		}
	}
	var want []td.TaskID
	for _, id := range slices.Sorted(maps.Keys(m.tasks)) {
		if len(m.tasks[id].pending) > 0 {
			want = append(want, id)
		}
	}
	got, err := f.Pending(f.ctx)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		r.Fatalf("pending %v (%v), want %v", got, err, want)
	}
}
