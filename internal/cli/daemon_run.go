package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/wire"
	"taskdaemon/internal/daemon"
	"taskdaemon/internal/disk"
	"taskdaemon/internal/heap"
	"taskdaemon/internal/td"
	"taskdaemon/internal/telemetry"
)

// runForeground is the daemon itself. Whoever spawned it is told once, over the descriptor it gave,
// that the daemon answers or why it cannot.
func runForeground(ctx context.Context, o daemonStartOptions) error {
	ready, err := openReady(o.readyFD)
	if err != nil {
		return err
	}
	defer ready.close()
	if err := serve(ctx, o, ready); err != nil {
		e := wire.ErrorOf(err)
		ready.tell(started{Error: &e})
		return err
	}
	return nil
}

func serve(ctx context.Context, o daemonStartOptions, ready *readyPipe) error {
	a := o.app
	dir, err := a.stateDir()
	if err != nil {
		return err
	}
	cfg, file, err := a.loadConfig(o.set)
	if err != nil {
		return err
	}
	if err := errors.Join(disk.CheckFiles(), daemon.CheckPlace(dir)); err != nil {
		return err // before anything is made there
	}
	level, err := telemetry.Level(cfg.Log.Level)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return td.Errorf(td.Internal, "find this program: %w", err)
	}
	secrets := daemon.Secrets(cfg, a.getenv)
	logs := telemetry.Options{Path: logPath(dir), Level: level, MaxSize: int64(cfg.Log.MaxSize), Redact: secrets.Bytes}
	if ready == nil {
		logs.Text = a.stderr
	}
	log, closer, err := telemetry.Open(logs)
	if err != nil {
		return td.Errorf(td.Storage, "%w", err).WithHint("make %s writable, or choose another folder with --state", dir)
	}
	defer closer.Close()
	hearing, deaf := context.WithCancel(context.WithoutCancel(ctx))
	if l, err := listen(hearing, a.daemonArgs(dir, o.set, "last-words"), log); err != nil {
		log.Warn("the last words of this daemon would be heard by nobody", "err", err)
		deaf()
	} else {
		defer l.close()
		defer deaf()
	}
	heap.Ease()
	widen()
	return daemon.Run(ctx, daemon.Options{
		StateDir: dir, Config: cfg, Version: Version(), Self: self, Log: log, Getenv: a.getenv,
		UserDir:   filepath.Dir(file),
		Home:      home(),
		Secrets:   secrets,
		HookFuncs: daemon.HookFuncs(dir),
		Ready:     func(st api.Status) { ready.tell(started{Pid: st.Pid}) },
	})
}

// leastThreads is how many threads run Go code at once on a machine with fewer processors.
const leastThreads = 8

// widen lets the kernel share few processors among many threads, which it does more fairly than Go shares them among goroutines: what has
// just been written to the disk would wait behind whatever else became ready before. On two processors turns of 200 loops wait a fifth to a quarter
// less. Whoever has said how many there should be, in the environment or by a quota of the processors' time, is obeyed instead.
func widen() {
	if n := runtime.GOMAXPROCS(0); os.Getenv("GOMAXPROCS") == "" && n == runtime.NumCPU() && n < leastThreads {
		runtime.GOMAXPROCS(leastThreads)
	}
}

// readyPipe leads to the process that spawned this one. Nil, when a person did, it does nothing.
type readyPipe struct{ f *os.File }

func openReady(fd int) (*readyPipe, error) {
	if fd == 0 {
		return nil, nil
	}
	unix.CloseOnExec(fd) // a child that held it would hide this process's death from whoever waits
	f := os.NewFile(uintptr(fd), "ready")
	if f == nil {
		return nil, td.Errorf(td.Invalid, "--ready-fd %d is not a descriptor", fd)
	}
	return &readyPipe{f}, nil
}

func (r *readyPipe) tell(msg started) {
	if r == nil || r.f == nil {
		return
	}
	_ = json.NewEncoder(r.f).Encode(msg) // whoever asked may be gone; the daemon is not there for it alone
	r.close()
}

func (r *readyPipe) close() {
	if r != nil && r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
}
