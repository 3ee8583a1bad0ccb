package sqlite

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/ncruces/go-sqlite3/vfs"

	"taskdaemon/internal/td"
)

// watching is a VFS that knows which names are on the disk, as nothing but a sync of their folder puts them there: file systems
// that do more hide from a power cut what others would lose. It looks on before each write to the database and each sync of the log.
type watching struct {
	vfs.VFSFilename
	dir  string
	look func(what string, flags vfs.SyncFlag)

	mu    sync.Mutex
	names map[string][]string // of each folder, what was in it when it was last synced
}

const (
	writesDatabase = "write to the database"
	syncsLog       = "sync of the log"
)

// watch opens a journal under the eyes of a look.
func watch(t *testing.T, dir string, look func(w *watching, what string, flags vfs.SyncFlag)) (*watching, *Store) {
	t.Helper()
	w := &watching{VFSFilename: vfs.Find("os").(vfs.VFSFilename), dir: dir, names: map[string][]string{}}
	w.look = func(what string, flags vfs.SyncFlag) { look(w, what, flags) }
	_, name := newFaulty(t, nosync)
	vfs.Register(name, w)
	return w, openTest(t, Options{Dir: dir, vfs: name, syncDir: w.syncDir})
}

func (w *watching) syncDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names[dir] = nil
	for _, e := range entries {
		w.names[dir] = append(w.names[dir], e.Name())
	}
	return nil
}

// durable reports whether the name of a file, below the state folder, is on the disk.
func (w *watching) durable(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for ; path != w.dir; path = filepath.Dir(path) {
		if !slices.Contains(w.names[filepath.Dir(path)], filepath.Base(path)) {
			return false
		}
	}
	return true
}

func (w *watching) OpenFilename(name *vfs.Filename, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	file, got, err := w.VFSFilename.OpenFilename(name, flags)
	if err != nil {
		return nil, got, err
	}
	f := &watchedFile{File: file, w: w}
	f.shm, _ = file.(vfs.FileSharedMemory)
	f.database = filepath.Base(name.String()) == "journal.db"
	f.log = strings.HasSuffix(name.String(), "journal.db-wal")
	return f, got, nil
}

type watchedFile struct {
	vfs.File
	shm           vfs.FileSharedMemory
	w             *watching
	database, log bool
}

func (f *watchedFile) SharedMemory() vfs.SharedMemory { return f.shm.SharedMemory() }

func (f *watchedFile) WriteAt(p []byte, off int64) (int, error) {
	if f.database {
		f.w.look(writesDatabase, 0)
	}
	return f.File.WriteAt(p, off)
}

func (f *watchedFile) Sync(flags vfs.SyncFlag) error {
	if f.log {
		f.w.look(syncsLog, flags)
	}
	return f.File.Sync(flags)
}

// TestLogHasItsNameBeforeItIsMoved: while the log goes into the database, only the two together are the journal. A log without a
// name would leave a database that is half of the old and half of the new.
func TestLogHasItsNameBeforeItIsMoved(t *testing.T) {
	dir := t.TempDir()
	moved := 0
	look := func(w *watching, what string, _ vfs.SyncFlag) {
		log := filepath.Join(dir, "journal.db-wal")
		if info, err := os.Stat(log); what != writesDatabase || err != nil || info.Size() == 0 {
			return
		}
		moved++
		if !w.durable(log) || !w.durable(filepath.Join(dir, "journal.db")) {
			t.Error("the database was written before both files had a name on the disk")
		}
	}
	watch(t, dir, look)
	if moved == 0 {
		t.Error("opening moved no log: the test is blind")
	}
}

// TestBlobHasItsNameBeforeItIsNeeded: when the event that refers to a blob is made durable, the blob is, with the folders it is in.
func TestBlobHasItsNameBeforeItIsNeeded(t *testing.T) {
	dir := t.TempDir()
	seen := 0
	look := func(w *watching, what string, _ vfs.SyncFlag) {
		files, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
		if err != nil || what != syncsLog {
			return
		}
		for _, path := range files {
			if seen++; !w.durable(path) {
				t.Errorf("%s is referred to and had no name yet", path)
			}
		}
	}
	_, s := watch(t, dir, look)
	task, c := (&scribbler{s: s}).begin(t)
	for _, letter := range []string{"x", "y"} {
		var err error
		if task, err = s.Append(t.Context(), c, task.Head, said(strings.Repeat(letter, blobOver+1))); err != nil {
			t.Fatal(err)
		}
	}
	if seen < 2 {
		t.Error("there was no blob: the test is blind")
	}
}

// TestLogIsSyncedBeforeItIsMoved: SQLite syncs the log itself before it moves it. If that failed, whoever waits for the last group would not hear of it,
// as the kernel tells it once.
func TestLogIsSyncedBeforeItIsMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var mu sync.Mutex
		var hold, held chan struct{}
		var early []string
		moved := 0
		look := func(_ *watching, what string, flags vfs.SyncFlag) {
			mu.Lock()
			syncer := what == syncsLog && flags&vfs.SYNC_DATAONLY != 0
			wait := hold
			switch {
			case !syncer && held != nil:
				early = append(early, what)
			case !syncer:
				moved++
			case hold != nil:
				hold, held = nil, wait
			}
			mu.Unlock()
			if syncer && wait != nil {
				<-wait
			}
		}
		_, s := watch(t, dir, look)
		task, c := (&scribbler{s: s}).begin(t)
		text := ""
		for len(text) < blobOver-1000 {
			text += rand.Text() // can hardly be packed
		}
		var long []td.Event
		for range 2 * checkpointAt * 4096 / blobOver {
			long = append(long, said(text[:blobOver-1000]))
		}
		mu.Lock()
		hold, moved = make(chan struct{}), 0
		mu.Unlock()
		appended := make(chan error, 1)
		go func() {
			_, err := s.Append(t.Context(), c, task.Head, long...)
			appended <- err
		}()
		synctest.Wait() // the group is in the log, its sync is held, and the writer can do no more
		mu.Lock()
		for _, what := range early {
			t.Errorf("a %s before the last group was synced", what)
		}
		if held == nil {
			t.Error("no sync was held: the test is blind")
		} else {
			close(held)
			held = nil
		}
		mu.Unlock()
		if err := <-appended; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if moved == 0 {
			t.Error("the log was not moved: the test is blind")
		}
	})
}
