package graph

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// indexVersion is raised when the tables or what is in them change: an index of another version is made anew.
const indexVersion = 1

const schema = `
CREATE TABLE record (id TEXT PRIMARY KEY, line BLOB NOT NULL, places BLOB NOT NULL);
CREATE TABLE bad (offset INTEGER PRIMARY KEY, line INTEGER NOT NULL, why TEXT NOT NULL);
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
`

// index is what is known of the log without reading it: each task's record as one compact line, where the changes
// of each task are, what is wrong with the file, and how far it was read. It is only a copy: it is not synced,
// but what it says is always of one moment.
type index struct {
	path  string
	db    *sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
}

// IndexPath is where the index of a project's graph is among others in a folder.
func IndexPath(folder, root string) string {
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(folder, hex.EncodeToString(sum[:8])+".db")
}

// ProjectOf is the project that an index is of, if the index can be read and the project is still there.
func ProjectOf(path string) (root string, ok bool) {
	x, err := dialIndex(path)
	if err != nil {
		return "", false
	}
	defer x.close()
	log, err := x.get("log")
	if err != nil || filepath.Base(string(log)) != LogFile {
		return "", false
	}
	if _, err := os.Lstat(string(log)); errors.Is(err, os.ErrNotExist) {
		return "", false
	}
	return filepath.Dir(filepath.Dir(string(log))), true
}

// openIndex opens the index of a log, or makes an empty one. One that cannot be read, is of another version or
// of another file is thrown away.
func openIndex(path, log string) (*index, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, td.Errorf(td.Storage, "open the index of %s: %w", log, err)
	}
	x, err := dialIndex(path)
	if err == nil {
		if err = x.ours(log); err == nil {
			err = x.db.Exec(lostSchema)
		}
		if err == nil {
			return x, nil
		}
		x.close()
	}
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, td.Errorf(td.Storage, "throw away the index of %s: %w", log, err)
		}
	}
	if x, err = dialIndex(path); err != nil {
		return nil, td.Errorf(td.Storage, "open the index of %s: %w", log, err)
	}
	if err := errors.Join(x.db.Exec(schema), x.db.Exec(lostSchema), x.put("log", []byte(log)), x.db.Exec(fmt.Sprintf("PRAGMA user_version=%d", indexVersion))); err != nil {
		x.close()
		return nil, td.Errorf(td.Storage, "make the index of %s: %w", log, err)
	}
	return x, nil
}

func dialIndex(path string) (*index, error) {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path}
	db, err := sqlite3.OpenFlags(u.String(), sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE|sqlite3.OPEN_URI)
	if err != nil {
		return nil, err
	}
	x := &index{path: path, db: db, stmts: map[string]*sqlite3.Stmt{}}
	for _, p := range []string{"busy_timeout=5000", "journal_mode=wal", "synchronous=normal", "temp_store=memory"} {
		if err := db.Exec("PRAGMA " + p); err != nil {
			x.close()
			return nil, err
		}
	}
	return x, nil
}

// ours fails unless the index is of this version and of this log.
func (x *index) ours(log string) error {
	version := 0
	if err := x.each(func(r *sqlite3.Stmt) error { version = r.ColumnInt(0); return nil }, "PRAGMA user_version"); err != nil {
		return err
	}
	if version != indexVersion {
		return fmt.Errorf("it is of version %d", version)
	}
	if of, err := x.get("log"); err != nil || string(of) != log {
		return errors.Join(err, fmt.Errorf("it is of %s", of))
	}
	return nil
}

func (x *index) close() {
	for _, s := range x.stmts {
		_ = s.Close()
	}
	_ = x.db.Close()
}

// each calls row for every row of a query.
func (x *index) each(row func(*sqlite3.Stmt) error, sql string, args ...any) error {
	s := x.stmts[sql]
	if s == nil {
		var err error
		if s, _, err = x.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return err
		}
		x.stmts[sql] = s
	}
	for i, a := range args {
		var err error
		switch a := a.(type) {
		case string:
			err = s.BindText(i+1, a)
		case []byte:
			err = s.BindBlob(i+1, a)
		case int64:
			err = s.BindInt64(i+1, a)
		case int:
			err = s.BindInt(i+1, a)
		default:
			panic(fmt.Sprintf("graph: cannot bind %T", a))
		}
		if err != nil {
			return err
		}
	}
	for s.Step() {
		if err := row(s); err != nil {
			return errors.Join(err, s.Reset())
		}
	}
	return errors.Join(s.Err(), s.Reset())
}

func (x *index) exec(sql string, args ...any) error {
	return x.each(func(*sqlite3.Stmt) error { return nil }, sql, args...)
}

func (x *index) get(key string) (value []byte, err error) {
	err = x.each(func(r *sqlite3.Stmt) error { value = r.ColumnBlob(0, nil); return nil }, "SELECT value FROM meta WHERE key = ?", key)
	return value, err
}

func (x *index) put(key string, value []byte) error {
	return x.exec("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", key, value)
}

// markJSON is a mark as the index keeps it.
type markJSON struct {
	Lines  int    `json:"lines"`
	Offset int64  `json:"offset"`
	Sum    []byte `json:"sum"`
	Inode  uint64 `json:"inode"`
	Size   int64  `json:"size"`
	Mtime  int64  `json:"mtime"`
}

