package jsonl

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"taskdaemon/internal/td"
)

// Merge makes one log of several. Every change of any of them is in it once, in its canonical form, sorted
// by op and then bytewise. Then come the bad lines, sorted bytewise. Left out are conflict markers, and
// what compact lines make needless: neither changes what the log folds to.
//
// The same logs give the same bytes, in whatever order and grouping they are merged; and a merged log,
// merged again, stays as it is. A last line without a newline is taken for a whole one.
func Merge(logs ...[]byte) []byte {
	var p pile
	for _, log := range logs {
		p.read(log)
	}
	return p.bytes()
}

// Compact is the log, merged with itself, with all changes of a task from before a time folded into one
// line. Folded beside the log as it was, it gives the same records. Changes with keys that this version
// does not know stay as they are, and so do those of a task whose one line would be too long.
//
// That one op had two contents can be seen no more when these are folded.
func Compact(log []byte, before time.Time) []byte {
	var p pile
	p.read(log)
	p.settle()
	p.compact(before.UnixMilli())
	return p.bytes()
}

// pile is what logs are made of: good lines, each with what it is sorted and grouped by, and bad ones. It
// shares memory with the logs.
type pile struct {
	d    decoder
	good []good
	bad  [][]byte
}

type good struct {
	op      Stamp
	task    td.TaskID
	compact bool
	extra   bool
	text    []byte // canonical, without a newline
}

// read adds the lines of a log.
func (p *pile) read(log []byte) {
	for len(log) > 0 {
		line, rest, _ := bytes.Cut(log, []byte("\n"))
		log = rest
		if line = trim(line); isBlank(line) || isMarker(line) {
			continue
		}
		c, err := p.d.decode(line)
		if err == nil {
			err = p.add(c, line)
		}
		if err != nil {
			p.bad = append(p.bad, line)
		}
	}
}

// add adds a change that was read from line, whose memory is used if it is canonical.
func (p *pile) add(c Change, line []byte) error {
	text, err := Append(nil, c)
	if err != nil {
		return err
	}
	if text = text[:len(text)-1]; bytes.Equal(text, line) {
		text = line
	}
	p.good = append(p.good, good{op: c.Op, task: c.Task, compact: c.At != nil, extra: c.Extra != nil, text: text})
	return nil
}

// change is what a good line says.
func (p *pile) change(g good) Change {
	c, err := p.d.decode(g.text)
	if err != nil {
		panic("jsonl: a change that was written cannot be read: " + err.Error())
	}
	return c
}

// bytes is the merged log.
func (p *pile) bytes() []byte {
	p.settle()
	size := 0
	for _, g := range p.good {
		size += len(g.text) + 1
	}
	for _, line := range p.bad {
		size += len(line) + 1
	}
	out := make([]byte, 0, size)
	for _, g := range p.good {
		out = append(append(out, g.text...), '\n')
	}
	for _, line := range p.bad {
		out = append(append(out, line...), '\n')
	}
	return out
}

// settle sorts the pile, and takes away what is there twice or needless.
func (p *pile) settle() {
	slices.SortFunc(p.good, func(a, b good) int {
		return cmp.Or(a.op.Compare(b.op), bytes.Compare(a.text, b.text))
	})
	p.good = slices.CompactFunc(p.good, func(a, b good) bool { return a.op == b.op && bytes.Equal(a.text, b.text) })
	slices.SortFunc(p.bad, bytes.Compare)
	p.bad = slices.CompactFunc(p.bad, bytes.Equal)
	p.dropCovered()
}

// dropCovered takes away lines that fold to nothing beside the compact lines of their task: a compact line
// if those that come after it in an order of their own hold all of it, another line if all of them do.
//
// Thus it is the same in every order of merging. To take a compact line away changes nothing in what is
// held by those after any line: what it held, the ones after it hold. So whatever goes early would go
// late, and what stays is judged alike. And it takes one look at each line, whoever wrote them.
func (p *pile) dropCovered() {
	var compact []int
	for i, g := range p.good {
		if g.compact {
			compact = append(compact, i)
		}
	}
	if len(compact) == 0 {
		return
	}
	// Any order would do. In this one, a line that was made of another as a rule comes after it.
	slices.SortFunc(compact, func(i, j int) int {
		a, b := p.good[i], p.good[j]
		return cmp.Or(a.op.Compare(b.op), cmp.Compare(len(a.text), len(b.text)), bytes.Compare(a.text, b.text))
	})
	held := make(map[td.TaskID]*Record)
	needless := make([]bool, len(p.good))
	for _, i := range slices.Backward(compact) {
		g := p.good[i]
		c := p.change(g)
		if held[g.task] == nil {
			held[g.task] = new(Record)
		}
		needless[i] = !g.extra && held[g.task].holds(&c)
		held[g.task].Apply(c)
	}
	for i, g := range p.good {
		if r := held[g.task]; r != nil && !g.compact && !g.extra {
			c := p.change(g)
			needless[i] = r.holds(&c)
		}
	}
	kept := p.good[:0]
	for i, g := range p.good {
		if !needless[i] {
			kept = append(kept, g)
		}
	}
	p.good = kept
}

// compact folds the lines of each task that are older than a time, in milliseconds, if there are two or
// more.
func (p *pile) compact(before int64) {
	old := func(g good) bool { return g.op.Wall < before && !g.extra }
	count := make(map[td.TaskID]int)
	for _, g := range p.good {
		if old(g) {
			count[g.task]++
		}
	}
	records := make(map[td.TaskID]*Record)
	for _, g := range p.good {
		if !old(g) || count[g.task] < 2 {
			continue
		}
		if records[g.task] == nil {
			records[g.task] = new(Record)
		}
		records[g.task].Apply(p.change(g))
	}
	folded := make(map[td.TaskID]bool)
	var lines []good
	for task, r := range records {
		text, err := Append(nil, r.Change())
		if err != nil {
			continue // too long: its lines stay
		}
		folded[task] = true
		lines = append(lines, good{op: r.Last, task: task, compact: true, text: text[:len(text)-1]})
	}
	p.good = slices.DeleteFunc(p.good, func(g good) bool { return folded[g.task] && old(g) })
	p.good = append(p.good, lines...)
}
