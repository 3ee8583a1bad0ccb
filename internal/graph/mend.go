package graph

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/jsonl"
	"taskdaemon/internal/td"
)

// mendedLog is what the bytes of a log hash to that was mended: what the index knows beyond that came of the damage.
const mendedLog = "mended"

// Mended is what became of a damaged log.
type Mended struct {
	Tasks int    // that something was written again of
	Lines int    // that were taken out of it
	Aside string // where these are kept
}

// Mend writes what was lost into the log again, each change with the time it was made at, and takes out of it what is no change: lines that cannot be read, a last one
// without its end, and lines that say something else than the change that they were. Those are kept in a file beside the index.
func (s *Store) Mend(ctx context.Context) (m Mended, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := openLog(s.path, true)
	if err != nil {
		return m, err
	}
	defer l.close()
	if err := s.catchUp(ctx, l); err != nil {
		return m, err
	}
	gone, err := s.missing()
	if err != nil {
		return m, err
	}
	kept, out, lines, err := s.sift(l, gone)
	if err != nil || lines == 0 && len(gone) == 0 {
		return m, err
	}
	for _, r := range gone {
		if kept, err = jsonl.Append(kept, r.Change()); err != nil {
			return m, td.Errorf(td.Invalid, "write down a change: %w", err)
		}
	}
	m = Mended{Tasks: len(gone), Lines: lines}
	if lines > 0 {
		m.Aside = strings.TrimSuffix(s.index.path, ".db") + ".damaged.jsonl"
		if err := keepAside(m.Aside, out); err != nil {
			return Mended{}, err
		}
	}
	h := sha256.New()
	_, _ = h.Write(kept)
	if err := s.index.put(mendedLog, state(h)); err != nil {
		return Mended{}, td.Errorf(td.Storage, "write the index of %s: %w", s.path, err)
	}
	if err := l.replace(kept); err != nil {
		return Mended{}, err
	}
	fresh, err := openLog(s.path, false)
	if err != nil {
		return m, err
	}
	defer fresh.close()
	return m, s.catchUp(ctx, fresh)
}

// sift parts the lines of a log that stay from those that are taken out of it, and says how many these are.
func (s *Store) sift(l *log, gone []*jsonl.Record) (kept, out []byte, lines int, err error) {
	whole, err := io.ReadAll(io.NewSectionReader(l.f, 0, 1<<62))
	if err != nil {
		return nil, nil, 0, fileError("read", s.path, err)
	}
	there := map[jsonl.Stamp]bool{}
	if err := eachLine(whole, func(e jsonl.Entry, _ []byte) { there[e.Change.Op] = e.Bad == nil && !e.Torn }); err != nil {
		return nil, nil, 0, fileError("read", s.path, err)
	}
	err = eachLine(whole, func(e jsonl.Entry, raw []byte) {
		if e.Bad != nil || e.Torn || slices.ContainsFunc(gone, func(r *jsonl.Record) bool { return altered(r, there, e.Change) }) {
			out, lines = append(out, raw...), lines+1
		} else {
			kept = append(kept, raw...)
		}
	})
	if err != nil {
		return nil, nil, 0, fileError("read", s.path, err)
	}
	return kept, out, lines, nil
}

// eachLine visits the lines of a log that are not blank, each with its end.
func eachLine(whole []byte, visit func(jsonl.Entry, []byte)) error {
	for e, err := range jsonl.Read(strings.NewReader(string(whole)), jsonl.Place{}) {
		if err != nil {
			return err
		}
		raw := whole[e.Offset:]
		if e.Next.Offset > e.Offset {
			raw = raw[:e.Next.Offset-e.Offset]
		} else {
			raw = append(slices.Clip(raw), '\n')
		}
		visit(e, raw)
	}
	return nil
}

// altered reports whether a line of the log is what became of a change that is lost.
func altered(lost *jsonl.Record, there map[jsonl.Stamp]bool, c jsonl.Change) bool {
	if lost.Refutes(c) {
		return true
	}
	for op := range lost.Ops() {
		if !there[op] && lost.Repeats(op, c) {
			return true
		}
	}
	return false
}

// keepAside adds bytes to a file, durably.
func keepAside(path string, raw []byte) error {
	if err := addTo(path, raw); err != nil {
		return td.Errorf(td.Storage, "keep damaged lines of the plan: %w", err).WithHint("make room for %s and try again: nothing was changed", path)
	}
	return nil
}

func addTo(path string, raw []byte) error {
	dir, err := beneath.OpenResolved(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	f, err := dir.Append(filepath.Base(path), 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close(), dir.Sync())
}
