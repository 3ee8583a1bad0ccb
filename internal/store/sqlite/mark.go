package sqlite

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/td"
)

// markFile says how many groups were acknowledged.
const markFile = "journal.mark"

// markSyncAfter is how long a mark may be the kernel's alone. A power cut takes back at most that much of it.
const markSyncAfter = time.Second

// mark is a file beside the journal that a group's number is written to when the group is durable, before anybody is told of it. A
// journal that has fewer groups than its mark has lost some: SQLite takes a log that was damaged, cut off or removed for
// one that ends earlier.
type mark struct {
	f *os.File

	mu      sync.Mutex
	n       uint64
	outside *os.File // the same number where no copy of the folder takes it along; nil: nowhere
	pending bool     // a sync is to come
	closed  bool
}

// markLine is the file's content: a number that a person can read, and its checksum.
func markLine(n uint64) []byte {
	number := fmt.Sprintf("%020d", n)
	return fmt.Appendf(nil, "%s %08x\n", number, crc32.ChecksumIEEE([]byte(number)))
}

// readMark is the number of a mark. One that is not there, or that cannot be made sense of, says nothing.
func readMark(dir string) (uint64, error) {
	raw, err := os.ReadFile(filepath.Join(dir, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return ParseMark(raw), nil
}

// MarkSize is the length of a mark.
const MarkSize = 30

// ParseMark is the number of a mark. What is none says 0.
func ParseMark(raw []byte) (n uint64) {
	if _, err := fmt.Sscanf(string(raw), "%d ", &n); err != nil || string(markLine(n)) != string(raw) {
		return 0
	}
	return n
}

// openMark opens the mark, or makes it.
func openMark(dir string, n uint64) (*mark, error) {
	f, err := os.OpenFile(filepath.Join(dir, markFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	m := &mark{f: f, n: n}
	if err := errors.Join(writeMark(f, n), f.Truncate(MarkSize), f.Sync()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

func writeMark(f *os.File, n uint64) error {
	_, err := f.WriteAt(markLine(n), 0)
	return err
}

// set moves the mark. It is on the disk a little later.
func (m *mark) set(n uint64) error {
	if err := writeMark(m.f, n); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.n = n
	if m.outside != nil {
		if err := writeMark(m.outside, n); err != nil {
			return err
		}
	}
	if !m.pending && !m.closed {
		m.pending = true
		time.AfterFunc(markSyncAfter, m.sync)
	}
	return nil
}

func (m *mark) sync() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending = false; !m.closed {
		_ = m.f.Sync() // an older mark is true, too
	}
}

func (m *mark) close() (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.outside != nil {
		err = errors.Join(m.outside.Sync(), m.outside.Close())
	}
	return errors.Join(err, m.f.Sync(), m.f.Close())
}

// MarkOutside also writes how far the journal is to the beginning of a file outside of its folder, from now on, and closes that with the journal. Whoever
// opens an older copy of the folder says what that file has (Options.Marked). It costs no sync: after a loss of power it may be some seconds old.
func (s *Store) MarkOutside(f *os.File) error {
	m := s.w.sync.mark
	m.mu.Lock()
	defer m.mu.Unlock()
	err := os.ErrClosed
	if !m.closed && m.outside == nil {
		if err = errors.Join(writeMark(f, m.n), f.Sync()); err == nil {
			m.outside = f
			return nil
		}
	}
	return errors.Join(td.Errorf(td.Storage, "mark how far the journal is in %s: %w", f.Name(), err), f.Close())
}

// whole makes sure that the journal has everything that is known to have been in it, before anything is written to it.
func (s *Store) whole(c *conn, version int64, o Options) (commits uint64, err error) {
	if version >= commitsVersion {
		n, err := c.number("SELECT n FROM commits")
		if err != nil {
			return 0, missing(s.path, err)
		}
		commits = uint64(n)
	}
	last, err := c.number("SELECT max(cursor) FROM events")
	if err != nil {
		return 0, missing(s.path, err)
	}
	marked, err := readMark(s.dir)
	marked = max(marked, o.Marked)
	switch {
	case err != nil:
		return 0, err
	case o.Behind:
		return max(commits, marked), nil // its next group is the first that counts
	case marked > commits:
		return 0, behind(s.path, fmt.Errorf("%d writes were acknowledged, and it has %d of them", marked, commits))
	case o.Seen > uint64(last):
		return 0, behind(s.path, fmt.Errorf("conversations.git has its records up to %d, and it ends at %d", o.Seen, last))
	}
	var lacks []string
	for _, id := range o.Tasks {
		n, err := c.number("SELECT count(*) FROM tasks WHERE id = ?", string(id))
		if err != nil {
			return 0, missing(s.path, err)
		}
		if n == 0 {
			lacks = append(lacks, id.Handle())
		}
	}
	if len(lacks) > 0 {
		return 0, behind(s.path, fmt.Errorf("a command of %s was started, and it has no such task", strings.Join(lacks[:min(len(lacks), mostNamed)], ", ")))
	}
	return commits, nil
}

// mostNamed bounds how many tasks an error names.
const mostNamed = 10

// gone fails where there is no journal and should be one.
func (s *Store) gone(o Options) error {
	if info, err := os.Stat(s.path + "-wal"); err == nil && info.Size() > 0 {
		// SQLite would take the old log for the new database's own.
		return corrupt(s.path, errors.New("it is missing, but its log is there"))
	}
	marked, err := readMark(s.dir)
	if err != nil || o.Behind || marked == 0 && o.Marked == 0 && o.Seen == 0 && len(o.Tasks) == 0 {
		return err
	}
	return behind(s.path, errors.New("the file is missing"))
}
