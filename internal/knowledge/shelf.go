// Package knowledge finds the learnings of the project a folder lies in, and lends their stores to
// whoever tells a task of them or adds to them.
//
// A store costs a database in memory, so a project without learnings is never opened to look for some,
// and of the stores that nobody uses only a few are kept open. A Shelf is safe for concurrent use.
package knowledge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/memory"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// maxIdle is how many stores stay open while nobody uses them.
const maxIdle = 8

// Shelf holds the open stores, one for each project.
type Shelf struct {
	index   string
	secrets *redact.Redactor

	mu    sync.Mutex
	books map[string]*book
	idle  []string // projects whose store nobody uses, the longest first
}

type book struct {
	sync.Mutex // held while it is opened
	store      *memory.Store
	users      int
}

// New makes a shelf. The stores' indexes are files in the folder index, or in memory when it is empty;
// secrets are taken out of all that is written.
func New(index string, secrets *redact.Redactor) *Shelf {
	return &Shelf{index: index, secrets: secrets, books: map[string]*book{}}
}

// Top is the folder of the repository dir lies in, or dir itself where there is none.
func Top(dir string) string {
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, ".git")); err == nil {
			return d
		}
		if filepath.Dir(d) == d {
			return dir
		}
	}
}

// File is where a project keeps the learning with this id, relative to the project's folder.
func File(id string) string { return path.Join(memory.Folder, id+".md") }

// Use lends the learnings of the project that dir lies in for as long as do runs.
func (s *Shelf) Use(dir string, do func(*memory.Store) error) (err error) {
	top := Top(dir)
	b := s.take(top)
	defer func() { err = errors.Join(err, s.giveBack(top, b)) }()
	store, err := s.open(top, b)
	if err != nil {
		return err
	}
	return do(store)
}

func (s *Shelf) take(top string) *book {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books[top]
	if b == nil {
		b = &book{}
		s.books[top] = b
	}
	b.users++
	s.idle = slices.DeleteFunc(s.idle, func(o string) bool { return o == top })
	return b
}

func (s *Shelf) open(top string, b *book) (*memory.Store, error) {
	b.Lock()
	defer b.Unlock()
	if b.store != nil {
		return b.store, nil
	}
	index := ""
	if s.index != "" {
		sum := sha256.Sum256([]byte(top))
		index = filepath.Join(s.index, hex.EncodeToString(sum[:12])+".db")
	}
	store, err := memory.Open(memory.Options{Project: top, Index: index, Redact: s.secrets})
	b.store = store
	return store, err
}

// giveBack closes the store that was idle longest when there are too many.
func (s *Shelf) giveBack(top string, b *book) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.users--; b.users > 0 {
		return nil
	}
	if b.store == nil { // it could not be opened
		delete(s.books, top)
		return nil
	}
	if s.idle = append(s.idle, top); len(s.idle) <= maxIdle {
		return nil
	}
	oldest := s.idle[0]
	s.idle = s.idle[1:]
	defer delete(s.books, oldest)
	return s.books[oldest].store.Close()
}

// Close closes what nobody uses. Whoever still uses a store keeps it.
func (s *Shelf) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, top := range s.idle {
		errs = append(errs, s.books[top].store.Close())
		delete(s.books, top)
	}
	s.idle = nil
	return errors.Join(errs...)
}

// About is what a task is about. Files names those that were changed lately where it works; it is asked only where there are learnings.
type About struct {
	Text, Feature string
	Files         func(context.Context) []string
}

// Told are at most n learnings that a task in dir should be told: those that have to do with it and
// still hold. A project that has none is not opened. Effect: none.
func (s *Shelf) Told(ctx context.Context, dir string, about About, n int) (found []memory.Match, err error) {
	top := Top(dir)
	if !has(top) {
		return nil, nil
	}
	tree, err := beneath.OpenResolved(top)
	if err != nil {
		return nil, td.Errorf(td.Unavailable, "open project %s: %w", top, err)
	}
	defer func() { _ = tree.Close() }()
	in := memory.About{Text: about.Text, Feature: about.Feature}
	if about.Files != nil {
		in.Files = about.Files(ctx)
	}
	err = s.Use(dir, func(store *memory.Store) error {
		found, err = store.Relevant(ctx, tree, in, n)
		return err
	})
	return found, err
}

// Changed names the learnings of the project that dir lies in whose files were written since then, each with the time of
// that. A project that has none is not opened. Effect: none.
func (s *Shelf) Changed(ctx context.Context, dir string, since time.Time) (out []string, err error) {
	if !has(Top(dir)) {
		return nil, nil
	}
	err = s.Use(dir, func(store *memory.Store) error {
		out, err = store.Changed(ctx, since)
		return err
	})
	return out, err
}

// has reports whether a project has learnings that can be reached.
func has(top string) bool {
	_, err := os.Stat(filepath.Join(top, filepath.FromSlash(memory.Folder)))
	return err == nil
}

// Candidates are the passages of a conversation that may hold a learning, without secrets. Effect: none.
func (s *Shelf) Candidates(messages []td.Message) []memory.Candidate {
	return memory.Candidates(messages, s.secrets)
}

// Cite gives files, named as seen from the folder dir, the hash of their content and their name as seen
// from the project's. missing are those that are no files in the project. Effect: none.
func Cite(dir string, files []string) (cited []memory.File, missing []string, err error) {
	if len(files) == 0 {
		return nil, nil, nil
	}
	top := Top(dir)
	tree, err := beneath.OpenResolved(top)
	if err != nil {
		return nil, nil, td.Errorf(td.Unavailable, "open project %s: %w", top, err)
	}
	defer func() { _ = tree.Close() }()
	for _, f := range files {
		name := f
		if !filepath.IsAbs(f) {
			name = filepath.Join(dir, f)
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			rel = name // no file of the project: not found below
		}
		found := memory.Cite(tree, []memory.File{{Path: filepath.ToSlash(rel)}})
		if len(found) == 0 {
			missing = append(missing, f)
		}
		cited = append(cited, found...)
	}
	return cited, missing, nil
}
