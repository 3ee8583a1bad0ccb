// Package daemon wires taskdaemon together: what starts in which order, what happens to the work an
// earlier life left, and how everything ends. Daemon is the api.Service on the journal.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api"
	"taskdaemon/internal/bus"
	"taskdaemon/internal/config"
	"taskdaemon/internal/coord"
	"taskdaemon/internal/engine"
	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/git"
	"taskdaemon/internal/hook"
	"taskdaemon/internal/knowledge"
	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/gateway"
	"taskdaemon/internal/policy"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/rulebook"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/scheduler"
	"taskdaemon/internal/server"
	"taskdaemon/internal/store"
	"taskdaemon/internal/store/clean"
	"taskdaemon/internal/store/mirror"
	"taskdaemon/internal/store/sqlite"
	"taskdaemon/internal/td"
	"taskdaemon/internal/tool/mcp"
	"taskdaemon/internal/webfetch"
	"taskdaemon/internal/worktree"
)

var (
	fpOpened    = failpoint.New("daemon.start.journal_open")
	fpAnnounced = failpoint.New("daemon.start.announced")
	fpRecovered = failpoint.New("daemon.start.recovered")
	fpServing   = failpoint.New("daemon.start.serving")
	fpStopping  = failpoint.New("daemon.stop.begin")
	fpDrained   = failpoint.New("daemon.stop.drained")
	fpStopped   = failpoint.New("daemon.stop.recorded")
)

// Options are what a daemon is started with.
type Options struct {
	StateDir string
	Config   config.Config
	Version  string
	Self     string // path of this binary: it is the shim, too
	Log      *slog.Logger
	Ready    func(api.Status)    // called once, when the API answers
	Getenv   func(string) string // os.Getenv when nil
	UserDir  string              // the user's config folder, where their own AGENTS.md may lie
	Home     string              // the user's home
	// Secrets takes secrets out of all that the daemon writes, tells and answers; nil: Secrets of the config.
	Secrets *redact.Redactor
	// HookFuncs are the functions that hooks of the config may name.
	HookFuncs map[string]hook.Func
}

// Daemon serves one state folder.
type Daemon struct {
	o         Options
	started   time.Time
	journal   store.Journal
	displaced func() error // says that the state folder is not in its place any more
	disappear func()       // gives the name of the state folder back
	markIn    func(*os.File) error
	inPlace   sync.Once // the note beside the state folder, made before the first task
	own       *stream
	keeper    *coord.Keeper
	engine    *engine.Engine
	sched     *scheduler.Scheduler
	spool     *sandbox.Spool
	mirror    *mirror.Mirror
	model     *stage
	gate      *gateway.Gateway
	prices    llm.Prices
	pool      *mcp.Pool
	hooks     *hook.Set
	resources *coord.Resources
	rates     []policy.Rate // of tools, from the config
	live      bus.Topic[api.Live]
	audience  audience
	shelf     *knowledge.Shelf
	trees     *worktree.Trees
	witnesses witnesses
	trunks    *trunks
	forecasts *forecasts
	projects  *projects
	runs      *runs
	starting  locks // by project: held while the next task of a run is chosen and started
	book      *rulebook.Book
	web       *webfetch.Fetcher
	pace      pace // of what loops send to each other
	notify    *notifier

	reportMu sync.Mutex
	report   td.Report   // of the recovery at this start
	unread   []td.Task   // taken up, their records not read yet
	cutOff   []td.Intent // removals that the daemon before this one left in flight

	stopping atomic.Bool
	listens  atomic.Pointer[string] // host and port of the API over TCP
	token    string                 // that it wants to see
	stop     chan struct{}          // closed by Stop
	stopOnce sync.Once
}

// SocketPath is where a daemon on this state folder listens.
func SocketPath(stateDir string) string { return filepath.Join(stateDir, "run", "sock") }

// RepoPath is where the conversations of a state folder are mirrored.
func RepoPath(stateDir string) string { return filepath.Join(stateDir, "conversations.git") }

// GraphsPath is where the indexes of the graphs that a state folder knows are.
func GraphsPath(stateDir string) string { return filepath.Join(stateDir, "graphs") }

