package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// FieldOnce is the field that names the key of a change, see Once.
const FieldOnce = "once"

// FieldClosed is the field that names the last end a run told of, see Closed.
const FieldClosed = "closed"

// maxKey bounds the key of a change, in bytes.
const maxKey = 200

// Once makes changes of single tasks under a key: what was made under it before is not made again, so that one whose
// answer was lost can be asked for again. Without a key each counts for itself.
type Once struct {
	s   *Store
	key string
}

// Once are changes under a key.
func (s *Store) Once(key string) Once { return Once{s, key} }

// write appends what f makes of one task, unless it is there.
func (o Once) write(ctx context.Context, id td.TaskID, f func() ([]change, error)) error {
	if o.key == "" {
		return o.s.write(ctx, "", f)
	}
	if len(o.key) > maxKey || strings.ContainsFunc(o.key, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) {
		return td.Errorf(td.Invalid, "the key of a change has more than %d characters, or such as have to be escaped", maxKey)
	}
	return o.s.write(ctx, o.key, func() ([]change, error) {
		made, err := o.s.history(id)
		if err != nil {
			return nil, err
		}
		for _, c := range made {
			if c.under(o.key) {
				return nil, nil
			}
		}
		return f()
	})
}

// under reports whether a change was made under a key.
func (c *change) under(key string) bool {
	var under string
	raw, ok := c.Set[FieldOnce]
	return ok && json.Unmarshal(raw, &under) == nil && under == key
}

// Deleted is the task that was deleted under the key, as it was.
func (o Once) Deleted(ctx context.Context) (t Task, ok bool, err error) {
	if o.key == "" {
		return t, false, nil
	}
	err = o.s.with(ctx, func() error {
		found, err := o.s.index.with(o.key)
		if err != nil {
			return td.Errorf(td.Storage, "read the index of %s: %w", o.s.path, err)
		}
		for _, r := range found {
			c := change{r.Change()}
			if r.Deleted() && c.under(o.key) {
				t, ok = *taskOf(r), true
			}
		}
		return nil
	})
	return t, ok, err
}

// Edit changes a task.
func (o Once) Edit(ctx context.Context, id td.TaskID, e Edit) (Task, error) {
	s := o.s
	err := o.write(ctx, id, func() ([]change, error) {
		t, err := s.read(id)
		if err != nil {
			return nil, err
		}
		c, err := s.edited(t, e)
		if err != nil {
			return nil, fmt.Errorf("change %s: %w", t.Handle, err)
		}
		return append([]change{c}, s.unrelated(t, e)...), nil
	})
	if err != nil {
		return Task{}, err
	}
	return s.Task(ctx, id)
}

// End writes down how a task ended. What a run says of one that has ended already changes nothing but that it was said:
// a person was faster. What it said before it does not say again, also if the task was opened again since.
func (o Once) End(ctx context.Context, id td.TaskID, v Verdict) error {
	if !v.State.Terminal() {
		return td.Errorf(td.Invalid, "%s is no end of a task", v.State)
	}
	s := o.s
	return o.write(ctx, id, func() ([]change, error) {
		t, err := s.read(id)
		if err != nil {
			return nil, err
		}
		// What ran has ended, though it was given parts meanwhile; its state follows from them all the same.
		if st, _ := s.graph.Standing(id); st.Container && v.Run == "" {
			return nil, td.Errorf(td.Conflict, "%s holds other tasks: it ends when they do", t.Handle).WithHint("taskdaemon task tree %s", t.Handle)
		}
		c := change{jsonl.Change{Task: id}}
		if v.Run != "" {
			if t.Knows(v) {
				return nil, nil
			}
			if err := c.set(FieldClosed, Closed{v.Run, v.At}); err != nil {
				return nil, err
			}
		}
		if t.Verdict == nil || v.Run == "" {
			if err := c.set(fieldVerdict, v); err != nil {
				return nil, err
			}
			for _, claim := range t.Claims { // nobody works on it any more
				if err := c.unclaim(claim); err != nil {
					return nil, err
				}
			}
		}
		return []change{c}, nil
	})
}

// Reopen takes back how a task ended, but not that a run said so, and that it is held. One that is open stays as it is.
func (o Once) Reopen(ctx context.Context, id td.TaskID) error {
	return o.write(ctx, id, func() ([]change, error) {
		t, err := o.s.read(id)
		if err != nil || t.Verdict == nil && t.Held == "" {
			return nil, err
		}
		c := change{jsonl.Change{Task: id}}
		if t.Verdict != nil {
			err = c.set(fieldVerdict, nil)
		}
		if t.Held != "" {
			err = errors.Join(err, c.set(fieldHeld, nil))
		}
		if err != nil {
			return nil, err
		}
		return []change{c}, nil
	})
}

// Delete takes a task out of the graph. Others may still be in it or wait for it: those in it are in nothing then, and
// those that wait wait no more.
func (o Once) Delete(ctx context.Context, id td.TaskID) error {
	return o.write(ctx, id, func() ([]change, error) {
		if _, err := o.s.read(id); err != nil {
			return nil, err
		}
		c := change{jsonl.Change{Task: id}}
		if err := c.set(jsonl.FieldDeleted, true); err != nil {
			return nil, err
		}
		return []change{c}, nil
	})
}

// End writes down how a task ended.
func (s *Store) End(ctx context.Context, id td.TaskID, v Verdict) error {
	return s.Once("").End(ctx, id, v)
}

// Heard writes down that a run told of this end of a task, and leaves the task open: it was opened again since.
func (s *Store) Heard(ctx context.Context, id td.TaskID, v Verdict) error {
	return s.write(ctx, "", func() ([]change, error) {
		t, err := s.read(id)
		if err != nil || t.Knows(v) {
			return nil, err
		}
		c := change{jsonl.Change{Task: id}}
		if err := c.set(FieldClosed, Closed{v.Run, v.At}); err != nil {
			return nil, err
		}
		return []change{c}, nil
	})
}

// Reopen takes back how a task ended.
func (s *Store) Reopen(ctx context.Context, id td.TaskID) error { return s.Once("").Reopen(ctx, id) }

// Delete takes a task out of the graph.
func (s *Store) Delete(ctx context.Context, id td.TaskID) error { return s.Once("").Delete(ctx, id) }
