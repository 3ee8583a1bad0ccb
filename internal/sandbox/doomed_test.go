package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestShimToldToEndGetsNoOtherCommand kills a command that ends by itself before the signal reaches its
// shim. On its way the signal must find the same command or none.
func TestShimToldToEndGetsNoOtherCommand(t *testing.T) {
	s := warmed(t)
	cmd := command(t, "until [ -e go ]; do sleep 0.01; done")
	p := start(t, s, "a", cmd)
	lock := filepath.Join(s.Dir, "a", lockFile)
	first, err := load(filepath.Join(s.Dir, "a"), lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	// As in the moment before a shim has written its name into the lock: whoever kills must wait for it.
	if err := os.Truncate(lock, 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Kill(ctx); err == nil {
		t.Fatal("killed without knowing whom")
	}
	if err := create(cmd.Dir, "go"); err != nil {
		t.Fatal(err)
	}
	if res := wait(t, p); res.Killed || res.Exit != 0 {
		t.Fatalf("got %+v", res)
	}
	next := cmd
	next.Shell = "true"
	wait(t, start(t, s, "b", next))
	second, err := load(filepath.Join(s.Dir, "b"), lockFile, decodeHolder)
	if err != nil {
		t.Fatal(err)
	}
	if second == first {
		t.Error("the task's next command ran under it")
	}
}
