package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

var (
	errSilent = errors.New("nothing came any more")
	errDrips  = errors.New("the answer does not get on")
	errLasts  = errors.New("the answer takes too long")
	// errEndless is an answer that no window holds.
	errEndless = fmt.Errorf("the answer is longer than %d MiB", MaxContent>>20)
)

// Patience is how long a call may take.
type Patience struct {
	Header   time.Duration // until its answer begins
	Idle     time.Duration // without a byte
	Progress time.Duration // with less than a letter of content a second: comments, pings and empty events are none
	Total    time.Duration // in all
}

// The patience with every provider. A tool call's input may come in one piece after minutes of pings.
const (
	DefaultProgress = 10 * time.Minute
	DefaultTotal    = time.Hour
)

// Watch gives a call up when nothing comes. It is of one call and one goroutine.
type Watch struct {
	ctx    context.Context // ends when the caller gives up, or the watch does
	cancel context.CancelCauseFunc
	timer  *time.Timer // cancels ctx
	total  *time.Timer // likewise
	steady *time.Timer // likewise, once there is a response

	Patience
	content atomic.Int64 // letters since steady last looked
	whole   int          // letters of all
	began   bool         // there is a response
	drains  bool         // the answer is there: no byte buys more time
	closer  io.Closer
}

// NewWatch begins to watch over a call. End it.
func NewWatch(ctx context.Context, p Patience) *Watch {
	w := &Watch{Patience: p}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(p.Header, func() { w.cancel(errSilent) })
	w.total = time.AfterFunc(p.Total, func() { w.cancel(errLasts) })
	w.steady = time.AfterFunc(p.Total, w.look) // it looks for the first time when there is a response
	w.steady.Stop()
	return w
}

// Came says that so many bytes of content came: of text, of a thought, of a tool call.
// After MaxContent of them the call is given up.
func (w *Watch) Came(n int) {
	w.content.Add(int64(n))
	if w.whole += n; w.Full() {
		w.cancel(errEndless)
	}
}

// Letters is how much content came, in bytes.
func (w *Watch) Letters() int { return w.whole }

// Full reports that more than MaxContent came. An answer that came in one piece may be complete all the same, and does not count.
func (w *Watch) Full() bool { return w.whole > MaxContent }

// look gives the call up if too little content came since the last look.
func (w *Watch) look() {
	if w.content.Swap(0) < max(1, int64(w.Progress.Seconds())) {
		w.cancel(errDrips)
		return
	}
	w.steady.Reset(w.Progress)
}

// Context is what the call is to be made with.
func (w *Watch) Context() context.Context { return w.ctx }

// Over puts the watch on a response: each byte of its body puts off the end of the watch's patience, and
// after MaxAnswer bytes there is none left.
func (w *Watch) Over(res *http.Response) {
	w.began, w.closer = true, res.Body
	w.content.Store(0)
	w.steady.Reset(w.Progress)
	res.Body = &watched{ReadCloser: res.Body, watch: w, left: MaxAnswer}
}

// Hurry says that what can still come is worth only so much patience, whatever comes.
func (w *Watch) Hurry(patience time.Duration) {
	w.drains = true
	w.steady.Stop()
	w.timer.Reset(patience)
}

// Silence is the error of a call that the watch gave up, or nil.
func (w *Watch) Silence() *llm.Error {
	var hint string
	err := context.Cause(w.ctx)
	switch {
	case errors.Is(err, errDrips):
		err = fmt.Errorf("%w: less than a letter a second in %v", err, w.Progress)
		hint = "if this model is that slow, raise timeouts.stream_progress in the config"
	case errors.Is(err, errLasts):
		err = fmt.Errorf("%w: more than %v", err, w.Total)
		hint = "if this model needs that long, raise timeouts.request in the config, or lower max_tokens"
	case errors.Is(err, errEndless):
		return Endless(err)
	case !errors.Is(err, errSilent):
		return nil
	case w.began:
		err = fmt.Errorf("%w for %v", err, w.Idle)
	default:
		err = fmt.Errorf("%w for %v", err, w.Header)
	}
	return &llm.Error{Class: td.Network, Err: err, Hint: hint}
}

// End ends the watch, and the call with it.
func (w *Watch) End() {
	w.timer.Stop()
	w.total.Stop()
	w.steady.Stop()
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
		b.watch.timer.Reset(b.watch.Idle)
	}
	if b.watch.ctx.Err() != nil { // whatever is still buffered
		return 0, context.Cause(b.watch.ctx)
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, ErrTooLong
	}
	return n, err
}