// Run serves until ctx ends or Stop is called, then shuts down gracefully, and returns when all it
// started has ended.
func Run(ctx context.Context, o Options) (err error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Secrets == nil {
		o.Secrets = Secrets(o.Config, o.Getenv)
	}
	if err := mayRunGit(o.Config.Sandbox.Mode, git.Confined); err != nil {
		return err
	}
	d := &Daemon{o: o, started: time.Now().UTC(), stop: make(chan struct{})}
	// What runs on while the daemon shuts down must not die with the signal that asks for it.
	work := context.WithoutCancel(ctx)
	if err := d.open(work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.recover(work); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if err := d.settleQueries(work); err != nil {
		return fmt.Errorf("settle questions: %w", err)
	}
	if d.cutOff, err = d.underWay(work, td.RemoveStep); err != nil {
		return fmt.Errorf("look for removals: %w", err)
	}
	fpRecovered.Hit()
	o.Log.Info("recovered", "report", d.report)
	d.spool.Preheat()
	return d.serve(ctx, work)
}

// open brings up the floor everything stands on, in the order of R-1: journal, audit, policy and tools.
func (d *Daemon) open(ctx context.Context) error {
	if err := CheckPlace(d.o.StateDir); err != nil {
		return err
	}
	for _, sub := range []string{"", "run", "spool", "logs"} {
		if err := os.MkdirAll(filepath.Join(d.o.StateDir, sub), 0o700); err != nil {
			return td.Errorf(td.Storage, "make state folder: %w", err).
				WithHint("choose another with --state DIR, or make %s writable", d.o.StateDir)
		}
	}
	// The names of its folders are told to sandboxes, which follow no links to them.
	if real, err := filepath.EvalSymlinks(d.o.StateDir); err == nil {
		d.o.StateDir = real
	}
	holder, err := sandbox.Self()
	if err != nil {
		return err
	}
	// The key is in the environment; what runs in a task must not read it there.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		d.o.Log.Warn("hide the environment from other processes", "err", err)
	}
	// Who has the folder's lock is alone: any other holder of a claim is dead, on whatever host it was.
	alone := func(h td.Holder) bool { return h == holder }
	started, err := sandbox.SpoolTasks(filepath.Join(d.o.StateDir, "spool"))
	if err != nil {
		return err
	}
	journal, err := sqlite.Open(ctx, sqlite.Options{
		Dir: d.o.StateDir, Alive: alone, Log: d.o.Log, Seen: mirror.Seen(d.repo()), Marked: Marked(d.o.StateDir), Tasks: started,
	})
	if err != nil {
		return err
	}
	d.journal, d.displaced, d.markIn = clean.New(journal, d.o.Secrets), journal.Displaced, journal.MarkOutside
	fpOpened.Hit()
	if d.disappear, err = appear(ctx, d.o.StateDir); err != nil {
		return errors.Join(err, d.journal.Close())
	}
	if noted(d.o.StateDir) {
		d.inPlace.Do(d.markPlace)
	}
	if err := d.wire(ctx, holder); err != nil {
		d.disappear()
		return errors.Join(err, d.model.close(), d.journal.Close())
	}
	fpAnnounced.Hit()
	return nil
}

