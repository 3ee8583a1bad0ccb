package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// model plays an agent whose every answer follows from the task and the turn.
type model struct{ host *host }

func (m *model) Provider() string { return "sim" }

func (m *model) Stream(ctx context.Context, req llm.Request, _ func(llm.Delta)) (llm.Response, error) {
	m.host.prefix(req)
	turn := 0
	for _, msg := range req.Messages {
		if msg.Role == td.Assistant {
			turn++
		}
	}
	h := hash(req.Messages[0].Text(), turn, req.Attempt)
	timer := time.NewTimer(time.Duration(h%2000) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return llm.Response{}, context.Cause(ctx)
	}
	switch {
	case h%11 == 0 && req.Attempt < 2:
		return llm.Response{}, &llm.Error{Class: td.Overloaded, Status: 529, Err: errors.New("overloaded")}
	case h%13 == 0 && req.Attempt < 2:
		return llm.Response{}, &llm.Error{Class: td.Network, Err: errors.New("reset")}
	}
	h = hash(req.Messages[0].Text(), turn, 0)
	resp := llm.Response{Model: "sim", StopReason: td.StopToolUse, Message: td.Message{Role: td.Assistant}}
	call := func(name string) {
		resp.Message.Blocks = append(resp.Message.Blocks, td.Block{
			Type: td.ToolUseBlock, ID: fmt.Sprintf("u%d.%d", turn, len(resp.Message.Blocks)), Name: name,
			Input: json.RawMessage(fmt.Sprintf(`{"call":"%d.%d"}`, turn, len(resp.Message.Blocks))),
		})
	}
	if turn >= 4 {
		call("Complete")
		return resp, nil
	}
	names := []string{"Look", "Act", "Write", "Act", "Ask"}
	for i := range 1 + h%3 {
		call(names[(h/7+i)%uint64(len(names))])
	}
	return resp, nil
}

// prefix checks that a call begins with the same bytes as the call of the task before it, whichever host
// and life made that (L-2).
func (h *host) prefix(req llm.Request) {
	raw, err := json.Marshal([]any{req.System, req.Tools, req.Messages})
	if err != nil {
		panic(err)
	}
	raw = bytes.TrimRight(raw, "]")
	task := req.Messages[0].Text()
	h.world.mu.Lock()
	before := h.world.sent[task]
	h.world.sent[task] = raw
	h.world.mu.Unlock()
	// The end of the last message is open: what is said before a model saw it is added to it.
	before = bytes.TrimRight(before, "]}")
	if !bytes.HasPrefix(raw, before) {
		h.world.fault("a call of %.40q does not begin like the one before it:\n%s\n%s", task, before, raw)
	}
}

func hash(parts ...any) uint64 {
	f := fnv.New64a()
	fmt.Fprint(f, parts...)
	return f.Sum64()
}
