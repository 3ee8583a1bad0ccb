package graph

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/workgraph"
)

// Make gives a folder an empty graph. One that is there stays.
func Make(root string) error {
	path := filepath.Join(root, Folder, LogFile)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fileError("make", root, err)
	}
	top, err := beneath.OpenResolved(root)
	if err != nil {
		return fileError("open", root, err)
	}
	defer top.Close()
	dir, err := top.Make(Folder)
	if err != nil {
		return fileError("make", filepath.Dir(path), err)
	}
	defer dir.Close()
	l, err := openLog(path, true)
	if err != nil {
		return err
	}
	l.close()
	return errors.Join(dir.Sync(), top.Sync())
}

// Hold keeps everybody from writing to the graph of a project until it is let go.
func Hold(root string) (release func(), err error) {
	path := filepath.Join(root, Folder, LogFile)
	if _, err := os.Lstat(path); err != nil {
		return nil, fileError("hold", path, err)
	}
	l, err := openLog(path, true)
	if err != nil {
		return nil, err
	}
	return l.close, nil
}

// Hold keeps everybody from writing to the graph, and this process from looking at it, until it is let go. The log may
// be another file afterwards.
func (s *Store) Hold() (release func(), err error) {
	s.mu.Lock()
	unlock, err := Hold(s.root)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	return func() {
		unlock()
		s.mu.Unlock()
	}, nil
}

// Options say whose graph it is.
type Options struct {
	Root  string           // the project
	Index string           // where the index is, outside the project
	Now   func() time.Time // nil: time.Now
	// Secrets are taken out of all that is written: the log is shared.
	Secrets *redact.Redactor
	Log     *slog.Logger // gets what no caller is told; nil: nowhere
}

// Store is the graph of one project. Its methods may be called from any goroutine. Other processes may write to
// the same log, each with an index of its own.
type Store struct {
	root, path string
	logger     *slog.Logger
	now        func() time.Time
	secrets    *redact.Redactor
	clone      string // the name under which it writes

	mu    sync.Mutex
	index *index
	at    mark
	clock *jsonl.Clock
	graph *workgraph.Graph
	heads map[td.TaskID]*head
	keys  map[string]td.TaskID
	named map[td.TaskID][]td.TaskID // by whom a task is named as related
	live  map[td.TaskID]td.State    // of tasks that somebody runs, or ran
	bad   []jsonl.Bad

	damaged atomic.Bool // the log lacks something that it had
}

// head is what is kept in memory of a task.
type head struct {
	handle, title string
	state         td.State // by the file
	key           string
	slug          string // of a PRD
	problems      int
	related       []td.TaskID // that it names itself
	claims        []Claim
}

// Open opens the graph of a project that has one.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{root: o.Root, path: filepath.Join(o.Root, Folder, LogFile), logger: o.Log, now: o.Now, secrets: o.Secrets, live: map[td.TaskID]td.State{}}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.secrets == nil {
		s.secrets = redact.New()
	}
	if s.now == nil {
		s.now = time.Now
	}
	var err error
	if s.index, err = openIndex(o.Index, s.path); err != nil {
		return nil, err
	}
	if err := s.begin(ctx); err != nil {
		s.index.close()
		return nil, fmt.Errorf("open the graph of %s: %w", s.root, err)
	}
	return s, nil
}

// begin takes over what the index knows and reads on from there.
func (s *Store) begin(ctx context.Context) error {
	actor, err := s.actor()
	if err != nil {
		return err
	}
	s.clone = actor
	if s.clock, err = jsonl.NewClock(actor, s.now); err != nil {
		return err
	}
	if s.at, err = s.index.mark(); err != nil {
		return td.Errorf(td.Storage, "read the index: %w", err)
	}
	if err := errors.Join(s.load(), s.noteLost()); err != nil {
		return err
	}
	return s.refresh(ctx)
}

// load makes what is in memory from the index.
func (s *Store) load() (err error) {
	all := func(td.TaskID) bool { return true }
	if err := s.fill(func(visit func(*jsonl.Record)) error { return s.index.records(all, visit) }); err != nil {
		return td.Errorf(td.Storage, "read the index: %w", err)
	}
	if s.bad, err = s.index.bad(); err != nil {
		return td.Errorf(td.Storage, "read the index: %w", err)
	}
	return nil
}

