package gateway

import (
	"context"
	"errors"
	"testing"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
)

// abacus is a fake that counts.
type abacus struct {
	fake
	counted *[]string
}

func (a *abacus) Count(_ context.Context, req llm.Request) (int, error) {
	*a.counted = append(*a.counted, a.key+" "+req.Model)
	return 7, nil
}

// A count goes to the provider of the model, under the name it has there, with a key that is accepted, and waits for no place.
func TestCount(t *testing.T) {
	var counted []string
	refuse := func(_ context.Context, key string, _ llm.Request) (llm.Response, error) {
		if key == "bad" {
			return llm.Response{}, failing(td.AuthFailed)
		}
		return llm.Response{}, nil
	}
	g := newGateway(t, Options{Providers: []Provider{
		{Name: "a", Keys: []string{"bad", "good"}, Requests: 1, New: func(key string) llm.Model { return &abacus{fake{key, refuse}, &counted} }},
		{Name: "b", New: faking(refuse)},
	}})
	if _, err := g.Stream(t.Context(), llm.Request{Model: "m"}, func(llm.Delta) {}); err != nil { // the bad key is found out
		t.Fatal(err)
	}
	if n, err := g.Count(t.Context(), llm.Request{Model: "a/m"}); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if got := counted[0]; got != "good m" {
		t.Errorf("counted by %q", got)
	}
	if _, err := g.Count(t.Context(), llm.Request{Model: "b/m"}); !errors.Is(err, llm.ErrNoCounter) {
		t.Errorf("a provider without a counter: %v", err)
	}
	if _, err := g.Count(t.Context(), llm.Request{Model: "c/m"}); !td.IsKind(err, td.Invalid) {
		t.Errorf("a provider that is not known: %v", err)
	}
}
