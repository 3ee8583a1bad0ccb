package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/td"
)

func claimFences(t *testing.T, f *fixture) {
	task := f.create("fenced")
	_, ok, err := f.HolderOf(f.ctx, task.ID)
	must(t, err)
	equal(t, "held", ok, false)
	epoch := uint64(0)
	var old td.Claim
	for i := range 4 {
		c := f.claim(task.ID, 1) // what a holder holds already it may claim again
		if c.Epoch <= epoch {
			t.Fatalf("epoch %d follows %d", c.Epoch, epoch)
		}
		if i > 0 {
			_, err := f.Append(f.ctx, old, task.Head, f.said("zombie"))
			wantKind(t, err, td.Fenced)
			_, err = f.Take(f.ctx, old)
			wantKind(t, err, td.Fenced)
			must(t, f.Release(f.ctx, old)) // lost already: no error, and no harm to the new holder
		}
		task = f.append(c, task.Head, f.said("mine"))
		epoch, old = c.Epoch, c
	}
	_, err = f.Claim(f.ctx, task.ID, holder(2))
	wantKind(t, err, td.Conflict)
	got, ok, err := f.HolderOf(f.ctx, task.ID)
	must(t, err)
	if !ok || got.Epoch != epoch || got.Holder != holder(1) {
		t.Fatalf("held by %+v, %v", got, ok)
	}
	must(t, f.Release(f.ctx, old))
	_, err = f.Append(f.ctx, old, task.Head, f.said("released"))
	wantKind(t, err, td.Fenced)
	c := f.claim(task.ID, 2)
	if c.Epoch <= epoch {
		t.Fatalf("epoch %d was used again", c.Epoch)
	}
	_, err = f.Claim(f.ctx, td.NewTaskID(), holder(1))
	wantKind(t, err, td.NotFound)
}

func claimRace(t *testing.T, f *fixture) {
	for i := range 20 {
		task := f.create(name("race %d", i))
		var won atomic.Int64
		var wg sync.WaitGroup
		for pid := range 8 {
			wg.Go(func() {
				c, err := f.Claim(f.ctx, task.ID, holder(pid+1))
				if err != nil {
					if !td.IsKind(err, td.Conflict) {
						t.Error(err)
					}
					return
				}
				won.Add(1)
				if _, err := f.Append(f.ctx, c, task.Head, td.Event{At: f.now, Body: td.Said{Text: "mine"}}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		equal(t, "winners", won.Load(), 1)
		equal(t, "the head", f.task(task.ID).Head, task.Head+1)
	}
}

func claimDead(t *testing.T, f *fixture) {
	task := f.create("of the dead")
	dead := f.claim(task.ID, 1)
	_, err := f.Claim(f.ctx, task.ID, holder(2))
	wantKind(t, err, td.Conflict)
	f.dead.Store(1)
	_, ok, err := f.HolderOf(f.ctx, task.ID)
	must(t, err)
	equal(t, "held", ok, false)
	c := f.claim(task.ID, 2)
	_, err = f.Append(f.ctx, dead, task.Head, f.said("back from the dead"))
	wantKind(t, err, td.Fenced)
	f.append(c, task.Head, f.said("alive"))
}

func claimRenew(t *testing.T, f *fixture) {
	a, b, other := f.create("a"), f.create("b"), f.create("other")
	must(t, f.Release(f.ctx, f.claim(a.ID, 1)))
	ca := f.claim(a.ID, 1)
	cb := f.claim(b.ID, 1)
	f.claim(other.ID, 2)
	has, err := f.Renew(f.ctx, holder(1))
	must(t, err)
	equal(t, "renewed", has, map[td.TaskID]uint64{a.ID: ca.Epoch, b.ID: cb.Epoch})
	must(t, f.Release(f.ctx, cb))
	has, err = f.Renew(f.ctx, holder(1))
	must(t, err)
	equal(t, "renewed", has, map[td.TaskID]uint64{a.ID: ca.Epoch})
	has, err = f.Renew(f.ctx, holder(3))
	must(t, err)
	equal(t, "renewed", len(has), 0)
}

func claimReopened(t *testing.T, f *fixture) {
	task := f.create("reopened")
	c := f.claim(task.ID, 1)
	f.again()
	_, err := f.Claim(f.ctx, task.ID, holder(2))
	wantKind(t, err, td.Conflict)
	f.append(c, task.Head, f.said("still mine"))
	f.dead.Store(1)
	if got := f.claim(task.ID, 2); got.Epoch <= c.Epoch {
		t.Fatalf("epoch %d was used again", got.Epoch)
	}
}

// claimExpires runs on a clock of its own.
func claimExpires(t *testing.T, open Open) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, open)
		defer func() { must(t, f.Close()) }()
		task := f.create("expires")
		c := f.claim(task.ID, 1)
		for range 3 { // renewed in time, it lasts
			time.Sleep(td.ClaimTTL - time.Second)
			_, err := f.Claim(f.ctx, task.ID, holder(2))
			wantKind(t, err, td.Conflict)
			_, err = f.Renew(f.ctx, holder(1))
			must(t, err)
		}
		time.Sleep(td.ClaimTTL + time.Second)
		_, ok, err := f.HolderOf(f.ctx, task.ID)
		must(t, err)
		equal(t, "held", ok, false)
		// Nobody took it: the holder may still write.
		task = f.append(c, task.Head, f.said("late, and alone"))
		f.claim(task.ID, 2)
		_, err = f.Append(f.ctx, c, task.Head, f.said("zombie"))
		wantKind(t, err, td.Fenced)
		f.again()
		_, err = f.Claim(f.ctx, task.ID, holder(1))
		wantKind(t, err, td.Conflict)
		time.Sleep(td.ClaimTTL + time.Second)
		f.claim(task.ID, 1)
	})
}
