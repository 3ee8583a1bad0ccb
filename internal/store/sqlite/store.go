package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/bus"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// Options say where the journal is and whom it asks.
type Options struct {
	// Dir is the state folder. It is made if it is not there.
	Dir string
	// Alive reports whether the process that holds a claim still lives; nil: every holder counts as
	// alive until its claim expires. It must not block.
	Alive func(td.Holder) bool
	// Log gets what no caller is told, such as a checkpoint that must be tried again.
	Log *slog.Logger
	// Seen is a record that somebody has seen in this journal. One that ends before it was rolled back, and is not opened.
	Seen uint64
	// Marked is what MarkOutside last wrote: a journal of fewer groups is an older copy, and is not opened.
	Marked uint64
	// Tasks are known to have been in this journal. One that lacks any of them was rolled back, and is not opened.
	Tasks []td.TaskID
	// Behind opens it all the same, and a new one in the place of one that is gone: a person wants to go on with what there is.
	Behind bool

	vfs     string             // a VFS that fails on purpose, in tests
	early   bool               // acknowledge before the sync, to prove that tests notice
	syncDir func(string) error // called for the function of that name, in tests
}

// Store is the journal in SQLite. Its methods may be called from any goroutine.
type Store struct {
	dir, path, vfs string
	alive          func(td.Holder) bool
	syncDir        func(string) error
	log            *slog.Logger
	opened         time.Time // with the monotonic clock

	lock  *flock.Flock
	bus   *bus.Bus
	w     *writer
	pool  *pool
	blobs *blobs

	mu        sync.Mutex
	deadlines map[int64]time.Time // of claims taken or renewed since opening, on the monotonic clock

	place os.FileInfo // of the database, when it was opened

	closing sync.Once
	done    chan struct{} // closed by Close
}

var _ store.Journal = (*Store)(nil)

// How much of the journal's end the bus keeps in memory.
const (
	busEvents = 8192
	busBytes  = 32 << 20 // bodies and their encodings
)

