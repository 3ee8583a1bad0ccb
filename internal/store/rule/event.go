// Package rule holds what every implementation of the journal decides in the same way: which events
// may be appended and what they become on disk, when a claim is free, which events a filter lets
// through, which task a person means, and what retention lets go. It is pure; implementations differ
// only in where they keep things.
package rule

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// Prepare checks and encodes the events of one append.
func Prepare(task td.TaskID, evs []td.Event) ([]td.Record, error) {
	if len(evs) == 0 {
		return nil, td.Errorf(td.Invalid, "append to %s: no events", task.Handle())
	}
	out := make([]td.Record, len(evs))
	for i, ev := range evs {
		body := ev.Body
		if s, is := body.(td.Sealed); is {
			body = s.Body
		}
		switch body.(type) {
		case nil:
			return nil, td.Errorf(td.Invalid, "append to %s: event %d has no body", task.Handle(), i)
		case td.Unreadable, td.Trimmed:
			return nil, td.Errorf(td.Invalid, "append to %s: event %d stands for a record, it is none", task.Handle(), i)
		case td.Created:
			return nil, td.Errorf(td.Conflict, "append to %s: it exists already", task.Handle())
		}
		if ev.Task != "" && ev.Task != task {
			return nil, td.Errorf(td.Invalid, "append to %s: event %d belongs to %s", task.Handle(), i, ev.Task.Handle())
		}
		p, err := prepare(task, ev)
		if err != nil {
			return nil, err
		}
		out[i] = p
	}
	return out, nil
}

func prepare(task td.TaskID, ev td.Event) (td.Record, error) {
	if _, err := Nanos(ev.At); err != nil {
		return td.Record{}, err
	}
	sealed, err := td.Seal(ev.Body)
	if err != nil {
		return td.Record{}, fmt.Errorf("append to %s: %w", task.Handle(), err)
	}
	ev.Task, ev.At, ev.Cursor, ev.Seq, ev.Body = task, Instant(ev.At), 0, 0, sealed.Body
	return td.Record{Event: ev, Raw: sealed.Raw()}, nil
}

// MaxInline is the largest spec or command, in bytes: unlike the bodies of events these are kept whole
// beside the task.
const MaxInline = 16 << 20

// PrepareSpec checks a new task's spec and makes its Created event.
func PrepareSpec(spec td.Spec) (td.Record, error) {
	if spec.ID == "" || spec.ID == td.DaemonStream {
		return td.Record{}, td.Errorf(td.Invalid, "create a task: %q cannot be its id", spec.ID)
	}
	if spec.Handle == "" {
		spec.Handle = td.Handle(td.TaskHandle, string(spec.ID), td.HandleLength)
	}
	p, err := prepare(spec.ID, td.Event{At: spec.CreatedAt, Body: td.Created{Spec: spec}})
	if err == nil && len(p.Raw) > MaxInline {
		err = td.Errorf(td.Invalid, "create a task: its prompt and script are larger than %d MiB", MaxInline>>20)
	}
	return p, err
}

// FreeHandle is the spec's handle, made longer until it is not taken.
func FreeHandle(spec td.Spec, taken func(handle string) (bool, error)) (string, error) {
	handle := spec.Handle
	for n := td.HandleLength + 1; ; n++ {
		is, err := taken(handle)
		if err != nil || !is {
			return handle, err
		}
		handle = td.Handle(td.TaskHandle, string(spec.ID), n) // past the longest this is the whole id
		if n > td.MaxHandleLength+1 {
			return "", td.Errorf(td.Conflict, "create task %s: every handle it could have is taken", spec.ID.Handle())
		}
	}
}

// Fold gives the events their place after the task's head and folds them into it. A task of which it refused one
// is of no use any more.
func Fold(t *td.Task, cursor uint64, evs []td.Record) error {
	for i := range evs {
		evs[i].Seq, evs[i].Cursor = t.Head+1, cursor+uint64(i)+1
		if err := Apply(t, evs[i].Event); err != nil {
			return err
		}
	}
	return nil
}

// Apply folds one event into the task, which is then the same whether it was kept in memory or read
// back: a list that became empty is no list.
func Apply(t *td.Task, ev td.Event) error {
	err := t.Fold(ev)
	t.Requests, t.InFlight, t.Jobs = noneIfEmpty(t.Requests), noneIfEmpty(t.InFlight), noneIfEmpty(t.Jobs)
	return err
}

func noneIfEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// Same reports whether a stored event is the one that is being appended again.
func Same(stored td.Event, raw []byte, again td.Record) bool {
	return stored.At.Equal(again.At) && stored.Takes == again.Takes &&
		stored.Body.Type() == again.Body.Type() && bytes.Equal(raw, again.Raw)
}

// Matches reports whether the filter lets the event through.
func Matches(f store.EventFilter, ev td.Event) bool {
	return (len(f.Tasks) == 0 || slices.Contains(f.Tasks, ev.Task)) &&
		(len(f.Types) == 0 || slices.Contains(f.Types, ev.Body.Type())) &&
		(f.Since.IsZero() || !ev.At.Before(f.Since))
}

// Daemon is td.DaemonStream before its first event.
func Daemon() td.Task {
	return td.Task{Spec: td.Spec{ID: td.DaemonStream, Handle: "daemon", Title: "the daemon itself"}}
}

// Instant is t as a read returns it: UTC, without the monotonic clock.
func Instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Round(0)
}

// NoTime is what Nanos makes of the zero time.
const NoTime = math.MinInt64

// Nanos is t on disk: nanoseconds since 1970, UTC.
func Nanos(t time.Time) (int64, error) {
	if t.IsZero() {
		return NoTime, nil
	}
	n := t.UnixNano()
	if n == NoTime || !time.Unix(0, n).Equal(t) {
		return 0, td.Errorf(td.Invalid, "the time %s cannot be kept to the nanosecond", t.Format(time.RFC3339))
	}
	return n, nil
}

// FromNanos is the time Nanos was given.
func FromNanos(n int64) time.Time {
	if n == NoTime {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// PrepareCommand checks a command and returns it as a later read gives it, with its encoding.
func PrepareCommand(task td.TaskID, cmd td.Command) (td.Command, []byte, error) {
	if cmd.Key == "" {
		return cmd, nil, td.Errorf(td.Invalid, "post to %s: the command has no key", task.Handle())
	}
	raw, err := json.Marshal(cmd)
	if err != nil {
		return cmd, nil, td.Errorf(td.Invalid, "post to %s: %w", task.Handle(), err)
	}
	if len(raw) > MaxInline {
		return cmd, nil, td.Errorf(td.Invalid, "post to %s: the command is larger than %d MiB", task.Handle(), MaxInline>>20)
	}
	var out td.Command
	if err := json.Unmarshal(raw, &out); err != nil {
		return cmd, nil, td.Errorf(td.Invalid, "post to %s: %w", task.Handle(), err)
	}
	return out, raw, nil
}

// Brief is the spec without what grows.
func Brief(s td.Spec) td.Spec {
	s.Prompt, s.Rehearsal = "", ""
	return s
}
