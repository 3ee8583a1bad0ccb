package graph

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// Task is one task as the file has it.
func (s *Store) Task(ctx context.Context, id td.TaskID) (t Task, err error) {
	err = s.with(ctx, func() error {
		found, err := s.read(id)
		if err == nil {
			t = *found
		}
		return err
	})
	return t, err
}

// Has reports whether a task is in the graph.
func (s *Store) Has(ctx context.Context, id td.TaskID) (has bool, err error) {
	err = s.with(ctx, func() error {
		has = s.heads[id] != nil
		return nil
	})
	return has, err
}

// Deleted reports whether somebody deleted a task, and in whose clone. One that the file does not know at all was not: it
// may have been put in the place of another.
func (s *Store) Deleted(ctx context.Context, id td.TaskID) (actor string, deleted bool, err error) {
	err = s.with(ctx, func() error {
		r, err := s.index.record(id)
		if err != nil {
			return td.Errorf(td.Storage, "read the index of %s: %w", s.path, err)
		}
		if r != nil && r.Deleted() {
			actor, deleted = r.Fields[jsonl.FieldDeleted].Op.Actor, true
		}
		return nil
	})
	return actor, deleted, err
}

// read is a task of the index.
func (s *Store) read(id td.TaskID) (*Task, error) {
	if s.heads[id] == nil {
		return nil, s.unknown(id)
	}
	r, err := s.index.record(id)
	if err != nil {
		return nil, td.Errorf(td.Storage, "read the index of %s: %w", s.path, err)
	}
	if r == nil || r.Deleted() {
		return nil, s.unknown(id)
	}
	return taskOf(r), nil
}

// Each calls f with each of the tasks that is there, as the file has them at one moment, and with the graph, which f
// must neither keep nor change.
func (s *Store) Each(ctx context.Context, ids []td.TaskID, f func(*Task, *workgraph.Graph)) error {
	return s.with(ctx, func() error {
		read := s.read
		if len(ids) > len(s.heads)/mostSingly {
			all, err := s.readAll(ids)
			if err != nil {
				return err
			}
			read = func(id td.TaskID) (*Task, error) { return all[id], nil }
		}
		for _, id := range ids {
			if s.heads[id] == nil {
				continue
			}
			t, err := read(id)
			if err != nil {
				return err
			}
			f(t, s.graph)
		}
		return nil
	})
}

// mostSingly is the part of all tasks, as a divisor, up to which each is looked up by itself: beyond it, reading the
// whole index once is faster.
const mostSingly = 4

// readAll reads those of the tasks that are there.
func (s *Store) readAll(ids []td.TaskID) (map[td.TaskID]*Task, error) {
	out := make(map[td.TaskID]*Task, len(ids))
	for _, id := range ids {
		if s.heads[id] != nil {
			out[id] = nil
		}
	}
	err := s.index.records(func(id td.TaskID) bool { _, is := out[id]; return is }, func(r *jsonl.Record) { out[r.ID] = taskOf(r) })
	if err != nil {
		return nil, td.Errorf(td.Storage, "read the index of %s: %w", s.path, err)
	}
	for id, t := range out {
		if t == nil {
			return nil, s.unknown(id)
		}
	}
	return out, nil
}

// Related are the tasks that have to do with one: those it names, and those that name it. It may be called by whoever
// looks at the graph (View, Each).
func (s *Store) Related(id td.TaskID) []td.TaskID {
	var out []td.TaskID
	if h := s.heads[id]; h != nil {
		out = slices.Clone(h.related)
	}
	for _, by := range s.named[id] {
		if !slices.Contains(out, by) {
			out = append(out, by)
		}
	}
	return out
}

// View calls f with the graph, which f must neither keep nor change.
func (s *Store) View(ctx context.Context, f func(*workgraph.Graph)) error {
	return s.with(ctx, func() error { f(s.graph); return nil })
}

// SetState says what state a task has of which somebody keeps account, because it runs or ran here. It counts
// until it is said otherwise; empty: nobody does any more. It returns whose states changed by that.
func (s *Store) SetState(id td.TaskID, state td.State) []workgraph.Shift {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.heads[id]
	if closed := h != nil && h.state.Terminal(); state == "" || state == td.Queued && closed { // nobody takes up what was closed
		delete(s.live, id)
	} else {
		s.live[id] = state
	}
	return s.graph.SetState(id, s.state(id))
}

// Named is a task by its short name.
type Named struct {
	ID            td.TaskID
	Handle, Title string
	Slug          string // of a PRD: it may be called that, too
}

