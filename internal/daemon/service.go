package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/llm/rehearsal"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/transcript"
)

var (
	fpBeforeCreate = failpoint.New("daemon.add.before_create")
	fpCreated      = failpoint.New("daemon.add.created")
	fpBeforePost   = failpoint.New("daemon.command.before_post")
	fpPosted       = failpoint.New("daemon.command.posted")
)

var _ api.Service = (*Daemon)(nil)

// maxPrompt bounds what a person may type or paste: it is sent with every call.
const maxPrompt = 1 << 20

// mostListed bounds each list of tasks in a glance.
const mostListed = 50

// Status is the daemon at a glance.
func (d *Daemon) Status(ctx context.Context) (api.Status, error) {
	counts, err := d.journal.Counts(ctx)
	if err != nil {
		return api.Status{}, err
	}
	st := api.Status{
		Version: d.o.Version, Pid: os.Getpid(), StartedAt: d.started, State: d.o.StateDir,
		Provider: d.model.Provider(), Rehearsal: d.model.Provider() == config.RehearsalProvider,
		Models: models(d.o), Tasks: counts, Stopping: d.stopping.Load(), Calls: callsOf(d.gate.Stats()), Clashes: d.forecasts.clashes(), Unlanded: d.trunks.landing.unlanded(ctx),
	}
	if at := d.listens.Load(); at != nil {
		st.Listen = *at
	}
	if err := d.keeper.Failing(); err != nil {
		st.Degraded = "nothing can be recorded: " + err.Error()
	}
	for state, list := range map[td.State]*[]td.Task{td.Running: &st.Running, td.Waiting: &st.Waiting} {
		*list, err = d.journal.Tasks(ctx, store.TaskFilter{States: []td.State{state}, Brief: true, Limit: mostListed})
		if err != nil {
			return api.Status{}, err
		}
	}
	// One that is blocked may ask too: to raise a budget that all wait for.
	blocked, err := d.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Blocked}, Brief: true})
	if err != nil {
		return api.Status{}, err
	}
	for _, t := range blocked {
		switch {
		case len(t.Requests) > 0:
			st.Waiting = append(st.Waiting, t)
		case t.Status.Blocked != nil && t.Status.Blocked.Outage != nil:
			if len(st.Resting) < mostListed {
				st.Resting = append(st.Resting, t)
			}
		case !t.Status.Blocked.Passes() && len(st.Stuck) < mostListed:
			st.Stuck = append(st.Stuck, t)
		}
	}
	paused, err := d.journal.Tasks(ctx, store.TaskFilter{States: []td.State{td.Paused}, Brief: true})
	if err != nil {
		return api.Status{}, err
	}
	for _, t := range paused {
		if p := t.Status.Paused; p != nil && p.Unasked() && len(st.Stuck) < mostListed {
			st.Stuck = append(st.Stuck, t)
		}
	}
	st.Damaged = d.projects.damaged(ctx)
	if lost := d.lostConversations(); lost != "" {
		st.Damaged = append(st.Damaged, lost+"; what to do about it: taskdaemon doctor")
	}
	st.Crowded = d.crowded(st.Running, st.Waiting, blocked)
	if warning := d.diskWarning(); warning != "" {
		st.Crowded = append([]string{warning}, st.Crowded...)
	}
	return st, nil
}

// AddTask records a new task; it runs when its turn comes.
func (d *Daemon) AddTask(ctx context.Context, in api.AddTask) (td.Task, error) {
	if err := d.accepting(); err != nil {
		return td.Task{}, err
	}
	spec, err := newSpec(in)
	if err != nil {
		return td.Task{}, err
	}
	if err := d.validates(spec.Dir, spec.Validator); err != nil {
		return td.Task{}, err
	}
	key := in.Key
	if key == "" {
		key = string(spec.ID)
	}
	trunk, err := d.trunkFor(ctx, spec.Dir, in.InPlace, "")
	if err != nil {
		return td.Task{}, fmt.Errorf("add task: %w", err)
	}
	var t td.Task
	err = d.projects.plan(ctx, spec, key, func(spec td.Spec) (err error) {
		if spec, err = d.apart(spec, trunk, ""); err != nil {
			return err
		}
		fpBeforeCreate.Hit()
		if t, err = d.create(ctx, spec, key); err != nil {
			return err
		}
		fpCreated.Hit()
		return nil
	})
	if err != nil {
		return td.Task{}, fmt.Errorf("add task: %w", err)
	}
	d.projects.note(t.ID)
	d.trunks.begun(t)
	d.sched.Wake(ctx, t, false)
	return t, nil
}

