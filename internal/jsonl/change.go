package jsonl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

// MaxLine is the most bytes a line may have, its newline not counted. A longer one is a bad line.
const MaxLine = 10 << 20

// FieldDeleted is the field that is true of a deleted task.
const FieldDeleted = "deleted"

// The keys of a line.
const (
	keyAdd    = "add"
	keyAt     = "at"
	keyOp     = "op"
	keyRemove = "remove"
	keySet    = "set"
	keyTask   = "task"

	keyFirst   = "first"   // of at
	keyMembers = "members" // of at
)

// Change is one line: what was changed of one task, when and by whom.
type Change struct {
	Op   Stamp
	Task td.TaskID

	Set         map[string]json.RawMessage // fields and their values; null takes a field away
	Add, Remove map[string][]string        // members of sets; no member may be in both

	// At makes it a compact line, which stands for all changes of its task from At.First to Op that whoever
	// wrote it had.
	At *At

	// Extra are the keys of the line that this version does not know. They are written back as they were,
	// and a change that has some is never folded away.
	Extra map[string]json.RawMessage
}

// At says which op it was that each field and member of a compact line comes from. What is not named comes
// from the line's own op, which is the newest of them.
type At struct {
	First   Stamp // the oldest; zero is the line's own
	Set     map[string]Stamp
	Members map[string]map[string]Stamp // by set and member, be it added or removed
}

// first is the oldest op that c stands for.
func (c *Change) first() Stamp {
	if c.At == nil || c.At.First == (Stamp{}) {
		return c.Op
	}
	return c.At.First
}

// fieldOp is the op that set a field.
func (c *Change) fieldOp(field string) Stamp {
	if c.At != nil {
		if op, ok := c.At.Set[field]; ok {
			return op
		}
	}
	return c.Op
}

// memberOp is the op that added or removed a member.
func (c *Change) memberOp(set, member string) Stamp {
	if c.At != nil {
		if op, ok := c.At.Members[set][member]; ok {
			return op
		}
	}
	return c.Op
}

// check says what is wrong with c, but for its values.
func (c *Change) check() error {
	if err := c.Op.check(); err != nil {
		return fmt.Errorf("%s: %w", keyOp, err)
	}
	if !isTask(c.Task) {
		return fmt.Errorf("%s: %s is no task's id: a UUIDv7 in lower case is", keyTask, brief(string(c.Task)))
	}
	if _, ok := c.Set[""]; ok {
		return fmt.Errorf("%s: a field without a name", keySet)
	}
	if err := errors.Join(checkSets(keyAdd, c.Add), checkSets(keyRemove, c.Remove)); err != nil {
		return err
	}
	for set, removed := range c.Remove {
		if added := index(c.Add[set]); added != nil {
			for _, m := range removed {
				if added[m] {
					return fmt.Errorf("%s is added to %s and removed from it", brief(m), brief(set))
				}
			}
		}
	}
	if c.At == nil {
		return nil
	}
	if err := c.checkAt(); err != nil {
		return fmt.Errorf("%s: %w", keyAt, err)
	}
	return nil
}

func checkSets(key string, sets map[string][]string) error {
	for set, members := range sets {
		if set == "" {
			return fmt.Errorf("%s: a set without a name", key)
		}
		if slices.Contains(members, "") {
			return fmt.Errorf("%s: %s: a member without a name", key, brief(set))
		}
	}
	return nil
}

// index makes members easy to find: strangers write lines, and lines may have very many.
func index(members []string) map[string]bool {
	if len(members) == 0 {
		return nil
	}
	has := make(map[string]bool, len(members))
	for _, m := range members {
		has[m] = true
	}
	return has
}

// checkAt keeps at from naming what the line does not have, and ops outside of what it stands for.
func (c *Change) checkAt() error {
	first := c.first()
	if err := c.within(first, keyFirst); err != nil {
		return err
	}
	for field, op := range c.At.Set {
		if _, ok := c.Set[field]; !ok {
			return fmt.Errorf("the line does not set %s", brief(field))
		}
		if err := c.within(op, field); err != nil {
			return err
		}
	}
	for set, members := range c.At.Members {
		added, removed := index(c.Add[set]), index(c.Remove[set])
		for m, op := range members {
			if !added[m] && !removed[m] {
				return fmt.Errorf("the line neither adds nor removes %s of %s", brief(m), brief(set))
			}
			if err := c.within(op, m); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Change) within(op Stamp, of string) error {
	if err := op.check(); err != nil {
		return fmt.Errorf("%s: %w", brief(of), err)
	}
	if op.Compare(c.first()) < 0 || op.Compare(c.Op) > 0 {
		return fmt.Errorf("%s: the op is not between the line's first and its own", brief(of))
	}
	return nil
}

// isTask reports whether id is a UUIDv7 in lower case: an id that can be written in two ways would be two
// tasks.
func isTask[T ~string | ~[]byte](id T) bool {
	if len(id) != 36 || id[14] != '7' || id[19] < '8' || id[19] > 'b' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !isDigit(c) && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// Append writes c as one line, in its canonical form, with a newline. If it cannot, dst comes back as it
// was.
func Append(dst []byte, c Change) ([]byte, error) {
	from := len(dst)
	out, err := c.append(dst)
	if err == nil && len(out)-from > MaxLine {
		err = fmt.Errorf("it takes %d bytes, and a line has at most %d", len(out)-from, MaxLine)
	}
	if err == nil && !utf8.Valid(out[from:]) {
		err = errors.New("it is not valid UTF-8")
	}
	if err != nil {
		return dst, &td.Error{Kind: td.Invalid, Err: fmt.Errorf("write a change of %s: %w", brief(string(c.Task)), err)}
	}
	return append(out, '\n'), nil
}

func (c *Change) append(dst []byte) ([]byte, error) {
	if err := c.check(); err != nil {
		return dst, err
	}
	keys := slices.AppendSeq([]string{keyAdd, keyAt, keyOp, keyRemove, keySet, keyTask}, maps.Keys(c.Extra))
	slices.Sort(keys)
	w := writer{dst: dst}
	w.open()
	for i, key := range keys {
		if i > 0 && keys[i-1] == key {
			return dst, fmt.Errorf("an extra key has the name of a known one, %s", brief(key))
		}
		switch key {
		case keyAdd:
			w.sets(key, c.Add)
		case keyAt:
			if c.At != nil {
				w.key(key)
				w.at(c)
			}
		case keyOp:
			w.key(key)
			w.stamp(c.Op)
		case keyRemove:
			w.sets(key, c.Remove)
		case keySet:
			w.values(key, c.Set)
		case keyTask:
			w.key(key)
			w.text(string(c.Task))
		default:
			w.key(key)
			w.raw(key, c.Extra[key])
		}
	}
	w.shut()
	return w.dst, w.err
}
