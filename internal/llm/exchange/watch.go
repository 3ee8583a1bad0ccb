package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

var errSilent = errors.New("nothing came any more")

// Watch gives a call up when nothing comes. It is of one call and one goroutine.
type Watch struct {
	ctx    context.Context // ends when the caller gives up, or the watch does
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels ctx

	header, idle time.Duration
	began        bool // there is a response
	drains       bool // the answer is there: no byte buys more time
	closer       io.Closer
}

// NewWatch begins to watch over a call: its answer must begin within header, and not be silent for idle.
// End it.
func NewWatch(ctx context.Context, header, idle time.Duration) *Watch {
	w := &Watch{header: header, idle: idle}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(header, func() { w.cancel(errSilent) })
	return w
}

// Context is what the call is to be made with.
func (w *Watch) Context() context.Context { return w.ctx }

// Over puts the watch on a response: each byte of its body puts off the end of the watch's patience, and
// after MaxAnswer bytes there is none left.
func (w *Watch) Over(res *http.Response) {
	w.began, w.closer = true, res.Body
	res.Body = &watched{ReadCloser: res.Body, watch: w, left: MaxAnswer}
}

// Hurry says that what can still come is worth only so much patience, whatever comes.
func (w *Watch) Hurry(patience time.Duration) {
	w.drains = true
	w.timer.Reset(patience)
}

// Silence is the error of a call that the watch gave up, or nil.
func (w *Watch) Silence() error {
	switch {
	case !errors.Is(context.Cause(w.ctx), errSilent):
		return nil
	case w.began:
		return fmt.Errorf("%w for %v", errSilent, w.idle)
	default:
		return fmt.Errorf("%w for %v", errSilent, w.header)
	}
}

// End ends the watch, and the call with it.
func (w *Watch) End() {
	w.timer.Stop()
	w.cancel(nil)
	if w.closer != nil {
		_ = w.closer.Close()
	}
}

type watched struct {
	io.ReadCloser
	watch *Watch
	left  int
}

func (b *watched) Read(p []byte) (int, error) {
	if !b.watch.drains {
		b.watch.timer.Reset(b.watch.idle)
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, ErrTooLong
	}
	return n, err
}
