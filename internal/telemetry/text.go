package telemetry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
)

// textHandler writes "15:04:05 level message key=value": slog's own text with the noise taken off.
type textHandler struct {
	mu    *sync.Mutex
	buf   *bytes.Buffer
	w     io.Writer
	inner slog.Handler
}

func newTextHandler(w io.Writer, opts *slog.HandlerOptions) *textHandler {
	buf := &bytes.Buffer{}
	inner := *opts
	redact := opts.ReplaceAttr
	inner.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return redact(groups, a)
	}
	return &textHandler{mu: &sync.Mutex{}, buf: buf, w: w, inner: slog.NewTextHandler(buf, &inner)}
}

func (h *textHandler) Enabled(ctx context.Context, l slog.Level) bool { return h.inner.Enabled(ctx, l) }

func (h *textHandler) Handle(ctx context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Reset()
	if err := h.inner.Handle(ctx, r); err != nil {
		return err
	}
	attrs := strings.TrimSpace(h.buf.String())
	line := r.Time.Format("15:04:05") + " " + strings.ToLower(r.Level.String()) + " " + r.Message
	if attrs != "" {
		line += "  " + attrs
	}
	_, err := io.WriteString(h.w, line+"\n")
	return err
}

func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.inner = h.inner.WithAttrs(attrs)
	return &next
}

func (h *textHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.inner = h.inner.WithGroup(name)
	return &next
}
