// Package coord keeps what runs hold: their claims.
//
// A Keeper renews all claims of this process together. On its own clock it knows when they can no
// longer be trusted: it stops handing out the right to start tools before they expire, and ends the
// contexts of the holders before somebody else may take over.
package coord

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"taskdaemon/internal/failpoint"
	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// ErrClaimLost is the cause of a holder's context when its claim can no longer be trusted.
var ErrClaimLost = errors.New("the claim was lost")

var (
	fpClaimed  = failpoint.New("coord.claim.claimed")
	fpReleased = failpoint.New("coord.claim.released")
	fpRenewed  = failpoint.New("coord.claim.renewed")
)

// tickEvery is how often the claims are looked at.
const tickEvery = time.Second

// Keeper holds the claims of this process.
type Keeper struct {
	claims store.Claims
	holder td.Holder
	log    *slog.Logger

	mu      sync.Mutex
	held    map[*Held]time.Time // when each claim was last known to be good, on the monotonic clock
	failing error
}

// Held is a claim with the context that dies with it.
type Held struct {
	td.Claim
	keeper *Keeper
	cancel context.CancelCauseFunc
}

// NewKeeper makes a keeper for this process.
func NewKeeper(c store.Claims, h td.Holder, log *slog.Logger) *Keeper {
	return &Keeper{claims: c, holder: h, log: log, held: map[*Held]time.Time{}}
}

// Claim takes a task. The context handed back ends with cause ErrClaimLost when the claim can no longer
// be trusted. Release must be called in the end.
func (k *Keeper) Claim(ctx context.Context, task td.TaskID) (context.Context, *Held, error) {
	asked := time.Now()
	c, err := k.claims.Claim(ctx, task, k.holder)
	if err != nil {
		return nil, nil, fmt.Errorf("claim: %w", err)
	}
	fpClaimed.Hit()
	ctx, cancel := context.WithCancelCause(ctx)
	h := &Held{Claim: c, keeper: k, cancel: cancel}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[h] = asked // whatever became of those that were taken before
	return ctx, h, nil
}

// Release gives the claim back. A store that cannot take it back is no reason to fail: the claim
// expires.
func (h *Held) Release(ctx context.Context) {
	h.cancel(context.Canceled)
	h.keeper.mu.Lock()
	delete(h.keeper.held, h)
	h.keeper.mu.Unlock()
	if err := h.keeper.claims.Release(context.WithoutCancel(ctx), h.Claim); err != nil {
		h.keeper.log.Warn("release claim", "task", h.Task, "err", err)
	}
	fpReleased.Hit()
}

// MayStart reports whether the claim will last long enough to start a tool under it.
func (h *Held) MayStart() bool {
	h.keeper.mu.Lock()
	defer h.keeper.mu.Unlock()
	return time.Since(h.keeper.held[h]) < td.ClaimTTL-td.ClaimNoStart
}

// Run renews the claims until ctx ends. Whether they can still be trusted is looked at beside that, so that
// a store that hangs does not keep the holders from being stopped in time. A process that was frozen for longer
// than claims last asks first whether they are still its own: mostly nobody took them, and its runs go on.
func (k *Keeper) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	done := make(chan struct{}, 1)
	done <- struct{}{}
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	var asked time.Time
	for last := time.Now(); ; last = time.Now() {
		if time.Since(asked) >= td.ClaimRenewal {
			select {
			case <-done: // the renewal before this one came back
				asked = time.Now()
				wg.Go(func() {
					k.renew(ctx, asked)
					done <- struct{}{}
				})
			default:
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if time.Since(last) >= td.ClaimRenewal {
			tick.Reset(tickEvery) // it was frozen: the renewal comes first
			continue
		}
		k.expire()
	}
}

func (k *Keeper) renew(ctx context.Context, asked time.Time) {
	k.mu.Lock()
	held := slices.Collect(maps.Keys(k.held))
	k.mu.Unlock()
	if len(held) == 0 {
		return
	}
	has, err := k.claims.Renew(ctx, k.holder)
	if ctx.Err() != nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failing = err
	if err != nil {
		k.log.Error("renew claims", "held", len(held), "err", err)
		return
	}
	for _, h := range held {
		at, is := k.held[h]
		switch epoch, still := has[h.Task]; {
		case !is: // it was given back meanwhile
		case !still || epoch != h.Epoch:
			h.cancel(ErrClaimLost)
		case at.Before(asked):
			k.held[h] = asked
		}
	}
	fpRenewed.Hit()
}

// expire stops the holders when their claims are about to run out.
func (k *Keeper) expire() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for h, renewed := range k.held {
		if time.Since(renewed) >= td.ClaimTTL-td.ClaimKill-time.Second {
			h.cancel(ErrClaimLost)
		}
	}
}

// Failing is why claims could not be renewed last time, or nil.
func (k *Keeper) Failing() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failing
}
