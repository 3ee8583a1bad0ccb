package cli

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"path/filepath"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/client"
	"taskdaemon/internal/config"
	"taskdaemon/internal/td"
)

// session is the daemon as a command sees it: when it is not there, it is started and the call is made
// again. Every change carries a key, so making it again changes nothing twice.
type session struct {
	*client.Client
	ensure func(ctx context.Context) error
}

var _ api.Service = (*session)(nil)

// socketPath is where the daemon of a state folder listens.
func socketPath(stateDir string) string { return filepath.Join(stateDir, "run", "sock") }

func (a *app) connect(context.Context) (api.Service, error) {
	if addr := a.address(); addr != "" {
		return a.far(addr)
	}
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	return a.sessionWith(dir, a.redial(dir)), nil
}

func (a *app) sessionWith(dir string, redial func(context.Context, error) error) *session {
	c := client.New(client.Options{Socket: socketPath(dir), Redial: redial})
	return &session{Client: c, ensure: func(ctx context.Context) error { return a.ensureDaemon(ctx, dir) }}
}

// again makes the call, and once more when a daemon had to be started first.
func again[T any](ctx context.Context, s *session, call func() (T, error)) (T, error) {
	v, err := call()
	if !td.IsKind(err, td.Unavailable) && !td.IsKind(err, td.Unknown) {
		return v, err
	}
	if err := s.ensure(ctx); err != nil {
		return v, err
	}
	return call()
}

// known makes a call about a task. If the daemon does not know the task, the graph of the present folder may: the daemon
// looks into it, and makes its answer with that.
func known[T any](ctx context.Context, s *session, ref string, call func() (T, error)) (T, error) {
	v, err := again(ctx, s, call)
	if !td.IsKind(err, td.NotFound) {
		return v, err
	}
	dir, derr := folderOr("")
	if derr != nil {
		return v, err
	}
	if _, perr := s.Client.PlannedTask(ctx, dir, ref); perr != nil {
		return v, err
	}
	return call()
}

// Status is the daemon at a glance.
func (s *session) Status(ctx context.Context) (api.Status, error) {
	return again(ctx, s, func() (api.Status, error) { return s.Client.Status(ctx) })
}

// AddTask adds a task once, even if the daemon dies under the call.
func (s *session) AddTask(ctx context.Context, in api.AddTask) (td.Task, error) {
	if in.Key == "" {
		in.Key = rand.Text()
	}
	return again(ctx, s, func() (td.Task, error) { return s.Client.AddTask(ctx, in) })
}

// Tasks lists tasks.
func (s *session) Tasks(ctx context.Context, q api.TaskQuery) ([]td.Task, error) {
	return again(ctx, s, func() ([]td.Task, error) { return s.Client.Tasks(ctx, q) })
}

// Task finds one task.
func (s *session) Task(ctx context.Context, ref string) (td.Task, error) {
	return known(ctx, s, ref, func() (td.Task, error) { return s.Client.Task(ctx, ref) })
}

// Command hands over a wish once, even if the daemon dies under the call.
func (s *session) Command(ctx context.Context, ref string, cmd api.Command) (td.Task, error) {
	if cmd.Key == "" {
		cmd.Key = rand.Text()
	}
	return known(ctx, s, ref, func() (td.Task, error) { return s.Client.Command(ctx, ref, cmd) })
}

// History is the conversation of a task.
func (s *session) History(ctx context.Context, ref string) (api.History, error) {
	return known(ctx, s, ref, func() (api.History, error) { return s.Client.History(ctx, ref) })
}

// Recovery is the report of the daemon's start.
func (s *session) Recovery(ctx context.Context) (td.Report, error) {
	return again(ctx, s, func() (td.Report, error) { return s.Client.Recovery(ctx) })
}

// Context is what the model is told in the task's next call.
func (s *session) Context(ctx context.Context, ref string) (api.Context, error) {
	return known(ctx, s, ref, func() (api.Context, error) { return s.Client.Context(ctx, ref) })
}

// MCPServers is what is known of each server of tools.
func (s *session) MCPServers(ctx context.Context) ([]api.MCPServer, error) {
	return again(ctx, s, func() ([]api.MCPServer, error) { return s.Client.MCPServers(ctx) })
}

// TestMCPServer starts a server of tools and asks for them.
func (s *session) TestMCPServer(ctx context.Context, name string) (api.MCPServer, error) {
	return again(ctx, s, func() (api.MCPServer, error) { return s.Client.TestMCPServer(ctx, name) })
}

// Checkpoint brings the mirrors of a task up to date.
func (s *session) Checkpoint(ctx context.Context, ref string) (api.Checkpoint, error) {
	return known(ctx, s, ref, func() (api.Checkpoint, error) { return s.Client.Checkpoint(ctx, ref) })
}

// Doctor examines the daemon's house.
func (s *session) Doctor(ctx context.Context, in api.DoctorRequest) (api.Diagnosis, error) {
	return again(ctx, s, func() (api.Diagnosis, error) { return s.Client.Doctor(ctx, in) })
}

// Events starts the daemon, if it has to, before the stream begins; after that the stream itself waits
// for a daemon that went away.
func (s *session) Events(ctx context.Context, q api.EventQuery) iter.Seq2[api.Item, error] {
	return func(yield func(api.Item, error) bool) {
		if _, met := s.Peer(); !met {
			if _, err := s.Status(ctx); err != nil {
				yield(api.Item{}, err)
				return
			}
		}
		s.Client.Events(ctx, q)(yield)
	}
}

// task is the task a person named, and the service that knows it.
func (a *app) task(ctx context.Context, ref string) (api.Service, td.Task, error) {
	svc, err := a.service(ctx)
	if err != nil {
		return nil, td.Task{}, err
	}
	t, err := svc.Task(ctx, ref)
	return svc, t, err
}

// notePeer says what a person should know of the daemon that answered, whenever work is submitted or
// shown: that no model is at work (P-5), and that it is of another version.
func (a *app) notePeer(svc api.Service) {
	peer, ok := svc.(interface{ Peer() (client.Peer, bool) })
	if !ok {
		return
	}
	p, ok := peer.Peer()
	if !ok {
		return
	}
	if p.Version != Version() {
		a.say("%s", a.talk.warn(fmt.Sprintf("the daemon is of version %s, this command of %s", plainLine(p.Version, 40), Version()))+
			a.typeable("; to renew it: taskdaemon daemon stop"))
	}
	if p.Provider == config.RehearsalProvider {
		why, then := a.whyRehearsal()
		a.say("%s", a.talk.warn("rehearsal model: "+why+"; nothing leaves this machine")+a.typeable(then))
	}
}

// whyRehearsal says why a daemon plays rehearsals, as far as it shows from here, and what to do about it.
func (a *app) whyRehearsal() (why, then string) {
	c, _, err := a.loadConfig(nil)
	if err != nil {
		return "the daemon plays rehearsals", "; to see why: taskdaemon config check"
	}
	switch keys := strings.Join(c.Secrets(a.getenv), ""); {
	case c.ProviderIn(a.getenv) != config.RehearsalProvider:
		return "the daemon plays rehearsals, by its settings, or because it was started without your key",
			"; to use the key: taskdaemon daemon stop, then again"
	case c.Provider == config.RehearsalProvider:
		return "the config says so", ""
	case keys == "":
		return "no key in the environment", ""
	default:
		return "the config chooses no provider that a key in the environment is of", "; to choose one: taskdaemon config show"
	}
}