// fill makes what is in memory from all records there are.
func (s *Store) fill(records func(visit func(*jsonl.Record)) error) error {
	s.heads, s.keys, s.named = map[td.TaskID]*head{}, map[string]td.TaskID{}, map[td.TaskID][]td.TaskID{}
	var nodes []workgraph.Node
	var deleted []td.TaskID
	err := records(func(r *jsonl.Record) {
		s.clock.Observe(r.Last)
		if r.Deleted() {
			deleted = append(deleted, r.ID)
			return
		}
		t := taskOf(r)
		s.remember(t)
		nodes = append(nodes, t.node(s.state(t.ID)))
	})
	s.graph = workgraph.New(nodes, deleted...)
	return err
}

// actor is the name under which this clone writes: chosen once, by chance, because two clones must never have
// the same.
func (s *Store) actor() (string, error) {
	known, err := s.index.get("actor")
	if err != nil || known != nil {
		return string(known), err
	}
	host, _ := os.Hostname()
	host = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, host)
	if len(host) > 20 {
		host = host[:20]
	}
	if host == "" {
		host = "host"
	}
	chance := make([]byte, 4)
	_, _ = rand.Read(chance)
	name := host + "-" + hex.EncodeToString(chance)
	return name, s.index.put("actor", []byte(name))
}

// Close lets go of the index.
func (s *Store) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.close()
}

// Root is the project's folder.
func (s *Store) Root() string { return s.root }

// state is what a task counts as: what is known of its runs, else what the file says.
func (s *Store) state(id td.TaskID) td.State {
	if live, ok := s.live[id]; ok {
		return live
	}
	if h := s.heads[id]; h != nil {
		return h.state
	}
	return td.Queued
}

func (s *Store) remember(t *Task) {
	s.unname(t.ID)
	s.unkey(t.ID, t.Key)
	s.heads[t.ID] = &head{t.Handle, t.Title, t.State(), t.Key, t.Slug, len(t.Problems), t.Related, t.Claims}
	for _, id := range t.Related {
		at, _ := slices.BinarySearch(s.named[id], t.ID)
		s.named[id] = slices.Insert(s.named[id], at, t.ID)
	}
	// Two clones may have added one under the same key. Whichever came first here, all must mean the same one.
	if first, taken := s.keys[t.Key]; t.Key != "" && (!taken || t.ID < first) {
		s.keys[t.Key] = t.ID
	}
	if t.State().Terminal() && s.live[t.ID] == td.Queued { // nobody takes up what was closed
		delete(s.live, t.ID)
	}
}

// unkey takes back that a task is the one known by its key, unless it keeps the key. The next with it is, then.
func (s *Store) unkey(id td.TaskID, keeps string) {
	h := s.heads[id]
	if h == nil || h.key == "" || h.key == keeps || s.keys[h.key] != id {
		return
	}
	delete(s.keys, h.key)
	for other, o := range s.heads {
		if first, taken := s.keys[h.key]; other != id && o.key == h.key && (!taken || other < first) {
			s.keys[h.key] = other
		}
	}
}

// unname takes back whom a task names as related.
func (s *Store) unname(id td.TaskID) {
	if h := s.heads[id]; h != nil {
		for _, other := range h.related {
			s.named[other] = slices.DeleteFunc(s.named[other], func(by td.TaskID) bool { return by == id })
			if len(s.named[other]) == 0 {
				delete(s.named, other)
			}
		}
	}
}

func (s *Store) forget(id td.TaskID) {
	s.unname(id)
	s.unkey(id, "")
	delete(s.heads, id)
	s.graph.Remove(id)
}

// refresh notices what others did to the file.
func (s *Store) refresh(ctx context.Context) error {
	if info, err := os.Lstat(s.path); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Ino == s.at.inode && info.Size() == s.at.size && info.ModTime().UnixNano() == s.at.mtime {
			return nil
		}
	}
	l, err := openLog(s.path, false)
	if err != nil {
		return err
	}
	defer l.close()
	return s.catchUp(ctx, l)
}

