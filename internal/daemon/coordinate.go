package daemon

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/query"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool/builtin"
)

var (
	fpBeforeMail = failpoint.New("daemon.mail.before_post")
	fpMailPosted = failpoint.New("daemon.mail.posted")
	fpMailSent   = failpoint.New("daemon.mail.sent")
	fpLoopStop   = failpoint.New("daemon.mail.stop_posted")
)

// mailKey is the key of a message, or of a stop, in an inbox: whoever sends it twice has it taken once.
func mailKey(id string) string { return "mail/" + id }

// sender is who hands something to loops.
type sender struct {
	by   string
	loop *td.Task // nil: a person, or taskdaemon itself
}

// Tell hands a person's words to loops.
func (d *Daemon) Tell(ctx context.Context, in api.Tell) (api.Told, error) {
	if err := d.accepting(); err != nil {
		return api.Told{}, err
	}
	l := td.Letter{ID: "person/" + cmp.Or(in.Key, string(td.NewRequestID())), To: in.To, Topic: in.Type, Text: in.Text}
	who := sender{by: cmp.Or(in.By, "a person")}
	if who.by == td.ByTaskdaemon {
		return api.Told{}, td.Errorf(td.Invalid, "%q is not the name of a person", in.By)
	}
	if l.Kind() == td.MailNotify {
		dir, err := workspace(in.Dir)
		if err != nil {
			return api.Told{}, err
		}
		to, err := d.announce(ctx, who, dir, l)
		return api.Told{ID: l.ID, To: to}, err
	}
	var to []td.Task
	for _, ref := range in.To {
		t, err := d.Task(ctx, ref)
		if err != nil {
			return api.Told{}, err
		}
		to = append(to, t)
	}
	names, err := d.deliver(ctx, who, l, to)
	return api.Told{ID: l.ID, To: names}, err
}

// announce hands a letter to all loops of the project around dir that have not ended and listen, but to its sender, and says
// to whom. With the same id again nobody is told twice: whoever announces what happened may do so until it
// worked.
func (d *Daemon) announce(ctx context.Context, who sender, dir string, l td.Letter) ([]string, error) {
	live, err := d.loopsAt(ctx, homeOf(dir))
	if err != nil {
		return nil, err
	}
	to := slices.DeleteFunc(live, func(t td.Task) bool {
		return !t.Listens(l.Topic) || who.loop != nil && t.ID == who.loop.ID
	})
	return d.deliver(ctx, who, l, to)
}

// deliver puts a letter into the inboxes of its receivers, one after the other: what one sender sends is read in that order.
// All of them are looked at before the first gets it.
func (d *Daemon) deliver(ctx context.Context, who sender, l td.Letter, to []td.Task) ([]string, error) {
	if err := l.Check(); err != nil {
		return nil, err
	}
	cmd := td.Command{
		Key: mailKey(l.ID), Type: td.CmdMail, At: time.Now().UTC().Round(0), By: who.by, Text: l.Text,
		Mail: &td.Mail{ID: l.ID, Kind: l.Kind(), Topic: l.Topic, Untrusted: l.Untrusted},
	}
	if t := who.loop; t != nil {
		cmd.Mail.From, cmd.Mail.Handle, cmd.Mail.Untrusted = t.ID, t.Handle, l.Untrusted || t.Untrusted
		if !d.pace.take(t.ID, time.Now()) {
			return nil, td.Errorf(td.Busy, "%s has sent %d messages within a second: wait a second, or put them into one", t.Handle, td.MailRate)
		}
	}
	names := []string{}
	for _, t := range to {
		if err := td.Refuse(t, cmd, cmd.At); err != nil && l.Kind() == td.MailShare {
			if _, has, perr := d.journal.Posted(ctx, t.ID, cmd.Key); perr != nil || !has {
				return nil, err
			}
		}
	}
	for _, t := range to {
		fpBeforeMail.Hit()
		if err := d.journal.Post(ctx, t.ID, cmd); err != nil {
			return nil, fmt.Errorf("hand the message to %s: %w", t.Handle, err)
		}
		fpMailPosted.Hit()
		d.sched.Wake(ctx, t, false)
		if !slices.Contains(names, t.Handle) {
			names = append(names, t.Handle)
		}
	}
	fpMailSent.Hit()
	return names, nil
}

// loopsAt are the tasks that have not ended and work at a home. Those that judge the work of others, and those that prepare
// a PRD, are none of them: they go by what they are given.
func (d *Daemon) loopsAt(ctx context.Context, home string) ([]td.Task, error) {
	live, err := d.journal.Tasks(ctx, store.TaskFilter{States: store.Live, Brief: true})
	return slices.DeleteFunc(live, func(t td.Task) bool {
		return t.Source != "" || t.Author != nil || homeOf(projectDir(t)) != home
	}), err
}

// projectDir is a folder of the project that a task works in.
func projectDir(t td.Task) string { return cmp.Or(t.Project, t.Source, t.Home()) }

// homeOf names the project around a folder: all worktrees of a repository are one.
func homeOf(dir string) string { return cmp.Or(git.CommonDir(dir), dir) }

// loops is what loops may do with each other: those of a project, or of a tree.
type loops struct{ *Daemon }

var _ builtin.Loops = loops{}

// Near are the other loops of the project that have not ended.
func (l loops) Near(ctx context.Context, from td.TaskID) ([]td.Task, error) {
	me, err := l.journal.Task(ctx, from)
	if err != nil {
		return nil, err
	}
	near, err := l.loopsAt(ctx, homeOf(projectDir(me)))
	return slices.DeleteFunc(near, func(t td.Task) bool { return t.ID == from }), err
}

