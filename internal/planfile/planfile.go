// Package planfile reads plans that were written elsewhere: checklists in Markdown, and the issues of beads.
//
// It is pure and total: whatever the bytes, a reader returns items or an error that names the line. The items
// come in an order in which each follows the one it is part of and those it waits for, so that they can be
// added one after the other.
package planfile

import (
	"bytes"
	"cmp"
	"strings"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

// Item is a task of a plan. Its ties are indexes of items before it.
type Item struct {
	Line     int // where it begins in the file
	Key      string
	Source   string // what names it wherever it is imported; empty: nothing does
	Local    bool   // the source names it among those of one project
	Title    string
	Text     string
	Parent   int // -1: none
	Blockers []int
	Related  []int
	Labels   []string
	Priority *int   // nil: not given
	Done     bool   // never of an item that holds others
	Held     string // why it is not to be worked on; empty: it is. Never of an item that holds others
}

// Note is something of the file that is not in the plan, and why.
type Note struct {
	Line int
	Text string
}

// Plan is what a file says.
type Plan struct {
	Items []Item
	Notes []Note
}

func (p *Plan) note(line int, text string) { p.Notes = append(p.Notes, Note{line, text}) }

// maxTitle is the longest title that a graph takes, in characters.
const maxTitle = 300

// titled is a title of one line. What is too long for one is the beginning of the text instead.
func titled(title, text string) (string, string) {
	title = strings.Join(strings.Fields(title), " ")
	if utf8.RuneCountInString(title) <= maxTitle {
		return title, text
	}
	return string([]rune(title)[:maxTitle-1]) + "…", strings.TrimSpace(title + "\n\n" + text)
}

// lines splits a file and refuses what is no text.
func lines(raw []byte) ([]string, error) {
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	out := strings.Split(string(raw), "\n")
	for i, l := range out {
		if !utf8.ValidString(l) || strings.ContainsRune(l, 0) {
			return nil, td.Errorf(td.Invalid, "line %d: it has bytes that are no text", i+1)
		}
		out[i] = strings.TrimSuffix(l, "\r")
	}
	return out, nil
}

// containersEndByThemselves takes the mark of being done from items that hold others: their state follows from
// those.
func (p *Plan) containersEndByThemselves() {
	for _, it := range p.Items {
		if it.Parent >= 0 {
			p.Items[it.Parent].Done = false
		}
	}
}

// containersHoldTheirParts passes on that an item is held to what it holds, unless that is done: it is the parts that are worked on.
func (p *Plan) containersHoldTheirParts() {
	held := make([]string, len(p.Items))
	holds := make([]bool, len(p.Items))
	for i, it := range p.Items { // what holds others comes before them
		held[i] = it.Held
		if it.Parent >= 0 {
			held[i], holds[it.Parent] = cmp.Or(it.Held, held[it.Parent]), true
		}
	}
	for i := range p.Items {
		if p.Items[i].Held = held[i]; holds[i] || p.Items[i].Done {
			p.Items[i].Held = ""
		}
	}
}