// catchUp reads what others put into the log: its end, if the rest is as it was, else all of it.
func (s *Store) catchUp(ctx context.Context, l *log) error {
	if l.unchanged(s.at) {
		return nil
	}
	h, grown, err := l.grown(s.at)
	if err != nil {
		return err
	}
	if whole := s.at.Offset == s.at.size; grown && whole { // a last line without an end may be another one now
		return s.follow(ctx, l, s.at.Place, h)
	}
	return s.follow(ctx, l, jsonl.Place{}, sha256.New())
}

// follow reads the log from a place on. The hash is that of what is before it.
func (s *Store) follow(ctx context.Context, l *log, from jsonl.Place, h hash.Hash) error {
	grown := from != jsonl.Place{}
	fold, before := jsonl.NewFold(), known{}
	b := batch{afresh: !grown, mark: mark{Place: from}, found: map[td.TaskID]*found{}, has: fold.Has, compact: map[td.TaskID]bool{}, clashes: map[td.TaskID]bool{}}
	for e, err := range jsonl.Read(io.NewSectionReader(l.f, from.Offset, 1<<62), from) {
		if err != nil {
			return fileError("read", s.path, err)
		}
		if err := ctx.Err(); err != nil {
			return td.Errorf(td.Interrupted, "read %s: %w", s.path, err)
		}
		b.mark.Place = e.Next
		switch {
		case e.Torn:
		case e.Bad != nil:
			b.bad = append(b.bad, *e.Bad)
		default:
			if grown {
				if err := s.recall(before, fold, e.Change); err != nil {
					return err
				}
			}
			if e.Change.At != nil {
				b.compact[e.Change.Task] = true
			}
			if fold.Apply(e.Change) {
				b.clashes[e.Change.Task] = true
				b.bad = append(b.bad, jsonl.Bad{Line: e.Lines + 1, Offset: e.Offset, Why: "its op " + e.Change.Op.String() + " says something else in another line"})
			}
			b.note(e)
		}
	}
	b.records = fold.Records()
	for _, r := range b.records {
		if k := before[r.ID]; k != nil && k.record != nil {
			r.Apply(k.record.Change()) // of r only the newest changes were read
		}
	}
	if _, err := io.Copy(h, io.NewSectionReader(l.f, from.Offset, b.mark.Offset-from.Offset)); err != nil {
		return fileError("read", s.path, err)
	}
	b.mark.sum = state(h)
	if err := l.look(&b.mark); err != nil {
		return err
	}
	return s.take(b)
}

// note remembers where a change is.
func (b *batch) note(e jsonl.Entry) {
	f := b.found[e.Change.Task]
	if f == nil {
		f = &found{}
		b.found[e.Change.Task] = f
		if b.afresh {
			f.line = bytes.Clone(e.Line)
		}
	} else {
		f.line = nil
	}
	f.places = binary.AppendUvarint(f.places, uint64(e.Offset))
}

// known is what was known of tasks before the log was read on.
type known map[td.TaskID]*knownTask

type knownTask struct {
	record *jsonl.Record // nil: nothing
	told   bool          // its changes are in the fold, too
}

// recall looks up what was known of a task that has a new line. If the line is not newer than that, all that the log says
// of the task is folded with it: it may have the op of a change that said something else.
func (s *Store) recall(before known, fold *jsonl.Fold, c jsonl.Change) error {
	k := before[c.Task]
	if k == nil {
		record, err := s.index.record(c.Task)
		if err != nil {
			return td.Errorf(td.Storage, "read the index: %w", err)
		}
		k = &knownTask{record: record}
		before[c.Task] = k
	}
	if k.record == nil || k.told || c.Op.Compare(k.record.Last) > 0 {
		return nil
	}
	k.told = true
	earlier, err := s.history(c.Task)
	for _, e := range earlier {
		fold.Apply(e.Change)
	}
	return err
}

