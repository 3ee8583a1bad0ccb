package coord

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/store/mem"
	"taskdaemon/internal/td"
)

// deaf is a journal that stops hearing renewals.
type deaf struct {
	store.Claims
	cut atomic.Bool
}

func (d *deaf) Renew(ctx context.Context, h td.Holder) (map[td.TaskID]uint64, error) {
	if d.cut.Load() {
		return nil, errors.New("no answer")
	}
	return d.Claims.Renew(ctx, h)
}

func newTask(t *testing.T, j *mem.Store) td.TaskID {
	t.Helper()
	id := td.NewTaskID()
	_, err := j.Create(t.Context(), td.Spec{
		ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), Title: "t", Prompt: "p", Dir: "/",
		Mode: td.Autonomous, Tier: td.Worker, CreatedAt: time.Now().UTC().Round(0),
	}, string(id))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestClaimEndsBeforeAnotherMayTakeIt: whoever can no longer renew stops starting tools, then is stopped,
// and only after that may another holder have the task.
func TestClaimEndsBeforeAnotherMayTakeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := mem.New(nil)
		id := newTask(t, j)
		d := &deaf{Claims: j}
		k := NewKeeper(d, td.Holder{Host: "a"}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = k.Run(ctx) })
		runCtx, held, err := k.Claim(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * td.ClaimTTL)
		if !held.MayStart() || runCtx.Err() != nil {
			t.Fatal("a claim that is renewed must last")
		}
		other := NewKeeper(j, td.Holder{Host: "b"}, slog.New(slog.DiscardHandler))
		d.cut.Store(true)
		var noStart, stopped, taken time.Duration
		began := time.Now()
		for taken == 0 {
			time.Sleep(100 * time.Millisecond)
			now := time.Since(began)
			if noStart == 0 && !held.MayStart() {
				noStart = now
			}
			if stopped == 0 && runCtx.Err() != nil {
				stopped = now
				if !errors.Is(context.Cause(runCtx), ErrClaimLost) {
					t.Errorf("stopped because %v", context.Cause(runCtx))
				}
			}
			if _, _, err := other.Claim(ctx, id); err == nil {
				taken = now
			}
			if now > time.Minute {
				t.Fatal("the claim never expires")
			}
		}
		if noStart == 0 || stopped == 0 || noStart > stopped || stopped >= taken {
			t.Errorf("no more starts after %s, stopped after %s, taken after %s", noStart, stopped, taken)
		}
		if taken-stopped < time.Second {
			t.Errorf("%s between the stop and the take-over: too close", taken-stopped)
		}
		held.Release(ctx)
		cancel()
		wg.Wait()
	})
}

// TestStolenClaimIsNoticed: who was taken for dead learns at the next renewal that another has the task, before it writes anything.
func TestStolenClaimIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := mem.New(func(td.Holder) bool { return false })
		k := NewKeeper(j, td.Holder{Host: "a"}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = k.Run(ctx) })
		id, mine := newTask(t, j), newTask(t, j)
		stolen, held, err := k.Claim(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		kept, keeps, err := k.Claim(ctx, mine)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Claim(ctx, id, td.Holder{Host: "b"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * td.ClaimRenewal)
		if !errors.Is(context.Cause(stolen), ErrClaimLost) || kept.Err() != nil {
			t.Errorf("the stolen claim: %v, the other: %v", context.Cause(stolen), context.Cause(kept))
		}
		held.Release(ctx)
		keeps.Release(ctx)
		cancel()
		wg.Wait()
	})
}

// TestNewClaimOutlivesALostOne: of two tasks whose claims were lost together, one is claimed anew while the other's run still ends. The new
// claim is as good as any.
func TestNewClaimOutlivesALostOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := mem.New(nil)
		d := &deaf{Claims: j}
		k := NewKeeper(d, td.Holder{Host: "a"}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = k.Run(ctx) })
		d.cut.Store(true)
		lost, old, err := k.Claim(ctx, newTask(t, j))
		if err != nil {
			t.Fatal(err)
		}
		<-lost.Done()
		again, held, err := k.Claim(ctx, newTask(t, j))
		if err != nil {
			t.Fatal(err)
		}
		d.cut.Store(false)
		time.Sleep(10 * td.ClaimTTL)
		if again.Err() != nil || !held.MayStart() {
			t.Errorf("the new claim: %v", context.Cause(again))
		}
		old.Release(ctx)
		held.Release(ctx)
		cancel()
		wg.Wait()
	})
}

func TestReleaseLetsOthersIn(t *testing.T) {
	j := mem.New(nil)
	id := newTask(t, j)
	a := NewKeeper(j, td.Holder{Host: "a"}, slog.New(slog.DiscardHandler))
	b := NewKeeper(j, td.Holder{Host: "b"}, slog.New(slog.DiscardHandler))
	ctx, held, err := a.Claim(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Claim(t.Context(), id); !td.IsKind(err, td.Conflict) {
		t.Errorf("a second holder got: %v", err)
	}
	held.Release(t.Context())
	if ctx.Err() == nil {
		t.Error("the context outlives the claim")
	}
	if _, _, err := b.Claim(t.Context(), id); err != nil {
		t.Error(err)
	}
}
