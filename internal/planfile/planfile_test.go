package planfile

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"taskdaemon/internal/td"
)

// sketch is a plan on a few lines, for comparison.
func sketch(p Plan) string {
	var b strings.Builder
	for i, it := range p.Items {
		fmt.Fprintf(&b, "%d %q", i, it.Title)
		if it.Parent >= 0 {
			fmt.Fprintf(&b, " in %d", it.Parent)
		}
		if it.Blockers != nil {
			fmt.Fprintf(&b, " after %v", it.Blockers)
		}
		if it.Related != nil {
			fmt.Fprintf(&b, " like %v", it.Related)
		}
		if it.Priority != nil {
			fmt.Fprintf(&b, " p%d", *it.Priority)
		}
		if it.Labels != nil {
			fmt.Fprintf(&b, " %v", it.Labels)
		}
		if it.Done {
			b.WriteString(" done")
		}
		if it.Held != "" {
			fmt.Fprintf(&b, " held %q", it.Held)
		}
		if it.Text != "" {
			fmt.Fprintf(&b, " text %q", it.Text)
		}
		b.WriteByte('\n')
	}
	for _, n := range p.Notes {
		fmt.Fprintf(&b, "line %d: %s\n", n.Line, n.Text)
	}
	return b.String()
}

const checklistFile = "\ufeff# House ##\r\n" + `
Built by hand.

## Shell

- [ ] Floor
  of oak

      nailed
  - [x] Joists
	* [X] Boards
  1. [ ] Varnish
- [x] Walls
  - no item, but text
Not indented: this is of the heading.

` + "```\n- [ ] not an item\n```" + `

## Ideas

Nothing here yet.

##
- [ ] Roof
# Garden
+ [ ] Floor
+ [ ] Floor
`

func TestMarkdown(t *testing.T) {
	p, err := Markdown([]byte(checklistFile), "todo.md")
	if err != nil {
		t.Fatal(err)
	}
	want := `0 "House" text "Built by hand."
1 "Shell" in 0 text "Not indented: this is of the heading.\n\n` + "```\\n- [ ] not an item\\n```" + `"
2 "Floor" in 1 text "of oak\n\n    nailed"
3 "Joists" in 2
4 "Boards" in 3 done
5 "Varnish" in 2
6 "Walls" in 1 done text "- no item, but text"
7 "Roof" in 0
8 "Garden"
9 "Floor" in 8
10 "Floor" in 8
`
	if got := sketch(p); got != want { // the joists hold the boards, and are not done by themselves
		t.Errorf("the plan is\n%s\nwant\n%s", got, want)
	}
	if p.Items[2].Key != "markdown:todo.md:House/Shell/Floor" || p.Items[9].Key == p.Items[10].Key || p.Items[2].Line != 7 {
		t.Errorf("keys are %q, %q, %q; the line is %d", p.Items[2].Key, p.Items[9].Key, p.Items[10].Key, p.Items[2].Line)
	}
}

func TestMarkdownRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "no item",
		"# Only a heading\n":   "no item",
		"- [ ] a\n\n- [ ]  \n": "line 3: the item has no title",
		"- [ ] a\n- [ ] \xff":  "line 2: it has bytes",
		"- [ ] a\x00":          "line 1: it has bytes",
	} {
		_, err := Markdown([]byte(text), "x")
		if !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestLongTitlesGoIntoTheText(t *testing.T) {
	long := strings.Repeat("wörter ", 100)
	p, err := Markdown([]byte("- [ ] "+long+"\n  more"), "x")
	if err != nil || utf8.RuneCountInString(p.Items[0].Title) != maxTitle || p.Items[0].Text != strings.TrimSpace(long)+"\n\nmore" {
		t.Errorf("%+v, %v", p.Items, err)
	}
}

const beadsFile = `{"id":"bd-3","title":"Roof","status":"open","priority":1,"issue_type":"feature","labels":["house"],"dependencies":[{"issue_id":"bd-3","depends_on_id":"bd-1.1","type":"blocks"},{"issue_id":"bd-3","depends_on_id":"bd-4","type":"blocks"},{"issue_id":"bd-3","depends_on_id":"bd-9","type":"related"},{"issue_id":"bd-3","depends_on_id":"bd-404","type":"blocks"}]}

{"id":"bd-1","title":"House","status":"closed","priority":2,"issue_type":"epic","created_at":"2025-12-13T08:44:50.145364+11:00","dependencies":[{"issue_id":"bd-1","depends_on_id":"bd-1.1","type":"blocks"}]}
{"id":"bd-1.1","title":"Floor","description":"of oak","design":"long boards","acceptance_criteria":"level","notes":"soon","status":"closed","issue_type":"task","closed_at":"2025-12-18T02:49:10.575133-08:00","dependencies":[{"issue_id":"bd-1.1","depends_on_id":"bd-1","type":"parent-child"}]}
{"id":"bd-4","title":"old","status":"tombstone","priority":2,"issue_type":"bug","deleted_at":"2025-12-17T16:11:17.070763-08:00"}
{"id":"bd-9","title":"Paint","status":"in_progress","priority":4,"issue_type":"chore","dependencies":[{"issue_id":"bd-9","depends_on_id":"bd-1.1","type":"discovered-from"}]}
`

func TestBeads(t *testing.T) {
	p, err := Beads([]byte(beadsFile))
	if err != nil {
		t.Fatal(err)
	}
	want := `0 "House" p2 [epic] text "## In beads\n\n- created: 2025-12-13T08:44:50.145364+11:00"
1 "Floor" in 0 p0 done text "of oak\n\n## Design\n\nlong boards\n\n## Acceptance criteria\n\nlevel\n\n## Notes\n\nsoon\n\n## In beads\n\n- closed: 2025-12-18T02:49:10.575133-08:00"
2 "Roof" after [1] p1 [house feature]
3 "Paint" like [1 2] p4 [chore] held "it is in progress in beads"
line 1: bd-3: its tie to bd-4 is left out: there is no such issue
line 1: bd-3: its tie to bd-404 is left out: there is no such issue
line 3: bd-1 does not wait for bd-1.1: one is part of the other
`
	if got := sketch(p); got != want {
		t.Errorf("the plan is\n%s\nwant\n%s", got, want)
	}
	if p.Items[1].Key != "beads:bd-1.1" || p.Items[1].Line != 4 {
		t.Errorf("the floor is %+v", p.Items[1])
	}
}

// What beads says of who is at work, what waits and what was said is not lost, and nothing of it is ready by mistake.
func TestBeadsHeld(t *testing.T) {
	p, err := Beads([]byte(`{"id":"a","title":"At work","status":"in_progress","assignee":"ada","created_at":"2025-01-02T03:04:05Z","comments":[{"author":"ben","text":"mind the gap","created_at":"2025-01-03T00:00:00Z"}]}
{"id":"b","title":"Stuck","status":"blocked"}
{"id":"c","title":"Later","status":"deferred","defer_until":"2030-01-01T00:00:00Z"}
{"id":"c.1","title":"Part","status":"open","dependencies":[{"depends_on_id":"c","type":"parent-child"}]}
{"id":"c.2","title":"Done part","status":"closed","dependencies":[{"depends_on_id":"c","type":"parent-child"}]}
{"id":"d","title":"New word","status":"hooked"}
{"id":"e","title":"Open","status":"open"}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := `0 "At work" p0 held "it is in progress in beads, assigned to ada" text "## Comments\n\nben, 2025-01-03T00:00:00Z:\n\nmind the gap\n\n## In beads\n\n- assignee: ada\n- created: 2025-01-02T03:04:05Z"
1 "Stuck" p0 held "it is blocked in beads"
2 "Later" p0 text "## In beads\n\n- deferred until: 2030-01-01T00:00:00Z"
3 "Part" in 2 p0 held "it is deferred in beads, until 2030-01-01T00:00:00Z"
4 "Done part" in 2 p0 done
5 "New word" p0 held "it is hooked in beads"
6 "Open" p0
`
	if got := sketch(p); got != want {
		t.Errorf("the plan is\n%s\nwant\n%s", got, want)
	}
}

func TestBeadsRefuses(t *testing.T) {
	edge := func(from, to, kind string) string {
		return fmt.Sprintf(`{"id":%q,"title":"x","dependencies":[{"issue_id":%q,"depends_on_id":%q,"type":%q}]}`+"\n", from, from, to, kind)
	}
	for text, want := range map[string]string{
		"": "no issue",
		`{"id":"a","title":"x"}` + "\n<<<<<<< HEAD\n":                "line 2: this is no issue",
		`{"id":"a","title":"x"}` + "\n\n" + `{"id":"a","title":"y"}`: "line 3: the issue a is on line 1",
		`{"title":"x"}`:                               "line 1: the issue has no id",
		`{"id":"a"}`:                                  "line 1: the issue a has no title",
		`{"id":"a","title":"x","priority":7}`:         "priority 7",
		`{"id":"a","title":"x\u0000"}`:                "no text",
		`{"id":"a","title":"x","status":"tombstone"}`: "no issue",
		edge("a", "a", "blocks"):                      "line 1: dependency cycle: a → a",
		edge("a", "b", "blocks") + edge("b", "c", "blocks") + edge("c", "b", "blocks"):             "line 2: dependency cycle: b → c → b",
		edge("a", "b", "parent-child") + edge("b", "a", "parent-child"):                            "dependency cycle",
		edge("a", "p", "parent-child") + edge("p", "b", "blocks") + edge("b", "a", "blocks"):       "dependency cycle",
		edge("a", "b", "parent-child") + edge("b", "b", "parent-child") + edge("c", "a", "blocks"): "b → b",
	} {
		_, err := Beads([]byte(text))
		if !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// sound fails unless a plan can be added one item after the other.
func sound(t *testing.T, p Plan) {
	t.Helper()
	keys := map[string]bool{}
	holds := map[int]bool{}
	for i, it := range p.Items {
		if it.Title == "" || utf8.RuneCountInString(it.Title) > maxTitle || !utf8.ValidString(it.Title+it.Text) || strings.ContainsAny(it.Title, "\n\x00") {
			t.Errorf("item %d has the title %q and the text %q", i, it.Title, it.Text)
		}
		if keys[it.Key] || it.Key == "" || it.Line < 1 {
			t.Errorf("item %d has the key %q, line %d", i, it.Key, it.Line)
		}
		keys[it.Key] = true
		for _, at := range append(append([]int{max(it.Parent, -1)}, it.Blockers...), it.Related...) {
			if at >= i {
				t.Errorf("item %d names %d", i, at)
			}
		}
		holds[it.Parent] = true
	}
	for i, it := range p.Items {
		if it.Done && holds[i] {
			t.Errorf("item %d is done and holds others", i)
		}
	}
}

func FuzzMarkdown(f *testing.F) {
	f.Add([]byte(checklistFile))
	f.Add([]byte("- [ ] a\n- [ ] a\n- [ ] a (2)\n"))
	f.Add([]byte("1. [x] a\n\t- [ ] b\n ~~~\n"))
	f.Add([]byte("- [ ] a/b\n# a\n- [ ] b\n"))
	f.Add([]byte("###### x\n# y\n  - [ ] z\n - [ ] w"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Markdown(raw, "f")
		if err == nil {
			sound(t, p)
		} else if !td.IsKind(err, td.Invalid) {
			t.Errorf("error of kind %s: %v", td.KindOf(err), err)
		}
	})
}

func FuzzBeads(f *testing.F) {
	f.Add([]byte(beadsFile))
	f.Add([]byte(`{"id":"a","title":"x","dependencies":[{"depends_on_id":"a","type":"related"}]}`))
	f.Add([]byte(`{"id":"a","title":"x","dependencies":[null,{"issue_id":"b","depends_on_id":"a","type":"parent-child"}]}` + "\n" + `{"id":"b","title":"y"}`))
	f.Add([]byte("null\n[]\n\"\"\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Beads(raw)
		if err == nil {
			sound(t, p)
		} else if !td.IsKind(err, td.Invalid) {
			t.Errorf("error of kind %s: %v", td.KindOf(err), err)
		}
	})
}
