package graph

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// A log only ever grows, merges and is folded: changes that were in it and are not any more are a loss, by a damaged disk, a
// torn file or a slip. The index keeps what it knew of such tasks beside the rest until the log has it again, or somebody
// says that it was meant.

const lostSchema = `CREATE TABLE IF NOT EXISTS lost (id TEXT PRIMARY KEY, line BLOB NOT NULL)`

// setAside keeps what the index knows and a batch, which is all that the log has, lacks.
func (x *index) setAside(b batch) error {
	now := make(map[td.TaskID]*jsonl.Record, len(b.records))
	for _, r := range b.records {
		now[r.ID] = r
	}
	var gone []*jsonl.Record
	if err := x.each(func(s *sqlite3.Stmt) error {
		r, err := decodeRecord(td.TaskID(s.ColumnText(0)), s.ColumnBlob(1, nil))
		if err == nil && !b.clashes[r.ID] && (ahead(r, now[r.ID]) || !r.Deleted() && b.misses(r)) {
			gone = append(gone, r)
		}
		return err
	}, "SELECT id, line FROM record"); err != nil {
		return err
	}
	return x.keepLost(gone)
}

// ahead reports whether a record has something that another of the same task lacks. That a task is gone which was deleted is
// no loss.
func ahead(r, than *jsonl.Record) bool {
	if than == nil {
		return !r.Deleted()
	}
	return than.Lacks(r.Change())
}

// misses reports whether a change is not in the log any more that a record was made of.
func (b *batch) misses(r *jsonl.Record) bool {
	if b.compact[r.ID] {
		return false // its changes may be in compact lines; of those the newest of each field are compared
	}
	for op := range r.Ops() {
		if !b.has(op) {
			return true
		}
	}
	return false
}

// keepLost sets records aside, beside what was set aside of the same task. What contradicts that comes of the damage itself.
func (x *index) keepLost(records []*jsonl.Record) error {
	for _, r := range records {
		before, err := x.lostRecord(r.ID)
		if err != nil {
			return err
		}
		if before != nil {
			if before.Refutes(r.Change()) {
				continue
			}
			r.Apply(before.Change())
		}
		line, err := jsonl.Append(nil, r.Change())
		if err != nil {
			return err
		}
		if err := x.exec("INSERT OR REPLACE INTO lost (id, line) VALUES (?, ?)", string(r.ID), line); err != nil {
			return err
		}
	}
	return nil
}

// lostRecord is what was set aside of a task; nil: nothing.
func (x *index) lostRecord(id td.TaskID) (found *jsonl.Record, err error) {
	err = x.each(func(s *sqlite3.Stmt) error {
		found, err = decodeRecord(id, s.ColumnBlob(0, nil))
		return err
	}, "SELECT line FROM lost WHERE id = ?", string(id))
	return found, err
}

// lost are the records that were set aside.
func (x *index) lost() (out []*jsonl.Record, err error) {
	err = x.each(func(s *sqlite3.Stmt) error {
		r, err := decodeRecord(td.TaskID(s.ColumnText(0)), s.ColumnBlob(1, nil))
		if err == nil {
			out = append(out, r)
		}
		return err
	}, "SELECT id, line FROM lost ORDER BY id")
	return out, err
}

// missing are those of the lost records that the log lacks still. Those it has again are forgotten.
func (s *Store) missing() (out []*jsonl.Record, err error) {
	all, err := s.index.lost()
	for _, r := range all {
		var lacks bool
		if lacks, err = s.lacks(r); err != nil {
			break
		}
		if lacks {
			out = append(out, r)
		} else if err = s.index.exec("DELETE FROM lost WHERE id = ?", string(r.ID)); err != nil {
			break
		}
	}
	if err != nil {
		return nil, td.Errorf(td.Storage, "read the index of %s: %w", s.path, err)
	}
	s.damaged.Store(len(out) > 0)
	return out, nil
}

