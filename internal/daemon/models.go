package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/anthropic"
	"taskdaemon/internal/llm/cassette"
	"taskdaemon/internal/llm/gateway"
	"taskdaemon/internal/llm/openai"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/td"
)

// newModel makes the one client that all loops share: the providers of the config behind a gateway, a
// cassette around it if there is one, and the rehearsal model for tasks that bring a script.
func newModel(o Options) (*stage, *gateway.Gateway, error) {
	c := o.Config
	rehearse, err := newRehearsal(c.Rehearsal.Script)
	if err != nil {
		return nil, nil, err
	}
	providers, err := providersOf(o, rehearse)
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
	tiers := c.ModelsIn(o.Getenv)
	for _, m := range []string{tiers.Small, tiers.Worker, tiers.Expert} {
		if err := gate.Check(m); err != nil {
			return nil, nil, fmt.Errorf("set the models up: %w", err)
		}
	}
	s := &stage{Model: gate}
	switch c.Cassette.Mode {
	case config.CassetteRecord:
		s.tape, err = cassette.Record(gate, c.Cassette.Path, o.Secrets)
		s.Model = s.tape
	case config.CassetteReplay:
		s.Model, err = cassette.Replay(c.Cassette.Path, o.Secrets)
	}
	if err != nil {
		return nil, nil, err
	}
	return s, gate, nil
}

// providersOf are the providers there are: the default one, those of the config, and always the rehearsal.
func providersOf(o Options, rehearse llm.Model) ([]gateway.Provider, error) {
	c := o.Config
	all, err := c.ProvidersIn(o.Getenv)
	if err != nil {
		return nil, err
	}
	var out []gateway.Provider
	for _, p := range all {
		var keys []string
		envs := map[string]string{}
		for _, env := range p.KeyEnvs {
			if key := o.Getenv(env); envs[key] == "" {
				keys, envs[key] = append(keys, key), env
			}
		}
		out = append(out, gateway.Provider{
			Name: p.Name, Keys: keys, Requests: c.Limits.Requests, Tokens: c.Limits.Tokens,
			New: func(key string) llm.Model { return newClient(c, p, key, envs[key]) },
		})
	}
	return append(out, gateway.Provider{Name: llm.Rehearsal, New: func(string) llm.Model { return rehearse }}), nil
}

// newClient makes the client of one key, which the variable holds.
func newClient(c config.Config, p config.Provider, key, env string) llm.Model {
	if p.Kind == config.OpenAI {
		return openai.New(openai.Options{
			APIKey: key, KeyEnv: env, BaseURL: p.BaseURL, IdleTimeout: c.Timeouts.StreamIdle, HeaderTimeout: c.Timeouts.RequestHeaders,
			ProgressTimeout: c.Timeouts.StreamProgress, CallTimeout: c.Timeouts.Request,
		})
	}
	return anthropic.New(anthropic.Options{
		APIKey: key, KeyEnv: env, BaseURL: p.BaseURL, IdleTimeout: c.Timeouts.StreamIdle, HeaderTimeout: c.Timeouts.RequestHeaders,
		ProgressTimeout: c.Timeouts.StreamProgress, CallTimeout: c.Timeouts.Request,
	})
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

// stage sends the calls of tasks that bring a script to the rehearsal model, and the others where they
// belong: all of them by way of the cassette, if there is one.
type stage struct {
	llm.Model
	tape *cassette.Recorder // nil unless one is recorded
}

// Stream makes one call.
func (s *stage) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if req.Script != "" && !strings.HasPrefix(req.Model, llm.Rehearsal+"/") {
		req.Model = llm.Rehearsal + "/" + req.Model
	}
	return s.Model.Stream(ctx, req, emit)
}

// Count asks for the tokens of a call. A cassette has no counts: who records one does without, so that who plays it decides alike.
func (s *stage) Count(ctx context.Context, req llm.Request) (int, error) {
	counter, ok := s.Model.(llm.Counter)
	if !ok || req.Script != "" {
		return 0, llm.ErrNoCounter
	}
	return counter.Count(ctx, req)
}

// close ends the recording. Calls that are still made find the tape closed.
func (s *stage) close() error {
	if s == nil || s.tape == nil {
		return nil
	}
	if err := s.tape.Close(); err != nil {
		return fmt.Errorf("close cassette: %w", err)
	}
	return nil
}

// callsOf is what people are told of the gateway.
func callsOf(s gateway.Stats) api.Calls {
	c := api.Calls{InFlight: s.InFlight, Waiting: s.Waiting}
	for _, m := range s.Models {
		if m.State != gateway.On {
			c.Off = append(c.Off, api.OffModel{Model: m.Model, Failures: m.Failures, Until: m.Until})
		}
	}
	for _, p := range s.Providers {
		for _, k := range p.Keys {
			switch {
			case !k.Refused.IsZero():
				c.Resting = append(c.Resting, api.Resting{Provider: p.Name, Key: k.Key, Why: "not accepted", Until: k.Refused})
			case !k.Rests.IsZero():
				c.Resting = append(c.Resting, api.Resting{Provider: p.Name, Key: k.Key, Why: "rate limit", Until: k.Rests})
			}
		}
	}
	return c
}

// windowsOf is how large the windows of single models are.
func windowsOf(c config.Config) llm.Windows {
	windows := llm.Windows{}
	for _, w := range c.Windows {
		windows[w.Model] = w.Tokens
	}
	return windows
}
