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

// ahead is how many items are pulled before the client has read the first: enough to fill a packet,
// too few to matter.
const ahead = 64

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
	huma.Register(a, op, func(ctx context.Context, in *eventQuery) (*huma.StreamResponse, error) {
		q, err := in.query()
		if err != nil {
			return nil, fail(err)
		}
		// A wrong name is an answer with a status, not a stream that ends at once.
		for _, ref := range q.Refs {
			if _, err := s.svc.Task(ctx, ref); err != nil {
				return nil, fail(err)
			}
		}
		return &huma.StreamResponse{Body: func(hc huma.Context) {
			r, w := humago.Unwrap(hc)
			s.stream(r.Context(), w, q)
		}}, nil
	})
}

// stream writes what the service yields until one of them ends. Only this goroutine writes; another
// pulls, because a pull may wait for ever and signs of life must go out meanwhile.
func (s *server) stream(ctx context.Context, w http.ResponseWriter, q api.EventQuery) {
	ctx, cancel := context.WithCancel(ctx)
	var pulling sync.WaitGroup
	defer pulling.Wait()
	defer cancel()

	out := s.newStreamWriter(w)
	if out.begin() != nil {
		return
	}
	items := make(chan pulled, ahead)
	pulling.Go(func() { s.pull(ctx, q, items) })
	beat := time.NewTicker(s.opts.Heartbeat)
	defer beat.Stop()
	for {
		var err error
		select {
		case p, ok := <-items:
			err = out.pulled(p, ok)
			for err == nil && len(items) > 0 && len(out.ready) < maxReady { // only this goroutine takes from it
				p, ok = <-items
				err = out.pulled(p, ok)
			}
		case <-beat.C:
			out.comment("here")
		case <-s.stopping:
			err = errors.Join(out.value(wire.StreamError, wire.ErrorOf(errStopping())), errStreamOver)
		case <-ctx.Done():
			return
		}
		if errors.Join(err, out.flush()) != nil { // what is ready goes out together, and before an end of any kind
			return
		}
	}
}

var errStreamOver = errors.New("stream over")

type pulled struct {
	item api.Item
	err  error
}

func (s *server) pull(ctx context.Context, q api.EventQuery, items chan<- pulled) {
	defer close(items)
	for item, err := range s.svc.Events(ctx, q) {
		select {
		case items <- pulled{item, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// streamWriter writes server-sent events, what is there together. Every write has a deadline: a client that does not read is
// left behind.
type streamWriter struct {
	w       http.ResponseWriter
	ctl     *http.ResponseController
	timeout time.Duration
	ready   []byte // not written yet
}

// maxReady is about how much is written together.
const maxReady = 32 << 10

func (s *server) newStreamWriter(w http.ResponseWriter) *streamWriter {
	return &streamWriter{w: w, ctl: http.NewResponseController(w), timeout: s.opts.WriteTimeout}
}

func (o *streamWriter) begin() error {
	o.w.Header().Set("Content-Type", "text/event-stream")
	o.w.Header().Set("Cache-Control", "no-store")
	o.w.WriteHeader(http.StatusOK)
	return o.flush()
}

// pulled writes what was pulled, or that there is no more.
func (o *streamWriter) pulled(p pulled, ok bool) error {
	switch {
	case !ok:
		return errors.Join(o.value(wire.StreamEnd, struct{}{}), errStreamOver)
	case p.err != nil:
		return errors.Join(o.value(wire.StreamError, wire.ErrorOf(p.err)), errStreamOver)
	}
	return o.item(p.item)
}

func (o *streamWriter) item(i api.Item) error {
	switch {
	case i.Event != nil:
		return o.message(wire.StreamEvent, i.Event.Cursor, td.Record{Event: *i.Event, Raw: i.Raw}.AppendJSON)
	case i.Live != nil:
		return o.value(wire.StreamLive, i.Live)
	}
	return nil
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

func (o *streamWriter) comment(text string) { o.ready = append(o.ready, ": "+text+"\n\n"...) }

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
