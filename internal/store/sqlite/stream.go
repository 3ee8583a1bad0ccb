package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/bus"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Create records a new task, queued.
func (s *Store) Create(ctx context.Context, spec td.Spec, key string) (td.Task, error) {
	first, err := rule.PrepareSpec(spec)
	if err != nil {
		return td.Task{}, err
	}
	var out td.Task
	err = s.w.do(ctx, func(t *tx) error {
		if known, err := t.byKey(key); err != nil || known != "" {
			if err != nil {
				return err
			}
			e, err := t.load(known)
			if err == nil {
				out = *e.task
			}
			return err
		}
		out, err = t.create(first, key)
		return err
	})
	if err != nil {
		return td.Task{}, fmt.Errorf("create a task: %w", err)
	}
	return out, nil
}

func (t *tx) byKey(key string) (id td.TaskID, err error) {
	if key == "" {
		return "", nil
	}
	_, err = t.c.one(func(r *sqlite3.Stmt) error { id = td.TaskID(r.ColumnText(0)); return nil },
		"SELECT t.id FROM keys k JOIN tasks t ON t.n = k.task WHERE k.key = ?", key)
	return id, err
}

func (t *tx) create(first td.Record, key string) (td.Task, error) {
	spec := first.Body.(td.Created).Spec
	if n, err := t.c.number("SELECT count(*) FROM tasks WHERE id = ?", string(spec.ID)); err != nil || n > 0 {
		if err != nil {
			return td.Task{}, err
		}
		return td.Task{}, td.Errorf(td.Conflict, "the task %s exists already", spec.ID.Handle())
	}
	handle, err := rule.FreeHandle(spec, func(h string) (bool, error) {
		n, err := t.c.number("SELECT count(*) FROM tasks WHERE handle = ?", h)
		return n > 0, err
	})
	if err != nil {
		return td.Task{}, err
	}
	if handle != spec.Handle {
		spec.Handle = handle
		if first, err = rule.PrepareSpec(spec); err != nil {
			return td.Task{}, err
		}
	}
	one := []td.Record{first}
	var task td.Task
	if err := rule.Fold(&task, t.last, one); err != nil {
		return td.Task{}, err
	}
	n, err := t.c.number("SELECT max(n) + 1 FROM tasks")
	if err != nil {
		return td.Task{}, err
	}
	fpTaskCreate.Hit()
	t.wrote = true
	if err := insertTask(t.c, task, n, one[0].Cursor); err != nil {
		return td.Task{}, err
	}
	if key != "" {
		if err := t.exec("INSERT INTO keys (key, task) VALUES (?, ?)", key, n); err != nil {
			return td.Task{}, err
		}
	}
	e := entry{n: n, task: &task}
	if err := t.insertEvents(&e, 0, batch{evs: one}); err != nil {
		return td.Task{}, err
	}
	t.tallies.Add(nil, one)
	t.stage(task.ID, e)
	return task, nil
}

