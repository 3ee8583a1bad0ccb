package cassette

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// Recorder is a model whose traffic is written down.
type Recorder struct {
	model    llm.Model
	redactor *redact.Redactor

	mu   sync.Mutex
	file *os.File
	err  error // of a write that failed: the tape has a gap, so recording is over
}

// Record opens the cassette at path, to which every call of m is added. Close it.
func Record(m llm.Model, path string, r *redact.Redactor) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, &td.Error{Kind: td.Storage, Err: fmt.Errorf("open cassette: %w", err)}
	}
	if err := dropTornLine(f); err != nil {
		_ = f.Close()
		return nil, &td.Error{Kind: td.Storage, Err: fmt.Errorf("mend cassette %s: %w", path, err)}
	}
	return &Recorder{model: m, file: f, redactor: r}, nil
}

// dropTornLine removes what follows the last line end: the rest of a write that a crash cut short.
func dropTornLine(f *os.File) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for at := end; at > 0; {
		n := min(at, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], at-n); err != nil {
			return err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return truncate(f, end, at-n+int64(i)+1)
		}
		at -= n
	}
	return truncate(f, end, 0)
}

func truncate(f *os.File, from, to int64) error {
	if from == to {
		return nil
	}
	return f.Truncate(to)
}

// Provider is that of the model that is recorded.
func (c *Recorder) Provider() string { return c.model.Provider() }

// Close ends the recording. A call that is still on its way fails when it is to be written down.
func (c *Recorder) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.file.Close()
}

// Stream makes the call and writes it down. A call that the caller gave up on says nothing about the
// model and is left out.
func (c *Recorder) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	start := time.Now()
	var deltas []delta
	r, err := c.model.Stream(ctx, req, func(d llm.Delta) {
		deltas = append(deltas, delta{time.Since(start), d.Kind, d.Text})
		if emit != nil {
			emit(d)
		}
	})
	e := entry{Provider: c.model.Provider(), Request: newRequest(req, c.redactor), Deltas: cleanDeltas(deltas, c.redactor)}
	e.Hash = e.Request.hash()
	if err == nil {
		e.Response = newResponse(r, time.Since(start), c.redactor)
	} else if f, ok := errors.AsType[*llm.Error](err); ok {
		e.Error = newFailure(f, c.redactor)
	} else {
		return r, err
	}
	if werr := c.write(e); werr != nil {
		return llm.Response{}, &llm.Error{Class: td.BadRequest, Hint: "free the disk, or turn the cassette off in the config", Err: werr}
	}
	return r, err
}

func (c *Recorder) write(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode cassette line: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if _, err = c.file.Write(append(line, '\n')); err == nil {
		err = c.file.Sync()
	}
	if err != nil {
		c.err = fmt.Errorf("write cassette: %w", err)
	}
	return c.err
}