// Name is what people call a task; one that is not there has its handle only. It may be called by whoever looks at
// the graph (View).
func (s *Store) Name(id td.TaskID) Named {
	n := Named{ID: id, Handle: s.name(id)}
	if h := s.heads[id]; h != nil {
		n.Title, n.Slug = h.title, h.slug
	}
	return n
}

// Known are the tasks that were added under these keys; all is false unless every one was.
func (s *Store) Known(ctx context.Context, keys []string) (ids []td.TaskID, all bool, err error) {
	err = s.with(ctx, func() error {
		for _, key := range keys {
			if id, ok := s.keys[key]; ok {
				ids = append(ids, id)
			}
		}
		all = len(ids) == len(keys)
		return nil
	})
	return ids, all, err
}

// Match are the tasks that a person may mean by ref; one that is meant exactly by id or handle is alone.
func (s *Store) Match(ctx context.Context, ref string) (found []Named, err error) {
	err = s.with(ctx, func() error {
		for id, h := range s.heads {
			exact, partial := td.MatchesRef(ref, string(id), h.handle)
			n := Named{id, h.handle, h.title, h.slug}
			if exact {
				found = []Named{n}
				return nil
			}
			if partial || td.MatchesSlug(ref, h.slug) {
				found = append(found, n)
			}
		}
		return nil
	})
	return found, err
}

// Health is what is wrong with a graph, or will be.
type Health struct {
	Tasks    int
	Size     int64       // of the log
	Large    bool        // it should be compacted
	Bad      []jsonl.Bad // lines that cannot be read
	Problems []Problem   // of tasks
}

// Problem is what is wrong with a task.
type Problem struct {
	Task   td.TaskID
	Handle string
	Why    string
}

// Health looks for what is wrong.
func (s *Store) Health(ctx context.Context) (h Health, err error) {
	err = s.with(ctx, func() error {
		h.Tasks, h.Size, h.Large, h.Bad = len(s.heads), s.at.size, s.at.size > warnAt, slices.Clone(s.bad)
		for id, head := range s.heads {
			if head.problems > 0 {
				t, err := s.read(id)
				if err != nil {
					return err
				}
				for _, why := range t.Problems {
					h.Problems = append(h.Problems, Problem{id, head.handle, why})
				}
			}
			switch st, _ := s.graph.Standing(id); st.Obstacle {
			case workgraph.InCycle:
				h.Problems = append(h.Problems, Problem{id, head.handle, "it waits for itself: " + s.names(st.By, " → ")})
			case workgraph.Unknown:
				h.Problems = append(h.Problems, Problem{id, head.handle, fmt.Sprintf("it waits for %s, which is not in the graph", s.names(st.By, ", "))})
			}
		}
		h.Problems = append(h.Problems, s.misplaced()...)
		return nil
	})
	return h, err
}

// Verify reports whether the index was made of what is in the log. Else the log was changed in its place without a
// trace, or the index is not what was written: it is made anew, and what the log lacks then is lost.
func (s *Store) Verify(ctx context.Context) (ok bool, err error) {
	err = s.with(ctx, func() error {
		l, err := openLog(s.path, false)
		if err != nil {
			return err
		}
		defer l.close()
		if _, ok, err = l.grown(s.at); err != nil || ok {
			return err
		}
		return s.follow(ctx, l, jsonl.Place{}, sha256.New())
	})
	return ok, err
}

// History are the changes of a task, the oldest first.
func (s *Store) History(ctx context.Context, id td.TaskID) (out []jsonl.Change, err error) {
	err = s.with(ctx, func() error {
		made, err := s.history(id)
		for _, c := range made {
			out = append(out, c.Change)
		}
		return err
	})
	return out, err
}

func (s *Store) history(id td.TaskID) (out []change, err error) {
	offsets, err := s.index.offsets(id)
	if err != nil {
		return nil, td.Errorf(td.Storage, "read the index of %s: %w", s.path, err)
	}
	if len(offsets) == 0 {
		return nil, s.unknown(id)
	}
	l, err := openUnlocked(s.path, false)
	if err != nil {
		return nil, err
	}
	defer l.close()
	for _, at := range offsets {
		for e, err := range jsonl.Read(io.NewSectionReader(l.f, at, 1<<62), jsonl.Place{Offset: at}) {
			if err != nil {
				return nil, fileError("read", s.path, err)
			}
			if e.Bad == nil && !e.Torn && e.Change.Task == id {
				out = append(out, change{e.Change})
			}
			break
		}
	}
	return out, nil
}