func insertTask(c *conn, task td.Task, n int64, newest uint64) error {
	created, err := rule.Nanos(task.CreatedAt)
	if err != nil {
		return err
	}
	spec, err := json.Marshal(task.Spec)
	if err != nil {
		return err
	}
	brief, err := json.Marshal(rule.Brief(task.Spec))
	if err != nil {
		return err
	}
	live, err := task.Live.AppendJSON(nil)
	if err != nil {
		return err
	}
	if err := c.exec(`INSERT INTO tasks (n, id, handle, state, dir, priority, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		n, string(task.ID), task.Handle, string(task.Status.State), task.Dir, task.Priority, created); err != nil {
		return err
	}
	if err := c.exec("INSERT INTO lives (task, newest, live) VALUES (?, ?, ?)", n, newest, live); err != nil {
		return err
	}
	return c.exec("INSERT INTO specs (task, brief, spec) VALUES (?, ?, ?)", n, brief, spec)
}

// batch is what one call appends.
type batch struct {
	evs  []td.Record
	kept map[int]kept // by the event's place, of those whose body is not stored as it is; most are
}

// kept is where a large body goes: into a blob with this hash, or packed into its row.
type kept struct{ blob, packed []byte }

// Append writes events of one task, all or none, after its head.
func (s *Store) Append(ctx context.Context, c td.Claim, after uint64, evs ...td.Event) (td.Task, error) {
	prepared, err := rule.Prepare(c.Task, evs)
	if err != nil {
		return td.Task{}, err
	}
	b := batch{evs: prepared}
	for i := range prepared {
		var where kept
		if raw := prepared[i].Raw; len(raw) > blobOver {
			h, release, err := s.blobs.put(raw)
			if err != nil {
				return td.Task{}, fmt.Errorf("append to %s: %w", c.Task.Handle(), s.classify(err))
			}
			defer release()
			where.blob = h[:]
		} else if where.packed, err = pack(raw); err != nil {
			return td.Task{}, fmt.Errorf("append to %s: %w", c.Task.Handle(), err)
		}
		if where.blob == nil && where.packed == nil {
			continue
		}
		if b.kept == nil {
			b.kept = map[int]kept{}
		}
		b.kept[i] = where
	}
	// The writer has copied what was encoded here when its answer comes.
	buf := lives.Get().(*[]byte)
	defer lives.Put(buf)
	ahead := s.w.foldAhead(c.Task, after, b.evs, buf)
	var out *td.Task
	err = s.w.do(ctx, func(t *tx) error {
		var err error
		out, err = t.append(c, after, b, ahead)
		return err
	})
	if err != nil {
		return td.Task{}, fmt.Errorf("append to %s: %w", c.Task.Handle(), err)
	}
	return *out, nil
}

// lives are buffers to encode td.Live in.
var lives = sync.Pool{New: func() any { return new([]byte) }}

// folded is a task with events folded into it, encoded.
type folded struct {
	task *td.Task
	live []byte
}

// fold folds events into a task and encodes the result into the buffer, which it may replace with a larger one.
func fold(task *td.Task, evs []td.Record, buf *[]byte) (folded, error) {
	next := *task
	if err := rule.Fold(&next, 0, evs); err != nil {
		return folded{}, err
	}
	live, err := next.Live.AppendJSON((*buf)[:0])
	*buf = live
	return folded{&next, live}, err
}

// foldAhead folds events into the task as the writer last left it, on the caller's time. The task is a
// function of its events: if its head is still the same when the writer comes to it, so is the result.
// Nothing leaves it to the writer, which also finds the words if the events are not to be.
func (w *writer) foldAhead(id td.TaskID, after uint64, evs []td.Record, buf *[]byte) folded {
	e := w.cache.get(id)
	if e == nil || e.task.Head != after {
		return folded{}
	}
	f, err := fold(e.task, evs, buf)
	if err != nil {
		return folded{}
	}
	return f
}

func (t *tx) append(c td.Claim, after uint64, b batch, next folded) (*td.Task, error) {
	e, err := t.fenced(c)
	if err != nil {
		return nil, err
	}
	if e.task.Head != after {
		again, err := t.repeated(e, c.Epoch, after, b)
		if err != nil {
			return nil, err
		}
		if !again {
			return nil, rule.HeadMoved(c.Task, after, e.task.Head)
		}
		return e.task, nil
	}
	if next.task == nil {
		if next, err = fold(e.task, b.evs, new([]byte)); err != nil {
			return nil, err
		}
	}
	if err := t.waiting(c.Task, e.n, b.evs); err != nil {
		return nil, err
	}
	before := e.task
	e.task = next.task
	for i := range b.evs {
		b.evs[i].Seq, b.evs[i].Cursor = after+uint64(i)+1, t.last+uint64(i)+1
	}
	if err := t.grant(before, e.task, b.evs); err != nil {
		return nil, err
	}
	account, err := t.account(before, b.evs)
	if err != nil {
		return nil, err
	}
	if err := t.insertEvents(&e, c.Epoch, b); err != nil {
		return nil, err
	}
	if err := t.update(e, before, next.live); err != nil {
		return nil, err
	}
	if err := t.lease(e.n, before, e.task, b.evs); err != nil {
		return nil, err
	}
	if err := t.settle(e.n, e.task, account); err != nil {
		return nil, err
	}
	t.tallies.Add(before.InFlight, b.evs)
	t.stage(c.Task, e)
	return e.task, nil
}

// repeated reports whether these very events were written after this head under this claim: then the
// caller did not learn the outcome of its first call.
func (t *tx) repeated(e entry, epoch, after uint64, b batch) (bool, error) {
	if after+uint64(len(b.evs)) > e.task.Head || after > e.task.Head {
		return false, nil
	}
	if err := t.flush(); err != nil {
		return false, err
	}
	cursors, err := chain(t.c, e.n, e.newest, after, 0)
	if err != nil || len(cursors) < len(b.evs) {
		return false, err
	}
	for i, again := range b.evs {
		same := false
		if _, err := t.c.one(func(r *sqlite3.Stmt) error {
			ev := td.Event{
				At: rule.FromNanos(r.ColumnInt64(2)), Takes: r.ColumnText(4),
				Body: td.Trimmed{Was: td.EventType(r.ColumnText(3))},
			}
			raw, err := unpack(r.ColumnRawBlob(6), int64(len(again.Raw)))
			if err != nil {
				return nil // it is another
			}
			if r.ColumnType(5) != sqlite3.NULL && slices.Equal(r.ColumnRawBlob(5), b.kept[i].blob) {
				raw = again.Raw
			}
			same = uint64(r.ColumnInt64(0)) == after+uint64(i)+1 && uint64(r.ColumnInt64(1)) == epoch &&
				rule.Same(ev, raw, again)
			return nil
		}, "SELECT seq, epoch, at, type, takes, blob, body FROM events WHERE cursor = ?", cursors[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// waiting checks that every command the events take is in the inbox and not consumed.
func (t *tx) waiting(task td.TaskID, n int64, evs []td.Record) error {
	for i := range evs {
		ev := &evs[i]
		if ev.Takes == "" {
			continue
		}
		is, err := t.c.number("SELECT count(*) FROM inbox WHERE task = ? AND key = ? AND consumed IS NULL", n, ev.Takes)
		if err != nil {
			return err
		}
		if is == 0 {
			return rule.NoCommand(task, ev.Takes)
		}
	}
	return nil
}

// insertEvents puts placed events at the end of the task's chain.
func (t *tx) insertEvents(e *entry, epoch uint64, b batch) error {
	for i := range b.evs {
		r := &b.evs[i]
		at, err := rule.Nanos(r.At)
		if err != nil {
			return err
		}
		t.wrote = true
		u := &t.w.unwritten
		u.events = append(u.events, eventRow{e.n, e.newest, epoch, at, r, b.kept[i]})
		if r.Takes != "" {
			fpCommandConsume.Hit()
			if err := t.exec("UPDATE inbox SET consumed = ? WHERE task = ? AND key = ? AND consumed IS NULL",
				r.Cursor, e.n, r.Takes); err != nil {
				return err
			}
		}
		if b, is := r.Body.(td.IterationEnded); is {
			if err := t.note(e.n, e.task.Spec, r.Cursor, b); err != nil {
				return err
			}
		}
		if name, of := td.GraphRunOf(r.Body); of {
			if err := t.run(name, r.Event); err != nil {
				return err
			}
		}
		t.last, e.newest = r.Cursor, r.Cursor
		t.publish = append(t.publish, bus.Entry{Record: *r, Size: 2*len(r.Raw) + eventOverhead})
	}
	return nil
}

// eventOverhead is about what an event costs in memory besides its body and the encoding of that.
const eventOverhead = 256

// update writes the folded task and its open requests.
func (t *tx) update(e entry, before *td.Task, live []byte) error {
	t.wrote = true
	u := &t.w.unwritten
	u.lives = append(u.lives, liveRow{e.n, e.newest, live})
	if state := e.task.Status.State; state != before.Status.State {
		var ended any
		if state.Terminal() {
			at, err := rule.Nanos(e.task.Status.Since)
			if err != nil {
				return err
			}
			ended = at
		}
		if err := t.exec("UPDATE tasks SET state = ?, ended_at = ?, trimmed = 0 WHERE n = ?", string(state), ended, e.n); err != nil {
			return err
		}
	}
	return t.updateRequests(e.n, before, e.task)
}

func (t *tx) updateRequests(n int64, before, task *td.Task) error {
	for _, r := range before.Requests {
		if _, open := task.Request(r.ID); !open {
			if err := t.exec("DELETE FROM requests WHERE task = ? AND id = ?", n, string(r.ID)); err != nil {
				return err
			}
		}
	}
	for _, r := range task.Requests {
		if _, known := before.Request(r.ID); !known {
			if err := t.exec("INSERT OR IGNORE INTO requests (task, id, handle) VALUES (?, ?, ?)",
				n, string(r.ID), r.Handle()); err != nil {
				return err
			}
		}
	}
	return nil
}
