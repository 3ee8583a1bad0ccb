package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"taskdaemon/internal/words"
)

// indexVersion is raised when the tables or the way words are cut change: an index of another version
// is made anew.
const indexVersion = 3

// The text itself is kept beside the words, so that a search reads no file; and of each word how many learnings
// have it, which the full-text index knows only by going through them.
const schema = `
CREATE TABLE doc (
	n       INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE,
	size    INTEGER NOT NULL,
	mtime   INTEGER NOT NULL,
	seen    INTEGER NOT NULL,
	words   INTEGER NOT NULL,
	hash    BLOB NOT NULL,
	title   TEXT,
	page    BLOB,
	problem BLOB
);
CREATE INDEX doc_title ON doc (title);
CREATE TABLE paragraph (key BLOB, n INTEGER, PRIMARY KEY (key, n)) WITHOUT ROWID;
CREATE INDEX paragraph_n ON paragraph (n);
CREATE VIRTUAL TABLE word USING fts5 (title, tags, text, content='', contentless_delete=1, tokenize=words);
CREATE TABLE term (word TEXT PRIMARY KEY, docs INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO word (word, rank) VALUES ('rank', 'relevance()');
`

// index is the full-text index: a cache of the files, in a file of its own or in memory.
type index struct {
	db    *sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
	// known is what the index holds, by the learning's id.
	known   map[string]entry
	ranking *ranking
	// more is by how much the transaction under way changes what is in the table of terms.
	more map[string]int
}

// entry is a file as it was when it was read.
type entry struct {
	n           int64
	size, mtime int64
	seen        int64 // when it was read: a file changed that very moment may have changed after it
	words       int64 // how long it is
}

