package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// Options say where learnings are.
type Options struct {
	Project string // the project's folder; learnings are in Folder inside it
	Index   string // the index's file, made when missing; empty: in memory
	Redact  *redact.Redactor
	Now     func() time.Time // nil: time.Now
}

// Store is the learnings of one project.
type Store struct {
	opts Options

	mu      sync.Mutex
	ix      *index
	last    look
	watch   *watch
	trouble *Problem // with the index
}

// Open opens a project's learnings. Neither the folder nor any of its files need to be there or whole;
// an index that cannot be used is replaced by one in memory, and List says so. Its effect is on the index
// alone, which may be lost.
func Open(opts Options) (*Store, error) {
	project, err := filepath.Abs(opts.Project)
	if err != nil {
		return nil, td.Errorf(td.Invalid, "find project %s: %w", opts.Project, err)
	}
	opts.Project = project
	if opts.Now == nil {
		opts.Now = time.Now
	}
	s := &Store{opts: opts}
	if err := s.openIndex(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) openIndex() error {
	ix, err := openIndex(s.opts.Index, s.opts.Project)
	if err != nil && s.opts.Index != "" {
		s.trouble = &Problem{File: s.opts.Index, Msg: fmt.Sprintf("the index cannot be used and is kept in memory: %v", err)}
		ix, err = openIndex("", s.opts.Project)
	}
	if err != nil {
		return td.Errorf(td.Internal, "open index: %w", err)
	}
	s.ix, s.last = ix, look{}
	return nil
}

// Close lets go of the index.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwatch()
	return s.ix.close()
}

// read answers from an index that is up to date. An index that fails is made anew, once: it is only a
// cache.
func (s *Store) read(ctx context.Context, answer func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := openFolder(s.opts.Project, false)
	if err != nil {
		return err
	}
	defer f.close()
	return s.heal(ctx, func() error {
		if err := s.follow(ctx, f); err != nil {
			return err
		}
		return answer()
	})
}

// heal calls do again with a new index if the index failed.
func (s *Store) heal(ctx context.Context, do func() error) error {
	err := do()
	if err == nil || ctx.Err() != nil || !isIndexError(err) {
		return err
	}
	_ = s.ix.close() // it failed already
	if s.opts.Index != "" {
		_ = os.Remove(s.opts.Index) // openIndex says it if it is still there
	}
	if err := s.openIndex(); err != nil {
		return err
	}
	return do()
}

func isIndexError(err error) bool {
	var code sqlite3.ErrorCode
	_, syntax := errors.AsType[*json.SyntaxError](err)
	return syntax || errors.As(err, &code)
}

