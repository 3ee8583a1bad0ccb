// Package server offers an api.Service as HTTP and JSON over a unix socket, and over TCP to who shows a token (U-2).
//
// The socket is the user's alone: mode 0600 in a folder of mode 0700, and each peer's uid is checked. What comes over TCP
// is refused before anything of it is read but its head, unless it has the token.
// Nothing a client does slows the service: streams are pulled, one item at a time, and a client that
// does not read is dropped; it goes on later from the last id it saw. Serve returns after every handler
// has returned.
package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/td"
)

// Options says what to serve, and where.
type Options struct {
	Socket  string // path; its folder is made if needed
	Listen  string // host and port of the API over TCP; empty: there is none
	Token   string // what everyone has to show there
	Service api.Service
	Log     *slog.Logger
	// Inside says why a process counts as one of a run, which is refused everything; nil: none does.
	Inside func(pid int) string
	// Screen is given the body of every request, and its query; what it returns is read instead, and its error is the answer.
	// nil lets everything pass.
	Screen func([]byte) ([]byte, error)
	// Clean is given the body of every answer, and what it returns is sent instead: what an answer was read from may hold secrets, such as the names of
	// files. nil lets everything pass.
	Clean func([]byte) []byte
	// Ready is called once, when connections are taken, with the address of the API over TCP, if there is one; it may be nil.
	Ready func(tcp string)

	// The waits below have good defaults; tests shorten them.
	Heartbeat    time.Duration // silence on a stream before a sign of life
	ReadTimeout  time.Duration // how long a client may take to send the body of a request
	WriteTimeout time.Duration // how long a client may take to read what it was sent
	Grace        time.Duration // how long requests in flight may take after ctx has ended
}

// Serve listens and answers until ctx ends, then lets requests in flight finish, within a bound. The
// caller holds the lock of the state folder: a socket that is left there by a dead daemon is replaced,
// one that answers is refused as Locked.
func Serve(ctx context.Context, o Options) error {
	o.defaults()
	l, err := listen(ctx, o.Socket)
	if err != nil {
		return err
	}
	defer l.remove()
	listeners, tcp := []net.Listener{l}, ""
	if o.Listen != "" {
		port, err := listenTCP(ctx, o.Listen)
		if err != nil {
			return err
		}
		defer port.Close()
		listeners, tcp = append(listeners, port), port.Addr().String()
	}

	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s := &server{opts: o, svc: signed{o.Service}, stopping: ctx.Done()}
	srv := &http.Server{
		Handler:           s.handler(),
		BaseContext:       func(net.Listener) context.Context { return base },
		ConnContext:       s.withPeer,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { served <- srv.Serve(l) }()
	}
	if o.Ready != nil {
		o.Ready(tcp)
	}
	select {
	case err := <-served:
		cancel()
		_ = srv.Close()
		for range listeners[1:] {
			<-served
		}
		s.handlers.wait()
		return td.Errorf(td.Internal, "serve %s: %w", o.Socket, err)
	case <-ctx.Done():
	}
	grace, done := context.WithTimeout(base, o.Grace)
	defer done()
	if err := srv.Shutdown(grace); err != nil {
		cancel() // whoever is still at work is told to stop
		_ = srv.Close()
	}
	var failed error
	for range listeners {
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			failed = td.Errorf(td.Internal, "serve %s: %w", o.Socket, err)
		}
	}
	s.handlers.wait()
	return failed
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = 15 * time.Second
	}
	if o.Screen == nil {
		o.Screen = func(raw []byte) ([]byte, error) { return raw, nil }
	}
	if o.Clean == nil {
		o.Clean = func(raw []byte) []byte { return raw }
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = 30 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.Grace == 0 {
		o.Grace = 5 * time.Second
	}
}

type server struct {
	opts     Options
	svc      api.Service
	stopping <-chan struct{}
	handlers handlerGroup
	identity atomic.Pointer[identity]
}

// errStopping is what whoever comes too late is told.
func errStopping() error {
	return td.Errorf(td.Interrupted, "the daemon is stopping").WithHint("taskdaemon daemon start")
}

// identity is what the headers of every answer say of this daemon. It does not change while it lives.
type identity struct{ provider, version, pid string }

// handler guards every route: the peer's uid, and the headers that say who answers.
func (s *server) handler() http.Handler {
	routes := s.routes()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.handlers.enter() {
			writeFailure(w, errStopping())
			return
		}
		defer s.handlers.leave()
		if err := s.admit(r); err != nil {
			s.opts.Log.Warn("refused a peer", "err", err, "from", from(r.Context()))
			w.Header().Set("Connection", "close")
			if td.IsKind(err, td.Auth) {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			writeFailure(w, err)
			return
		}
		if id := s.identify(r.Context()); id != nil {
			h := w.Header()
			h.Set(wire.HeaderProvider, id.provider)
			h.Set(wire.HeaderVersion, id.version)
			h.Set(wire.HeaderPid, id.pid)
		}
		if err := s.screen(w, r); err != nil {
			writeFailure(w, err)
			return
		}
		routes.ServeHTTP(w, r)
	})
}

// admit fails unless the request comes from the daemon's own user over the socket, or shows the token.
func (s *server) admit(r *http.Request) error {
	if from(r.Context()) != "" {
		return wire.CheckBearer(r.Header.Get("Authorization"), s.opts.Token)
	}
	return checkPeer(r.Context())
}

// screen puts in place of a request's body what the service may see of it. One that is too long is left to the route.
func (s *server) screen(w http.ResponseWriter, r *http.Request) error {
	asked, err := json.Marshal([]string{r.URL.Path, r.URL.RawQuery})
	if err != nil {
		return td.Errorf(td.Internal, "read the request: %w", err)
	}
	if _, err := s.opts.Screen(asked); err != nil {
		return err
	}
	if r.Body == nil || r.Method == http.MethodGet {
		return nil
	}
	raw, err := s.read(w, r)
	if err != nil {
		return td.Errorf(td.Invalid, "read the request: %w", err)
	}
	clean, err := s.opts.Screen(raw)
	if err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(clean)), int64(len(clean))
	return nil
}

// read reads the body of a request, within a time that ends with the reading: a deadline that stayed would end the request's context
// when it passes, in the middle of the work.
func (s *server) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	conn := http.NewResponseController(w)
	if err := conn.SetReadDeadline(time.Now().Add(s.opts.ReadTimeout)); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTask+1))
	if err != nil {
		return nil, err
	}
	return raw, conn.SetReadDeadline(time.Time{})
}

func (s *server) identify(ctx context.Context) *identity {
	if id := s.identity.Load(); id != nil {
		return id
	}
	st, err := s.svc.Status(ctx)
	if err != nil {
		return nil // the call itself will say what is wrong
	}
	id := &identity{provider: st.Provider, version: st.Version, pid: strconv.Itoa(st.Pid)}
	s.identity.Store(id)
	return id
}