// openIndex opens the index of a folder, and makes it anew when it is another folder's, another
// version's or broken. An empty path means memory.
func openIndex(path, folder string) (*index, error) {
	if path == "" {
		return createIndex(":memory:", folder)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	ix, err := dialIndex(path)
	if err == nil {
		if err = ix.load(folder); err == nil {
			return ix, nil
		}
		err = errors.Join(err, ix.close())
	}
	if errors.Is(err, sqlite3.BUSY) || errors.Is(err, sqlite3.LOCKED) {
		return nil, fmt.Errorf("another process uses it: %w", err)
	}
	for _, end := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return createIndex(path, folder)
}

func dialIndex(path string) (*index, error) {
	name, flags := path, sqlite3.OPEN_READWRITE|sqlite3.OPEN_CREATE
	if path != ":memory:" {
		u := url.URL{Scheme: "file", OmitHost: true, Path: path}
		name, flags = u.String(), flags|sqlite3.OPEN_URI
	}
	db, err := sqlite3.OpenFlags(name, flags)
	if err != nil {
		return nil, err
	}
	ix := &index{db: db, stmts: map[string]*sqlite3.Stmt{}, known: map[string]entry{}, ranking: newRanking()}
	err = fts5.RegisterCustom(db, func(api *fts5.API) error {
		err := api.CreateTokenizer("words", func([]string) (fts5.Tokenizer, error) { return tokenizer{}, nil })
		return errors.Join(err, api.CreateFunction("relevance", ix.ranking.score))
	})
	// The log of a lost index needs no disk: NORMAL keeps it consistent after a crash, which is enough.
	for _, p := range []string{"locking_mode=exclusive", "journal_mode=wal", "synchronous=normal", "temp_store=memory"} {
		if err == nil {
			err = db.Exec("PRAGMA " + p)
		}
	}
	if err != nil {
		return nil, errors.Join(err, ix.close())
	}
	return ix, nil
}

func createIndex(path, folder string) (*index, error) {
	ix, err := dialIndex(path)
	if err != nil {
		return nil, err
	}
	err = ix.tx(func() error {
		if err := ix.db.Exec(schema); err != nil {
			return err
		}
		if err := ix.db.Exec("CREATE TABLE source AS SELECT " + sqlite3.Quote(folder) + " AS folder"); err != nil {
			return err
		}
		return ix.db.Exec(fmt.Sprintf("PRAGMA user_version=%d", indexVersion))
	})
	if err != nil {
		return nil, errors.Join(err, ix.close())
	}
	return ix, nil
}

var errOtherIndex = errors.New("the index is another folder's or another version's")

// load reads what the index holds.
func (ix *index) load(folder string) error {
	fits := false
	err := ix.query("SELECT (SELECT user_version FROM pragma_user_version) = ? AND folder = ? FROM source",
		[]any{indexVersion, folder}, func(s *sqlite3.Stmt) error {
			fits = s.ColumnBool(0)
			return nil
		})
	if err != nil {
		return err
	}
	if !fits {
		return errOtherIndex
	}
	return ix.query("SELECT id, n, size, mtime, seen, words FROM doc", nil, func(s *sqlite3.Stmt) error {
		ix.know(s.ColumnText(0), &entry{s.ColumnInt64(1), s.ColumnInt64(2), s.ColumnInt64(3), s.ColumnInt64(4), s.ColumnInt64(5)})
		return nil
	})
}

// know takes in what the index holds of a file now; nil: nothing.
func (ix *index) know(id string, e *entry) {
	if old, ok := ix.known[id]; ok {
		ix.ranking.forget(old)
		delete(ix.known, id)
	}
	if e != nil {
		ix.known[id] = *e
		ix.ranking.learn(*e)
	}
}

func (ix *index) close() error {
	for _, s := range ix.stmts {
		_ = s.Close() // it repeats the error of the statement's last use
	}
	return ix.db.Close()
}

// tx runs f in a transaction. known is put right by whoever changes it.
func (ix *index) tx(f func() error) (err error) {
	tx, err := ix.db.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	ix.more = map[string]int{}
	if err := f(); err != nil {
		return err
	}
	return ix.countTerms()
}

// countTerms brings the table of terms up to date, each of them once for all files of a transaction.
func (ix *index) countTerms() error {
	for word, by := range ix.more {
		if by == 0 {
			continue
		}
		err := ix.query("INSERT INTO term (word, docs) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET docs = docs + ?2", []any{word, by}, nil)
		if err != nil {
			return err
		}
	}
	return nil
}

// count notes that so many more learnings, or fewer, have the words of this one, and counts them.
func (ix *index) count(l Learning, by int) (length int64) {
	seen := map[string]bool{}
	for _, text := range columns(l) {
		_ = tokenizer{}.Tokenize(0, text, "", func(flag fts5.TokenFlag, word string, _, _ int) error {
			if flag&fts5.TOKEN_COLOCATED == 0 {
				length++
			}
			if !seen[word] {
				seen[word] = true
				ix.more[word] += by
			}
			return nil
		})
	}
	return length
}

// columns are the texts a learning is found by, in the order of the table.
func columns(l Learning) [3]string {
	about := slices.Concat(l.Tags, []string{l.Feature})
	for _, f := range l.Files {
		about = append(about, f.Path)
	}
	return [3]string{l.Title, strings.Join(about, " "), l.Text}
}

func (ix *index) query(sql string, args []any, row func(*sqlite3.Stmt) error) (err error) {
	s := ix.stmts[sql]
	if s == nil {
		if s, _, err = ix.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT); err != nil {
			return fmt.Errorf("prepare %.40s: %w", sql, err)
		}
		ix.stmts[sql] = s
	}
	defer func() {
		if rerr := s.Reset(); err == nil {
			err = rerr
		}
	}()
	for i, a := range args {
		switch a := a.(type) {
		case string:
			err = s.BindText(i+1, a)
		case []byte:
			err = s.BindBlob(i+1, a)
		case int:
			err = s.BindInt64(i+1, int64(a))
		case int64:
			err = s.BindInt64(i+1, a)
		default:
			err = s.BindNull(i + 1)
		}
		if err != nil {
			return err
		}
	}
	for s.Step() {
		if row != nil {
			if err := row(s); err != nil {
				return err
			}
		}
	}
	return s.Err()
}

