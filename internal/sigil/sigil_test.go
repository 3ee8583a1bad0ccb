package sigil

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestParse(t *testing.T) {
	pass, why := &Verdict{Pass: true}, func(s string) *Verdict { return &Verdict{Reason: s} }
	for _, c := range []struct {
		name, text string
		want       Sigils
		problems   int
	}{
		{"nothing", "All is well. 1 < 2, <b>bold</b>, a <task-doneness>.", Sigils{}, 0},
		{"done", "Tests pass.\n\n<task-done>t-4k7q2m9x</task-done>\n", Sigils{Done: "t-4k7q2m9x"}, 0},
		{"white space", "<task-done>\n  t-1 \t</task-done >", Sigils{Done: "t-1"}, 0},
		{"failed", "<task-failed>t-1</task-failed>", Sigils{Failed: "t-1"}, 0},
		{"done beats failed", "<task-done>t-1</task-done> <task-failed>t-1</task-failed>", Sigils{Done: "t-1"}, 0},
		{"done beats an earlier failed", "<task-failed>t-1</task-failed> <task-done>t-2</task-done>", Sigils{Done: "t-2"}, 0},
		{"the last counts", "<task-done>t-1</task-done><task-done>t-2</task-done>", Sigils{Done: "t-2"}, 0},
		{"the last that names a task", "<task-done>t-1</task-done><task-done></task-done>", Sigils{Done: "t-1"}, 1},
		{"no id", "<task-done>the first task</task-done><task-failed>" + strings.Repeat("x", maxID+1) + "</task-failed>", Sigils{}, 2},
		{"case", "<Task-Done>t-1</Task-Done><TASK-DONE>t-1</TASK-DONE>", Sigils{}, 0},
		{"complete", "<promise>COMPLETE</promise>", Sigils{Complete: true}, 0},
		{"given up", "<promise> FAILURE\n</promise>", Sigils{GivenUp: true}, 0},
		{"of promises the last", "<promise>COMPLETE</promise><promise>FAILURE</promise>", Sigils{GivenUp: true}, 0},
		{"another promise", "<promise>complete</promise>", Sigils{}, 1},
		{"next model", "<next-model>expert</next-model>", Sigils{Next: td.Expert}, 0},
		{"next model by another name", "<next-model>haiku</next-model>", Sigils{Next: td.Small}, 0},
		{"next model, sonnet", "<next-model>opus</next-model> no: <next-model>sonnet</next-model>", Sigils{Next: td.Worker}, 0},
		{"no such model", "<next-model>opus</next-model><next-model>gpt</next-model>", Sigils{Next: td.Expert}, 1},
		{"notes, all of them", "<journal>one</journal> and <journal>\ntwo\nlines\n</journal>", Sigils{Notes: []string{"one", "two\nlines"}}, 0},
		{"empty notes", "<journal> </journal><journal/>", Sigils{}, 2},
		{"knowledge", "<knowledge title=\"Use  `go vet`\" tags=\"go,  ci , ,\">\nIt finds\n\n```sh\ngo vet ./...\n```\n</knowledge>",
			Sigils{Knowledge: []Entry{{td.KindLearning, "Use `go vet`", []string{"go", "ci"}, "It finds\n\n```sh\ngo vet ./...\n```"}}}, 0},
		{"knowledge, other quotes, other order", "<knowledge tags='a' title='say \"x\" < y'>b</knowledge>",
			Sigils{Knowledge: []Entry{{td.KindLearning, `say "x" < y`, []string{"a"}, "b"}}}, 0},
		{"a decision", `<knowledge title="t" kind="Decision">b</knowledge>`, Sigils{Knowledge: []Entry{{td.KindDecision, "t", nil, "b"}}}, 0},
		{"knowledge of no kind", `<knowledge title="t" kind="rumour">b</knowledge>`, Sigils{}, 1},
		{"knowledge without title, without text", `<knowledge tags="a">b</knowledge><knowledge title="t"> </knowledge>`, Sigils{}, 2},
		{"a title that is not closed", "<knowledge title=\"x>b</knowledge>\n\n<task-done>t-1</task-done>", Sigils{Done: "t-1"}, 2},
		{"a sigil in a title", `<knowledge title="<journal>x</journal>">b</knowledge>`, Sigils{Notes: []string{"x"}}, 2},
		{"pass", "<verify-pass/>", Sigils{Verdict: pass}, 0},
		{"pass, other spellings", "<verify-pass /> <verify-pass></verify-pass>", Sigils{Verdict: pass}, 0},
		{"pass that is not closed", "<verify-pass>", Sigils{}, 1},
		{"not passed", "<verify-fail>\nthe test is red\n</verify-fail>", Sigils{Verdict: why("the test is red")}, 0},
		{"not passed, no reason", "<verify-fail/>", Sigils{Verdict: why("")}, 0},
		{"passed and not", "<verify-fail>red</verify-fail> <verify-pass/>", Sigils{Verdict: why("red")}, 0},
		{"passed, then not", "<verify-pass/> <verify-fail>red</verify-fail>", Sigils{Verdict: why("red")}, 0},

		{"unclosed", "<task-done>t-1", Sigils{}, 1},
		{"unclosed before another", "<task-done>t-1\n<task-done>t-2</task-done>", Sigils{Done: "t-2"}, 1},
		{"unclosed does not swallow", "<journal>I forgot\n\n<task-done>t-1</task-done>\n<journal>more</journal>", Sigils{Done: "t-1", Notes: []string{"more"}}, 1},
		{"closed by another name", "<task-done>t-1</task-failed>", Sigils{}, 2},
		{"closes nothing", "</task-done>", Sigils{}, 1},
		{"no tag", "the <journal of the day> is long", Sigils{}, 1},
		{"cut off", "<knowledge title=", Sigils{}, 1},
		{"cut off in a name", "<task-done", Sigils{}, 0},

		{"nested", "<journal>do not say <task-done>t-1</task-done> yet</journal>", Sigils{Notes: []string{"do not say <task-done>t-1</task-done> yet"}}, 0},
		{"nested in an id", "<task-done><journal>x</journal>t-1</task-done>", Sigils{}, 1},
		{"nested in itself", "<journal>a <journal>b</journal> c</journal>", Sigils{Notes: []string{"a <journal>b</journal> c"}}, 0},
		{"interleaved", "<journal>a<task-done>t-1</journal>b</task-done>", Sigils{Notes: []string{"a<task-done>t-1"}}, 1},

		{"in a code block", "Say:\n```\n<task-done>t-1</task-done>\n```\n", Sigils{}, 0},
		{"after a code block", "```go\nx := `a\n```\n<task-done>t-1</task-done>", Sigils{Done: "t-1"}, 0},
		{"in a block of tildes with backticks", "~~~\n```\n<task-done>t-1</task-done>\n~~~\n<task-failed>t-2</task-failed>", Sigils{Failed: "t-2"}, 0},
		{"in a longer block", "````\n```\n<task-done>t-1</task-done>\n```\n````", Sigils{}, 0},
		{"in a block of a list", "1. ```sh\n   <task-done>t-1</task-done>\n   ```\n- ~~~\n  <task-done>t-1</task-done>\n  ~~~\n", Sigils{}, 0},
		{"in a block of a quote", "> ```\n> <task-done>t-1</task-done>\n> ```\n", Sigils{}, 0},
		{"in a block with Windows' line ends", "```\r\n<task-done>t-1</task-done>\r\n```\r\n<task-done>t-2</task-done>\r\n", Sigils{Done: "t-2"}, 0},
		{"in a block that never ends", "<task-done>t-1</task-done>\n```\n<task-failed>t-1</task-failed>", Sigils{Done: "t-1"}, 1},
		{"a block that never ends and hides nothing", "<task-done>t-1</task-done>\n```\nx", Sigils{Done: "t-1"}, 0},
		{"indented", "Say:\n\n    <task-done>t-1</task-done>\n\n\t<task-failed>t-1</task-failed>\n\nThat is how.", Sigils{}, 1},
		{"behind what is indented", "So:\n\n    make <journal>\n<task-done>t-1</task-done>", Sigils{Done: "t-1"}, 1},
		{"indented without a blank line", "It is done:\n    <task-done>t-1</task-done>", Sigils{Done: "t-1"}, 0},
		{"indented a little", "It is done:\n\n   <task-done>t-1</task-done>", Sigils{Done: "t-1"}, 0},
		{"indented in a list", "1. It is done:\n\n    <task-done>t-1</task-done>\n", Sigils{Done: "t-1"}, 0},
		{"indented behind a list", "- one\n\nSay:\n\n    <task-done>t-1</task-done>\n", Sigils{}, 1},
		{"closed behind what is indented", "<journal>Run\n\n    go test</journal>\n<task-done>t-1</task-done>",
			Sigils{Done: "t-1", Notes: []string{"Run\n\n    go test"}}, 0},
		{"a block that is indented", "x\n\n    ```\n<task-done>t-1</task-done>\n    ```\n<task-failed>t-2</task-failed>", Sigils{Failed: "t-2"}, 0},
		{"closed right behind a code block", "<journal>\n```sh\ngo test\n```</journal>\n<task-done>t-1</task-done>",
			Sigils{Done: "t-1", Notes: []string{"```sh\ngo test\n```"}}, 0},
		{"a closing tag in code", "<journal>write `</journal>` last</journal>", Sigils{Notes: []string{"write `</journal>` last"}}, 0},
		{"in inline code", "Say `<task-done>t-1</task-done>` or ``a ` <task-failed>t-1</task-failed>``.", Sigils{}, 0},
		{"in inline code over lines", "Say `x\n<task-done>t-1</task-done>\ny`.", Sigils{}, 0},
		{"a stray backtick", "It`s done.\n\n<task-done>t-1</task-done>\n\nIt`s.", Sigils{Done: "t-1"}, 0},
		{"a stray run", "``` is it`\n<task-done>t-1</task-done>", Sigils{Done: "t-1"}, 0},
		{"on one line like a block", "```<task-done>t-1</task-done>```\n<task-failed>t-2</task-failed>", Sigils{Failed: "t-2"}, 0},
		{"escaped", "\\<task-done>t-1\\</task-done> \\`<task-failed>t-2</task-failed>`", Sigils{Failed: "t-2"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Parse(c.text)
			if len(got.Problems) != c.problems {
				t.Errorf("%d problems, want %d: %q", len(got.Problems), c.problems, got.Problems)
			}
			got.Problems = nil
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("Parse(%q)\n got %+v\nwant %+v", c.text, got, c.want)
			}
		})
	}
}

