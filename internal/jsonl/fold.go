package jsonl

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"taskdaemon/internal/td"
)

// Value is what a field is set to, and by which op.
type Value struct {
	Raw json.RawMessage
	Op  Stamp
}

// Member says whether something is in a set, and by which op.
type Member struct {
	In bool
	Op Stamp
}

// Record is what the changes of one task add up to. It remembers what was taken away, and when: an older
// change may still come from another clone.
type Record struct {
	ID          td.TaskID
	Fields      map[string]Value
	Sets        map[string]map[string]Member
	First, Last Stamp // the oldest and the newest op
}

// Field is the value of a field, if it has one.
func (r *Record) Field(name string) (json.RawMessage, bool) {
	v := r.Fields[name]
	if v.Raw == nil || string(v.Raw) == "null" {
		return nil, false
	}
	return v.Raw, true
}

// Members are what is in a set, sorted.
func (r *Record) Members(set string) []string {
	var in []string
	for name, m := range r.Sets[set] {
		if m.In {
			in = append(in, name)
		}
	}
	slices.Sort(in)
	return in
}

// Deleted reports whether the task was deleted.
func (r *Record) Deleted() bool { return string(r.Fields[FieldDeleted].Raw) == "true" }

// Apply folds one more change of the task into r. The order of changes does not matter, nor how often each
// of them comes. Values are compared by their bytes: c is to be as Decode gives it.
func (r *Record) Apply(c Change) {
	if first := c.first(); r.First == (Stamp{}) || first.Compare(r.First) < 0 {
		r.First = first
	}
	if c.Op.Compare(r.Last) > 0 {
		r.Last = c.Op
	}
	r.ID = c.Task
	if r.Fields == nil && len(c.Set) > 0 {
		r.Fields = make(map[string]Value, len(c.Set))
	}
	for field, raw := range c.Set {
		if v := (Value{Raw: raw, Op: c.fieldOp(field)}); v.beats(r.Fields[field]) {
			r.Fields[field] = v
		}
	}
	r.applyMembers(&c, c.Add, true)
	r.applyMembers(&c, c.Remove, false)
}

func (r *Record) applyMembers(c *Change, sets map[string][]string, in bool) {
	for set, members := range sets {
		if len(members) == 0 {
			continue
		}
		if r.Sets == nil {
			r.Sets = make(map[string]map[string]Member)
		}
		if r.Sets[set] == nil {
			r.Sets[set] = make(map[string]Member)
		}
		for _, name := range members {
			if m := (Member{In: in, Op: c.memberOp(set, name)}); m.beats(r.Sets[set][name]) {
				r.Sets[set][name] = m
			}
		}
	}
}

// beats reports whether v counts more than w: it is newer, or of the same op and bytewise larger. What
// decides must be part of the value, since a compact line keeps nothing else. Any value beats none: its op has
// an actor.
func (v Value) beats(w Value) bool {
	if by := v.Op.Compare(w.Op); by != 0 {
		return by > 0
	}
	return bytes.Compare(v.Raw, w.Raw) > 0
}

// beats reports whether m counts more than n: it is newer, or of the same op and adds what n removes.
func (m Member) beats(n Member) bool {
	if by := m.Op.Compare(n.Op); by != 0 {
		return by > 0
	}
	return m.In && !n.In
}

// holds reports whether folding c into r would change nothing.
func (r *Record) holds(c *Change) bool {
	if c.Op.Compare(r.Last) > 0 || c.first().Compare(r.First) < 0 {
		return false
	}
	for field, raw := range c.Set {
		if (Value{Raw: raw, Op: c.fieldOp(field)}).beats(r.Fields[field]) {
			return false
		}
	}
	return r.holdsMembers(c, c.Add, true) && r.holdsMembers(c, c.Remove, false)
}

func (r *Record) holdsMembers(c *Change, sets map[string][]string, in bool) bool {
	for set, members := range sets {
		for _, name := range members {
			if (Member{In: in, Op: c.memberOp(set, name)}).beats(r.Sets[set][name]) {
				return false
			}
		}
	}
	return true
}

// Change is the compact change that stands for all that r is made of.
func (r *Record) Change() Change {
	c := Change{Op: r.Last, Task: r.ID, At: &At{First: r.First}}
	if len(r.Fields) > 0 {
		c.Set = make(map[string]json.RawMessage, len(r.Fields))
		c.At.Set = make(map[string]Stamp, len(r.Fields))
	}
	for field, v := range r.Fields {
		c.Set[field], c.At.Set[field] = v.Raw, v.Op
	}
	if len(r.Sets) > 0 {
		c.Add, c.Remove = make(map[string][]string), make(map[string][]string)
		c.At.Members = make(map[string]map[string]Stamp, len(r.Sets))
	}
	for set, members := range r.Sets {
		ops := make(map[string]Stamp, len(members))
		for name, m := range members {
			ops[name] = m.Op
			if m.In {
				c.Add[set] = append(c.Add[set], name)
			} else {
				c.Remove[set] = append(c.Remove[set], name)
			}
		}
		c.At.Members[set] = ops
	}
	return c
}

// Fold is the fold of a whole log: a record for each task.
type Fold struct {
	records map[td.TaskID]*Record
	seen    map[Stamp]uint64 // what each op said, as a hash
	seed    maphash.Seed
}

// NewFold is the fold of no changes.
func NewFold() *Fold {
	return &Fold{records: make(map[td.TaskID]*Record), seen: make(map[Stamp]uint64), seed: maphash.MakeSeed()}
}

// Apply folds one more change, as Record.Apply does. It reports whether another change came before under
// the same op, with other content: nobody should have written that, and somebody should be told. Compact
// lines, which share their op with a change that they stand for, do not count.
func (f *Fold) Apply(c Change) (clash bool) {
	r := f.records[c.Task]
	if r == nil {
		r = new(Record)
		f.records[c.Task] = r
	}
	r.Apply(c)
	if c.At != nil {
		return false
	}
	sum := f.sum(&c)
	before, seen := f.seen[c.Op]
	if !seen {
		f.seen[c.Op] = sum
	}
	return seen && before != sum
}

// sum is a hash of what c says. Its parts are added up, so that maps need no order and members none.
func (f *Fold) sum(c *Change) uint64 {
	sum := maphash.String(f.seed, string(c.Task))
	part := func(kind uint64, name string, value uint64) {
		sum += (maphash.String(f.seed, name)*31 + kind) * (value | 1)
	}
	for field, raw := range c.Set {
		part(1, field, maphash.Bytes(f.seed, raw))
	}
	for key, raw := range c.Extra {
		part(2, key, maphash.Bytes(f.seed, raw))
	}
	for set, members := range c.Add {
		for _, m := range members {
			part(3, set, maphash.String(f.seed, m))
		}
	}
	for set, members := range c.Remove {
		for _, m := range members {
			part(4, set, maphash.String(f.seed, m))
		}
	}
	return sum
}

// Has reports whether a change of this op was folded, compact lines left out.
func (f *Fold) Has(op Stamp) bool {
	_, seen := f.seen[op]
	return seen
}

// Records are all records, deleted ones too, by id.
func (f *Fold) Records() []*Record {
	return slices.SortedFunc(maps.Values(f.records), func(a, b *Record) int {
		return strings.Compare(string(a.ID), string(b.ID))
	})
}
