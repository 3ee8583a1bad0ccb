package sqlite

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"taskdaemon/internal/store/rule"
	"taskdaemon/internal/td"
)

// applicationID marks a database as a journal of taskdaemon: "tdmn".
const applicationID = 0x74646d6e

// step is one forward migration, run in a transaction of its own.
type step struct {
	sql  string
	then func(*Store, *conn) error
}

//go:embed schema/0001.sql
var schema1 string

//go:embed schema/0002.sql
var schema2 string

//go:embed schema/0003.sql
var schema3 string

//go:embed schema/0004.sql
var schema4 string

//go:embed schema/0005.sql
var schema5 string

//go:embed schema/0006.sql
var schema6 string

//go:embed schema/0007.sql
var schema7 string

//go:embed schema/0008.sql
var schema8 string

//go:embed schema/0009.sql
var schema9 string

//go:embed schema/0010.sql
var schema10 string

// commitsVersion is the first version that counts its groups.
const commitsVersion = 8

// steps lead from an empty database to the newest version, which is their number. Never change one that
// was released; add another.
var steps = []step{
	{sql: schema1, then: insertDaemonStream},
	{sql: schema2}, // leases
	{sql: schema3}, // the ledger
	{sql: schema4}, // who asks to raise a budget
	{sql: schema5, then: fillNotes},
	{sql: schema6}, // runs over graphs
	{sql: schema7}, // token budgets
	{sql: schema8}, // how many groups there are
	{sql: schema9}, // sums
	{sql: schema10, then: fillTallies},
}

func insertDaemonStream(_ *Store, c *conn) error {
	return insertTask(c, rule.Daemon(), 0, 0)
}

// version is that of an existing journal.
func (s *Store) version(c *conn) (int64, error) {
	v, err := c.number("PRAGMA user_version")
	switch {
	case err != nil:
		return 0, err
	case v < 1:
		return 0, corrupt(s.path, fmt.Errorf("%d cannot be its version", v))
	case v > int64(len(steps)):
		return 0, td.Errorf(td.Newer, "the journal %s has version %d, this program knows versions up to %d",
			s.path, v, len(steps)).WithHint("run the newer taskdaemon that wrote it")
	}
	return v, nil
}

// migrate brings the database from a version to the newest.
func (s *Store) migrate(c *conn, have int64) error {
	for v := have; v < int64(len(steps)); v++ {
		if err := s.runStep(c, steps[v], v+1); err != nil {
			return fmt.Errorf("migrate %s to version %d: %w", s.path, v+1, err)
		}
		fpMigrated.Hit()
	}
	return nil
}

func (s *Store) runStep(c *conn, st step, version int64) (err error) {
	tx, err := c.BeginImmediate()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && !c.GetAutocommit() {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if err := c.Exec(st.sql); err != nil {
		return err
	}
	if st.then != nil {
		if err := st.then(s, c); err != nil {
			return err
		}
	}
	if err := c.Exec(fmt.Sprintf("PRAGMA application_id=%d; PRAGMA user_version=%d", applicationID, version)); err != nil {
		return err
	}
	fpMigrateCommit.Hit()
	return tx.Commit()
}

// create makes a new journal under another name and moves it into place when it is whole and durable:
// a crash in between leaves no half-made journal that could be taken for a damaged one.
func (s *Store) create() error {
	fresh := s.path + ".new"
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(fresh + suffix); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	c, err := dial(fresh, s.vfs, "page_size=4096", "auto_vacuum=incremental", "journal_mode=delete", "synchronous=full")
	if err != nil {
		return err
	}
	if err := s.migrate(c, 0); err != nil {
		return closing(c, err)
	}
	if err := c.EnableChecksums("main"); err != nil {
		return closing(c, err)
	}
	if err := c.close(); err != nil {
		return err
	}
	if err := syncFile(fresh); err != nil {
		return err
	}
	fpCreateRename.Hit()
	if err := os.Rename(fresh, s.path); err != nil {
		return err
	}
	fpCreateRenamed.Hit()
	return s.syncDir(s.dir)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// recognise looks at an existing file's header without opening it as a database, so that a file that
// is no journal is not touched in any way.
func (s *Store) recognise() error {
	f, err := os.Open(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	var h [100]byte
	if n, err := f.ReadAt(h[:], 0); n < len(h) {
		if n == 0 {
			return foreign(s.path, "it is empty")
		}
		if err != io.EOF {
			return err
		}
		return corrupt(s.path, fmt.Errorf("it ends after %d bytes", n))
	}
	if string(h[:16]) != "SQLite format 3\x00" {
		return foreign(s.path, "it is no SQLite database")
	}
	if id := binary.BigEndian.Uint32(h[68:]); id != applicationID {
		return foreign(s.path, fmt.Sprintf("it is an SQLite database of another program (application id %#x)", id))
	}
	return nil
}
