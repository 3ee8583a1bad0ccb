package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/td"
)

type eventQuery struct {
	Refs   []string  `query:"ref" doc:"Only events of these tasks."`
	Types  []string  `query:"type" doc:"Only events of these types."`
	After  uint64    `query:"after" doc:"Only events with a greater cursor."`
	Last   string    `header:"Last-Event-ID" doc:"The same as after, and stronger: a browser sends it when it comes back."`
	Tail   bool      `query:"tail" doc:"Begin at the present end."`
	Live   bool      `query:"live" doc:"Also what is not journaled: pieces of answers and of output on their way."`
	Follow bool      `query:"follow" doc:"Stay and wait for more."`
	Since  time.Time `query:"since" doc:"Only events not older than this."`
}

func (q *eventQuery) query() (api.EventQuery, error) {
	out := api.EventQuery{
		Refs: q.Refs, Types: words[td.EventType](q.Types), After: q.After,
		Tail: q.Tail, Live: q.Live, Follow: q.Follow, Since: q.Since,
	}
	if q.Last != "" {
		at, err := strconv.ParseUint(q.Last, 10, 64)
		if err != nil {
			return out, td.Errorf(td.Invalid, "Last-Event-ID %.40q is not a cursor", q.Last)
		}
		out.After, out.Tail = at, false
	}
	return out, nil
}

func (s *server) registerEvents(a huma.API, op huma.Operation) {
	schemas := a.OpenAPI().Components.Schemas
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Messages named event (with an id), live, and at the end either error or end. Lines that begin with a colon are signs of life.",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{OneOf: []*huma.Schema{
			schemas.Schema(reflect.TypeFor[Event](), true, "Event"),
			schemas.Schema(reflect.TypeFor[api.Live](), true, "Live"),
			schemas.Schema(reflect.TypeFor[wire.Error](), true, "Error"),
		}}}},
	}}
	huma.Register(a, op, func(_ context.Context, in *eventQuery) (*huma.StreamResponse, error) {
		q, err := in.query()
		if err != nil {
			return nil, fail(err)
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			if err := s.stream(r.Context(), w, q); err != nil {
				writeFailure(w, err)
			}
		}}, nil
	})
}

// stream writes what the service yields until one of them ends. It returns the error of a service that cannot even begin, because of
// a wrong name perhaps: that is an answer with a status, not a stream that ends at once.
func (s *server) stream(ctx context.Context, w http.ResponseWriter, q api.EventQuery) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)

	q.Pauses = true
	out, begun := s.newStreamWriter(w), false
	var failed error
	for item, err := range s.svc.Events(ctx, q) {
		if failed = err; err != nil {
			break
		}
		if !begun {
			begun = true
			out.begin()
			watching.Go(func() { s.watch(ctx, cancel, out) })
		}
		if out.item(item) != nil {
			return nil
		}
	}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopped):
		failed = errStopping()
	case cause != nil:
		return nil // there is nobody left to tell
	}
	switch {
	case failed == nil:
		if !begun {
			out.begin()
		}
		_ = out.end(wire.StreamEnd, struct{}{})
	case begun:
		_ = out.end(wire.StreamError, wire.ErrorOf(failed))
	default:
		return failed
	}
	return nil
}

var errStopped = errors.New("the server stops")

// watch gives signs of life while nothing happens, and ends the stream when the server stops.
func (s *server) watch(ctx context.Context, end context.CancelCauseFunc, out *streamWriter) {
	beat := time.NewTicker(s.opts.Heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
			if err := out.comment("here"); err != nil {
				end(err)
			}
		case <-s.stopping:
			end(errStopped)
			return
		case <-ctx.Done():
			return
		}
	}
}

// streamWriter writes server-sent events, what was at hand together. Every write has a deadline: a client that does not read is
// left behind. Its methods may be called from any goroutine.
type streamWriter struct {
	w       http.ResponseWriter
	ctl     *http.ResponseController
	timeout time.Duration

	mu    sync.Mutex
	ready []byte // not written yet
}

// maxReady is about how much is written together.
const maxReady = 32 << 10

func (s *server) newStreamWriter(w http.ResponseWriter) *streamWriter {
	return &streamWriter{w: w, ctl: http.NewResponseController(w), timeout: s.opts.WriteTimeout}
}

func (o *streamWriter) begin() {
	o.w.Header().Set("Content-Type", "text/event-stream")
	o.w.Header().Set("Cache-Control", "no-store")
	o.w.Header().Set("Transfer-Encoding", "identity") // in chunks each message would be three writes, and wake its reader as often
	o.w.WriteHeader(http.StatusOK)
}

// item makes an event or a live piece ready; one that is neither is a pause.
func (o *streamWriter) item(i api.Item) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	switch {
	case i.Event != nil:
		err = o.message(wire.StreamEvent, i.Event.Cursor, td.Record{Event: *i.Event, Raw: i.Raw}.AppendJSON)
	case i.Live != nil:
		err = o.value(wire.StreamLive, i.Live)
	default:
		return o.flush()
	}
	if err != nil || len(o.ready) > maxReady {
		err = errors.Join(err, o.flush())
	}
	return err
}

// end writes the last message.
func (o *streamWriter) end(name string, v any) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(o.value(name, v), o.flush())
}

// comment writes a line that clients pass over.
func (o *streamWriter) comment(text string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ready = append(o.ready, ": "+text+"\n\n"...)
	return o.flush()
}

func (o *streamWriter) value(name string, v any) error {
	return o.message(name, 0, func(to []byte) ([]byte, error) {
		raw, err := json.Marshal(v)
		return append(to, raw...), err
	})
}

// message makes a server-sent event ready, or nothing of it.
func (o *streamWriter) message(name string, id uint64, appendData func([]byte) ([]byte, error)) error {
	b := o.ready
	if id > 0 {
		b = append(strconv.AppendUint(append(b, "id: "...), id, 10), '\n')
	}
	b = append(append(append(b, "event: "...), name...), "\ndata: "...)
	b, err := appendData(b)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	o.ready = append(b, "\n\n"...)
	return nil
}

// flush writes what is ready.
func (o *streamWriter) flush() error {
	if err := o.ctl.SetWriteDeadline(time.Now().Add(o.timeout)); err != nil {
		return err
	}
	_, err := o.w.Write(o.ready)
	if o.ready = o.ready[:0]; cap(o.ready) > 2*maxReady {
		o.ready = nil // one large event is not remembered for ever
	}
	return errors.Join(err, o.ctl.Flush())
}