// take makes a batch known: to the index first, then in memory.
func (s *Store) take(b batch) error {
	if err := s.index.save(b); err != nil {
		return td.Errorf(td.Storage, "write the index of %s: %w", s.path, err)
	}
	s.at = b.mark
	if b.afresh {
		s.bad = b.bad
		if err := s.noteLost(); err != nil {
			return err
		}
		return s.fill(func(visit func(*jsonl.Record)) error {
			for _, r := range b.records {
				visit(r)
			}
			return nil
		})
	}
	s.bad = slices.DeleteFunc(s.bad, func(known jsonl.Bad) bool { // a last line without an end is read again with it
		return slices.ContainsFunc(b.bad, func(bad jsonl.Bad) bool { return bad.Offset == known.Offset })
	})
	s.bad = append(s.bad, b.bad...)
	for _, r := range b.records {
		s.clock.Observe(r.Last)
		if r.Deleted() {
			s.forget(r.ID)
			continue
		}
		t := taskOf(r)
		s.remember(t)
		s.graph.Put(t.node(s.state(t.ID)))
	}
	return nil
}

// with runs f on the graph as the file has it now.
func (s *Store) with(ctx context.Context, f func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refresh(ctx); err != nil {
		return err
	}
	return f()
}

// write runs f with the log locked and everything in it known, appends the changes that f makes, synced and under the
// key if there is one, and makes them known. An error, of f or of a disk, leaves all as it was: what somebody was
// refused is not in the log.
func (s *Store) write(ctx context.Context, key string, f func() ([]change, error)) error {
	return s.writeWith(ctx, key, f, nil)
}

// writeWith is write with a part that is done elsewhere while the changes are in the log and nobody can read them: they stay
// there if it is done, or may be (td.Unknown), and go if it is not. It is done also if there is nothing to change.
func (s *Store) writeWith(ctx context.Context, key string, f func() ([]change, error), elsewhere func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := openLog(s.path, true)
	if err != nil {
		return err
	}
	defer l.close()
	if err := s.catchUp(ctx, l); err != nil {
		return err
	}
	changes, err := f()
	if err != nil {
		return err
	}
	var lines []byte
	for _, c := range changes {
		if c.empty() {
			continue
		}
		if key != "" {
			if err := c.set(FieldOnce, key); err != nil {
				return err
			}
		}
		c.Op = s.clock.Next()
		if err := s.screenSets(c.Add); err != nil {
			return err
		}
		for field, raw := range c.Set {
			clean, err := s.screen(field, raw)
			if err != nil {
				return err
			}
			c.Set[field] = clean
		}
		if lines, err = jsonl.Append(lines, c.Change); err != nil {
			return td.Errorf(td.Invalid, "write down a change: %w", err)
		}
	}
	if len(lines) == 0 {
		if elsewhere != nil {
			return elsewhere()
		}
		return nil
	}
	torn, err := l.torn()
	if err != nil {
		return err
	}
	if torn {
		lines = slices.Concat([]byte("\n"), lines)
	}
	takeBack, err := l.append(lines)
	if err != nil {
		return err
	}
	if elsewhere == nil {
		if err := s.heed(ctx, l); err != nil {
			return errors.Join(err, takeBack())
		}
		return nil
	}
	if err := elsewhere(); err != nil && !td.IsKind(err, td.Unknown) {
		return errors.Join(err, takeBack())
	} else if err != nil {
		return err
	}
	if err := s.heed(ctx, l); err != nil { // the log has it, and is read by the next who asks
		s.logger.Warn("read what was just written to a graph", "path", s.path, "err", err)
	}
	return nil
}

// heed makes known what was just appended. The lock was held: what is before is as it was.
func (s *Store) heed(ctx context.Context, l *log) error {
	if h, ok := restored(s.at.sum); ok {
		return s.follow(ctx, l, s.at.Place, h)
	}
	return s.catchUp(ctx, l)
}

// Compact folds changes older than before into one line a task. It returns the sizes of the log before and after.
func (s *Store) Compact(ctx context.Context, before time.Time) (was, is int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := openLog(s.path, true)
	if err != nil {
		return 0, 0, err
	}
	defer l.close()
	old, err := io.ReadAll(io.NewSectionReader(l.f, 0, 1<<62))
	if err != nil {
		return 0, 0, fileError("read", s.path, err)
	}
	text := jsonl.Compact(old, before)
	if bytes.Equal(text, old) {
		return int64(len(old)), int64(len(old)), nil
	}
	if err := l.replace(text); err != nil {
		return 0, 0, err
	}
	fresh, err := openLog(s.path, false)
	if err != nil {
		return 0, 0, err
	}
	defer fresh.close()
	return int64(len(old)), int64(len(text)), s.catchUp(ctx, fresh)
}
