package sqlite

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"taskdaemon/internal/disk/disktest"
	"taskdaemon/internal/td"
)

const sigstop = syscall.SIGSTOP

// isStopped reports whether every thread of a process stands still.
func isStopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return true
	}
	for _, path := range threads {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, rest, _ := bytes.Cut(raw, []byte(") "))
		if len(rest) > 0 && rest[0] != 'T' {
			return false
		}
	}
	return true
}

// cuts writes, cuts the power, mounts again and audits, until something is wrong or enough was done.
func cuts(t *testing.T, n int, early bool) (wrong []string) {
	d := disktest.New(t, 256)
	state := filepath.Join(d.Dir, "state")
	var acks []ack
	total := 0
	for i := range n {
		got := child{Dir: state, Early: early, Seed: uint64(i)}.until(t, 50+rand.IntN(300), func(p *os.Process) {
			d.Cut(t)
			_ = p.Kill()
		})
		// The ledger closes when the cut begins. A real one takes the writer with it; here the kernel tells
		// an fdatasync that the shutdown overtakes that it succeeded, and a plain file loses it just so.
		acks = append(acks, slices.DeleteFunc(got, func(a ack) bool { return a.Late })...)
		d.Again(t)
		s, err := Open(t.Context(), Options{Dir: state, Alive: func(td.Holder) bool { return false }})
		if err != nil {
			return []string{err.Error()}
		}
		wrong = audit(t.Context(), s, acks)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if len(wrong) > 0 {
			return wrong
		}
		if i%5 == 4 { // a fresh journal, so that audits stay short
			if err := os.RemoveAll(state); err != nil {
				t.Fatal(err)
			}
			total, acks = total+len(acks), nil
		}
	}
	t.Logf("%d cuts, %d acknowledged writes", n, total+len(acks))
	return nil
}

func TestPowerCut(t *testing.T) {
	if !disktest.Inside(t) {
		return
	}
	n := 40
	if soak() {
		n = 1000
	}
	for _, w := range cuts(t, n, false) {
		t.Error(w)
	}
}

// TestPowerCutNotices proves that TestPowerCut can fail: a journal that acknowledges before it syncs
// loses writes.
func TestPowerCutNotices(t *testing.T) {
	if !disktest.Inside(t) {
		return
	}
	if wrong := cuts(t, 10, true); len(wrong) == 0 {
		t.Fatal("acknowledged before the sync, no write was lost in 10 cuts")
	}
}