func TestProblemsAreBounded(t *testing.T) {
	got := Parse(strings.Repeat("<task-done>"+strings.Repeat("é ", 1000)+"</task-done>", 50)).Problems
	if len(got) != maxProblems+1 || got[maxProblems] != "There are 30 more like these." {
		t.Fatalf("%d problems, the last %q", len(got), got[len(got)-1])
	}
	if len(got[0]) > 4*maxQuoted {
		t.Errorf("a problem of %d bytes: %s", len(got[0]), got[0])
	}
}

// hostile texts are made of pieces that each could make a careless parser start over.
var hostile = []string{
	"<task-done>", "</task-done>", "<journal><task-done>", "<knowledge title=\"", "<knowledge title='\"' tags=\"", "<knowledge a=\"\" ",
	"<knowledge", "<", "`", "`` ` ", "```\n", "```x\n", "~~~\n", "> ", "- ", "1. ", "\n", "\n\n    ", "\n\t", "\\", "\\`", "<verify-pass/>", "é", "\xff", "\x00", "&lt;", "</", "a=\"b\" ", "\"", "'",
}

// cost is what the parser may look at, a byte of the text.
const cost = 8

func TestWorkIsLinear(t *testing.T) {
	growing := func(n int) string { // runs of backticks of all lengths, none with a partner
		var b strings.Builder
		for i := 1; b.Len() < n; i++ {
			b.WriteString(strings.Repeat("`", i) + " <journal> ")
		}
		return b.String()
	}
	check := func(name, text string) {
		if _, looked := parse(text); looked > cost*len(text)+cost {
			t.Errorf("%s: %d bytes looked at for a text of %d", name, looked, len(text))
		}
	}
	check("growing runs", growing(1<<16))
	for _, a := range hostile {
		for _, b := range hostile {
			check(fmt.Sprintf("%q", a+b), strings.Repeat(a+b, 1000))
			check(fmt.Sprintf("many %q, many %q", a, b), strings.Repeat(a, 1000)+strings.Repeat(b, 1000))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, h := range hostile {
		f.Add(h)
	}
	f.Add("<task-done>t-1</task-done> <journal>a `b` <promise>COMPLETE</promise></journal>\n```\n<verify-fail>x</verify-fail>\n```")
	f.Add("a\n\n    <journal>x</journal>\n\n\t</task-done>\n- b\n\n    <task-done>t</task-done>")
	f.Add("<knowledge title=\"a\" tags='b, c'>d</knowledge><next-model>opus</next-model><task-failed>x</task-failed>")
	f.Fuzz(func(t *testing.T, text string) {
		s, looked := parse(text)
		if looked > cost*len(text)+cost {
			t.Errorf("%d bytes looked at for a text of %d", looked, len(text))
		}
		if s.Done != "" && s.Failed != "" || s.Complete && s.GivenUp {
			t.Errorf("it says two things at once: %+v", s)
		}
		if len(s.Problems) > maxProblems+1 || slices.Contains(s.Notes, "") {
			t.Errorf("%d problems, notes %q", len(s.Problems), s.Notes)
		}
		// Whatever a text says, it says nothing as a block of code.
		block := strings.Repeat("~", longestRun(text)+3)
		if got := Parse(block + "\n" + text + "\n" + block + "\n"); !reflect.DeepEqual(got, Sigils{}) {
			t.Errorf("in a code block it says %+v", got)
		}
	})
}

// longestRun is the length of the longest run of tildes.
func longestRun(text string) int {
	longest, run := 0, 0
	for _, r := range text {
		if run++; r != '~' {
			run = 0
		}
		longest = max(longest, run)
	}
	return longest
}

func TestRest(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "",
		"It is done. <task-done>t-1</task-done>": "It is done.",
		"a <journal>x <task-done>t</task-done> y</journal> b": "a  b",
		"left <journal> open":               "left <journal> open",
		"`<task-done>t</task-done>` is how": "`<task-done>t</task-done>` is how",
		"<verify-pass/>":                    "",
	} {
		if got := Rest(text); got != want {
			t.Errorf("Rest(%q) = %q, want %q", text, got, want)
		}
	}
}
