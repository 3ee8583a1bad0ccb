package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/sse"
	"taskdaemon/internal/td"
)

// maxMessage bounds one message of a stream.
const maxMessage = 256 << 20

// Events yields what the daemon's stream yields. With Options.Redial it goes on over the loss of the
// daemon, after the last journaled event it yielded; a query with Tail that has not yielded one yet
// begins at the new end. It ends without an error when ctx ends.
func (c *Client) Events(ctx context.Context, q api.EventQuery) iter.Seq2[api.Item, error] {
	return func(yield func(api.Item, error) bool) {
		for {
			err := c.stream(ctx, &q, yield)
			if err == nil || errors.Is(err, errEnough) || ctx.Err() != nil {
				return
			}
			if c.opts.Redial == nil || !recoverable(err) {
				yield(api.Item{}, err)
				return
			}
			if err := c.opts.Redial(ctx, err); err != nil {
				if ctx.Err() == nil {
					yield(api.Item{}, err)
				}
				return
			}
		}
	}
}

// recoverable reports whether another daemon, or the same one later, may give what this one did not.
func recoverable(err error) bool {
	k := td.KindOf(err)
	return k == td.Unavailable || k == td.Interrupted || k == td.Timeout
}

// errEnough: the caller wants no more.
var errEnough = errors.New("enough")

func (c *Client) stream(ctx context.Context, q *api.EventQuery, yield func(api.Item, error) bool) error {
	ctx, w := c.watch(ctx)
	defer w.end() // ends the request when the caller has enough
	resp, err := c.send(ctx, http.MethodGet, "/v1/events?"+encodeQuery(*q), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	w.every.Store(int64(c.patience.stream))
	r := sse.NewReader(bufio.NewReaderSize(counted{resp.Body, w}, 32<<10), maxMessage)
	for {
		m, err := r.Next()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF // it says when it has ended
		}
		if told, ok := errors.AsType[*td.Error](context.Cause(ctx)); ok && err != nil {
			return told
		}
		if err != nil {
			return td.Errorf(td.Unavailable, "the connection to the daemon was lost: %w", err).
				WithHint("taskdaemon daemon start")
		}
		item, err := decode(m)
		if err != nil {
			return err
		}
		if string(m.Name) == wire.StreamEnd {
			return nil
		}
		if item.Event == nil && item.Live == nil {
			continue // of a newer daemon
		}
		if item.Event != nil && item.Event.Cursor > 0 {
			q.After, q.Tail = item.Event.Cursor, false
		}
		if !yield(item, nil) {
			return errEnough
		}
	}
}

// decode reads one message of the stream; what it does not know is no item.
func decode(m sse.Event) (api.Item, error) {
	var err error
	switch string(m.Name) {
	case wire.StreamEvent:
		var ev td.Event
		if err = json.Unmarshal(m.Data, &ev); err == nil {
			return api.Item{Event: &ev}, nil
		}
	case wire.StreamLive:
		var live api.Live
		if err = json.Unmarshal(m.Data, &live); err == nil {
			return api.Item{Live: &live}, nil
		}
	case wire.StreamError:
		var e wire.Error
		if err = json.Unmarshal(m.Data, &e); err == nil {
			return api.Item{}, e.Err()
		}
	default:
		return api.Item{}, nil
	}
	return api.Item{}, td.Errorf(td.Internal, "read the daemon's stream: %w", fmt.Errorf("message %q: %w", m.Name, err))
}

func encodeQuery(q api.EventQuery) string {
	v := url.Values{}
	addList(v, "ref", q.Refs)
	addList(v, "type", q.Types)
	if q.After > 0 {
		v.Set("after", strconv.FormatUint(q.After, 10))
	}
	for name, on := range map[string]bool{"tail": q.Tail, "live": q.Live, "follow": q.Follow} {
		if on {
			v.Set(name, "true")
		}
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	return v.Encode()
}