func (d *Daemon) wire(ctx context.Context, holder td.Holder) (err error) {
	d.keeper = coord.NewKeeper(d.journal, holder, d.o.Log)
	d.own, err = openStream(ctx, d.journal, d.keeper)
	if err != nil {
		return err
	}
	hash, err := d.o.Config.Hash()
	if err != nil {
		return err
	}
	if err := d.own.append(ctx, td.DaemonStarted{Version: d.o.Version, Holder: holder, Config: hash, Notifies: d.o.Config.Notify.Command != ""}); err != nil {
		return err
	}
	if d.model, d.gate, err = newModel(d.o); err != nil {
		return err
	}
	if d.prices, err = pricesOf(d.o.Config); err != nil {
		return err
	}
	if err := d.openToken(ctx); err != nil {
		return err
	}
	if d.pool, err = newPool(d.o); err != nil {
		return err
	}
	if d.hooks, err = Hooks(d.o.Config, d.o.HookFuncs); err != nil {
		return err
	}
	if d.resources, err = Resources(d.o.Config); err != nil {
		return err
	}
	d.spool = &sandbox.Spool{Dir: filepath.Join(d.o.StateDir, "spool"), Self: d.o.Self, Warm: 2, Nested: d.o.Config.Sandbox.Mode != config.SandboxOff}
	d.mirror = mirror.New(mirror.Options{Journal: d.journal, Path: d.repo(), Log: d.o.Log})
	if d.web, err = webfetch.New(webfetch.Options{AllowPrivate: hosts(d.o.Config.Web.AllowPrivate), Secrets: d.o.Secrets}); err != nil {
		return fmt.Errorf("set web.allow_private: %w", err)
	}
	if d.rates, err = Rates(d.o.Config); err != nil {
		return err
	}
	d.book = rulebook.New(rulebook.Options{
		UserDir: d.o.UserDir, StateDir: d.o.StateDir, Checkouts: CheckoutsDir(d.o.StateDir), Home: d.o.Home, Config: d.o.Config, Temps: Temps(d.o), Steering: Steering(d.o),
	})
	if d.o.Config.Sandbox.Mode != config.SandboxOff {
		sandbox.MakeCaches(d.o.Getenv)
	}
	d.shelf = knowledge.New(filepath.Join(d.o.StateDir, "knowledge"), d.o.Secrets)
	git.CheckoutsIn(CheckoutsDir(d.o.StateDir))
	d.trees = &worktree.Trees{Git: worktree.Program{}, Config: d.worktrees, Checkouts: CheckoutsDir(d.o.StateDir), Theirs: d.o.keepsOut, Log: d.o.Log, Journal: removals{d}, Using: sandbox.Using}
	d.trunks, d.forecasts = newTrunks(d), newForecasts(d)
	d.projects, d.runs = newProjects(d), newRuns(d)
	if err := d.projects.begin(ctx); err != nil {
		return err
	}
	d.engine = newEngine(d, holder)
	d.sched = scheduler.New(scheduler.Options{
		Journal: d.journal, Keeper: d.keeper, Runner: d.engine,
		Loops: d.o.Config.Limits.Loops, Project: d.loopsIn, Log: d.o.Log, Retry: 30 * time.Second, Wait: d.o.Config.Leases.Wait,
	})
	return nil
}

func (d *Daemon) repo() string { return RepoPath(d.o.StateDir) }

// serve runs everything until it is time to stop. The scheduler ends first, so that every run can
// record where it stands; the rest ends when nothing more can happen.
func (d *Daemon) serve(ctx, work context.Context) error {
	rest, endRest := context.WithCancel(work)
	defer endRest()
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	start := func(name string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(rest); err != nil {
				errs <- fmt.Errorf("%s: %w", name, err)
			}
		})
	}
	// A person is answered first: a thousand runs that take up their work leave little of the machine.
	ready, begin := context.WithCancel(work)
	defer begin()
	start("watch over the state folder", d.stayPut)
	start("claims", d.keeper.Run)
	start("mirror", d.mirror.Run)
	start("upkeep", d.upkeep)
	start("proxy", d.proxy)
	start("temps", d.temps)
	start("orphans", d.orphans)
	start("disk", d.watchDisk)
	from, err := d.journal.Last(work)
	if err != nil {
		return err
	}
	start("log of loops", func(ctx context.Context) error { return d.logLoops(ctx, from) })
	start("graphs", d.projects.run)
	start("graphs' commits", d.projects.commits)
	start("graphs' watch", d.projects.watch)
	start("sandbox", d.weigh)
	start("trunks", func(ctx context.Context) error {
		<-ready.Done()
		return d.trunks.run(ctx)
	})
	start("forecasts", d.forecasts.run)
	start("worktrees", func(ctx context.Context) error {
		<-ready.Done()
		return newClearing(d).run(ctx)
	})
	start("herald", func(ctx context.Context) error {
		<-ready.Done()
		return d.herald(ctx)
	})
	start("server", func(ctx context.Context) error {
		return server.Serve(ctx, server.Options{
			Socket: SocketPath(d.o.StateDir), Listen: d.o.Config.API.Listen, Token: d.token, Service: d, Log: d.o.Log,
			Ready:  func(tcp string) { d.listens.Store(&tcp); d.ready(ctx); begin() },
			Screen: screen(d.o.Secrets), Clean: d.o.Secrets.Known,
			Inside: func(pid int) string { return sandbox.Inside(d.spool.Dir, pid) },
		})
	})
	// Waited for through drained, and not for ever: a run that hangs must not keep the daemon from ending.
	drained := make(chan error, 1)
	go func() {
		<-ready.Done()
		drained <- d.sched.Run(work)
	}()
	d.notify = newNotifier(rest, d)
	start("notify", func(context.Context) error {
		<-ready.Done()
		d.notify.run()
		return nil
	})
	start("runs", func(ctx context.Context) error {
		<-ready.Done()
		return d.runs.run(ctx)
	})
	start("verify", func(ctx context.Context) error {
		<-ready.Done()
		return d.verify(ctx)
	})

	var failure error
	select {
	case <-ctx.Done():
	case <-d.stop:
	case failure = <-errs:
	case failure = <-drained:
		drained <- nil
	}
	begin()
	failure = errors.Join(failure, d.shutdown(work, drained))
	endRest()
	wg.Wait()
	return failure
}

