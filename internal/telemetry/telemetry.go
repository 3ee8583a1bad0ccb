// Package telemetry is what the daemon writes about itself: JSON lines in a file that is rotated by
// size, and, for a daemon in the foreground, plain text for the person in front of it.
//
// Every line passes the redactor it was given before it reaches a file or a terminal. A log that cannot
// be written never stops the daemon: the line is lost and counted, and the count is told later.
package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"taskdaemon/internal/td"
)

// Options says where a log goes.
type Options struct {
	Path    string     // of the JSON file; none when empty
	Level   slog.Level // least important level that is written
	MaxSize int64      // of the file, before it is rotated
	Text    io.Writer  // plain text as well, when not nil
	// Redact takes secrets out of a line; nil takes out nothing.
	Redact func([]byte) []byte
}

// Open makes a logger. Close flushes nothing, for nothing is buffered; it only lets go of the file.
func Open(o Options) (*slog.Logger, io.Closer, error) {
	if o.Redact == nil {
		o.Redact = func(b []byte) []byte { return b }
	}
	opts := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: replace(o.Redact)}
	var handlers fanout
	var closer io.Closer = io.NopCloser(nil)
	if o.Path != "" {
		f, err := openRotating(o.Path, o.MaxSize)
		if err != nil {
			return nil, nil, td.Errorf(td.Storage, "open log: %w", err)
		}
		closer = f
		handlers = append(handlers, slog.NewJSONHandler(redacting{f, o.Redact}, opts))
	}
	if o.Text != nil {
		handlers = append(handlers, newTextHandler(redacting{o.Text, o.Redact}, opts))
	}
	return slog.New(handlers), closer, nil
}

// Level reads a level's name: debug, info, warn or error.
func Level(name string) (slog.Level, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		return 0, td.Errorf(td.Invalid, "log level %q: want debug, info, warn or error", name)
	}
	return l, nil
}

// replace redacts values before they are encoded, where a secret still looks like itself: a quote in it
// would be escaped in the finished line.
func replace(redact func([]byte) []byte) func([]string, slog.Attr) slog.Attr {
	return func(_ []string, a slog.Attr) slog.Attr {
		if k := a.Value.Kind(); k != slog.KindString && k != slog.KindAny {
			return a
		}
		switch v := a.Value.Any().(type) {
		case string:
			a.Value = slog.StringValue(string(redact([]byte(v))))
		case error:
			a.Value = slog.StringValue(string(redact([]byte(v.Error()))))
		case fmt.Stringer:
			a.Value = slog.StringValue(string(redact([]byte(v.String()))))
		}
		return a
	}
}

// redacting cleans each line once more as a whole, for what the encoder put together.
type redacting struct {
	w      io.Writer
	redact func([]byte) []byte
}

func (r redacting) Write(line []byte) (int, error) {
	if _, err := r.w.Write(r.redact(bytes.Clone(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// fanout hands each record to every handler.
type fanout []slog.Handler

func (f fanout) Enabled(ctx context.Context, l slog.Level) bool {
	for _, h := range f {
		if h.Enabled(ctx, l) {
			return true
		}
	}
	return false
}

func (f fanout) Handle(ctx context.Context, r slog.Record) error {
	var errs []error
	for _, h := range f {
		if h.Enabled(ctx, r.Level) {
			errs = append(errs, h.Handle(ctx, r.Clone()))
		}
	}
	return errors.Join(errs...)
}

func (f fanout) WithAttrs(attrs []slog.Attr) slog.Handler {
	return f.each(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

func (f fanout) WithGroup(name string) slog.Handler {
	return f.each(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (f fanout) each(wrap func(slog.Handler) slog.Handler) fanout {
	next := make(fanout, len(f))
	for i, h := range f {
		next[i] = wrap(h)
	}
	return next
}
