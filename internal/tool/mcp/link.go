package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/td"
)

// firstProtocol is what is tried first: every server in use knows its handshake. Some end when they are sent
// the newer one.
const firstProtocol = "2025-11-25"

// maxPages bounds a list of tools that goes on and on.
const maxPages = 50

// wire is the way to a server.
type wire struct {
	transport sdk.Transport
	cut       func()       // breaks it at once: nobody waits for the server any more
	end       func()       // after cut: returns when nothing of it is left
	fault     *reason      // what the server did that made it be given up
	exit      func() error // after end: how its program ended, if it has one
	pid       int
}

// link is a connection to a server that has told its tools.
type link struct {
	wire    *wire
	session *sdk.ClientSession
	grace   time.Duration
	ctx     context.Context // of its calls
	cancel  context.CancelFunc
	users   int // of the host, under its lock
	tasks   sync.WaitGroup
	gone    chan struct{} // closed when the connection has ended
	ended   chan struct{} // closed when nothing of it is left, and err is set
	ending  sync.Once
	broke   error // what the session ended with; set before gone
	err     error // why it ended

	since     time.Time
	handshake time.Duration
	info      info
}

// reason is the first of several.
type reason struct {
	mu  sync.Mutex
	err error
}

func (r *reason) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *reason) get() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// info is what a server says of itself.
type info struct{ protocol, name, version string }

// dial connects to a server and asks for its tools. When it fails, nothing is left of the server.
func dial(ctx context.Context, open func() (*wire, error), lim limits, changed func()) (*link, []*sdk.Tool, error) {
	l, tools, err := dialAs(ctx, firstProtocol, open, lim, changed)
	if _, refused := refusal(err); refused && ctx.Err() == nil {
		l, tools, err = dialAs(ctx, "", open, lim, changed) // the newest
	}
	return l, tools, err
}

func dialAs(ctx context.Context, protocol string, open func() (*wire, error), lim limits, changed func()) (*link, []*sdk.Tool, error) {
	begin := time.Now()
	w, err := open()
	if err != nil {
		return nil, nil, err
	}
	uncut := context.AfterFunc(ctx, w.cut) // not everything in the library heeds a context
	client := sdk.NewClient(&sdk.Implementation{Name: "taskdaemon", Version: "1"}, &sdk.ClientOptions{
		Logger:       slog.New(slog.DiscardHandler),
		Capabilities: &sdk.ClientCapabilities{},
		// An answer that asks for more would be answered by calling again.
		MultiRoundTrip:         &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed() },
	})
	session, err := client.Connect(ctx, w.transport, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		uncut()
		w.cut()
		w.end()
		return nil, nil, failure(ctx, "shake hands", err, w)
	}
	l := &link{wire: w, session: session, grace: lim.grace, gone: make(chan struct{}), ended: make(chan struct{}), since: begin}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.tasks.Go(func() {
		l.broke = session.Wait()
		close(l.gone)
	})
	if r := session.InitializeResult(); r != nil {
		l.info.protocol = r.ProtocolVersion
		if r.ServerInfo != nil {
			l.info.name, l.info.version = cut(r.ServerInfo.Name, 100), cut(r.ServerInfo.Version, 100)
		}
	}
	tools, err := l.list(ctx)
	if !uncut() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		l.end()
		return nil, nil, failure(ctx, "list tools", err, w)
	}
	l.handshake = time.Since(begin)
	return l, tools, nil
}

// failure says why a server did not come up.
func failure(ctx context.Context, doing string, err error, w *wire) error {
	switch cause := context.Cause(ctx); {
	case cause != nil:
		err = cause
	default:
		err = w.why(err)
	}
	if _, ok := errors.AsType[*td.Error](err); ok {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return td.Errorf(td.Unavailable, "%s: %w", doing, err)
}

// tells reports whether an error says more than that the other end is gone, or that this one has hung up.
func tells(err error) bool {
	if err == nil {
		return false
	}
	for _, mute := range []error{io.EOF, os.ErrClosed, os.ErrDeadlineExceeded, syscall.EPIPE, context.Canceled, errEnded} {
		if errors.Is(err, mute) {
			return false
		}
	}
	return true
}

// why is what tells most of the end of a connection that broke with err.
func (w *wire) why(err error) error {
	if fault := w.fault.get(); fault != nil {
		return fault
	}
	if tells(err) {
		return err
	}
	if exit := w.exit(); exit != nil {
		return exit
	}
	return errors.New("it closed the connection")
}

// refusal is the server's own error in err, if it gave one. The library has errors of the same type for answers that
// never came.
func refusal(err error) (*jsonrpc.Error, bool) {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	return e, ok && e.Code != codeRejected
}

const codeRejected = -32005

// list asks for the tools.
func (l *link) list(ctx context.Context) ([]*sdk.Tool, error) {
	if r := l.session.InitializeResult(); r != nil && r.Capabilities != nil && r.Capabilities.Tools == nil {
		return nil, nil
	}
	return ask(ctx, l, func(ctx context.Context) ([]*sdk.Tool, error) {
		var all []*sdk.Tool
		params := &sdk.ListToolsParams{}
		for range maxPages {
			page, err := l.session.ListTools(ctx, params)
			if err != nil {
				return nil, err
			}
			all = append(all, page.Tools...)
			if page.NextCursor == "" || len(all) > 2*maxTools {
				break
			}
			params.Cursor = page.NextCursor
		}
		return all, nil
	})
}

// call sends a call, once, and waits for the answer.
func (l *link) call(ctx context.Context, name string, input json.RawMessage) (*sdk.CallToolResult, error) {
	return ask(ctx, l, func(ctx context.Context) (*sdk.CallToolResult, error) {
		return l.session.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: input})
	})
}

// ask puts a question to the server and waits for the answer, the end of ctx or that of the link. A question that
// nobody waits for is left to the library, which tells the server.
func ask[A any](ctx context.Context, l *link, question func(context.Context) (A, error)) (A, error) {
	type answer struct {
		a   A
		err error
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(l.ctx, func() { cancel(errEnded) })
	answered := make(chan answer, 1)
	l.tasks.Go(func() {
		defer cancel(nil)
		defer unhook()
		// It may be stuck where it does not heed ctx: behind others that write to a server that does not read.
		a, err := question(ctx)
		answered <- answer{a, err}
	})
	select {
	case got := <-answered:
		return got.a, got.err
	case <-ctx.Done():
	}
	select {
	case got := <-answered: // it came at the last moment
		return got.a, got.err
	default:
		var none A
		return none, context.Cause(ctx)
	}
}

var errEnded = errors.New("the server was ended")

// end closes the connection and returns when nothing of the server is left. Others may call it meanwhile.
func (l *link) end() {
	l.ending.Do(func() {
		select {
		case <-l.gone: // all that is under way ends by itself, and knows better why
		default:
			l.cancel()
		}
		closed := make(chan struct{})
		l.tasks.Go(func() {
			defer close(closed)
			_ = l.session.Close()
		})
		patience := time.NewTimer(l.grace)
		defer patience.Stop()
		select {
		case <-closed:
		case <-patience.C:
		}
		l.wire.cut()
		l.wire.end()
		l.tasks.Wait()
		l.cancel()
		l.err = l.wire.why(l.broke)
		close(l.ended)
	})
	<-l.ended
}
