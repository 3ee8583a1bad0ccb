package planfile

import (
	"fmt"
	"regexp"
	"strings"

	"taskdaemon/internal/td"
)

var (
	headingLine = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$`)
	itemLine    = regexp.MustCompile(`^([ \t]*)(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[([ xX])\](?:[ \t]+(.*))?$`)
	fenceLine   = regexp.MustCompile("^[ \t]*(`{3,}|~{3,})")
)

// Markdown reads a checklist. Headings hold the items below them, and items those that are indented below them;
// text below either is its text. Headings that hold no items are left out. Where is the name of the file, which
// becomes part of the keys: two files may have items of the same name.
func Markdown(raw []byte, where string) (Plan, error) {
	all, err := lines(raw)
	if err != nil {
		return Plan{}, err
	}
	r := checklist{where: where, keys: map[string]int{}}
	fence := ""
	for i, line := range all {
		if mark := fenceLine.FindStringSubmatch(line); mark != nil && fence == "" {
			fence = mark[1]
			r.text(line)
			continue
		}
		if fence != "" {
			if t := strings.TrimSpace(line); strings.HasPrefix(t, fence) && strings.Trim(t, fence[:1]) == "" {
				fence = ""
			}
			r.text(line)
			continue
		}
		if h := headingLine.FindStringSubmatch(line); h != nil {
			r.heading(i+1, len(h[1]), h[2])
			continue
		}
		if it := itemLine.FindStringSubmatch(line); it != nil {
			if strings.TrimSpace(it[3]) == "" {
				return Plan{}, td.Errorf(td.Invalid, "line %d: the item has no title", i+1)
			}
			r.item(i+1, width(it[1]), it[3], it[2] != " ")
			continue
		}
		r.text(line)
	}
	return r.finish()
}

// checklist is a Markdown file as far as it was read.
type checklist struct {
	where  string
	items  []Item
	texts  [][]string
	indent []int // of each item; -1: a heading
	level  []int // of each heading
	open   []int // the headings and items that the next line may belong to, outermost first
	keys   map[string]int
}

func (r *checklist) heading(line, level int, title string) {
	for len(r.open) > 0 {
		if top := r.open[len(r.open)-1]; r.indent[top] < 0 && r.level[top] < level {
			break
		}
		r.open = r.open[:len(r.open)-1]
	}
	if strings.TrimSpace(title) == "" {
		return // it ends what was before, and begins nothing
	}
	r.push(line, -1, level, title, false)
}

func (r *checklist) item(line, indent int, title string, done bool) {
	for len(r.open) > 0 {
		if top := r.open[len(r.open)-1]; r.indent[top] < indent {
			break
		}
		r.open = r.open[:len(r.open)-1]
	}
	r.push(line, indent, 0, title, done)
}

func (r *checklist) push(line, indent, level int, title string, done bool) {
	it := Item{Line: line, Title: title, Parent: -1, Done: done}
	path := title
	if len(r.open) > 0 {
		it.Parent = r.open[len(r.open)-1]
		path = r.items[it.Parent].Key + "/" + title
	}
	// The path names it, and of two with one path the second is told apart by its number.
	it.Key = path
	for n := r.keys[path] + 1; ; n++ {
		if n > 1 {
			it.Key = fmt.Sprintf("%s (%d)", path, n)
		}
		if r.keys[it.Key] == 0 {
			r.keys[it.Key], r.keys[path] = 1, n
			break
		}
	}
	r.items, r.texts = append(r.items, it), append(r.texts, nil)
	r.indent, r.level = append(r.indent, indent), append(r.level, level)
	r.open = append(r.open, len(r.items)-1)
}

// text is a line that is neither a heading nor an item. It belongs to the item it is indented below, else to the
// heading.
func (r *checklist) text(line string) {
	in := width(line[:len(line)-len(strings.TrimLeft(line, " \t"))])
	blank := strings.TrimSpace(line) == ""
	for len(r.open) > 0 {
		top := r.open[len(r.open)-1]
		if blank || r.indent[top] < in {
			r.texts[top] = append(r.texts[top], line)
			return
		}
		r.open = r.open[:len(r.open)-1]
	}
}

func (r *checklist) finish() (Plan, error) {
	holds := make([]bool, len(r.items)) // an item is in it
	for i := len(r.items) - 1; i >= 0; i-- {
		if p := r.items[i].Parent; p >= 0 && (r.indent[i] >= 0 || holds[i]) {
			holds[p] = true
		}
	}
	p := Plan{}
	at := make([]int, len(r.items))
	for i, it := range r.items {
		if r.indent[i] < 0 && !holds[i] {
			continue
		}
		if it.Parent >= 0 {
			it.Parent = at[it.Parent]
		}
		it.Title, it.Text = titled(it.Title, dedent(r.texts[i]))
		// Of what many projects have in their lists nothing tells it apart but the project.
		it.Source, it.Local = strings.Join([]string{"markdown", r.where, it.Key}, "\n"), true
		it.Key = "markdown:" + r.where + ":" + it.Key
		at[i] = len(p.Items)
		p.Items = append(p.Items, it)
	}
	if len(p.Items) == 0 {
		return p, td.Errorf(td.Invalid, "there is no item in it").WithHint(`an item is a line like "- [ ] what to do"`)
	}
	p.containersEndByThemselves()
	return p, nil
}

// width is how far white space indents; a tab goes to the next fourth column.
func width(space string) int {
	n := 0
	for _, c := range space {
		if c == '\t' {
			n += 4 - n%4
		} else {
			n++
		}
	}
	return n
}

// dedent takes off what all lines are indented by.
func dedent(text []string) string {
	least := -1
	for _, l := range text {
		if strings.TrimSpace(l) == "" {
			continue
		}
		if n := len(l) - len(strings.TrimLeft(l, " \t")); least < 0 || n < least {
			least = n
		}
	}
	var b strings.Builder
	for _, l := range text {
		if len(l) >= least && least > 0 && strings.TrimSpace(l) != "" {
			l = l[least:]
		}
		b.WriteString(strings.TrimRight(l, " \t"))
		b.WriteByte('\n')
	}
	return strings.Trim(b.String(), "\n")
}
