package mcp

import (
	"context"
	"time"

	"taskdaemon/internal/td"
)

// State is what a server is doing.
type State string

// The states of a server.
const (
	NotStarted State = "not started" // nobody needed it yet
	Starting   State = "starting"
	Up         State = "up"
	Resting    State = "resting" // it was ended because nobody needed it
	Failed     State = "failed"
	Disabled   State = "disabled"
)

// Status is what is known of a server.
type Status struct {
	Name    string
	Where   string // its command line or address
	State   State
	Since   time.Time // when up
	Pid     int       // when up, of a program
	Calls   int       // under way
	Reason  string    // of the last failure, until it is up again
	Fails   int       // in a row
	NextTry time.Time // when failed: not before

	// Of its last start, if it had one.
	Protocol  string
	Server    string // what it calls itself
	Version   string
	Handshake time.Duration // from its start until it had told its tools
	Tools     []ToolStatus
	LeftOut   []LeftOut
}

// ToolStatus is a tool that is offered.
type ToolStatus struct {
	Name   string // for models
	Tool   string // for the server
	Effect td.Effect
}

// List is what is known of each server, by name. It asks none of them.
func (p *Pool) List() []Status {
	all := make([]Status, len(p.hosts))
	for i, h := range p.hosts {
		all[i] = h.status()
	}
	return all
}

// Test starts a server if it is not up, even in the pause after a failure, asks for its tools, and says what came of
// it. The error is that of the server. It is pure, as far as starting a server is.
func (p *Pool) Test(ctx context.Context, name string) (Status, error) {
	h := p.host(name)
	if h == nil {
		return Status{}, td.Errorf(td.NotFound, "no MCP server is called %s", name).WithHint("taskdaemon mcp list")
	}
	h.mu.Lock()
	h.next = time.Time{}
	h.mu.Unlock()
	l, release, err := h.use(ctx)
	if err == nil {
		defer release()
		_, err = h.relist(ctx, l, true)
	}
	return h.status(), err
}

func (h *host) status() Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	red := h.pool.redactors[h.cfg.Name]
	s := Status{Name: h.cfg.Name, Where: red.String(h.cfg.where()), Fails: h.fails}
	if h.err != nil {
		s.Reason = h.err.Error()
	}
	if list := h.listed; list != nil {
		s.Protocol, s.Server, s.Version, s.Handshake = list.info.protocol, list.info.name, list.info.version, list.handshake
		s.LeftOut = list.leftOut
		for _, o := range list.offers {
			s.Tools = append(s.Tools, ToolStatus{Name: o.Name, Tool: o.Tool, Effect: h.effect(o)})
		}
	}
	switch {
	case h.cfg.Disabled:
		s.State = Disabled
	case h.link != nil:
		s.State, s.Since, s.Pid, s.Calls = Up, h.link.since, h.link.wire.pid, h.link.users
	case h.start != nil:
		s.State = Starting
	case h.err != nil:
		s.State, s.NextTry = Failed, h.next
	case h.listed != nil:
		s.State = Resting
	default:
		s.State = NotStarted
	}
	return s
}