// mark is how far the index has followed its log.
func (x *index) mark() (m mark, err error) {
	raw, err := x.get("mark")
	if err != nil || raw == nil {
		return m, err
	}
	var j markJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return m, err
	}
	return mark{jsonl.Place{Lines: j.Lines, Offset: j.Offset}, j.Sum, j.Inode, j.Size, j.Mtime}, nil
}

// batch is what a look into the log found.
type batch struct {
	afresh  bool // it holds all there is, not only what is new
	records []*jsonl.Record
	found   map[td.TaskID]*found
	bad     []jsonl.Bad
	mark    mark

	has     func(jsonl.Stamp) bool // whether there is a change of an op, compact lines left out
	compact map[td.TaskID]bool     // tasks with compact lines
	clashes map[td.TaskID]bool     // tasks of which one op says two things
}

// found is where the changes of a task are, as varints, and the line itself if it is all there is of the task.
type found struct{ places, line []byte }

// save brings the index up to the mark, all or nothing.
func (x *index) save(b batch) (err error) {
	if err := x.db.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, x.db.Exec("ROLLBACK"))
		}
	}()
	if b.afresh {
		mended, err := x.get(mendedLog)
		switch {
		case err != nil:
		case bytes.Equal(mended, b.mark.sum):
			err = x.exec("DELETE FROM lost") // all of it was written again
		default:
			err = x.setAside(b)
		}
		if err != nil {
			return err
		}
		if err := x.db.Exec("DELETE FROM record; DELETE FROM bad"); err != nil {
			return err
		}
	}
	var line []byte
	for _, r := range b.records {
		f := b.found[r.ID]
		if f.line != nil {
			line = append(line[:0], f.line...)
		} else if line, err = jsonl.Append(line[:0], r.Change()); err != nil {
			return err
		}
		if err := x.exec(`INSERT INTO record (id, line, places) VALUES (?1, ?2, ?3)
			ON CONFLICT (id) DO UPDATE SET line = ?2, places = places || ?3`, string(r.ID), line, f.places); err != nil {
			return err
		}
	}
	for _, bad := range b.bad {
		if err := x.exec("INSERT OR REPLACE INTO bad (offset, line, why) VALUES (?, ?, ?)", bad.Offset, bad.Line, bad.Why); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(markJSON{b.mark.Lines, b.mark.Offset, b.mark.sum, b.mark.inode, b.mark.size, b.mark.mtime})
	if err != nil {
		return err
	}
	if err := x.put("mark", raw); err != nil {
		return err
	}
	return x.db.Exec("COMMIT")
}

// record reads one task's record; nil: there is none.
func (x *index) record(id td.TaskID) (found *jsonl.Record, err error) {
	err = x.each(func(s *sqlite3.Stmt) error {
		found, err = decodeRecord(id, s.ColumnBlob(0, nil))
		return err
	}, "SELECT line FROM record WHERE id = ?", string(id))
	return found, err
}

// records reads those that are wanted. What is given is good only during the call: its values are in the database.
func (x *index) records(wanted func(td.TaskID) bool, visit func(*jsonl.Record)) error {
	return x.each(func(s *sqlite3.Stmt) error {
		id := td.TaskID(s.ColumnText(0))
		if !wanted(id) {
			return nil
		}
		r, err := decodeRecord(id, s.ColumnRawBlob(1))
		if err == nil {
			visit(r)
		}
		return err
	}, "SELECT id, line FROM record")
}

// with are the records that have some text anywhere in their line.
func (x *index) with(text string) (out []*jsonl.Record, err error) {
	err = x.each(func(s *sqlite3.Stmt) error {
		r, err := decodeRecord(td.TaskID(s.ColumnText(0)), s.ColumnBlob(1, nil))
		if err == nil {
			out = append(out, r)
		}
		return err
	}, "SELECT id, line FROM record WHERE instr(line, ?) > 0", []byte(text))
	return out, err
}

func decodeRecord(id td.TaskID, line []byte) (*jsonl.Record, error) {
	c, err := jsonl.Decode(line)
	if err != nil {
		return nil, fmt.Errorf("the index has %s wrong: %w", id, err)
	}
	r := &jsonl.Record{ID: id}
	r.Apply(c)
	return r, nil
}

// offsets are where the changes of a task are.
func (x *index) offsets(id td.TaskID) (out []int64, err error) {
	err = x.each(func(s *sqlite3.Stmt) error {
		for raw := s.ColumnRawBlob(0); len(raw) > 0; {
			at, n := binary.Uvarint(raw)
			if n <= 0 {
				return fmt.Errorf("the index has the changes of %s wrong", id)
			}
			raw = raw[n:]
			if len(out) == 0 || out[len(out)-1] != int64(at) { // a last line without an end is read again with it
				out = append(out, int64(at))
			}
		}
		return nil
	}, "SELECT places FROM record WHERE id = ?", string(id))
	return out, err
}

// bad are the lines that cannot be read.
func (x *index) bad() (out []jsonl.Bad, err error) {
	err = x.each(func(s *sqlite3.Stmt) error {
		out = append(out, jsonl.Bad{Offset: s.ColumnInt64(0), Line: s.ColumnInt(1), Why: s.ColumnText(2)})
		return nil
	}, "SELECT offset, line, why FROM bad ORDER BY offset")
	return out, err
}