// Find is the loop that another one means. What is not of its project it is not told of.
func (l loops) Find(ctx context.Context, from td.TaskID, ref string) (td.Task, error) {
	me, err := l.journal.Task(ctx, from)
	if err != nil {
		return td.Task{}, err
	}
	nobody := td.Errorf(td.NotFound, "no loop of this project is called %q, or more than one is. Query without a loop lists them", oneLine(ref, 80))
	id, err := l.journal.Resolve(ctx, ref)
	if td.IsKind(err, td.NotFound) || td.IsKind(err, td.Ambiguous) {
		return td.Task{}, nobody
	}
	if err != nil {
		return td.Task{}, err
	}
	t, err := l.journal.Task(ctx, id)
	switch {
	case err != nil:
		return td.Task{}, err
	case id == from:
		return td.Task{}, td.Errorf(td.Invalid, "%s is you", t.Handle)
	case t.Tree() != me.Tree() && homeOf(projectDir(t)) != homeOf(projectDir(me)):
		return td.Task{}, nobody
	}
	return t, nil
}

// Send hands over a letter of a loop, whose receivers were found before.
func (l loops) Send(ctx context.Context, from td.TaskID, letter td.Letter) ([]string, error) {
	me, err := l.journal.Task(ctx, from)
	if err != nil {
		return nil, err
	}
	who := sender{by: "task " + me.Handle, loop: &me}
	if letter.Kind() == td.MailNotify {
		return l.announce(ctx, who, projectDir(me), letter)
	}
	var to []td.Task
	for _, ref := range letter.To {
		t, err := l.Find(ctx, from, ref)
		if err != nil {
			return nil, err
		}
		to = append(to, t)
	}
	return l.deliver(ctx, who, letter, to)
}

// act does what a hook wants of other loops, in the name of the task that it was called for, once by the letter's name.
func (l loops) act(ctx context.Context, from td.TaskID, do string, letter td.Letter) ([]string, error) {
	if do == "" {
		return l.Send(ctx, from, letter)
	}
	var about []td.Task
	for _, ref := range letter.To {
		t, err := l.Find(ctx, from, ref)
		if err != nil {
			return nil, err
		}
		about = append(about, t)
	}
	var names []string
	for i, t := range about {
		key := fmt.Sprintf("%s.%d", letter.ID, i)
		var err error
		switch do {
		case hook.DoStop:
			err = l.Stop(ctx, from, t.ID, key, letter.Text)
		case hook.DoQuery:
			err = l.report(ctx, from, t.ID, key, letter.Text)
		default:
			err = td.Errorf(td.Invalid, "a hook wants %q of other loops", do)
		}
		if err != nil {
			return names, err
		}
		names = append(names, t.Handle)
	}
	return names, nil
}

// report hands what is known of a loop to another one that a hook asks for. No model is asked: to a question that only one could answer it is told
// how the loop stands and what it changed.
func (l loops) report(ctx context.Context, to, about td.TaskID, id, question string) error {
	me, err := l.journal.Task(ctx, to)
	if err != nil {
		return err
	}
	facts, err := l.Facts(ctx, about)
	if err != nil {
		return err
	}
	known := facts.Answer(query.KindOf(question))
	if known == "" {
		known = facts.Answer(query.State) + "\n" + facts.Answer(query.Files)
	}
	_, err = l.deliver(ctx, sender{by: td.ByTaskdaemon}, td.Letter{
		ID: id, To: []string{me.Handle}, Text: fmt.Sprintf("What is known of %s (%s): %s", facts.Task.Handle, oneLine(question, 200), known), Untrusted: facts.Task.Untrusted,
	}, []td.Task{me})
	return err
}

// Facts is what is known of a loop.
func (l loops) Facts(ctx context.Context, id td.TaskID) (query.Facts, error) {
	t, err := l.journal.Task(ctx, id)
	if err != nil {
		return query.Facts{}, err
	}
	return l.facts(ctx, t)
}

// Stop puts a cancellation into the inbox of a loop, once by key.
func (l loops) Stop(ctx context.Context, from, id td.TaskID, key, why string) error {
	me, err := l.journal.Task(ctx, from)
	if err != nil {
		return err
	}
	t, err := l.Find(ctx, from, string(id))
	if err != nil {
		return err
	}
	cmd := td.Command{
		Key: mailKey(key), Type: td.CmdCancel, At: time.Now().UTC().Round(0), By: "task " + me.Handle,
		Text: fmt.Sprintf("stopped by %s: %s", me.Handle, oneLine(why, 500)),
	}
	if err := td.Refuse(t, cmd, cmd.At); err != nil {
		if _, has, perr := l.journal.Posted(ctx, id, cmd.Key); perr == nil && has {
			return nil
		}
		return err
	}
	if err := l.journal.Post(ctx, id, cmd); err != nil {
		return fmt.Errorf("stop %s: %w", t.Handle, err)
	}
	fpLoopStop.Hit()
	l.sched.Wake(ctx, t, true)
	return nil
}

// pace bounds how often loops send. What a loop sent before a restart does not count after it: that is a second's worth at
// most.
type pace struct {
	mu   sync.Mutex
	sent map[td.TaskID][]time.Time // within the last second, oldest first
}

// take reports whether a loop may send once more now.
func (p *pace) take(id td.TaskID, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == nil {
		p.sent = map[td.TaskID][]time.Time{}
	}
	for other, times := range p.sent {
		if now.Sub(times[len(times)-1]) >= time.Second {
			delete(p.sent, other)
		}
	}
	times := slices.DeleteFunc(p.sent[id], func(at time.Time) bool { return now.Sub(at) >= time.Second })
	if len(times) >= td.MailRate {
		p.sent[id] = times
		return false
	}
	p.sent[id] = append(times, now)
	return true
}