// validates refuses a validator that would never be run: the agent could do nothing about that.
func (d *Daemon) validates(dir, command string) error {
	p, err := d.book.Policy(dir, "", nil)
	if command == "" || err != nil { // rules that cannot be read are told of where they are needed
		return nil
	}
	if why, is := p.Forbids(command, dir); is {
		return td.Errorf(td.Invalid, "the validator %q is forbidden (%s): %s", command, why.Rule, why.Why).
			WithHint("taskdaemon policy explain %s", command)
	}
	return nil
}

// vouch keeps the validators that a person here gave to tasks of a project as agreed to, so that nobody is asked about them. Where
// that does not work somebody is asked.
func (d *Daemon) vouch(ctx context.Context, root, by string, validators ...string) {
	var rules []td.KeptRule
	for _, v := range validators {
		if v != "" {
			rules = append(rules, td.KeptRule{
				Verdict: string(policy.Allow), Match: policy.ValidatorRule(v), In: root, By: by, Why: "the validator " + oneLine(v, 80), At: time.Now().UTC().Round(0),
			})
		}
	}
	if len(rules) == 0 {
		return
	}
	if err := d.book.Keep(ctx, rules); err != nil {
		d.o.Log.Warn("keep validators as agreed to", "project", root, "err", err)
	}
}

func (d *Daemon) accepting() error {
	if d.stopping.Load() {
		return td.Errorf(td.Unavailable, "the daemon is stopping").WithHint("try again in a moment")
	}
	return nil
}

// newSpec checks what a person asked for.
func newSpec(in api.AddTask) (td.Spec, error) {
	prompt := strings.TrimSpace(in.Prompt)
	switch {
	case prompt == "":
		return td.Spec{}, td.Errorf(td.Invalid, "the prompt is empty").WithHint(`taskdaemon task add "what to do"`)
	case len(in.Prompt) > maxPrompt:
		return td.Spec{}, td.Errorf(td.Invalid, "the prompt has %d bytes; %d are allowed", len(in.Prompt), maxPrompt).
			WithHint("put it into a file in the workspace and name the file in the prompt")
	}
	dir, err := workspace(in.Dir)
	if err != nil {
		return td.Spec{}, err
	}
	if in.Rehearsal != "" {
		if _, err := rehearsal.Parse([]byte(in.Rehearsal)); err != nil {
			return td.Spec{}, fmt.Errorf("rehearsal script: %w", err)
		}
	}
	id := td.NewTaskID()
	s := td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Kind: td.KindTask,
		Title: in.Title, Prompt: in.Prompt, Dir: dir, Mode: in.Mode, Tier: in.Tier, Model: in.Model,
		Validator: in.Validator, Yes: in.Yes, Permissions: in.Permissions, Priority: 2, Labels: in.Labels, MaxTurns: in.MaxTurns,
		CreatedAt: time.Now().UTC().Round(0), CreatedBy: in.By,
		PermissionLimit: in.Permission, Rehearsal: in.Rehearsal, Budget: in.Budget, TokenBudget: in.TokenBudget,
	}
	if s.Title = oneLine(s.Title, 80); s.Title == "" {
		s.Title = oneLine(prompt, 60)
	}
	if in.Priority != nil {
		s.Priority = *in.Priority
	}
	if s.Mode == "" {
		s.Mode = td.Autonomous
	}
	if s.Tier == "" {
		s.Tier = td.Worker
	}
	switch {
	case s.Priority < 0 || s.Priority > 4:
		return td.Spec{}, td.Errorf(td.Invalid, "priority %d: it goes from 0 (first) to 4", s.Priority)
	case s.Mode != td.Autonomous && s.Mode != td.Interactive:
		return td.Spec{}, td.Errorf(td.Invalid, "mode %q: it is autonomous or interactive", s.Mode)
	case !slices.Contains([]td.Tier{td.Small, td.Worker, td.Expert}, s.Tier):
		return td.Spec{}, td.Errorf(td.Invalid, "tier %q: it is small, worker or expert", s.Tier)
	case s.Budget < 0 || s.Budget > td.MaxBudget:
		return td.Spec{}, td.Errorf(td.Invalid, "a budget of %s: it is between $0 and %s", s.Budget, td.MaxBudget)
	case s.TokenBudget < 0 || s.TokenBudget > td.MaxTokenBudget:
		return td.Spec{}, td.Errorf(td.Invalid, "a budget of %s: it is between 0 and %s", s.TokenBudget, td.MaxTokenBudget)
	case s.Permissions != "" && !slices.Contains(td.PermissionModes, s.Permissions):
		return td.Spec{}, td.Errorf(td.Invalid, "permission mode %q: it is one of %v", s.Permissions, td.PermissionModes)
	case s.MaxTurns < 0:
		return td.Spec{}, td.Errorf(td.Invalid, "max turns %d: it must not be negative", s.MaxTurns)
	}
	return s, nil
}