// lacks reports whether the log lacks something of a record that was set aside.
func (s *Store) lacks(r *jsonl.Record) (bool, error) {
	now, err := s.index.record(r.ID)
	if err != nil || now == nil || ahead(r, now) {
		return err == nil && ahead(r, now), err
	}
	lines, err := s.history(r.ID)
	if err != nil {
		return false, err
	}
	b := batch{compact: map[td.TaskID]bool{}}
	there := map[jsonl.Stamp]bool{}
	for _, e := range lines {
		there[e.Change.Op] = true
		b.compact[r.ID] = b.compact[r.ID] || e.Change.At != nil
	}
	b.has = func(op jsonl.Stamp) bool { return there[op] }
	return b.misses(r), nil
}

// Damaged reports whether something was lost when the log was last looked at. It waits for nobody.
func (s *Store) Damaged() bool { return s.damaged.Load() }

// noteLost remembers whether there is something that was lost.
func (s *Store) noteLost() error {
	_, err := s.missing()
	return err
}

// Lost are the tasks of which the log had more than it has, as they were.
func (s *Store) Lost(ctx context.Context) (out []Named, err error) {
	err = s.with(ctx, func() error {
		gone, err := s.missing()
		for _, r := range gone {
			t := taskOf(r)
			out = append(out, Named{t.ID, t.Handle, t.Title, t.Slug})
		}
		return err
	})
	return out, err
}

// Witness compares the log with another copy of it, and counts what that has and the log lacks as lost.
func (s *Store) Witness(ctx context.Context, copied []byte) error {
	return s.with(ctx, func() error {
		fold := jsonl.NewFold()
		for e, err := range jsonl.Read(bytes.NewReader(copied), jsonl.Place{}) {
			if err != nil {
				return err
			}
			if e.Bad == nil && !e.Torn {
				fold.Apply(e.Change)
			}
		}
		var gone []*jsonl.Record
		for _, r := range fold.Records() {
			now, err := s.index.record(r.ID)
			if err != nil {
				return td.Errorf(td.Storage, "read the index of %s: %w", s.path, err)
			}
			if ahead(r, now) {
				gone = append(gone, r)
			}
		}
		if err := s.index.keepLost(gone); err != nil {
			return td.Errorf(td.Storage, "write the index of %s: %w", s.path, err)
		}
		return s.noteLost()
	})
}

// Meant says that what was lost was meant to go, if the log begins with a copy of it that somebody put there: then it is
// forgotten.
func (s *Store) Meant(ctx context.Context, copied []byte) (meant bool, err error) {
	err = s.with(ctx, func() error {
		l, err := openLog(s.path, false)
		if err != nil {
			return err
		}
		defer l.close()
		begins := make([]byte, len(copied))
		if n, err := l.f.ReadAt(begins, 0); n < len(copied) || !bytes.Equal(begins, copied) {
			_ = err // it is shorter, then
			return nil
		}
		meant = true
		if err := s.index.exec("DELETE FROM lost"); err != nil {
			return td.Errorf(td.Storage, "write the index of %s: %w", s.path, err)
		}
		return s.noteLost()
	})
	return meant, err
}

// seenCommit names the newest commit of the log that this clone made or took over.
const seenCommit = "commit"

// Saw says that the log is in a commit.
func (s *Store) Saw(commit string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index.put(seenCommit, []byte(commit))
}

// Seen is the newest commit that the log was said to be in.
func (s *Store) Seen() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	commit, err := s.index.get(seenCommit)
	return string(commit), err
}

// Gone is the project that an index is of, if the folder of its graph is there and the log in it is not, and how many tasks
// that had.
func Gone(path string) (root string, tasks int, gone bool) {
	x, err := dialIndex(path)
	if err != nil {
		return "", 0, false
	}
	defer x.close()
	log, err := x.get("log")
	if err != nil || filepath.Base(string(log)) != LogFile {
		return "", 0, false
	}
	if info, err := os.Lstat(filepath.Dir(string(log))); err != nil || !info.IsDir() {
		return "", 0, false
	}
	if _, err := os.Lstat(string(log)); !errors.Is(err, os.ErrNotExist) {
		return "", 0, false
	}
	err = x.each(func(s *sqlite3.Stmt) error { tasks = s.ColumnInt(0); return nil }, "SELECT count(*) FROM record")
	return filepath.Dir(filepath.Dir(string(log))), tasks, err == nil && tasks > 0
}
