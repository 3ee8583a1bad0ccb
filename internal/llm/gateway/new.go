package gateway

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/td"
	"taskdaemon/internal/typo"
)

// New makes a gateway. Options that cannot work give an error of kind Invalid.
func New(o Options) (*Gateway, error) {
	g := &Gateway{
		byName: map[string]*provider{}, fallback: map[string][]string{}, breakers: map[string]*circuit{},
		breaker: o.Breaker.orDefault(), most: o.InFlight, queue: o.Queue, start: time.Now(),
	}
	if g.queue == 0 {
		g.queue = DefaultQueue
	}
	if o.InFlight < 0 || o.Queue < 0 {
		return nil, td.Errorf(td.Invalid, "the bounds of the gateway cannot be negative")
	}
	for _, p := range o.Providers {
		if err := g.add(p); err != nil {
			return nil, err
		}
	}
	if len(g.order) == 0 {
		return nil, td.Errorf(td.Invalid, "there is no provider")
	}
	g.standard = g.order[0]
	if o.Default != "" {
		var err error
		if g.standard, err = g.provider(o.Default); err != nil {
			return nil, err
		}
	}
	if err := g.chain(o.Fallback); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Gateway) add(o Provider) error {
	switch {
	case o.Name == "" || strings.Contains(o.Name, "/"):
		return td.Errorf(td.Invalid, "%q cannot be the name of a provider", o.Name)
	case g.byName[o.Name] != nil:
		return td.Errorf(td.Invalid, "the provider %s is there twice", o.Name)
	case o.InFlight < 0 || o.Requests < 0 || o.Tokens < 0:
		return td.Errorf(td.Invalid, "the bounds of the provider %s cannot be negative", o.Name)
	}
	p := &provider{name: o.Name}
	keys := o.Keys
	if len(keys) == 0 {
		keys = []string{""}
	}
	for i, k := range keys {
		if slices.Contains(keys[:i], k) { // its budget would count twice
			return td.Errorf(td.Invalid, "the provider %s has the key %q twice", o.Name, tail(k))
		}
		p.keys = append(p.keys, &key{
			model: o.New(k), name: tail(k), most: o.InFlight,
			minute: minute{requests: o.Requests, tokens: int64(o.Tokens)},
		})
	}
	g.byName[o.Name] = p
	g.order = append(g.order, p)
	return nil
}

// tail is what may be shown of a key: enough to tell it from others. A short one may be a word.
func tail(key string) string {
	switch {
	case key == "":
		return ""
	case len(key) < 16:
		return "…"
	}
	return "…" + key[len(key)-4:]
}

// chain takes over the fallbacks, by the full names of models.
func (g *Gateway) chain(fallback map[string][]string) error {
	for _, model := range slices.Sorted(maps.Keys(fallback)) {
		full, err := g.fullName(model)
		if err != nil {
			return err
		}
		if g.fallback[full] != nil {
			return td.Errorf(td.Invalid, "the model %s has two fallback chains", full)
		}
		for _, other := range fallback[model] {
			switch to, err := g.fullName(other); {
			case err != nil:
				return err
			case to == full:
				return td.Errorf(td.Invalid, "the model %s cannot fall back on itself", model)
			}
		}
		g.fallback[full] = slices.Clone(fallback[model])
	}
	return nil
}

// Check says whether a model can be asked for by this name: its provider is known. Whether the provider
// knows the model only a call can tell.
func (g *Gateway) Check(model string) error {
	_, err := g.fullName(model)
	return err
}

// resolve finds the provider of a model, and the name the provider has for it.
func (g *Gateway) resolve(model string) (*provider, string, error) {
	name, bare, slash := strings.Cut(model, "/")
	if !slash {
		return g.standard, model, nil
	}
	p, err := g.provider(name)
	if err == nil && bare == "" {
		err = td.Errorf(td.Invalid, "%q names a provider and no model", model)
	}
	return p, bare, err
}

func (g *Gateway) provider(name string) (*provider, error) {
	if p := g.byName[name]; p != nil {
		return p, nil
	}
	known := slices.Sorted(maps.Keys(g.byName))
	return nil, td.Errorf(td.Invalid, "there is no provider %.60q; did you mean %q?", name, typo.Nearest(name, known)).
		WithHint("the providers are %s; a model of another one is named provider/model", td.Words(strings.Join(known, ", ")))
}

// fullName is the name of a model with its provider.
func (g *Gateway) fullName(model string) (string, error) {
	p, bare, err := g.resolve(model)
	if err != nil {
		return "", err
	}
	return p.name + "/" + bare, nil
}

// badRequest is a call that cannot be made, as a model says it.
func badRequest(err error) error {
	e := &llm.Error{Class: td.BadRequest, Err: err}
	if said, ok := errors.AsType[*td.Error](err); ok {
		e.Hint = said.Hint
	}
	return e
}
