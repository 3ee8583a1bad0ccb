// Package client is api.Service over the daemon's socket, or over TCP with its token.
//
// Failures come back as the td.Error they were in the daemon, with kind and hint; a daemon that cannot be
// reached is td.Unavailable, and one that vanished in the middle of a change is td.Unknown: every change
// carries a key, so that the same call again is safe. A daemon may take any time over an answer, but one that is
// frozen is told by its pid (td.Timeout): a call waits only as long as the daemon gives signs of life.
package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/td"
)

// maxAnswer bounds what is read of one answer: a long history is large, but a daemon gone mad must not
// fill the memory.
const maxAnswer = 1 << 30

// origin stands before every path: who is reached is decided when the connection is made.
const origin = "http://taskdaemon"

// Options says how to reach the daemon.
type Options struct {
	Socket string
	// Address is the host and port of a daemon's API over TCP, in place of a socket; Token is what it wants to see.
	Address, Token string
	// Redial, when set, lets Events outlive the daemon: it is called with the cause when the stream is
	// lost, and returns nil when it is time to try again from the last cursor.
	Redial func(ctx context.Context, cause error) error
}

// Client talks to one daemon. It is safe for concurrent use.
type Client struct {
	opts     Options
	http     *http.Client
	peer     atomic.Pointer[Peer]
	holder   atomic.Int64 // the process that listens at the socket, once a connection was made
	patience patience
}

var _ api.Service = (*Client)(nil)

// Peer is the daemon that answered.
type Peer struct {
	Provider string
	Version  string
	Pid      int
}

// New makes a client. It connects when it is first used.
func New(o Options) *Client {
	c := &Client{opts: o, patience: usual}
	c.http = &http.Client{Transport: &http.Transport{
		DialContext:        c.dial,
		DisableCompression: true,
		IdleConnTimeout:    time.Minute,
	}}
	return c
}

// Close lets go of idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Peer says which daemon gave the newest answer; ok is false before the first.
func (c *Client) Peer() (p Peer, ok bool) {
	if got := c.peer.Load(); got != nil {
		return *got, true
	}
	return Peer{}, false
}

func (c *Client) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if c.opts.Address != "" {
		dialer := net.Dialer{Timeout: 5 * time.Second}
		conn, err := dialer.DialContext(ctx, "tcp", c.opts.Address)
		if err != nil && ctx.Err() == nil {
			return nil, td.Errorf(td.Unavailable, "no daemon answers at %s: %w", c.opts.Address, err).WithHint("start the daemon on that machine, with api.listen in its config")
		}
		return conn, err
	}
	addr, done, err := wire.Address(c.opts.Socket)
	if err != nil {
		return nil, err
	}
	defer done()
	dialer := net.Dialer{Timeout: 5 * time.Second}
	conn, err := dialer.DialContext(ctx, "unix", addr)
	if err == nil {
		c.holder.Store(int64(listener(conn)))
	}
	return conn, err
}

// Status is the daemon at a glance.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return get[api.Status](ctx, c, "/v1/status", nil)
}

// AddTask adds a task. Without a key it makes one.
func (c *Client) AddTask(ctx context.Context, in api.AddTask) (td.Task, error) {
	if in.Key == "" {
		in.Key = rand.Text()
	}
	return post[td.Task](ctx, c, "/v1/tasks", in)
}

// Tasks lists tasks.
func (c *Client) Tasks(ctx context.Context, q api.TaskQuery) ([]td.Task, error) {
	v := url.Values{}
	addList(v, "state", q.States)
	if q.Dir != "" {
		v.Set("dir", q.Dir)
	}
	if q.Limit != 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return get[[]td.Task](ctx, c, "/v1/tasks", v)
}

// Task finds one task.
func (c *Client) Task(ctx context.Context, ref string) (td.Task, error) {
	return withRef(ref, func(path string) (td.Task, error) { return get[td.Task](ctx, c, path, nil) })
}

// Command hands a wish to a task. Without a key it makes one.
func (c *Client) Command(ctx context.Context, ref string, cmd api.Command) (td.Task, error) {
	if cmd.Key == "" {
		cmd.Key = rand.Text()
	}
	return withRef(ref, func(path string) (td.Task, error) {
		return post[td.Task](ctx, c, path+"/commands", cmd)
	})
}

// History is the conversation of a task.
func (c *Client) History(ctx context.Context, ref string) (api.History, error) {
	return withRef(ref, func(path string) (api.History, error) {
		return get[api.History](ctx, c, path+"/history", nil)
	})
}

// Context is what the model is told in the task's next call.
func (c *Client) Context(ctx context.Context, ref string) (api.Context, error) {
	return withRef(ref, func(path string) (api.Context, error) {
		return get[api.Context](ctx, c, path+"/context", nil)
	})
}

// MCPServers is what is known of each server of tools.
func (c *Client) MCPServers(ctx context.Context) ([]api.MCPServer, error) {
	return get[[]api.MCPServer](ctx, c, "/v1/mcp", nil)
}

// TestMCPServer starts a server of tools and asks for them.
func (c *Client) TestMCPServer(ctx context.Context, name string) (api.MCPServer, error) {
	if name == "" || name == "." || name == ".." {
		return api.MCPServer{}, td.Errorf(td.NotFound, "no MCP server is called %q", name).WithHint("taskdaemon mcp list")
	}
	return post[api.MCPServer](ctx, c, "/v1/mcp/"+url.PathEscape(name)+"/test", nil)
}