// Open opens the journal in the state folder, or makes a new one. Locked: another process has it;
// Newer: a newer program wrote it; Corrupt: it is damaged or no journal, and was not touched.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{
		dir: o.Dir, path: filepath.Join(o.Dir, "journal.db"), vfs: o.vfs, alive: o.Alive, syncDir: o.syncDir, log: o.Log,
		opened: time.Now(), deadlines: map[int64]time.Time{}, done: make(chan struct{}),
	}
	if s.syncDir == nil {
		s.syncDir = syncDir
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := ctx.Err(); err != nil {
		return nil, s.classify(err)
	}
	if err := s.lockDir(); err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	fpOpenLocked.Hit()
	if err := s.open(ctx, o); err != nil {
		return nil, fmt.Errorf("open the journal: %w", errors.Join(s.classify(err), s.lock.Unlock()))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, o Options) (err error) {
	if _, err := os.Stat(s.path); errors.Is(err, os.ErrNotExist) {
		if err := s.gone(o); err != nil {
			return err
		}
		if err := s.create(); err != nil {
			return fmt.Errorf("make %s: %w", s.path, err)
		}
	}
	if err := s.recognise(); err != nil {
		return err
	}
	c, err := dial(s.path, s.vfs)
	if err != nil {
		return err
	}
	if s.place, err = os.Stat(s.path); err != nil {
		return closing(c, err)
	}
	defer func() {
		if err != nil {
			err = closing(c, err)
		}
	}()
	c.SetInterrupt(ctx)
	last, commits, err := s.prove(c, o)
	if err != nil {
		return err
	}
	m, err := openMark(s.dir, commits)
	if err != nil {
		return fmt.Errorf("mark how far the journal is: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	c.SetInterrupt(context.Background())
	if s.blobs, err = openBlobs(filepath.Join(s.dir, "blobs"), s.syncDir); err != nil {
		return err
	}
	s.bus = bus.New(busEvents, busBytes, last)
	y, err := newSyncer(s, c, m, o.early)
	if err != nil {
		return err
	}
	s.pool = newPool(s.path, s.vfs, y)
	s.w = newWriter(s, c, y, last, commits)
	return nil
}

// quickCheckBelow is the size up to which a database is checked page by page at the start, before the
// first write to it. A larger one would take too long; Check does it.
const quickCheckBelow = 64 << 20

// prove makes sure that the database is ours, sound as far as that is cheap to know, of the newest
// version, and durable down to the last transaction in its log. It returns the newest event's cursor, and how many groups it has.
func (s *Store) prove(c *conn, o Options) (last, commits uint64, err error) {
	version, err := s.version(c)
	if err != nil {
		return 0, 0, err
	}
	if commits, err = s.whole(c, version, o); err != nil {
		return 0, 0, err
	}
	if size, err := c.number("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"); err != nil {
		return 0, 0, err
	} else if size <= quickCheckBelow {
		if err := s.quickCheck(c); err != nil {
			return 0, 0, err
		}
	}
	// A commit does not sync: the syncer does that for it, and opening with the checkpoint below.
	for _, p := range []string{"journal_mode=wal", "synchronous=normal", "wal_autocheckpoint=0", "journal_size_limit=67108864"} {
		if err := c.Exec("PRAGMA " + p); err != nil {
			return 0, 0, fmt.Errorf("set %s: %w", p, err)
		}
	}
	if err := s.migrate(c, version); err != nil {
		return 0, 0, err
	}
	if err := c.EnableChecksums("main"); err != nil { // once, for a journal of an older version: all of it is written anew
		s.log.Warn("the journal's pages have no checksums yet; it is tried again at the next start", "err", s.classify(err))
	}
	if err := shrink(c); err != nil {
		return 0, 0, fmt.Errorf("give free pages back: %w", err)
	}
	n, err := c.number("SELECT max(cursor) FROM events")
	if err != nil {
		return 0, 0, missing(s.path, err)
	}
	if err := c.exec("UPDATE meta SET value = 'no' WHERE key = 'clean'"); err != nil {
		return 0, 0, missing(s.path, err)
	}
	// Now the log exists in any case. Its name must be durable too, and what is in it goes into the
	// database, so that nothing is shown that was written but never synced before a crash.
	if err := s.syncDir(s.dir); err != nil {
		return 0, 0, err
	}
	if _, _, err := c.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE); err != nil {
		return 0, 0, err
	}
	return uint64(n), commits, nil
}

func (s *Store) quickCheck(c *conn) error {
	found, err := firstFinding(c)
	if err != nil || found == "ok" {
		return err
	}
	// The check puts a page that could not be read among its findings; that says nothing about the page.
	const unread = "unable to get the page. error code="
	if _, code, ok := strings.Cut(found, unread); ok {
		if n, err := strconv.Atoi(code); err == nil && sqlite3.ExtendedErrorCode(n).Code() == sqlite3.IOERR && sqlite3.ExtendedErrorCode(n) != sqlite3.IOERR_DATA {
			return fmt.Errorf("check the pages: %w", sqlite3.ExtendedErrorCode(n))
		}
	}
	// Of the pages that say where others are used it does not even give the code: whether they can be read is tried.
	if strings.Contains(found, "Failed to read ptrmap") {
		again, err := firstFinding(c)
		if err == nil && again != found {
			err = sqlite3.IOERR_READ
		}
		if err == nil {
			err = readable(s.path)
		}
		if err != nil {
			return fmt.Errorf("check the pages: %w", err)
		}
	}
	return corrupt(s.path, errors.New(found))
}

// firstFinding is the first thing that is wrong with the pages, or ok.
func firstFinding(c *conn) (found string, err error) {
	_, err = c.one(func(r *sqlite3.Stmt) error { found = r.ColumnText(0); return nil }, "PRAGMA quick_check(1)")
	return found, err
}

// readable fails unless all of a file can be read.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}

// missing turns the error of a table that should be there into one of a damaged journal.
func missing(path string, err error) error {
	if err != nil && is(err, sqlite3.ERROR) {
		return corrupt(path, err)
	}
	return err
}

// Close flushes and lets go of the journal. Calls after it fail with td.Unavailable.
func (s *Store) Close() error {
	err := rule.Closed()
	s.closing.Do(func() {
		close(s.done)
		sound := s.w.stop() // after this nobody writes
		err = errors.Join(s.pool.close(), s.classify(s.leave(sound)), s.w.sync.mark.close())
		fpCloseUnlock.Hit()
		err = errors.Join(err, s.lock.Unlock())
	})
	return err
}

// leave marks the journal as closed in order and moves its log into the database, unless a failed
// write made its state doubtful: then all is left to the next Open.
func (s *Store) leave(sound bool) error {
	c := s.w.c
	if !sound {
		return c.close()
	}
	fpCloseClean.Hit()
	if err := c.exec("UPDATE meta SET value = 'yes' WHERE key = 'clean'"); err != nil {
		return closing(c, err)
	}
	fpCloseCheckpoint.Hit()
	if _, _, err := c.WALCheckpoint("main", sqlite3.CHECKPOINT_TRUNCATE); err != nil {
		return closing(c, err)
	}
	return c.close()
}

// isClosed reports whether Close was called.
func (s *Store) isClosed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}
