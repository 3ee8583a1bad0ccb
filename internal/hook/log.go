package hook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/td"
)

var (
	fpLogBeforeWrite = failpoint.New("hook.log.before_write")
	fpLogWritten     = failpoint.New("hook.log.written")
)

// Logged is one line of the file that Log writes.
type Logged struct {
	Key     string          `json:"key"` // of the firing
	Payload json.RawMessage `json:"payload"`
}

// Log is a function that appends each firing to a file, as a line of JSON, and decides nothing. Keyed: the
// line carries the firing's key, and a firing that was cut off is looked up before it is written again. The
// line is on disk when Log returns; a line that a crash tore is cut off by the next one.
func Log(path string) Func {
	return func(_ context.Context, p Payload, f Firing) (Result, error) {
		payload, err := Encode(p)
		if err != nil {
			return Result{}, err
		}
		line, err := json.Marshal(Logged{f.Key, payload})
		if err != nil {
			return Result{}, fmt.Errorf("encode the line: %w", err)
		}
		return Result{}, appendLine(path, append(line, '\n'), f)
	}
}

func appendLine(path string, line []byte, f Firing) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return td.Errorf(td.Storage, "make a folder for the log of hooks: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return td.Errorf(td.Storage, "open the log of hooks: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// Loops, and a person who tries a hook, write at the same time. The lock goes with the file.
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return td.Errorf(td.Storage, "lock the log of hooks: %w", err)
	}
	end, known, err := wholeLines(file, f)
	if err == nil && !known {
		if err = file.Truncate(end); err == nil {
			fpLogBeforeWrite.Hit()
			_, err = file.WriteAt(line, end)
			fpLogWritten.Hit()
		}
	}
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return td.Errorf(td.Storage, "write the log of hooks: %w", err)
	}
	return nil
}

// wholeLines is where the last whole line ends, and whether the firing has one. Only for a firing that may be
// there already is the whole file read.
func wholeLines(file *os.File, f Firing) (end int64, known bool, err error) {
	if !f.Again {
		return lastLineEnd(file)
	}
	for r := bufio.NewReader(file); ; {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return end, known, nil
		}
		if err != nil {
			return 0, false, err
		}
		end += int64(len(line))
		var l Logged
		known = known || json.Unmarshal(line, &l) == nil && l.Key == f.Key
	}
}

// lastLineEnd looks for the end of the last whole line from the end of the file.
func lastLineEnd(file *os.File) (end int64, known bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, false, err
	}
	buf := make([]byte, 4<<10)
	for at := info.Size(); at > 0; {
		n := min(at, int64(len(buf)))
		at -= n
		if _, err := file.ReadAt(buf[:n], at); err != nil {
			return 0, false, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return at + int64(i) + 1, false, nil
		}
	}
	return 0, false, nil
}
