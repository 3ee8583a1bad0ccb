package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/fence"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

var (
	fpBeforeCall = failpoint.New("mcp.call.before_send")
	fpAnswered   = failpoint.New("mcp.call.answered")
)

// evidence is what a person is told of a call in flight after a crash.
type evidence struct {
	Server string    `json:"server"`
	Tool   string    `json:"tool"`
	Since  time.Time `json:"since"`
}

// Bind makes tools of offers, in their order. It asks no server: what a run was offered stays, whatever became of the
// server since. What has become of it is found out by the call.
//
// A call is opaque, or pure if the config trusts the server and the server says that the tool only looks. A call
// that was in flight when the daemon died may have taken effect, and nobody can tell.
func (p *Pool) Bind(offers []Offer) []tool.Tool {
	tools := make([]tool.Tool, len(offers))
	for i, o := range offers {
		check := sync.OnceValues(func() (*jsonschema.Resolved, error) { return compile(o.Schema) })
		tools[i] = tool.Tool{
			Name: o.Name, Origin: policy.Server, Description: o.Description, Schema: o.Schema,
			Prepare: func(_ context.Context, env *tool.Env, input json.RawMessage) (tool.Call, error) {
				return p.prepare(o, check, env, input)
			},
			Resolve: resolve,
		}
	}
	return tools
}

// effect is what a call of the tool may do, as far as the server is believed.
func (h *host) effect(o Offer) td.Effect {
	if h.cfg.Trusted && o.ReadOnly {
		return td.Pure
	}
	return td.Opaque
}

func (p *Pool) prepare(o Offer, check func() (*jsonschema.Resolved, error), env *tool.Env, input json.RawMessage) (tool.Call, error) {
	h := p.host(o.Server)
	if h == nil || h.cfg.Disabled {
		return tool.Call{}, td.Errorf(td.Unavailable, "the MCP server %s is not configured any more", o.Server)
	}
	schema, err := check()
	if err != nil {
		return tool.Call{}, td.Errorf(td.Corrupt, "%s cannot be called: %w", o.Name, err)
	}
	in, err := decode(schema, input)
	if err != nil {
		return tool.Call{}, err
	}
	proof, err := json.Marshal(evidence{Server: o.Server, Tool: o.Tool, Since: env.Now()})
	if err != nil {
		return tool.Call{}, fmt.Errorf("encode evidence: %w", err)
	}
	return tool.Call{
		Effect: h.effect(o), Evidence: proof, Title: title(o, in), Timeout: h.cfg.Timeout,
		Run: func(ctx context.Context) (td.ToolResult, error) { return h.run(ctx, o, in) },
	}, nil
}

// run makes the call. An error means that the caller stopped it; all else is a result.
func (h *host) run(ctx context.Context, o Offer, in json.RawMessage) (td.ToolResult, error) {
	limited, cancel := context.WithTimeoutCause(ctx, h.cfg.Timeout, errSlow)
	defer cancel()
	for {
		l, release, err := h.use(limited)
		if err != nil {
			if ctx.Err() != nil {
				return td.ToolResult{}, context.Cause(ctx)
			}
			return failed("The MCP server %s is not available, so the call was not made: %v.", o.Server, err), nil
		}
		res, sent, err := h.send(limited, l, o, in)
		release()
		switch {
		case err == nil:
			return res, nil
		case ctx.Err() != nil:
			return td.ToolResult{}, context.Cause(ctx)
		case errors.Is(context.Cause(limited), errSlow):
			h.heard(l, false)
			return failed("The MCP server %s gave no answer within %s. %s", o.Server, h.cfg.Timeout, h.unknown(o)), nil
		case sent:
			return failed("The MCP server %s failed in the middle of the call: %v. %s", o.Server, h.why(limited, l, err), h.unknown(o)), nil
		}
		// The connection was on its way out: it never got the call, so the next one may.
		h.pool.spawn(l.end)
		select {
		case <-l.ended:
		case <-limited.Done():
		}
	}
}

