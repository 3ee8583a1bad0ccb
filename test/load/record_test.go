package load

import (
	"encoding/json"
	"fmt"
	"hash/crc64"

	"taskdaemon/internal/td"
)

var table = crc64.MakeTable(crc64.ECMA)

// record is what somebody saw of one task: how many events, in the journal's order, and a sum over every
// byte of them. Two records are equal when they are of the same events.
type record struct {
	seq   uint64
	sum   uint64
	ended bool
}

// add takes the next event of the task; one that was seen before or that leaves a gap is an error.
func (r *record) add(ev td.Event) error {
	if ev.Seq != r.seq+1 {
		return fmt.Errorf("%s: event %d follows event %d", ev.Task, ev.Seq, r.seq)
	}
	if u, bad := ev.Body.(td.Unreadable); bad {
		return fmt.Errorf("%s: event %d cannot be read: %s", ev.Task, ev.Seq, u.Err)
	}
	raw, err := json.Marshal(ev)
	if err != nil {
		return fmt.Errorf("encode event %d of %s: %w", ev.Seq, ev.Task, err)
	}
	r.seq, r.sum = ev.Seq, crc64.Update(r.sum, table, raw)
	if m, moved := ev.Body.(td.Moved); moved {
		r.ended = m.Status.State.Terminal()
	}
	return nil
}
