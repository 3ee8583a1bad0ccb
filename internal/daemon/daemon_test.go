package daemon

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/api/apitest"
	"taskdaemon/internal/client"
	"taskdaemon/internal/config"
	"taskdaemon/internal/sandbox"
)

// TestMain lets the test binary be its own shim.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "exec" {
		os.Exit(sandbox.ExecMain())
	}
	os.Exit(m.Run())
}

// live is a daemon in this process.
type live struct {
	*client.Client
	dir    string
	cancel context.CancelFunc
	ended  chan error
}

// start runs a daemon on dir until the test ends or stop is called.
func start(t *testing.T, dir string, change func(*config.Config)) *live {
	t.Helper()
	return startWith(t, dir, change, nil)
}

// startWith is start with other options, too.
func startWith(t *testing.T, dir string, change func(*config.Config), with func(*Options)) *live {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Drift = config.Drift{}  // hostile models fail more often than a person would watch
	c.Window.Tokens = 1 << 30 // so do long answers
	c.Provider = config.RehearsalProvider
	c.Retry.Overloaded = []time.Duration{time.Millisecond, time.Millisecond, time.Millisecond}
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &live{
		Client: client.New(client.Options{Socket: SocketPath(dir)}), dir: dir, cancel: cancel, ended: make(chan error, 1),
	}
	ready := make(chan struct{})
	o := Options{
		StateDir: dir, UserDir: filepath.Join(dir, "user"), Config: c, Version: "test", Self: self,
		Log:   slog.New(slog.NewTextHandler(logTo(t), nil)),
		Ready: func(api.Status) { close(ready) },
	}
	if with != nil {
		with(&o)
	}
	go func() { l.ended <- Run(ctx, o) }()
	select {
	case <-ready:
	case err := <-l.ended:
		t.Fatalf("start: %v", err)
	case <-time.After(2 * time.Minute):
		t.Fatal("the daemon does not get ready")
	}
	t.Cleanup(func() { _ = l.stop() })
	return l
}

func (l *live) stop() error {
	l.cancel()
	err := <-l.ended
	l.ended <- err
	l.Close()
	return err
}

// logTo is where daemons of a test log: with -v for who looks on. With -json they do not, as nobody does.
func logTo(t *testing.T) io.Writer {
	if v := flag.Lookup("test.v"); v != nil && v.Value.String() == "true" {
		return t.Output()
	}
	return io.Discard
}

func TestService(t *testing.T) {
	apitest.Run(t, start(t, t.TempDir(), nil))
}
