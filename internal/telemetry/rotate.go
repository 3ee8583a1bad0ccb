package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// Kept is how many rotated files stay beside the current one: name.1 is the newest.
const Kept = 3

// defaultMaxSize is used when nobody names a size.
const defaultMaxSize = 10 << 20

// rotating is an append-only file that starts anew when it is full.
type rotating struct {
	path string
	max  int64

	mu   sync.Mutex
	f    *os.File
	size int64
	lost int // lines that could not be written since the last one that could
}

func openRotating(path string, maxSize int64) (*rotating, error) {
	if maxSize <= 0 {
		maxSize = defaultMaxSize
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	r := &rotating{path: path, max: maxSize}
	return r, r.open()
}

func (r *rotating) open() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r.f, r.size = f, info.Size()
	return nil
}

// Write appends one line. It never splits a line between two files.
func (r *rotating) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return 0, os.ErrClosed
	}
	if r.size > 0 && r.size+int64(len(line)) > r.max {
		r.rotate()
	}
	if r.lost > 0 {
		n, err := fmt.Fprintf(r.f, `{"level":"WARN","msg":"log lines lost","lines":%d}`+"\n", r.lost)
		r.size += int64(n)
		if err == nil {
			r.lost = 0
		}
	}
	n, err := r.f.Write(line)
	r.size += int64(n)
	if err != nil {
		r.lost++
	}
	return n, err
}

// rotate moves every file one place on. When that fails it goes on with the full one: a log that is too
// long is better than none.
func (r *rotating) rotate() {
	for i := Kept - 1; i >= 1; i-- {
		_ = os.Rename(fmt.Sprintf("%s.%d", r.path, i), fmt.Sprintf("%s.%d", r.path, i+1))
	}
	if err := os.Rename(r.path, r.path+".1"); err != nil {
		return
	}
	old := r.f
	if err := r.open(); err != nil {
		r.f = old
		return
	}
	_ = old.Close()
}

// Close lets go of the file.
func (r *rotating) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil {
		return nil
	}
	err := r.f.Close()
	r.f = nil
	return err
}
