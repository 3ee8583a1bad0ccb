package cli

import (
	"context"
	"slices"
	"sync"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/notify"
	"taskdaemon/internal/td"
)

// notify says in the terminal, to whoever waited for the task and looked away, how it stands.
func (a *app) notify(t td.Task) {
	c := a.tells()
	e := notify.Of(t)
	if c.Title {
		_ = notify.Title(a.stdout, e.Sentence()) // a terminal that is gone needs no title
	}
	if c.Bell {
		_ = notify.Bell(a.stdout)
	}
}

// tells is how a person in front of the terminal wants to be told; nothing where there is none.
func (a *app) tells() config.Notify {
	if a.json || !isTerminal(a.stdout) || a.getenv("TERM") == "dumb" {
		return config.Notify{}
	}
	c, _, err := a.loadConfig(nil)
	if err != nil {
		return config.Notify{} // the settings are wrong; others say so
	}
	return c.Notify
}

// callForInput has the terminal's title say which task needs a person, any task of the daemon, until stop is called: whoever watches one looks at no
// other. What cannot be had is done without.
func (a *app) callForInput(ctx context.Context, svc api.Service) (stop func()) {
	if !a.tells().Title {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { a.followRequests(ctx, svc) })
	return func() {
		cancel()
		wg.Wait()
	}
}

func (a *app) followRequests(ctx context.Context, svc api.Service) {
	var asking []td.TaskID
	take := func(t td.Task) {
		asked := len(asking)
		asking = slices.DeleteFunc(asking, func(id td.TaskID) bool { return id == t.ID })
		switch {
		case t.Status.State == td.Waiting:
			asking = append(asking, t.ID)
			_ = notify.Title(a.stdout, notify.NeedsInput(t))
		case asked > 0 && len(asking) == 0:
			_ = notify.Title(a.stdout, "")
		}
	}
	waiting, err := svc.Tasks(ctx, api.TaskQuery{States: []td.State{td.Waiting}})
	if err != nil {
		return
	}
	for _, t := range waiting {
		take(t)
	}
	for it, err := range svc.Events(ctx, api.EventQuery{Types: []td.EventType{td.Moved{}.Type()}, Tail: true, Follow: true}) {
		if err != nil {
			return
		}
		if it.Event == nil {
			continue
		}
		moved, is := it.Event.Body.(td.Moved)
		if !is {
			continue
		}
		t := td.Task{Spec: td.Spec{ID: it.Event.Task}, Live: td.Live{Status: moved.Status}}
		if t.Status.State == td.Waiting {
			if t, err = svc.Task(ctx, string(it.Event.Task)); err != nil {
				continue
			}
		}
		take(t)
	}
}