// send makes the call on one connection. An error with sent false means that the server cannot have seen it.
func (h *host) send(ctx context.Context, l *link, o Offer, in json.RawMessage) (_ td.ToolResult, sent bool, _ error) {
	if h.vanished(o) {
		return failed("The MCP server %s does not offer %s any more, so the call was not made.", o.Server, o.Tool), false, nil
	}
	fpBeforeCall.Hit()
	res, err := l.call(ctx, o.Tool, in)
	fpAnswered.Hit()
	if err == nil {
		h.heard(l, true)
		return render(h.secrets(), o, res), true, nil
	}
	if no, ok := refusal(err); ok {
		h.heard(l, true)
		return stranger(h.secrets(), o, "It refused the call: "+cut(h.secrets().String(fence.Visible(no.Message)), 2000), true), true, nil
	}
	return td.ToolResult{}, !unsent(err), err
}

// secrets are taken out of what the server says, before it is cut.
func (h *host) secrets() *redact.Redactor { return h.pool.redactors[h.cfg.Name] }

// unsent knows the errors of calls that no server carried out: the connection was closed before, or could not be
// made, or the server does not know the session.
func unsent(err error) bool {
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return true
	}
	return errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, sdk.ErrSessionMissing)
}

var errSlow = errors.New("no answer in time")

// unknown tells the model what a call without an answer means.
func (h *host) unknown(o Offer) string {
	if h.effect(o) == td.Pure {
		return "The tool only looks, so it can be called again."
	}
	return "The call may or may not have taken effect: find out before you make it again."
}

// why is what is known of a call that failed. Where its error only says that there is no connection any more, the
// reason for that takes a moment to be known.
func (h *host) why(ctx context.Context, l *link, err error) error {
	if tells(err) {
		return h.secret(err)
	}
	ctx, cancel := context.WithTimeout(ctx, reasonWait)
	defer cancel()
	select {
	case <-l.ended:
		err = l.err
	case <-ctx.Done():
	}
	return h.secret(err)
}

// reasonWait bounds how long the reason for the end of a connection is waited for.
const reasonWait = 3 * time.Second

// vanished reports whether the server is known not to offer the tool now.
func (h *host) vanished(o Offer) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stale || h.listed == nil {
		return false
	}
	same := func(name string) bool { return name == o.Tool }
	return !slices.ContainsFunc(h.listed.offers, func(x Offer) bool { return same(x.Tool) }) &&
		!slices.ContainsFunc(h.listed.leftOut, func(x LeftOut) bool { return same(x.Tool) })
}

func failed(format string, args ...any) td.ToolResult {
	return td.ToolResult{Content: fmt.Sprintf(format, args...), IsError: true}
}

// resolve tells what can be known of a call that was in flight when the daemon died: that it may have happened.
func resolve(_ context.Context, _ *tool.Env, input json.RawMessage, intent td.Intent) (tool.Resolution, error) {
	if intent.Effect == td.Pure {
		return tool.Resolution{State: tool.NotDone}, nil
	}
	var e evidence
	if err := json.Unmarshal(intent.Evidence, &e); err != nil {
		return tool.Resolution{}, td.Errorf(td.Corrupt, "read evidence of %s: %w", intent.Key, err)
	}
	return tool.Resolution{State: tool.Unsure, Detail: fmt.Sprintf(
		"%s of the MCP server %s was called at %s, and the answer never came. Only the server knows whether it took effect:\n  %s",
		e.Tool, e.Server, e.Since.Format(time.RFC3339), cut(string(input), 2000))}, nil
}

// title is a call on one line for people, who judge by it: nothing is left out, and what would be invisible is
// spelled out.
func title(o Offer, input json.RawMessage) string {
	var b strings.Builder
	for _, r := range fmt.Sprintf("Call %s of the MCP server %s with %s", o.Tool, o.Server, input) {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	return b.String()
}
