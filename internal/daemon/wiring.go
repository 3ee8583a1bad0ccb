package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/git"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
	"taskdaemon/internal/tool/builtin"
	"taskdaemon/internal/transcript"
)

func newEngine(d *Daemon, h td.Holder) *engine.Engine {
	c := d.o.Config
	rateLimited := make([]time.Duration, c.Retry.RateLimitedMax)
	for i := range rateLimited {
		rateLimited[i] = c.Retry.RateLimitedWait
	}
	return engine.New(engine.Options{
		Journal:       d.journal,
		Records:       d.whole,
		Model:         d.model,
		Tools:         tool.NewRegistry(builtin.Tools(builtin.Options{JobLimit: c.Timeouts.BackgroundJob, Knowledge: d.shelf, Web: d.web, Loops: loops{d}})...),
		Spool:         d.spool,
		Sandbox:       profiles(d.o),
		Enforced:      Enforced(d.o),
		Models:        models(d.o),
		Choose:        d.gate.Choose,
		Chain:         d.gate.Chain,
		Prices:        d.prices,
		Escalate:      c.Limits.Escalate,
		Budgets:       budgets(c),
		MayWorkIn:     d.o.mayWorkIn,
		Environment:   d.environment,
		Recent:        d.recent,
		More:          d.more,
		Planned:       d.plannedAround,
		Knowledge:     d.shelf,
		Extract:       engine.Extract(c.Knowledge.Extract),
		Worktrees:     d.trees,
		Albums:        d.albums,
		Newest:        func(ctx context.Context, t td.Task) td.Snapshotted { return d.witnesses.newest(ctx, d.o.Log, t) },
		Checkouts:     checkouts{CheckoutsDir(d.o.StateDir)},
		Spawn:         d.spawn,
		CancelChild:   d.cancelChild,
		Tell:          loops{d}.act,
		Desk:          desk{d},
		Raised:        d.wakeSpenders,
		Tree:          tree,
		UserDir:       d.o.UserDir,
		Hooks:         d.hooks,
		HookDir:       d.hookDir(),
		Redact:        d.o.Secrets,
		Replay:        c.Cassette.Mode == config.CassetteReplay,
		Live:          func(l api.Live) { d.live.Publish(l) },
		Window:        c.Window.Tokens,
		Windows:       windowsOf(c),
		Share:         float64(c.Window.Percent) / 100,
		MaxTokens:     c.MaxTokens,
		Thinking:      c.Thinking,
		Temperature:   c.Temperature,
		SubtaskLimit:  c.Timeouts.Subtask,
		Turns:         c.Limits.Turns,
		Reminders:     c.Limits.Reminders,
		Iterations:    c.Limits.Iterations,
		Verifications: c.Limits.Verifications,
		Tool:          c.Timeouts.Tool,
		Permission:    c.Timeouts.Permission,
		Retry:         engine.RetryTable{Network: c.Retry.Network, Overloaded: c.Retry.Overloaded, RateLimited: rateLimited, Rest: c.Retry.Rest, RestMax: c.Retry.RestMax},
		Drift: transcript.DriftLimits{
			TurnTokens: int64(c.Drift.TurnTokens), ToolFailures: c.Drift.ToolFailures, NoProgress: c.Drift.NoProgress,
			Repeats: c.Drift.Repeats,
		},
		Leases:      d.leases(),
		Boot:        h.Boot,
		Log:         d.o.Log,
		Guard:       d.book,
		Permissions: td.PermissionMode(c.Permissions.Mode),
		Rates:       d.rates,
		Taint:       c.Permissions.Untrusted == config.UntrustedAsk,
		Anomalies: transcript.AnomalyLimits{
			Writes: c.Anomalies.Writes, Commands: c.Anomalies.Commands, Places: c.Anomalies.Places,
			Memory: int64(c.Anomalies.Memory), CPU: c.Anomalies.CPU,
		},
		AnomalyAction: td.AnomalyAction(c.Anomalies.Action),
	})
}

// spawn creates a subtask once, by its id, and lets it run.
func (d *Daemon) spawn(ctx context.Context, spec td.Spec) (td.Task, error) {
	t, err := d.create(ctx, spec, string(spec.ID))
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

// hosts are the words of a list separated by commas.
func hosts(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// Rates are those of the config, ready to hold calls against. One that would limit nothing is an error with
// its file and line.
func Rates(c config.Config) ([]policy.Rate, error) {
	out := make([]policy.Rate, len(c.Rates))
	for i, r := range c.Rates {
		out[i] = policy.Rate{Match: r.Tool, Limit: r.Limit, Per: r.Per}
		if err := out[i].Check(); err != nil {
			return nil, td.Errorf(td.Invalid, "%s: rates: %w", r.Where, err).WithHint("write it as: {tool: Bash, limit: 30, per: 1m}")
		}
	}
	return out, nil
}

func models(o Options) map[td.Tier]string {
	m := o.Config.ModelsIn(o.Getenv)
	return map[td.Tier]string{td.Small: m.Small, td.Worker: m.Worker, td.Expert: m.Expert}
}

// environment describes a workspace for the model.
func (d *Daemon) environment(ctx context.Context, dir, tree string) string {
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
	if profile := profiles(d.o); profile != nil && profile(dir, tree).GitReadOnly() {
		state += "; .git is read-only here: leave your changes uncommitted, a person commits them"
	}
	return fmt.Sprintf("git: branch %s, %s\nrecent commits:\n  %s", branch, state, strings.Join(info.Commits, "\n  "))
}

// recent are the files that were changed lately in a workspace.
func (d *Daemon) recent(ctx context.Context, dir string) []string {
	files, err := git.Recent(ctx, dir)
	if err != nil {
		d.o.Log.Warn("look for files that were changed lately", "dir", dir, "err", err)
	}
	return files
}

func tree(ctx context.Context, dir string) (string, error) {
	hash, err := git.TreeHash(ctx, dir)
	if td.IsKind(err, td.NotFound) || td.IsKind(err, td.Unavailable) {
		return "", nil
	}
	return hash, err
}
