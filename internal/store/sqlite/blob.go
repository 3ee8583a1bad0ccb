package sqlite

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// blobOver is the size above which a body goes to a file of its own.
const blobOver = 64 << 10

type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// blobs is the folder of bodies too large for the database, each named by its hash.
type blobs struct {
	dir     string
	syncDir func(string) error

	mu sync.Mutex
	// busy counts the calls that are about to refer to a blob, so that nobody removes it before their
	// transaction does.
	busy map[hash]int
}

// tempPrefix marks a blob that is being written. One left by a crash is removed at the next start.
const tempPrefix = "tmp-"

func openBlobs(dir string, syncDir func(string) error) (*blobs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return nil, err
	}
	return &blobs{dir: dir, syncDir: syncDir, busy: map[hash]int{}}, nil
}

func (b *blobs) path(h hash) string {
	name := h.String()
	return filepath.Join(b.dir, name[:2], name)
}

// put makes the body durable as a blob. Call release when the transaction that refers to it has ended.
func (b *blobs) put(body []byte) (h hash, release func(), err error) {
	h = sha256.Sum256(body)
	b.mu.Lock()
	b.busy[h]++
	b.mu.Unlock()
	release = func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.busy[h]--; b.busy[h] == 0 {
			delete(b.busy, h)
		}
	}
	if err := b.write(h, body); err != nil {
		release()
		return h, nil, fmt.Errorf("write blob %s: %w", h, err)
	}
	fpBlobDurable.Hit()
	return h, release, nil
}

func (b *blobs) write(h hash, body []byte) error {
	path := b.path(h)
	sub := filepath.Dir(path)
	if err := os.Mkdir(sub, 0o700); err == nil {
		if err := b.syncDir(b.dir); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	// One that is there already may come from a call that crashed before its last sync, or be damaged:
	// it is written anew, which replaces it by the same bytes.
	f, err := os.CreateTemp(b.dir, tempPrefix)
	if err != nil {
		return err
	}
	if err := fill(f, body); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	fpBlobRename.Hit()
	if err := os.Rename(f.Name(), path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	fpBlobRenamed.Hit()
	return b.syncDir(sub)
}

func fill(f *os.File, body []byte) error {
	_, err := f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// get reads a blob and proves it.
func (b *blobs) get(h hash, size int64) ([]byte, error) {
	info, err := os.Stat(b.path(h))
	if err != nil {
		return nil, err
	}
	if info.Size() != size {
		return nil, fmt.Errorf("blob %s has %d bytes, it had %d", h, info.Size(), size)
	}
	body, err := os.ReadFile(b.path(h))
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(body) != h {
		return nil, fmt.Errorf("blob %s does not match its hash", h)
	}
	return body, nil
}

// sweep removes every blob that nobody refers to, and returns how many.
func (b *blobs) sweep(referred func(hash) (bool, error)) (removed int, err error) {
	subs, err := os.ReadDir(b.dir)
	if err != nil {
		return 0, err
	}
	for _, sub := range subs {
		if !sub.IsDir() {
			continue
		}
		files, err := os.ReadDir(filepath.Join(b.dir, sub.Name()))
		if err != nil {
			return removed, err
		}
		for _, f := range files {
			raw, err := hex.DecodeString(f.Name())
			if err != nil || len(raw) != sha256.Size {
				continue // not ours
			}
			gone, err := b.removeUnless(hash(raw), referred)
			if err != nil {
				return removed, err
			}
			if gone {
				removed++
			}
		}
	}
	return removed, nil
}

func (b *blobs) removeUnless(h hash, referred func(hash) (bool, error)) (bool, error) {
	b.mu.Lock() // a call that wants this blob now waits, and then writes it anew
	defer b.mu.Unlock()
	if b.busy[h] > 0 {
		return false, nil
	}
	if is, err := referred(h); is || err != nil {
		return false, err
	}
	fpTrimUnlink.Hit()
	if err := os.Remove(b.path(h)); err != nil {
		return false, err
	}
	return true, nil
}
