package sqlite

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"sync"
)

// packOver is the length from which bodies are packed. Most of what a task leaves is the context that it begins with, which is text.
// Short ones gain little, and there are many of them in each turn.
const packOver = 4 << 10

// packed stands before a body that was packed with flate. No JSON begins with it.
const packed = 1

var packers = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // it knows its own levels
	}
	return w
}}

// pack makes a body smaller, if it can; nil says that it is stored as it is.
func pack(raw []byte) ([]byte, error) {
	if len(raw) <= packOver {
		return nil, nil
	}
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	out := bytes.NewBuffer(make([]byte, 0, len(raw)/2))
	out.WriteByte(packed)
	w.Reset(out)
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if out.Len() >= len(raw) {
		return nil, nil
	}
	return out.Bytes(), nil
}

// unpack is the body that is stored so, of this size.
func unpack(stored []byte, size int64) ([]byte, error) {
	if len(stored) == 0 || stored[0] != packed {
		return stored, nil
	}
	r := flate.NewReader(bytes.NewReader(stored[1:]))
	raw, err := io.ReadAll(io.LimitReader(r, min(size, blobOver)+1)) // what is larger is in a blob
	if err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	}
	if int64(len(raw)) != size {
		return nil, fmt.Errorf("unpacked it is not of %d bytes", size)
	}
	return raw, nil
}
