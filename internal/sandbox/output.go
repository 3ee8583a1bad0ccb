package sandbox

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"taskdaemon/internal/td"
)

// OutputCap is how much of a command's output is kept on disk; beyond it only the tail is.
const OutputCap = 8 << 20

// How much of the output a result holds.
const (
	headSize = 32 << 10
	tailSize = 32 << 10
)

// recorder takes a command's output: the first part to a file, all of it past a ring, so that neither
// disk nor memory grow with a flood.
type recorder struct {
	file  *os.File
	full  bool // the file takes no more: the cap is reached, or the disk refused
	total int64
	head  []byte
	ring  []byte // the last tailSize bytes after the head, once filled; next is where it goes on
	next  int
}

// Write never fails: a command's output must not stop because nobody can keep it.
func (r *recorder) Write(p []byte) (int, error) {
	n := len(p)
	if !r.full {
		keep := p[:min(int64(n), OutputCap-r.total)]
		if _, err := r.file.Write(keep); err != nil || len(keep) < n {
			r.full = true
		}
	}
	r.total += int64(n)
	if room := headSize - len(r.head); room > 0 {
		k := min(room, len(p))
		r.head = append(r.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > tailSize {
		p = p[len(p)-tailSize:]
	}
	for len(p) > 0 {
		if len(r.ring) < tailSize {
			k := min(tailSize-len(r.ring), len(p))
			r.ring = append(r.ring, p[:k]...)
			p = p[k:]
			continue
		}
		k := copy(r.ring[r.next:], p)
		r.next = (r.next + k) % tailSize
		p = p[k:]
	}
	return n, nil
}

// result fills in what a result says of the output.
func (r *recorder) result(res *ProcessResult) {
	res.Head = r.head
	res.Tail = append(append([]byte(nil), r.ring[r.next:]...), r.ring[:r.next]...)
	res.Omitted = r.total - int64(len(res.Head)) - int64(len(res.Tail))
}

// sync makes the file durable, unless the result holds all of it anyway.
func (r *recorder) sync() {
	if r.total > headSize+tailSize {
		_ = r.file.Sync()
	}
}

// readOutput reads what a folder's command has written so far.
func readOutput(dir string, offset int64, limit int) ([]byte, int64, error) {
	if offset < 0 || limit < 0 {
		return nil, offset, td.Errorf(td.Invalid, "read output from %d, at most %d: negative", offset, limit)
	}
	f, err := os.Open(filepath.Join(dir, outFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, offset, nil
	}
	if err != nil {
		return nil, offset, td.Errorf(td.Storage, "open output: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, offset, td.Errorf(td.Storage, "stat output: %w", err)
	}
	buf := make([]byte, max(0, min(int64(limit), info.Size()-offset)))
	n, err := f.ReadAt(buf, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, offset, td.Errorf(td.Storage, "read output: %w", err)
	}
	return buf[:n], offset + int64(n), nil
}

// emitOutput hands on what was written from offset on, and returns the offset to go on from.
func emitOutput(dir string, offset int64, emit func([]byte)) int64 {
	for emit != nil {
		chunk, next, err := readOutput(dir, offset, headSize)
		if err != nil || len(chunk) == 0 {
			break // a viewer's stream is worth no failure; the result has the output
		}
		emit(chunk)
		offset = next
	}
	return offset
}
