package daemon

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"taskdaemon/internal/config"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/anthropic"
	"taskdaemon/internal/llm/cassette"
	"taskdaemon/internal/llm/gateway"
	"taskdaemon/internal/llm/openai"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// newModel makes the one client that all loops share: the providers of the config behind a gateway, a
// cassette around it if there is one, and the rehearsal model for tasks that bring a script.
func newModel(o Options) (llm.Model, *gateway.Gateway, error) {
	c := o.Config
	rehearse, err := newRehearsal(c.Rehearsal.Script)
	if err != nil {
		return nil, nil, err
	}
	providers, keys, err := providersOf(o, rehearse)
	if err != nil {
		return nil, nil, err
	}
	fallback := map[string][]string{}
	for _, f := range c.Fallback {
		if fallback[f.Model] != nil || len(f.Use) == 0 {
			return nil, nil, td.Errorf(td.Invalid, "%s: the fallback of %q is empty or there twice", f.Where, f.Model)
		}
		fallback[f.Model] = f.Use
	}
	gate, err := gateway.New(gateway.Options{
		Providers: providers, Default: c.ProviderIn(o.Getenv), Fallback: fallback, InFlight: c.Limits.Calls,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("set the models up: %w", err)
	}
	for _, m := range []string{c.Models.Small, c.Models.Worker, c.Models.Expert} {
		if err := gate.Check(m); err != nil {
			return nil, nil, fmt.Errorf("set the models up: %w", err)
		}
	}
	var model llm.Model = gate
	switch c.Cassette.Mode {
	case config.CassetteRecord:
		model, err = cassette.Record(gate, c.Cassette.Path, redact.New(keys...))
	case config.CassetteReplay:
		model, err = cassette.Replay(c.Cassette.Path, cassette.Options{Redactor: redact.New(keys...)})
	}
	if err != nil {
		return nil, nil, err
	}
	return &stage{Model: model, gate: gate}, gate, nil
}

// providersOf are the providers there are: the default one, those of the config, and always the rehearsal.
// The keys are for the redactor.
func providersOf(o Options, rehearse llm.Model) (out []gateway.Provider, keys []string, err error) {
	c := o.Config
	all := slices.Clone(c.Providers)
	switch name := c.ProviderIn(o.Getenv); name {
	case config.Anthropic, config.OpenAI:
		all = append([]config.Provider{{Name: name, Kind: name, BaseURL: c.BaseURL, KeyEnvs: []string{c.APIKeyEnv}, Where: "provider"}}, all...)
	}
	for _, p := range all {
		var found []string
		for _, env := range p.KeyEnvs {
			if key := o.Getenv(env); key != "" && !slices.Contains(found, key) {
				found = append(found, key)
			}
		}
		if len(found) == 0 && p.BaseURL == "" {
			return nil, nil, td.Errorf(td.Auth, "the provider is %s but %s is not set", p.Name, strings.Join(p.KeyEnvs, ", ")).
				WithHint("export %s=…, or set `provider: rehearsal` in the config", strings.Join(p.KeyEnvs, "=… "))
		}
		keys = append(keys, found...)
		made, err := maker(c, p)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, gateway.Provider{Name: p.Name, New: made, Keys: found, Requests: c.Limits.Requests, Tokens: c.Limits.Tokens})
	}
	return append(out, gateway.Provider{Name: llm.Rehearsal, New: func(string) llm.Model { return rehearse }}), keys, nil
}

// maker makes the client of one key.
func maker(c config.Config, p config.Provider) (func(key string) llm.Model, error) {
	switch p.Kind {
	case config.Anthropic:
		return func(key string) llm.Model {
			return anthropic.New(anthropic.Options{
				APIKey: key, BaseURL: p.BaseURL, IdleTimeout: c.Timeouts.StreamIdle, HeaderTimeout: c.Timeouts.RequestHeaders,
			})
		}, nil
	case config.OpenAI:
		return func(key string) llm.Model {
			return openai.New(openai.Options{
				APIKey: key, BaseURL: p.BaseURL, IdleTimeout: c.Timeouts.StreamIdle, HeaderTimeout: c.Timeouts.RequestHeaders,
			})
		}, nil
	}
	return nil, td.Errorf(td.Invalid, "%s: the provider %q is of kind %q; want %s or %s", p.Where, p.Name, p.Kind, config.Anthropic, config.OpenAI)
}

func newRehearsal(path string) (*rehearsal.Model, error) {
	if path == "" {
		return rehearsal.New(rehearsal.Options{}), nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, td.Errorf(td.Invalid, "read the rehearsal script: %w", err)
	}
	s, err := rehearsal.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("read the rehearsal script %s: %w", path, err)
	}
	return rehearsal.New(rehearsal.Options{Default: s}), nil
}

// pricesOf is the table of prices, with the person's own on top.
func pricesOf(c config.Config) (llm.Prices, error) {
	if c.Prices.File == "" {
		return llm.BuiltinPrices(), nil
	}
	raw, err := os.ReadFile(c.Prices.File)
	if err != nil {
		return llm.Prices{}, td.Errorf(td.Invalid, "read the prices: %w", err)
	}
	own, err := llm.ParsePrices(raw)
	if err != nil {
		return llm.Prices{}, fmt.Errorf("read the prices %s: %w", c.Prices.File, err)
	}
	return llm.BuiltinPrices().Merge(own), nil
}

// stage lets tasks with a script of their own be rehearsed, the others be played by the real model.
type stage struct {
	llm.Model
	gate *gateway.Gateway
}

// Stream makes one call.
func (s *stage) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if req.Script == "" {
		return s.Model.Stream(ctx, req, emit)
	}
	if !strings.HasPrefix(req.Model, llm.Rehearsal+"/") {
		req.Model = llm.Rehearsal + "/" + req.Model
	}
	return s.gate.Stream(ctx, req, emit)
}
