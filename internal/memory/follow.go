package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"time"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/frontmatter"
	"taskdaemon/internal/td"
)

const (
	// fewFiles is how many files are looked at before every answer. With more, a look at all of them
	// would cost more than the search: then the kernel is asked what changed, and all of them are looked at
	// after longAgain to be sure. Where it cannot tell, a change inside a file is noticed within lookAgain,
	// and one of the folder (a new file, a git pull, most editors) still at once.
	fewFiles  = 2000
	lookAgain = 5 * time.Second
	longAgain = 10 * time.Minute

	// racy is how coarse the clocks of file systems are: a file changed this shortly before it was read
	// may have changed again without a trace.
	racy = 2 * time.Second

	// batch is how many files go into one transaction, so that a first look that is interrupted goes on
	// where it was.
	batch = 2000
)

// look is when the folder was last compared with the index, and what it was then.
type look struct {
	at    time.Time
	mtime time.Time
}

// follow brings the index up to date with the files, if there is a sign that it may not be.
func (s *Store) follow(ctx context.Context, f *folder) error {
	if f == nil || s.few() && !s.last.at.IsZero() {
		return s.compare(ctx, f)
	}
	if changed, ok := s.watch.changed(f); ok && time.Since(s.last.at) < longAgain {
		return s.takeChanged(f, changed)
	} else if !ok {
		s.unwatch()
		if s.watch = newWatch(f); s.watch != nil {
			s.last = look{} // a look that began before it, or that is cut off now, does not count
		}
	}
	if s.watch == nil && time.Since(s.last.at) < lookAgain {
		info, err := f.root.Lstat(".")
		if err == nil && info.ModTime().Equal(s.last.mtime) && s.last.at.Sub(info.ModTime()) > racy {
			return nil
		}
	}
	err := s.compare(ctx, f)
	if s.few() {
		s.unwatch()
	}
	return err
}

func (s *Store) few() bool { return len(s.ix.known) <= fewFiles }

// takeChanged reads what the watch told of.
func (s *Store) takeChanged(f *folder, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	err := s.take(f, ids)
	if err != nil {
		s.unwatch() // it does not tell again
	}
	return err
}

func (s *Store) unwatch() {
	s.watch.close()
	s.watch = nil
}

// compare looks at every file and reads those that changed.
func (s *Store) compare(ctx context.Context, f *folder) error {
	now := look{at: time.Now()}
	var ids []string
	if f != nil {
		info, err := f.root.Lstat(".")
		if err != nil {
			return td.Errorf(td.Storage, "look at %s: %w", Folder, err)
		}
		now.mtime = info.ModTime()
		if ids, _, err = f.names(); err != nil {
			return err
		}
	}
	here := make(map[string]bool, len(ids))
	var changed []string
	for _, id := range ids {
		here[id] = true
		if s.mayDiffer(f, id) {
			changed = append(changed, id)
		}
	}
	for id := range s.ix.known {
		if !here[id] {
			changed = append(changed, id)
		}
	}
	many := len(changed) >= batch
	for len(changed) > 0 {
		if err := ctx.Err(); err != nil {
			return td.Errorf(td.Interrupted, "read learnings: %w", err)
		}
		n := min(len(changed), batch)
		if err := s.take(f, changed[:n]); err != nil {
			return err
		}
		changed = changed[n:]
	}
	if many {
		if err := s.ix.optimize(); err != nil {
			return err
		}
	}
	s.last = now
	return nil
}

// mayDiffer reports whether a file may be another than the one in the index.
func (s *Store) mayDiffer(f *folder, id string) bool {
	e, ok := s.ix.known[id]
	if !ok {
		return true
	}
	info, err := f.root.Lstat(id + extension)
	return err != nil || info.Size() != e.size || info.ModTime().UnixNano() != e.mtime || e.seen-e.mtime < int64(racy)
}

// take reads files into the index, all or none.
func (s *Store) take(f *folder, ids []string) error {
	next := map[string]*entry{} // nil: gone
	err := s.ix.tx(func() error {
		for _, id := range ids {
			e, err := s.takeOne(f, id)
			if err != nil {
				return err
			}
			next[id] = e
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, e := range next {
		s.ix.know(id, e)
	}
	return nil
}

func (s *Store) takeOne(f *folder, id string) (*entry, error) {
	var src []byte
	var info fs.FileInfo
	seen := time.Now().UnixNano()
	err := fs.ErrNotExist
	if f != nil {
		src, info, err = f.read(id)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, s.ix.drop(id)
	}
	e := entry{seen: seen}
	if info != nil {
		e.size, e.mtime = info.Size(), info.ModTime().UnixNano()
	}
	var p *page
	var trouble *Problem
	hash := sha256.Sum256(src)
	if err == nil && !localPath(id) {
		err = td.Errorf(td.Invalid, "its name cannot be printed")
	}
	if err == nil {
		if old, ok := s.ix.known[id]; ok && s.sameHash(old.n, hash[:]) {
			e.n, e.words = old.n, old.words
			return &e, s.ix.touch(e)
		}
		var parsed page
		if parsed, err = parsePage(id, src); err == nil {
			p = &parsed
		}
	}
	if err != nil {
		was := frontmatter.ProblemOf(oneLine(id)+extension, err)
		trouble, hash = &was, [sha256.Size]byte{} // what could not be read has no content to compare
	}
	e, err = s.ix.put(id, e, hash[:], p, trouble)
	return &e, err
}

func (s *Store) sameHash(n int64, hash []byte) (same bool) {
	err := s.ix.query("SELECT hash FROM doc WHERE n = ?", []any{n}, func(st *sqlite3.Stmt) error {
		same = bytes.Equal(st.ColumnRawBlob(0), hash)
		return nil
	})
	return same && err == nil
}