func (d *Daemon) ready(ctx context.Context) {
	fpServing.Hit()
	status, err := d.Status(ctx)
	if err != nil {
		d.o.Log.Error("status at start", "err", err)
	}
	d.o.Log.Info("ready", "pid", status.Pid, "provider", status.Provider)
	if d.o.Ready != nil {
		d.o.Ready(status)
	}
}

// leaveLimit is how long runs have to let go when a shutdown took too long.
const leaveLimit = 5 * time.Second

// shutdown accepts nothing new, waits for the steps in flight, and leaves the rest to recovery.
func (d *Daemon) shutdown(ctx context.Context, drained <-chan error) error {
	fpStopping.Hit()
	d.stopping.Store(true)
	d.o.Log.Info("stopping", "running", d.sched.Running())
	d.sched.Stop()
	var err error
	limit := time.NewTimer(d.o.Config.Timeouts.Shutdown)
	defer limit.Stop()
	if d.displaced() != nil { // nothing that steps come to can be written down
		limit.Reset(0)
	}
	left := 0
	select {
	case err = <-drained:
	case <-limit.C:
		left = d.sched.Running()
		d.o.Log.Warn("shutdown took too long; what is in flight is left for recovery", "left", left)
		d.sched.Kill()
		select {
		case err = <-drained:
		case <-time.After(leaveLimit):
			err = td.Errorf(td.Timeout, "%d runs did not stop in time; they are left for recovery", d.sched.Running())
		}
	}
	fpDrained.Hit()
	d.notify.quiet()
	if err := d.own.append(ctx, td.DaemonStopped{Left: left}); err != nil {
		d.o.Log.Error("record stop", "err", err)
	}
	fpStopped.Hit()
	if d.displaced() == nil {
		d.catchUp(ctx)
	}
	return err
}

// catchUp gives the mirror a moment to write the last words. What it misses it writes after the next
// start.
func (d *Daemon) catchUp(ctx context.Context) {
	if last, err := d.journal.Last(ctx); err == nil {
		d.mirrors(last, 3*time.Second)
	}
}

// mirrors waits for the mirror to have a record, and reports whether it has.
func (d *Daemon) mirrors(record uint64, patience time.Duration) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); d.mirror.Mirrored() < record && time.Now().Before(end); {
		d.mirror.Hurry()
		<-tick.C
	}
	return d.mirror.Mirrored() >= record
}

func (d *Daemon) close() error {
	d.projects.close()
	if err := d.shelf.Close(); err != nil {
		d.o.Log.Warn("close learnings", "err", err) // their index is made anew
	}
	d.pool.Close()
	d.spool.Close()
	d.own.release(context.Background())
	err := d.model.close()
	d.disappear() // before the lock is free: who gets that takes the name
	if e := d.journal.Close(); e != nil {
		err = errors.Join(err, fmt.Errorf("close journal: %w", e))
	}
	if err != nil {
		return err
	}
	d.o.Log.Info("stopped")
	return nil
}
