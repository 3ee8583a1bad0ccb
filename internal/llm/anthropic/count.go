package anthropic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/exchange"
)

const (
	// countWithin is how long a count may take: who wants one can do without.
	countWithin = 5 * time.Second
	// maxCount is more tokens than any window has.
	maxCount = 1 << 30
)

// Count asks the API how many tokens the input of a call has. The API counts free of charge, and apart from its other rate limits.
func (m *Model) Count(ctx context.Context, req llm.Request) (int, error) {
	body, err := m.encoder.encode(req, true)
	if err != nil {
		return 0, m.badRequest(err)
	}
	watch := exchange.NewWatch(ctx, exchange.Patience{Header: countWithin, Idle: countWithin, Progress: countWithin, Total: countWithin})
	defer watch.End()
	res, err := m.counter.Send(watch, body)
	if err != nil {
		return 0, fmt.Errorf("count tokens: %w", err)
	}
	said := exchange.Said(res)
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("count tokens: status %d", res.StatusCode)
	}
	return readCount(said)
}

// readCount reads the API's answer. A number that cannot be true is an error.
func readCount(said []byte) (int, error) {
	var answer struct {
		InputTokens *int `json:"input_tokens"`
	}
	if err := json.Unmarshal(said, &answer); err != nil {
		return 0, fmt.Errorf("read the count of tokens: %w", err)
	}
	if n := answer.InputTokens; n != nil && *n > 0 && *n <= maxCount {
		return *n, nil
	}
	return 0, fmt.Errorf("read the count of tokens: it has none")
}
