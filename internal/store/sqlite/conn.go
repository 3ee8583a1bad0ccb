package sqlite

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// conn is a connection with its prepared statements. It belongs to one goroutine at a time.
type conn struct {
	*sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
}

// busyTimeout is how long a connection waits for a lock of another program that looks into the
// journal, such as the sqlite3 shell.
const busyTimeout = 5000

// dial opens an existing database. It never creates one, and closing it never checkpoints: whether the
// log may be written into the database is decided by the store alone.
func dial(path, vfs string, pragmas ...string) (*conn, error) {
	q := url.Values{"mode": {"rw"}, "modeof": {path}} // the log gets the database's permissions
	if vfs != "" {
		q.Set("vfs", vfs)
	}
	query := strings.ReplaceAll(q.Encode(), "+", "%20") // SQLite takes a plus sign for itself
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query}
	db, err := sqlite3.OpenFlags(u.String(), sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: db, stmts: map[string]*sqlite3.Stmt{}}
	if err := c.configure(pragmas); err != nil {
		return nil, closing(c, err)
	}
	return c, nil
}

func (c *conn) configure(pragmas []string) error {
	for op, on := range map[sqlite3.DBConfig]bool{
		sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE: true,
		sqlite3.DBCONFIG_DEFENSIVE:        true,
		sqlite3.DBCONFIG_TRUSTED_SCHEMA:   false,
	} {
		if _, err := c.Config(op, on); err != nil {
			return err
		}
	}
	common := []string{fmt.Sprintf("busy_timeout=%d", busyTimeout), "cell_size_check=on", "foreign_keys=off", "temp_store=memory"}
	for _, p := range append(common, pragmas...) {
		if err := c.Exec("PRAGMA " + p); err != nil {
			return fmt.Errorf("set %s: %w", p, err)
		}
	}
	return nil
}

// closing closes c on the way out with err.
func closing(c *conn, err error) error {
	return errors.Join(err, c.close())
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		_ = s.Close() // it repeats the error of the statement's last use
	}
	c.stmts = nil
	return c.Conn.Close()
}

func (c *conn) stmt(sql string, args []any) (*sqlite3.Stmt, error) {
	s := c.stmts[sql]
	if s == nil {
		var err error
		if s, _, err = c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return nil, err
		}
		c.stmts[sql] = s
	}
	for i, a := range args {
		if err := bind(s, i+1, a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func bind(s *sqlite3.Stmt, i int, a any) error {
	switch v := a.(type) {
	case nil:
		return s.BindNull(i)
	case int64:
		return s.BindInt64(i, v)
	case int:
		return s.BindInt64(i, int64(v))
	case uint64:
		return s.BindInt64(i, int64(v))
	case string:
		return s.BindText(i, v)
	case []byte:
		if v == nil {
			return s.BindNull(i)
		}
		return s.BindBlob(i, v)
	}
	panic(fmt.Sprintf("sqlite: cannot bind %T", a))
}

// exec runs a statement that returns no rows.
func (c *conn) exec(sql string, args ...any) error {
	s, err := c.stmt(sql, args)
	if err != nil {
		return err
	}
	return s.Exec()
}

// query calls row for each row until it returns an error.
func (c *conn) query(row func(*sqlite3.Stmt) error, sql string, args ...any) error {
	s, err := c.stmt(sql, args)
	if err != nil {
		return err
	}
	for s.Step() {
		if err := row(s); err != nil {
			_ = s.Reset()
			return err
		}
		if s.Err() != nil { // reading a column may fail where stepping did not
			break
		}
	}
	err = s.Err()
	if rerr := s.Reset(); err == nil {
		err = rerr
	}
	return err
}

// one calls row for the first row, and reports whether there was one.
func (c *conn) one(row func(*sqlite3.Stmt) error, sql string, args ...any) (bool, error) {
	found := false
	err := c.query(func(s *sqlite3.Stmt) error {
		if found {
			return nil
		}
		found = true
		return row(s)
	}, sql, args...)
	return found, err
}

// number is the integer in the first column of the first row, or zero.
func (c *conn) number(sql string, args ...any) (int64, error) {
	var n int64
	_, err := c.one(func(s *sqlite3.Stmt) error { n = s.ColumnInt64(0); return nil }, sql, args...)
	return n, err
}

// inTxn runs f in a read transaction, so that all it reads is of one moment. The transaction ends with it,
// even if whoever asked has gone away meanwhile.
func (c *conn) inTxn(f func() error) error {
	if err := c.exec("BEGIN"); err != nil {
		return err
	}
	err := f()
	defer c.SetInterrupt(c.SetInterrupt(context.Background()))
	if eerr := c.exec("ROLLBACK"); err == nil {
		err = eerr
	}
	return err
}