// write runs do with the folder locked and the index up to date. Without a folder do gets nil, and the
// index holds nothing.
func (s *Store) write(ctx context.Context, create bool, do func(*folder) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := openFolder(s.opts.Project, create)
	if err != nil {
		return err
	}
	if f != nil {
		defer f.close()
		unlock, err := f.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return s.heal(ctx, func() error {
		if err := s.compare(ctx, f); err != nil {
			return err
		}
		return do(f)
	})
}

// Add writes a learning, or merges it into one that has the same title or says the same, and reports
// which. The result is the learning as it is on disk then.
//
// Effect: keyed. A crash leaves the file as it was or as it should be; adding the same learning again
// finds it there and changes nothing, and Probe tells the two apart.
func (s *Store) Add(ctx context.Context, l Learning) (Learning, bool, error) {
	l, err := s.prepare(l)
	if err != nil {
		return Learning{}, false, err
	}
	var out Learning
	var merged bool
	err = s.write(ctx, true, func(f *folder) error {
		s.sweep(f)
		old, next, found, err := s.place(ctx, l)
		if err != nil {
			return err
		}
		out, merged = next, found
		if found && same(old, next) {
			return f.sync() // the one who wrote it may not have come to this
		}
		p := page{Learning: next}
		if found {
			if p.extra, err = s.extra(f, old); err != nil {
				return err
			}
		}
		if err := f.write(next.ID, p.format()); err != nil {
			return err
		}
		return s.take(f, []string{next.ID})
	})
	if err != nil {
		return Learning{}, false, fmt.Errorf("add learning: %w", err)
	}
	return out, merged, nil
}

// Probe tells whether Add of this learning has taken place, or would change nothing, and what is there.
// Effect: none.
func (s *Store) Probe(ctx context.Context, l Learning) (Learning, bool, error) {
	l, err := s.prepare(l)
	if err != nil {
		return Learning{}, false, err
	}
	var out Learning
	var done bool
	err = s.write(ctx, false, func(f *folder) error {
		if f == nil {
			return nil
		}
		old, next, found, err := s.place(ctx, l)
		if err != nil || !found || !same(old, next) {
			return err
		}
		out, done = old, true
		return f.sync() // what was seen may not have reached the disk
	})
	if err != nil {
		return Learning{}, false, fmt.Errorf("probe learning: %w", err)
	}
	return out, done, nil
}

// prepare brings a learning into its form, without the secrets it may hold.
func (s *Store) prepare(l Learning) (Learning, error) {
	l.Title, l.Text = s.opts.Redact.String(l.Title), s.opts.Redact.String(l.Text)
	if l.CreatedAt.IsZero() {
		l.CreatedAt = s.opts.Now()
	}
	return clean(l)
}

// sweep removes what a crash left in the folder. Failing to is no reason to fail.
func (s *Store) sweep(f *folder) {
	_, left, _ := f.names()
	for _, name := range left {
		_ = f.drop(name)
	}
}

// extra is what else stands in the front matter of a learning's file, which must be as it was read.
func (s *Store) extra(f *folder, old Learning) (string, error) {
	src, _, err := f.read(old.ID)
	if err != nil {
		return "", td.Errorf(td.Conflict, "read %s again: %w", old.ID, err)
	}
	p, err := parsePage(old.ID, src)
	if err != nil || !same(p.Learning, old) {
		return "", td.Errorf(td.Conflict, "%s was changed by something else just now", old.ID)
	}
	return p.extra, nil
}

// Get finds a learning by its id or the beginning of it.
func (s *Store) Get(ctx context.Context, id string) (Learning, error) {
	var l Learning
	err := s.read(ctx, func() error {
		var err error
		if id, err = s.resolve(id); err != nil {
			return err
		}
		found, err := s.ix.pages(ctx, "SELECT page FROM doc WHERE id = ? AND page IS NOT NULL", id)
		if err == nil && len(found) == 0 {
			return td.Errorf(td.Corrupt, "%s cannot be read", id).WithHint("taskdaemon knowledge list")
		}
		if err == nil {
			l = found[0]
		}
		return err
	})
	return l, err
}

// resolve finds the whole id.
func (s *Store) resolve(id string) (string, error) {
	if _, ok := s.ix.known[id]; ok {
		return id, nil
	}
	var found []string
	for k := range s.ix.known {
		if id != "" && strings.HasPrefix(k, id) {
			found = append(found, k)
		}
	}
	slices.Sort(found)
	switch len(found) {
	case 0:
		return "", td.Errorf(td.NotFound, "there is no learning %q", id).WithHint("taskdaemon knowledge list")
	case 1:
		return found[0], nil
	}
	return "", td.Errorf(td.Ambiguous, "%q is ambiguous: %s", id, strings.Join(found[:min(len(found), 5)], ", ")).WithHint("type more of it")
}

// Remove deletes a learning by its id or the beginning of it, also one whose file is broken, and returns
// the whole id. Effect: keyed by that id: one that is gone was removed.
func (s *Store) Remove(ctx context.Context, id string) (string, error) {
	err := s.write(ctx, false, func(f *folder) (err error) {
		if id, err = s.resolve(id); err != nil {
			return err
		}
		if err := f.remove(id); err != nil {
			return err
		}
		return s.take(f, []string{id})
	})
	if err != nil {
		return "", fmt.Errorf("remove learning: %w", err)
	}
	return id, nil
}

// List is every learning, the newest first, and what could not be read. Effect: none.
func (s *Store) List(ctx context.Context) ([]Learning, []Problem, error) {
	var all []Learning
	var problems []Problem
	var trouble *Problem
	err := s.read(ctx, func() (err error) {
		trouble = s.trouble
		if all, err = s.ix.pages(ctx, "SELECT page FROM doc WHERE page IS NOT NULL"); err != nil {
			return err
		}
		problems = nil
		return s.ix.query("SELECT problem FROM doc WHERE problem IS NOT NULL ORDER BY id", nil, func(st *sqlite3.Stmt) error {
			var p Problem
			err := json.Unmarshal(bytes.Clone(st.ColumnRawBlob(0)), &p)
			problems = append(problems, p)
			return err
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list learnings: %w", err)
	}
	slices.SortFunc(all, func(a, b Learning) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	if trouble != nil {
		problems = append(problems, *trouble)
	}
	return all, problems, nil
}