// Cost is what calls of models cost, and how the budgets stand.
func (c *Client) Cost(ctx context.Context, q api.CostQuery) (api.Cost, error) {
	v := url.Values{}
	if q.By != "" {
		v.Set("by", string(q.By))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	return get[api.Cost](ctx, c, "/v1/cost", v)
}

// Stats are what loops did in a time.
func (c *Client) Stats(ctx context.Context, q api.StatsQuery) (api.Stats, error) {
	v := url.Values{}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.Format(time.RFC3339Nano))
	}
	return get[api.Stats](ctx, c, "/v1/stats", v)
}

// RaiseBudget lets more be spent in this day or month.
func (c *Client) RaiseBudget(ctx context.Context, in api.RaiseBudget) (td.Balance, error) {
	return post[td.Balance](ctx, c, "/v1/budgets", in)
}

// Recovery is the report of the daemon's start.
func (c *Client) Recovery(ctx context.Context) (td.Report, error) {
	return get[td.Report](ctx, c, "/v1/recovery", nil)
}

// Checkpoint brings the mirrors of a task up to date.
func (c *Client) Checkpoint(ctx context.Context, ref string) (api.Checkpoint, error) {
	return withRef(ref, func(path string) (api.Checkpoint, error) {
		return post[api.Checkpoint](ctx, c, path+"/checkpoint", nil)
	})
}

// Doctor examines the daemon's house.
func (c *Client) Doctor(ctx context.Context, in api.DoctorRequest) (api.Diagnosis, error) {
	return post[api.Diagnosis](ctx, c, "/v1/doctor", in)
}

// Stop asks the daemon to stop in good order. It returns before the daemon has ended.
func (c *Client) Stop(ctx context.Context) error {
	_, err := post[struct{}](ctx, c, "/v1/stop", nil)
	return err
}

func withRef[T any](ref string, call func(path string) (T, error)) (T, error) {
	if ref == "" || ref == "." || ref == ".." {
		var zero T
		return zero, td.Errorf(td.NotFound, "no task is named %q", ref).WithHint("taskdaemon task list")
	}
	return call("/v1/tasks/" + url.PathEscape(ref))
}

func addList[T ~string](v url.Values, name string, list []T) {
	text := ""
	for i, w := range list {
		if i > 0 {
			text += ","
		}
		text += string(w)
	}
	if text != "" {
		v.Set(name, text)
	}
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return call[T](ctx, c, http.MethodGet, path, nil)
}

func post[T any](ctx context.Context, c *Client, path string, in any) (T, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			var zero T
			return zero, td.Errorf(td.Invalid, "encode request: %w", err)
		}
	}
	return call[T](ctx, c, http.MethodPost, path, body)
}

func call[T any](ctx context.Context, c *Client, method, path string, body []byte) (T, error) {
	var out T
	ctx, w := c.watch(ctx)
	defer w.end()
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return out, nil
	}
	raw, err := io.ReadAll(io.LimitReader(counted{resp.Body, w}, maxAnswer+1))
	if err != nil {
		return out, lost(ctx, method, err)
	}
	if len(raw) > maxAnswer {
		return out, td.Errorf(td.Internal, "the daemon's answer is too long")
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return out, td.Errorf(td.Internal, "read the daemon's answer: %w", err)
	}
	return out, nil
}

// send makes one request and turns an answer that is an error into one.
func (c *Client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, origin+path, bytes.NewReader(body))
	if err != nil {
		return nil, td.Errorf(td.Internal, "make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.opts.Address != "" {
		req.Header.Set("Authorization", wire.Bearer(c.opts.Token))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, lost(ctx, method, err)
	}
	if p := resp.Header.Get(wire.HeaderProvider); p != "" {
		pid, _ := strconv.Atoi(resp.Header.Get(wire.HeaderPid)) // zero when it is no number
		c.peer.Store(&Peer{Provider: p, Version: resp.Header.Get(wire.HeaderVersion), Pid: pid})
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		defer resp.Body.Close()
		return nil, readError(resp)
	}
	return resp, nil
}

func readError(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var e wire.Error
	if err != nil || json.Unmarshal(raw, &e) != nil || e.Kind == "" {
		return td.Errorf(td.Internal, "the daemon answered %s: %.200q", resp.Status, raw)
	}
	return e.Err()
}

// lost says in words why there is no answer.
func lost(ctx context.Context, method string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	const start = "taskdaemon daemon start"
	if told, ok := errors.AsType[*td.Error](err); ok && ctx.Err() == nil {
		return told
	}
	if told, ok := errors.AsType[*td.Error](context.Cause(ctx)); ok && method == http.MethodGet {
		return told // whoever ended it said why
	} else if ok {
		return td.Errorf(told.Kind, "%w; what you asked for may be done later", told).WithHint("%s", td.Words(told.Hint))
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return td.Errorf(td.Timeout, "the daemon did not answer in time").WithHint("taskdaemon daemon logs")
	case ctx.Err() != nil:
		return td.Errorf(td.Interrupted, "interrupted: %w", ctx.Err())
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return td.Errorf(td.Unavailable, "no daemon is running").WithHint(start)
	case errors.Is(err, fs.ErrPermission):
		return td.Errorf(td.Refused, "reach the daemon: %w", err).WithHint("taskdaemon --state DIR …")
	case method == http.MethodGet:
		return td.Errorf(td.Unavailable, "the daemon went away: %w", err).WithHint(start)
	default:
		return td.Errorf(td.Unknown, "the daemon went away before it answered: %w", err).
			WithHint("the same command again is safe")
	}
}
