package sandbox

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"taskdaemon/internal/beneath"
)

// TestAskObjectsTooLarge checks that the content of what is too large is not asked for.
func TestAskObjectsTooLarge(t *testing.T) {
	var asked strings.Builder
	told := bufio.NewReader(strings.NewReader("a tree 99999999999\n"))
	err := askObjects(&asked, told, []string{"a", "b"}, nil)
	if err == nil || !strings.Contains(err.Error(), "too large") || asked.String() != "info a\n" {
		t.Errorf("asked %q: %v", asked.String(), err)
	}
}

// TestConverseEnds checks that a git that goes on writing ends when nobody reads any more.
func TestConverseEnds(t *testing.T) {
	ended := make(chan error, 1)
	go func() {
		ended <- converse([]string{"a"}, nil, func(asked, tell *os.File) error {
			_, _ = io.WriteString(tell, "something else\n")
			_, err := io.WriteString(tell, strings.Repeat("x", 1<<20))
			if _, rerr := io.Copy(io.Discard, asked); rerr != nil {
				t.Error(rerr)
			}
			return err
		})
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, syscall.EPIPE) || !strings.Contains(err.Error(), "git says") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for somebody to read")
	}
}

// TestReadingGrows checks that memory which is hidden from every look ends what reads a pack, too.
func TestReadingGrows(t *testing.T) {
	s := &shim{spec: spec{Profile: &Profile{Limits: Limits{Memory: 1 << 30}}}}
	short := machine{total: 100 << 30, available: 1 << 30, shared: 50 << 30}
	r := &reading{until: time.Now().Add(time.Minute), measure: meter{begin: machine{total: 100 << 30}, now: func() machine { return short }}}
	if _, why := s.within(r, nil); !strings.Contains(why, "grew") || r.ended {
		t.Errorf("it was ended because %q", why)
	}
}

// TestReadingTold checks that a shim that was told to end begins with no other pack.
func TestReadingTold(t *testing.T) {
	s := &shim{spec: spec{Profile: &Profile{}}, signals: make(chan os.Signal, 1)}
	s.signals <- syscall.SIGTERM
	r := &reading{until: time.Now().Add(time.Minute)}
	read := 0
	for range 2 { // stores
		lost := r.each([]string{"a", "b", "c"}, "x", func(string) error {
			read++
			_, why := s.within(r, nil)
			return errors.New(why)
		})
		if !errors.Is(lost[len(lost)-1], errTold) {
			t.Errorf("lost %v", lost)
		}
	}
	if read != 1 {
		t.Errorf("%d packs were read", read)
	}
}

// TestMovePacksInOrder checks that each file is durable before it has its name, and the others before the index.
func TestMovePacksInOrder(t *testing.T) {
	folder := func() *beneath.Folder {
		f, err := beneath.OpenResolved(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	from, to := folder(), folder()
	for _, part := range packParts {
		put(t, from, "pack-1"+part, part)
	}
	var got []string
	err := movePacks(from, to, []string{"pack-1"}, func(int64) error { return nil }, func(s syncer) error {
		names, err := filepath.Glob(to.Name() + "/pack-*")
		what := "folder"
		if f, is := s.(*os.File); is {
			what = strings.TrimPrefix(filepath.Base(f.Name()), "tmp_pack_pack-1")
		}
		for _, name := range names {
			what += " " + filepath.Ext(name)
		}
		got = append(got, what)
		return errors.Join(err, s.Sync())
	})
	want := []string{".pack", ".rev .pack", ".promisor .pack .rev", "folder .pack .promisor .rev", ".idx .pack .promisor .rev", "folder .idx .pack .promisor .rev"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v: made durable was %q", err, got)
	}
	// What could not be made durable does not get its name.
	other := folder()
	if err := movePacks(from, other, []string{"pack-1"}, func(int64) error { return nil }, func(syncer) error { return io.ErrShortWrite }); err == nil {
		t.Error("it is moved all the same")
	}
	if names, _ := os.ReadDir(other.Name()); len(names) > 0 {
		t.Errorf("left is %v", names)
	}
}
