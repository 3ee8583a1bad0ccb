package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var errClosed = td.Errorf(td.Interrupted, "the daemon is shutting down")

// Options are what a pool is made of.
type Options struct {
	Servers []Server
	Log     *slog.Logger
	Now     func() time.Time // nil: time.Now
	// Idle is how long a server that nobody calls is kept; zero: 10 minutes.
	Idle time.Duration
	// Mark tells the servers of this daemon from those of others: the path of its state folder. See KillStrays.
	Mark string
	// Secrets takes secrets out of what servers say; nil: those that each was given.
	Secrets *redact.Redactor
}

// limits are the times that tests shorten.
type limits struct {
	idle       time.Duration
	backoffMin time.Duration // the pause after a failure, doubled with each in a row…
	backoffMax time.Duration // …up to this
	healthy    time.Duration // a life that long makes up for the failures before it
	patience   time.Duration // a pause that is not longer is waited out
	grace      time.Duration // between closing, asking and killing
	write      time.Duration // a server that does not read for so long is given up
}

func (l limits) backoff(fails int) time.Duration {
	d := l.backoffMin
	for range fails - 1 {
		if d *= 2; d >= l.backoffMax {
			return l.backoffMax
		}
	}
	return d
}

// Pool holds the clients of all servers, for all loops. It is safe for concurrent use.
type Pool struct {
	log       *slog.Logger
	now       func() time.Time
	mark      string
	lim       limits
	hosts     []*host // by name
	redactors map[string]*redact.Redactor
	starts    atomic.Int64
	ctx       context.Context
	cancel    context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

// New makes a pool. It starts nothing.
func New(o Options) (*Pool, error) {
	p := &Pool{log: o.Log, now: o.Now, mark: o.Mark, redactors: map[string]*redact.Redactor{}, lim: limits{
		idle: o.Idle, backoffMin: time.Second, backoffMax: time.Minute, healthy: time.Minute,
		patience: 2 * time.Second, grace: time.Second, write: 10 * time.Second,
	}}
	if p.now == nil {
		p.now = time.Now
	}
	if p.lim.idle <= 0 {
		p.lim.idle = 10 * time.Minute
	}
	if p.mark == "" {
		p.mark = "taskdaemon"
	}
	for _, s := range o.Servers {
		if err := s.check(); err != nil {
			return nil, err
		}
		if _, twice := p.redactors[s.Name]; twice {
			return nil, td.Errorf(td.Invalid, "MCP server %s is configured twice", s.Name)
		}
		if p.redactors[s.Name] = o.Secrets; o.Secrets == nil {
			p.redactors[s.Name] = redact.New(s.Secrets()...)
		}
		h := &host{pool: p, cfg: s}
		h.open = func() (*wire, error) { return p.open(h) }
		p.hosts = append(p.hosts, h)
	}
	slices.SortFunc(p.hosts, func(a, b *host) int { return strings.Compare(a.cfg.Name, b.cfg.Name) })
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p, nil
}

// open makes the way to a server: starts its program, or nothing for one at an address.
func (p *Pool) open(h *host) (*wire, error) {
	if h.cfg.URL != "" {
		w := newWeb(&h.cfg)
		return &wire{transport: w.transport(), cut: w.cut, end: w.end, fault: &w.fault, exit: func() error { return nil }}, nil
	}
	say := func(stream, line string) {
		p.log.Info("MCP server says", "server", h.cfg.Name, "stream", stream, "line", h.secrets().Piece(tool.Clean([]byte(line)), false, len(line) >= maxNoise))
	}
	mark := fmt.Sprintf("%s#%s.%d", p.mark, h.cfg.Name, p.starts.Add(1))
	proc, err := startProcess(&h.cfg, mark, p.lim, say)
	if err != nil {
		return nil, err
	}
	return &wire{
		transport: proc.transport(p.lim), cut: proc.cut, end: proc.end, fault: &proc.fault, exit: proc.exit, pid: proc.cmd.Process.Pid,
	}, nil
}

// spawn runs f beside, unless the pool is closed. Close waits for it.
func (p *Pool) spawn(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.tasks.Go(f)
	return true
}

// Offers are what these servers offer, or all that are not disabled when names is nil, sorted by name; Bind makes
// tools of it. Servers that were never asked are started and asked, all at once. The error says which are left out,
// because they failed or are slow; the offers of the others are good nevertheless. It is pure, as far as starting a
// server is.
func (p *Pool) Offers(ctx context.Context, names []string) ([]Offer, error) {
	var hosts []*host
	var errs []error
	if names == nil {
		for _, h := range p.hosts {
			if !h.cfg.Disabled {
				hosts = append(hosts, h)
			}
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if h := p.host(name); h != nil {
			hosts = append(hosts, h)
		} else {
			errs = append(errs, td.Errorf(td.NotFound, "no MCP server is called %s", name))
		}
	}
	lists := make([]*listing, len(hosts))
	failed := make([]error, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() {
			var err error
			if lists[i], err = h.tools(ctx); err != nil {
				failed[i] = fmt.Errorf("MCP server %s: %w", h.cfg.Name, err)
			}
		})
	}
	wg.Wait()
	var all []Offer
	for _, list := range lists {
		if list != nil {
			all = append(all, list.offers...)
		}
	}
	slices.SortFunc(all, func(a, b Offer) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(append(errs, failed...)...)
}

func (p *Pool) host(name string) *host {
	if i := slices.IndexFunc(p.hosts, func(h *host) bool { return h.cfg.Name == name }); i >= 0 {
		return p.hosts[i]
	}
	return nil
}

// Close ends all servers, with all they started, and returns when they are gone. Calls that are under way end with
// an error. It is opaque to the servers, and needs not be found out again: they die with the daemon.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel(errClosed)
	var wg sync.WaitGroup
	for _, h := range p.hosts {
		wg.Go(func() { h.drop(func() bool { return true }) })
	}
	wg.Wait()
	p.tasks.Wait()
}
