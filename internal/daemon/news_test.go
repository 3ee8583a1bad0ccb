package daemon

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// People are told of a pause unless one of them made it.
func TestPausesThatAreNews(t *testing.T) {
	for by, want := range map[string]bool{"taskdaemon": true, "hook guard": true, "ada": false, "": false} {
		if got := news(td.Status{State: td.Paused, Paused: &td.PausedData{By: by}}); got != want {
			t.Errorf("paused by %q: %v", by, got)
		}
	}
}

// moody is a journal that cannot be read the first times.
type moody struct {
	store.Journal
	failures int
	asked    []time.Time
}

func (m *moody) Read(context.Context, td.TaskID, uint64) iter.Seq2[td.Event, error] {
	return func(yield func(td.Event, error) bool) {
		m.asked = append(m.asked, time.Now())
		if len(m.asked) <= m.failures {
			yield(td.Event{}, errors.New("the disk is moody"))
		}
	}
}

// What cannot be told now is told later: each wait is twice the last, a minute at most, and a stop ends it.
func TestNotificationsAreTriedAgain(t *testing.T) {
	quiet := Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	synctest.Test(t, func(t *testing.T) {
		m := &moody{failures: 9}
		newNotifier(t.Context(), &Daemon{o: quiet, journal: m}).run()
		var waits []time.Duration
		for i, at := range m.asked[1:] {
			waits = append(waits, at.Sub(m.asked[i])/time.Second)
		}
		if want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60}; !slices.Equal(waits, want) {
			t.Errorf("it waited %d seconds", waits)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := &moody{failures: 9}
		n := newNotifier(t.Context(), &Daemon{o: quiet, journal: m})
		go n.run() // quiet waits for it
		synctest.Wait()
		began := time.Now()
		if n.quiet(); len(m.asked) != 1 || time.Since(began) > 0 {
			t.Errorf("it was tried %d times, and stopped after %s", len(m.asked), time.Since(began))
		}
	})
}