func workspace(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", td.Errorf(td.Invalid, "the workspace %q is not an absolute path", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", td.Errorf(td.NotFound, "the workspace %s: %w", dir, err).WithHint("choose another with --dir")
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", td.Errorf(td.Invalid, "the workspace %s is not a folder", dir).WithHint("choose another with --dir")
	}
	return real, nil
}

// oneLine is s without line breaks and control characters, at most n characters.
func oneLine(s string, n int) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\uFFFD' {
			return ' '
		}
		return r
	}, s)), " ")
	if r := []rune(s); len(r) > n {
		return strings.TrimSpace(string(r[:n-1])) + "…"
	}
	return s
}

// Tasks are those that match.
func (d *Daemon) Tasks(ctx context.Context, q api.TaskQuery) ([]td.Task, error) {
	return d.journal.Tasks(ctx, store.TaskFilter{States: q.States, Dir: q.Dir, Limit: q.Limit, Brief: true})
}

// Task is the one a person means.
func (d *Daemon) Task(ctx context.Context, ref string) (td.Task, error) {
	id, err := d.resolve(ctx, ref)
	if err != nil {
		return td.Task{}, err
	}
	t, err := d.journal.Task(ctx, id)
	if err != nil {
		return td.Task{}, err
	}
	return d.withSubtasks(ctx, t)
}

// resolve finds the task that is meant, and says so if it has not been started.
func (d *Daemon) resolve(ctx context.Context, ref string) (td.TaskID, error) {
	id, err := d.journal.Resolve(ctx, ref)
	if td.IsKind(err, td.NotFound) {
		err = d.notStarted(ctx, ref, err)
	}
	return id, err
}

// withSubtasks adds what the subtasks of a task spend.
func (d *Daemon) withSubtasks(ctx context.Context, t td.Task) (_ td.Task, err error) {
	t.Subtasks, err = d.journal.SubtasksSpent(ctx, t.ID)
	return t, err
}

// Command puts a person's wish into the task's inbox.
func (d *Daemon) Command(ctx context.Context, ref string, in api.Command) (td.Task, error) {
	if err := d.accepting(); err != nil {
		return td.Task{}, err
	}
	t, err := d.Task(ctx, ref)
	if err != nil {
		return td.Task{}, err
	}
	cmd := td.Command{Key: in.Key, Type: in.Type, At: time.Now().UTC().Round(0), By: in.By, Text: in.Text}
	if cmd.Key == "" {
		cmd.Key = string(td.NewRequestID())
	}
	if in.Type == td.CmdAnswer {
		return d.answer(ctx, t, ref, cmd, in)
	}
	if in.Type == td.CmdExpire {
		return td.Task{}, td.Errorf(td.Invalid, "requests expire by themselves")
	}
	if (in.Type == td.CmdMessage || in.Type == td.CmdInterrupt) && strings.TrimSpace(in.Text) == "" {
		return td.Task{}, td.Errorf(td.Invalid, "the message is empty").WithHint(`taskdaemon task send %s "…"`, t.Handle)
	}
	if len(in.Text) > maxPrompt {
		return td.Task{}, td.Errorf(td.Invalid, "the message has %d bytes; %d are allowed", len(in.Text), maxPrompt)
	}
	if err := td.Refuse(t, cmd, cmd.At); err != nil {
		// It may be refused because it was carried out: the answer to it was lost, and it is given again.
		if _, posted, perr := d.journal.Posted(ctx, t.ID, cmd.Key); perr == nil && posted {
			return t, nil
		}
		return td.Task{}, err
	}
	if cmd.Type == td.CmdCancel && t.Worktree != nil && t.Offered != "" {
		// The task looks again when it takes the command; a repository that cannot be asked keeps nobody from cancelling.
		if merged, err := d.trees.Merged(ctx, *t.Worktree, t.Offered); err == nil && merged != nil {
			if _, err := td.CancelMerged(t, cmd); err != nil {
				return td.Task{}, err
			}
		}
	}
	return t, d.post(ctx, t, cmd)
}

