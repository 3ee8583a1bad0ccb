// Package proxy lets commands whose network is cut reach the hosts that a person allows, and no others (G-4).
//
// It speaks HTTP as proxies do: CONNECT for whatever is encrypted, whole addresses for the rest. A refusal is
// an answer that says what is refused and how a person can allow it. Names are resolved here, once, by the
// Dial that is handed in, which judges the address that it connects to.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"taskdaemon/internal/td"
)

// Options say who may be reached, and how.
type Options struct {
	// Hosts are the names that may be reached, with * for any letters and dots. Without a port, 80 and 443 are meant.
	Hosts []string
	// Dial connects to a host that is allowed, unless its address must not be reached.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Refusal begins the reason of every refusal, for whoever passes answers on.
const Refusal = "taskdaemon: "

// dialLimit bounds how long a host may take to answer.
const dialLimit = 30 * time.Second

// Serve answers on l until ctx ends; connections end with it.
func Serve(ctx context.Context, l net.Listener, o Options) error {
	if err := Check(o.Hosts); err != nil {
		return err
	}
	p := &proxy{o: o, done: ctx.Done(), transport: &http.Transport{DialContext: o.Dial, DisableCompression: true, ResponseHeaderTimeout: 5 * time.Minute, IdleConnTimeout: time.Minute}}
	srv := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	stopped := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stopped()
	err := srv.Serve(l)
	p.tunnels.Wait()
	p.transport.CloseIdleConnections()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return td.Errorf(td.Internal, "serve the proxy: %w", err)
}

// Check refuses a list of hosts in which a pattern means nothing.
func Check(hosts []string) error {
	for _, h := range hosts {
		if _, err := path.Match(h, ""); err != nil || strings.ContainsAny(h, "/@ ") {
			return td.Errorf(td.Invalid, "%q is no host that can be allowed; want a name like *.example.org", h)
		}
	}
	return nil
}

type proxy struct {
	o         Options
	transport *http.Transport
	done      <-chan struct{}
	tunnels   sync.WaitGroup
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	port := "80"
	if r.Method == http.MethodConnect {
		port = "443"
	} else if !r.URL.IsAbs() || r.URL.Scheme != "http" {
		http.Error(w, Refusal+"this is a proxy: it wants a whole address", http.StatusBadRequest)
		return
	}
	host, given, err := net.SplitHostPort(r.URL.Host)
	if err != nil {
		host = r.URL.Host
	} else {
		port = given
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if !Allowed(p.o.Hosts, host, port) {
		p.o.Log.Info("proxy refused", "host", host, "port", port)
		refuse(w, http.StatusForbidden, fmt.Sprintf("the host %s, port %s, is not allowed; a person can allow it with sandbox.hosts", host, port))
		return
	}
	if r.Method == http.MethodConnect {
		p.connect(w, r, net.JoinHostPort(host, port))
		return
	}
	p.pass(w, r)
}

// Allowed reports whether the list has the host and port.
func Allowed(hosts []string, host, port string) bool {
	for _, h := range hosts {
		name, want, ok := strings.Cut(strings.ToLower(h), ":")
		if ok && want != port || !ok && port != "80" && port != "443" {
			continue
		}
		if hit, err := path.Match(name, host); err == nil && hit {
			return true
		}
	}
	return false
}

// connect makes a tunnel.
func (p *proxy) connect(w http.ResponseWriter, r *http.Request, address string) {
	ctx, cancel := context.WithTimeout(r.Context(), dialLimit)
	defer cancel()
	out, err := p.o.Dial(ctx, "tcp", address)
	if err != nil {
		refuse(w, status(err), err.Error())
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	p.tunnels.Add(1)
	defer p.tunnels.Done()
	over := make(chan struct{})
	defer close(over)
	go func() { // a tunnel must not outlive the proxy
		select {
		case <-p.done:
			_ = in.Close()
			_ = out.Close()
		case <-over:
		}
	}()
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(out, buffered)
		closeWrite(out)
	})
	_, _ = io.Copy(in, out)
	closeWrite(in)
	wg.Wait()
}

func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// pass hands on a request that is not encrypted.
func (p *proxy) pass(w http.ResponseWriter, r *http.Request) {
	out := r.Clone(r.Context())
	out.RequestURI = ""
	for _, h := range []string{"Proxy-Connection", "Proxy-Authorization", "Connection", "Keep-Alive", "Te", "Trailer", "Upgrade"} {
		out.Header.Del(h)
	}
	res, err := p.transport.RoundTrip(out)
	if err != nil {
		refuse(w, status(err), err.Error())
		return
	}
	defer res.Body.Close()
	for name, values := range res.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(flushing{w}, res.Body)
}

// flushing passes on at once what comes in pieces.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}

func status(err error) int {
	if td.IsKind(err, td.Refused) {
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// refuse says why. Of an answer to CONNECT most programs show only the first line, so the reason stands there.
func refuse(w http.ResponseWriter, code int, why string) {
	why = Refusal + strings.Join(strings.Fields(why), " ")
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, why, code)
		return
	}
	defer conn.Close()
	_ = conn.SetWriteDeadline(time.Now().Add(dialLimit))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n", code, why, len(why)+1, why)
}
