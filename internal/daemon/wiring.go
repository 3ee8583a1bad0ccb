package daemon

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/git"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/anthropic"
	"taskdaemon/internal/llm/cassette"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/tool/builtin"
	"taskdaemon/internal/transcript"
)

// newModel makes the model the config asks for. A task that brings a rehearsal script is rehearsed
// whatever the provider is.
func newModel(o Options) (llm.Model, error) {
	c := o.Config
	rehearse, err := newRehearsal(c.Rehearsal.Script)
	if err != nil {
		return nil, err
	}
	var model llm.Model = rehearse
	key := o.Getenv(c.APIKeyEnv)
	if c.ProviderIn(o.Getenv) == config.Anthropic {
		if key == "" && c.BaseURL == "" {
			return nil, td.Errorf(td.Auth, "the provider is anthropic but %s is not set", c.APIKeyEnv).
				WithHint("export %s=…, or set `provider: rehearsal` in the config", c.APIKeyEnv)
		}
		model = anthropic.New(anthropic.Options{
			APIKey: key, BaseURL: c.BaseURL,
			IdleTimeout: c.Timeouts.StreamIdle, HeaderTimeout: c.Timeouts.RequestHeaders,
		})
	}
	switch c.Cassette.Mode {
	case config.CassetteRecord:
		model, err = cassette.Record(model, c.Cassette.Path, redact.New(key))
	case config.CassetteReplay:
		model, err = cassette.Replay(c.Cassette.Path, cassette.Options{Redactor: redact.New(key)})
	}
	if err != nil {
		return nil, err
	}
	return &stage{Model: llm.Throttle(model), rehearsal: rehearse}, nil
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

// stage lets tasks with a script of their own be rehearsed, the others be played by the real model.
type stage struct {
	llm.Model
	rehearsal llm.Model
}

// Stream makes one call.
func (s *stage) Stream(ctx context.Context, req llm.Request, emit func(llm.Delta)) (llm.Response, error) {
	if req.Script != "" {
		return s.rehearsal.Stream(ctx, req, emit)
	}
	return s.Model.Stream(ctx, req, emit)
}

func newEngine(d *Daemon, h td.Holder) *engine.Engine {
	c := d.o.Config
	rateLimited := make([]time.Duration, c.Retry.RateLimitedMax)
	for i := range rateLimited {
		rateLimited[i] = c.Retry.RateLimitedWait
	}
	return engine.New(engine.Options{
		Journal:     d.journal,
		Model:       d.model,
		Tools:       tool.NewRegistry(builtin.Tools(builtin.Options{JobLimit: c.Timeouts.BackgroundJob})...),
		Spool:       d.spool,
		Models:      models(c),
		Environment: environment,
		Spawn:       d.spawn,
		CancelChild: d.cancelChild,
		Tree:        tree,
		UserDir:     d.o.UserDir,
		Live:        func(l api.Live) { d.live.Publish(l) },
		Window:      c.Window.Tokens,
		Share:       float64(c.Window.Percent) / 100,
		MaxTokens:   c.MaxTokens,
		Thinking:    c.Thinking,
		Turns:       c.Limits.Turns,
		Reminders:   c.Limits.Reminders,
		Tool:        c.Timeouts.Tool,
		Permission:  c.Timeouts.Permission,
		Retry:       engine.RetryTable{Network: c.Retry.Network, Overloaded: c.Retry.Overloaded, RateLimited: rateLimited},
		Drift: transcript.DriftLimits{
			TurnTokens: int64(c.Drift.TurnTokens), ToolFailures: c.Drift.ToolFailures, NoProgress: c.Drift.NoProgress,
			Repeats: c.Drift.Repeats, Cost: c.Drift.Cost,
		},
		Boot: h.Boot,
		Log:  d.o.Log,
	})
}

// spawn creates a subtask once, by its id, and lets it run.
func (d *Daemon) spawn(ctx context.Context, spec td.Spec) (td.Task, error) {
	t, err := d.journal.Create(ctx, spec, string(spec.ID))
	if err != nil {
		return td.Task{}, err
	}
	if t.Head == 1 {
		d.sched.Wake(ctx, t, false)
	}
	return t, nil
}

// cancelChild puts the end of its parent into a subtask's inbox, once.
func (d *Daemon) cancelChild(ctx context.Context, id td.TaskID, why string) error {
	t, err := d.journal.Task(ctx, id)
	if td.IsKind(err, td.NotFound) {
		return nil // it was named and never created
	}
	if err != nil || t.Status.State.Terminal() {
		return err
	}
	err = d.journal.Post(ctx, id, td.Command{
		Key: "parent/" + string(t.Parent), Type: td.CmdCancel, At: time.Now().UTC().Round(0), By: "taskdaemon", Text: why,
	})
	if err == nil {
		d.sched.Wake(ctx, t, true)
	}
	return err
}

func models(c config.Config) map[td.Tier]string {
	return map[td.Tier]string{td.Small: c.Models.Small, td.Worker: c.Models.Worker, td.Expert: c.Models.Expert}
}

// environment describes a workspace for the model.
func environment(ctx context.Context, dir string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	info, err := git.Describe(ctx, dir)
	if err != nil || !info.Repo {
		return "git: none"
	}
	state := "clean"
	if info.Dirty {
		state = "dirty"
	}
	branch := info.Branch
	if branch == "" {
		branch = "(detached)"
	}
	return fmt.Sprintf("git: branch %s, %s\nrecent commits:\n  %s", branch, state, strings.Join(info.Commits, "\n  "))
}

func tree(ctx context.Context, dir string) (string, error) {
	hash, err := git.TreeHash(ctx, dir)
	if td.IsKind(err, td.NotFound) || td.IsKind(err, td.Unavailable) {
		return "", nil
	}
	return hash, err
}