// put replaces what the index holds of a file. It must run in a transaction.
func (ix *index) put(id string, e entry, hash []byte, p *page, trouble *Problem) (entry, error) {
	if err := ix.drop(id); err != nil {
		return e, err
	}
	var title, stored, problem any
	if p != nil {
		raw, err := json.Marshal(p.Learning)
		if err != nil {
			return e, err
		}
		title, stored = titleKey(p.Title), raw
	} else {
		raw, err := json.Marshal(trouble)
		if err != nil {
			return e, err
		}
		problem = raw
	}
	e.words = 0
	if p != nil {
		e.words = ix.count(p.Learning, 1)
	}
	err := ix.query("INSERT INTO doc (id, size, mtime, seen, words, hash, title, page, problem) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
		[]any{id, e.size, e.mtime, e.seen, e.words, hash, title, stored, problem}, nil)
	if err != nil {
		return e, err
	}
	e.n = ix.db.LastInsertRowID()
	if p == nil {
		return e, nil
	}
	return e, ix.putWords(e.n, p.Learning)
}

func (ix *index) putWords(n int64, l Learning) error {
	c := columns(l)
	err := ix.query("INSERT INTO word (rowid, title, tags, text) VALUES (?, ?, ?, ?)", []any{n, c[0], c[1], c[2]}, nil)
	if err != nil {
		return err
	}
	for _, p := range paragraphs(l.Text) {
		if err := ix.query("INSERT OR IGNORE INTO paragraph (key, n) VALUES (?, ?)", []any{[]byte(paragraphKey(p)), n}, nil); err != nil {
			return err
		}
	}
	return nil
}

// drop takes a file out of the index. It must run in a transaction.
func (ix *index) drop(id string) error {
	e, ok := ix.known[id]
	if !ok {
		return nil
	}
	err := ix.query("SELECT page FROM doc WHERE n = ? AND page IS NOT NULL", []any{e.n}, func(s *sqlite3.Stmt) error {
		var l Learning
		if err := json.Unmarshal(s.ColumnRawBlob(0), &l); err != nil {
			return err
		}
		_ = ix.count(l, -1)
		return nil
	})
	if err != nil {
		return err
	}
	for _, sql := range []string{"DELETE FROM word WHERE rowid = ?", "DELETE FROM paragraph WHERE n = ?", "DELETE FROM doc WHERE n = ?"} {
		if err := ix.query(sql, []any{e.n}, nil); err != nil {
			return err
		}
	}
	return nil
}

// touch notes that a file was looked at again and is the same.
func (ix *index) touch(e entry) error {
	return ix.query("UPDATE doc SET size = ?, mtime = ?, seen = ? WHERE n = ?", []any{e.size, e.mtime, e.seen, e.n}, nil)
}

// optimize joins what many transactions left in pieces: a search then reads one list for a word.
func (ix *index) optimize() error {
	return ix.query("INSERT INTO word (word) VALUES ('optimize')", nil, nil)
}

// pages are the learnings a query finds; its first column is doc.page.
func (ix *index) pages(ctx context.Context, sql string, args ...any) ([]Learning, error) {
	defer ix.db.SetInterrupt(ix.db.SetInterrupt(ctx))
	var out []Learning
	err := ix.query(sql, args, func(s *sqlite3.Stmt) error {
		var l Learning
		if err := json.Unmarshal(s.ColumnRawBlob(0), &l); err != nil {
			return err
		}
		out = append(out, l)
		return nil
	})
	return out, err
}

// tokenizer cuts what is indexed and what is searched for by the rules of package words.
type tokenizer struct{}

func (tokenizer) Tokenize(_ fts5.TokenizeFlag, text, _ string, token fts5.TokenCallback) (err error) {
	at := -1 // where the name that was just given as a whole begins
	words.Each(text, func(t words.Token) bool {
		var flag fts5.TokenFlag
		if t.Start == at {
			flag = fts5.TOKEN_COLOCATED // its first part stands at the same place
		}
		at = -1
		if t.Whole {
			at = t.Start
		}
		err = token(flag, t.Text, t.Start, t.End)
		return err == nil
	})
	return err
}
