package jsonl

import (
	"bytes"
	"iter"
)

// Lacks reports whether c has something that r does not have in its place: newer, or of the same op and another. A log that had c and folds to
// r has lost it, or says something else now.
func (r *Record) Lacks(c Change) bool {
	if c.Op.Compare(r.Last) > 0 || c.first().Compare(r.First) < 0 {
		return true
	}
	for field, raw := range c.Set {
		v := r.Fields[field]
		if by := c.fieldOp(field).Compare(v.Op); by > 0 || by == 0 && !bytes.Equal(raw, v.Raw) {
			return true
		}
	}
	for set, name := range c.members() {
		m := r.Sets[set.name][name]
		if by := c.memberOp(set.name, name).Compare(m.Op); by > 0 || by == 0 && m.In != set.in {
			return true
		}
	}
	return false
}

// Ops are those that are known to be among the changes that r is made of. One may come more than once.
func (r *Record) Ops() iter.Seq[Stamp] {
	return func(yield func(Stamp) bool) {
		if !yield(r.First) || !yield(r.Last) {
			return
		}
		for _, v := range r.Fields {
			if !yield(v.Op) {
				return
			}
		}
		for _, members := range r.Sets {
			for _, m := range members {
				if !yield(m.Op) {
					return
				}
			}
		}
	}
}

// Knows reports whether an op is one of Ops.
func (r *Record) Knows(op Stamp) bool {
	for known := range r.Ops() {
		if known == op {
			return true
		}
	}
	return false
}

// Refutes reports whether c, which has the op of a change that r is made of, is not that change: what it says is not what r has
// of this op. Of a compact line it is what its own changes are refuted by.
func (r *Record) Refutes(c Change) bool {
	if c.At == nil && c.Task != r.ID {
		return r.Knows(c.Op)
	}
	if c.Task != r.ID {
		return false
	}
	for field, raw := range c.Set {
		v, op := r.Fields[field], c.fieldOp(field)
		if by := op.Compare(v.Op); by == 0 && !bytes.Equal(raw, v.Raw) || by > 0 && r.Knows(op) {
			return true
		}
	}
	for set, name := range c.members() {
		m, op := r.Sets[set.name][name], c.memberOp(set.name, name)
		if by := op.Compare(m.Op); by == 0 && m.In != set.in || by > 0 && r.Knows(op) {
			return true
		}
	}
	return c.At == nil && !r.at(c.Op).within(c)
}

// Repeats reports whether c says under another op what r has of this one: then it is that change, with a damaged op.
func (r *Record) Repeats(op Stamp, c Change) bool {
	if c.Task != r.ID || c.At != nil || r.Knows(c.Op) {
		return false
	}
	of := r.at(op)
	return (len(of.Fields) > 0 || len(of.Sets) > 0) && of.within(c)
}

// at is what r has of one op.
func (r *Record) at(op Stamp) *Record {
	of := &Record{ID: r.ID, Fields: map[string]Value{}, Sets: map[string]map[string]Member{}}
	for field, v := range r.Fields {
		if v.Op == op {
			of.Fields[field] = v
		}
	}
	for set, members := range r.Sets {
		for name, m := range members {
			if m.Op != op {
				continue
			}
			if of.Sets[set] == nil {
				of.Sets[set] = map[string]Member{}
			}
			of.Sets[set][name] = m
		}
	}
	return of
}

// within reports whether c says all that r has, whatever its op.
func (r *Record) within(c Change) bool {
	for field, v := range r.Fields {
		if raw, ok := c.Set[field]; !ok || !bytes.Equal(raw, v.Raw) {
			return false
		}
	}
	said := map[members]map[string]bool{}
	for set, name := range c.members() {
		if said[set] == nil {
			said[set] = map[string]bool{}
		}
		said[set][name] = true
	}
	for set, names := range r.Sets {
		for name, m := range names {
			if !said[members{set, m.In}][name] {
				return false
			}
		}
	}
	return true
}

// members is a set that a change adds to, or takes from.
type members struct {
	name string
	in   bool
}

// members are what c adds and removes.
func (c *Change) members() iter.Seq2[members, string] {
	return func(yield func(members, string) bool) {
		for in, sets := range map[bool]map[string][]string{true: c.Add, false: c.Remove} {
			for set, names := range sets {
				for _, name := range names {
					if !yield(members{set, in}, name) {
						return
					}
				}
			}
		}
	}
}