// post puts a command into the inbox and has it looked at.
func (d *Daemon) post(ctx context.Context, t td.Task, cmd td.Command) error {
	fpBeforePost.Hit()
	if err := d.journal.Post(ctx, t.ID, cmd); err != nil {
		return fmt.Errorf("hand over the command: %w", err)
	}
	fpPosted.Hit()
	d.sched.Wake(ctx, t, cmd.Type == td.CmdCancel)
	return nil
}

// requestMeant is the open request an answer is for: the one named, or the only one there is.
func requestMeant(t td.Task, ref, name string) (td.Request, error) {
	named := name != ""
	if !named {
		name = ref
	}
	var partial []td.Request
	for _, r := range t.Requests {
		exact, part := td.MatchesRef(name, string(r.ID), r.Handle())
		if exact {
			return r, nil
		}
		if part {
			partial = append(partial, r)
		}
	}
	switch {
	case len(partial) == 1:
		return partial[0], nil
	case named && len(partial) == 0:
		return td.Request{}, td.Errorf(td.Conflict, "%s does not ask %s: it was answered, it expired, or another task asks it", t.Handle, name).
			WithHint("taskdaemon task show %s", t.Handle)
	case len(t.Requests) == 1:
		return t.Requests[0], nil
	case len(t.Requests) == 0:
		return td.Request{}, td.Errorf(td.Conflict, "%s asks nothing: it is %s", t.Handle, t.Status.State).
			WithHint("taskdaemon task show %s", t.Handle)
	}
	var names []string
	for _, r := range t.Requests {
		names = append(names, r.Handle())
	}
	return td.Request{}, td.Errorf(td.Ambiguous, "%s has several open requests: %s", t.Handle, strings.Join(names, ", "))
}

// History is a task's conversation with its records.
func (d *Daemon) History(ctx context.Context, ref string) (api.History, error) {
	t, err := d.Task(ctx, ref)
	if err != nil {
		return api.History{}, err
	}
	h := api.History{Task: t}
	if h.Events, h.Gone, err = d.records(ctx, t); err != nil {
		return api.History{}, err
	}
	h.Messages, h.Ended = transcript.Of(h.Events).Shown()
	return h, nil
}

// Recovery is the report of the newest start.
func (d *Daemon) Recovery(context.Context) (td.Report, error) {
	d.reportMu.Lock()
	defer d.reportMu.Unlock()
	return d.report, nil
}

// Checkpoint brings everything that follows the journal up to date and says where the task stands.
func (d *Daemon) Checkpoint(ctx context.Context, ref string) (api.Checkpoint, error) {
	t, err := d.Task(ctx, ref)
	if err != nil {
		return api.Checkpoint{}, err
	}
	cp := api.Checkpoint{Seq: t.Head, Branch: t.Handle, Repo: d.repo()}
	if cp.Cursor, err = d.journal.Last(ctx); err != nil {
		return api.Checkpoint{}, err
	}
	if cp.Commit, err = d.mirror.Flush(ctx, t.ID); err != nil {
		return api.Checkpoint{}, fmt.Errorf("bring the conversation up to date: %w", err)
	}
	_, cp.Snapshot, err = git.Snapshot(ctx, t.Dir, t.Handle, "checkpoint of "+t.Handle+": "+t.Title)
	if err != nil && !td.IsKind(err, td.NotFound) && !td.IsKind(err, td.Unavailable) {
		return api.Checkpoint{}, fmt.Errorf("snapshot the workspace: %w", err)
	}
	cp.Task, err = d.journal.Task(ctx, t.ID)
	return cp, err
}

// Stop begins a graceful shutdown and returns at once.
func (d *Daemon) Stop(context.Context) error {
	d.stopOnce.Do(func() { close(d.stop) })
	return nil
}
