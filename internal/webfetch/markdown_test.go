package webfetch

import (
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var somewhere = &url.URL{Scheme: "https", Host: "example.com", Path: "/docs/a.html"}

func mustConvert(t testing.TB, page string) document {
	t.Helper()
	d, err := markdown(strings.NewReader(page), somewhere)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestMarkdown(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"headings and emphasis", "<h1>A <b>b</b></h1><h3>C</h3><p>x <i>y</i> <del>z</del>", "# A **b**\n\n### C\n\nx *y* ~~z~~"},
		{"scripts and styles", "<style>p{}</style><p>a<script>evil()</script><noscript>n</noscript><iframe>f</iframe>b", "ab"},
		{"noise", "<nav>n</nav><div role=navigation>m</div><p>a</p><svg><title>s</title></svg><button>b</button><footer>f</footer>", "a"},
		{"a quotation's footer", "<blockquote>q<footer>who</footer></blockquote>", "> q\n> \n> who"},
		{"hidden", "<p hidden>a</p><p style='color:red; DISPLAY : none'>b</p><p aria-hidden=true>c</p><span style=visibility:hidden>d</span>e<blink hidden>f</blink>", "e"},
		{"links", `<a href="b?x=1">r</a> <a href="/c">a</a> <a href="//o.example/">s</a> <a href=#f>f</a> <a href="mailto:a@b.example">m</a>`,
			"[r](https://example.com/docs/b?x=1) [a](https://example.com/c) [s](https://o.example/) [f](https://example.com/docs/a.html#f) [m](mailto:a@b.example)"},
		{"links that lead nowhere good", `<a href="javascript:x()">j</a> <a href="data:text/html,x">d</a> <a href="file:///x">f</a> <a>n</a> <a href="http://[">b</a>`, "j d f n b"},
		{"base", `<base href="/other/"><a href=x>y</a>`, "[y](https://example.com/other/x)"},
		{"base that is none", `<base href="javascript:"><a href=x>y</a>`, "[y](https://example.com/docs/x)"},
		{"images", `<p><img src=i.png alt=pic><img src="data:image/png;base64,AAAA" alt=no>`, "![pic](https://example.com/docs/i.png)"},
		{"code", "<pre><code class='hl language-go'>a &lt;b&gt;\n\n\n\tc</code></pre>", "```go\na <b>\n\n\n\tc\n```"},
		{"code with spans", "<pre><span class=k>if</span> <span>x</span></pre>", "```\nif x\n```"},
		{"code in a line", "use <code>a *b* &lt;c&gt;</code>", "use `a *b* <c>`"},
		{"text as it is", "<p>List&lt;T&gt; a_b_c 2 * 3 * 4 [x] # y", "List<T> a_b_c 2 * 3 * 4 [x] # y"},
		{"table", "<table><tr><th>A<th>B</tr><tr><td>1|2<td>3</table>", "| A | B |\n|---|---|\n| 1\\|2 | 3 |"},
		{"table that spans", "<table><tr><th>A<th>B<th>C</tr><tr><td rowspan=2>1<td colspan=2>2</tr><tr><td>3<td>4</table>",
			"| A | B | C |\n|---|---|---|\n| 1 | 2 |  |\n|  | 3 | 4 |"},
		{"table for layout", "<table><tr><td>side<td><table><tr><th>A<tr><td>1</table></table>", "side\n\n| A |\n|---|\n| 1 |"},
		{"lists", "<ul><li>a<ul><li>b</ul><li>c</ul><ol start=3><li>x<li>y</ol>", "- a\n  \n  - b\n- c\n\n3. x\n4. y"},
		{"details", "<details><summary>s</summary>d</details>", "s\n\nd"},
		{"unknown tags", "<my-tag>a</my-tag><o:p>b</o:p><font color=red>c</font>", "abc"},
		{"tags that do not match", "<p><b>a<p>b</i></b>c</div>", "**a**\n\n**b**c"},
		{"empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.TrimSpace(mustConvert(t, c.in).text); got != c.want {
				t.Errorf("got:\n%s\nwant:\n%s\n%q", got, c.want, got)
			}
		})
	}
}

func TestMatterOfAPage(t *testing.T) {
	long := strings.Repeat("word ", 200)
	d := mustConvert(t, "<title> The\n title </title><div>side</div><main>"+long+"</main><div>more</div>")
	if d.title != "The title" || strings.Contains(d.text, "side") || strings.Contains(d.text, "more") || !strings.Contains(d.text, "word") {
		t.Errorf("%q: %.100q", d.title, d.text)
	}
	for _, page := range []string{"<div>side</div><main>short</main>", "<div>side</div><main>" + long + "</main><main>" + long + "</main>"} {
		if d := mustConvert(t, page); !strings.Contains(d.text, "side") {
			t.Errorf("what is outside of main is lost: %.100q", d.text)
		}
	}
}

// Nested deeper than the parser goes: the words are there.
func TestTooDeep(t *testing.T) {
	d := mustConvert(t, "<title>t</title>"+strings.Repeat("<div>", 1000)+"down <b>here</b><p>and there")
	if !strings.Contains(d.text, "down here\nand there") {
		t.Errorf("got %.200q", strings.TrimSpace(d.text))
	}
}

// A parser opens formatting tags again for each that differs, so that none may.
func TestFormattingCarriesNothing(t *testing.T) {
	page, _, err := slim(strings.NewReader(`<b id=1 class="language-x" role=main hidden style="display:none" title=t href=h><tt start=1 colspan=2>x`))
	if err != nil || page != "<strong><code>x" {
		t.Errorf("got %q, %v", page, err)
	}
	for name := range renamed {
		if other := renamed[name]; !known[other] {
			t.Errorf("%s becomes %s, which is not known", name, other)
		}
	}
}

// bombs are pages made to cost much more than their size: in the parser, in the converter, or in what
// comes out.
func bombs() map[string]string {
	rep := strings.Repeat
	var differ strings.Builder
	for i := range 400 {
		fmt.Fprintf(&differ, "<b a=%d>", i)
	}
	return map[string]string{
		"formatting that differs": "<p>" + differ.String() + "</p>" + rep("<p>x</p>", 100_000),
		"formatting":              "<p>" + rep("<b><i><s><code>", 3) + "</p>" + rep("<p>x</p>", 100_000),
		"tables in tables":        rep("<table><tr><td>a<td>", 160) + "x",
		"all in all":              rep("<table><tr><td>a<ul><li>b<blockquote>c<td>", 70) + rep("x<br>", 10_000),
		"lists in lists":          rep("<ul><li>", 250) + rep("x<br>", 40_000),
		"quotes in quotes":        rep("<blockquote>", 500) + rep("x<br>", 40_000),
		"spans":                   "<table>" + rep("<tr><td colspan=900 rowspan=900>x</td></tr>", 3000),
		"a wide row":              "<table><tr>" + rep("<td>", 40_000) + rep("<tr><td>x", 20_000),
		"a wide cell":             "<table><tr><td>" + rep("x", 90_000) + rep("<tr><td>x", 5_000),
		"brackets":                "<p>" + rep("[", 1<<20),
		"stars":                   "<p>" + rep("* ", 2<<20),
		"backticks":               rep("<code>`</code>", 100_000),
		"long links":              "<base href='/" + rep("x", 1900) + "/'>" + rep("<a href=x>y</a>", 100_000),
		"open links":              rep("<a href=/x>y", 100_000),
		"open tags":               rep("<div>", 1<<20),
		"no tags":                 rep("<", 1<<20),
		"one tag":                 "<a " + rep("x=1 ", 1<<18),
		"entities":                rep("&lt;", 1<<18),
		"space":                   "<pre>" + rep("\n", 5<<20),
		"a script":                "<p>x<script>" + rep("y", 5<<20),
	}
}

func TestBombs(t *testing.T) {
	for name, page := range bombs() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			d := mustConvert(t, page[:min(len(page), 5<<20)])
			if took := time.Since(start); took > time.Minute { // about a second on a quiet machine
				t.Errorf("took %s", took)
			}
			if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 512<<20 {
				t.Errorf("%d MiB were used", (after.TotalAlloc-before.TotalAlloc)>>20)
			}
			if len(d.text) > 20*MaxText {
				t.Errorf("%d bytes came out", len(d.text))
			}
		})
	}
}

func FuzzMarkdown(f *testing.F) {
	for _, s := range []string{
		"<h1>A</h1><p>b <a href=/c>d</a>", "<table><tr><td rowspan=3 colspan=2>x<td>|<tr><th>", "<ul><li><ol start=7><li>x</ul>", "<pre><code class=language-go>\n\n`",
		"<p><b><i></b>x</i>", "<svg><style><!--</style>", "<blockquote><pre>\uF002\a<", "<plaintext>x", "<a href='http://[::1'><img src=x alt='\n\n'>", "\xff\xfe<p>\x00",
		"<template><select><option><table>", "<math><mi><p>x", "<base href=http://x/><a href='%zz'>", "<code></code><em></em><q>",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var p Page
		d, err := markdown(strings.NewReader(in), somewhere)
		if err != nil {
			t.Fatal(err)
		}
		p.Title, p.Cut = d.title, d.cut
		p.finish(d.text)
		for _, s := range []string{p.Text, p.Title} {
			if !utf8.ValidString(s) || strings.ContainsAny(s, "\x00\x1b\a\r\u202e\uF002\uF003\uF004") {
				t.Fatalf("%q became %q", in, s)
			}
		}
		if utf8.RuneCountInString(p.Text) > MaxText+200 || strings.ContainsRune(p.Title, '\n') {
			t.Fatalf("%q became %d characters, title %q", in, len(p.Text), p.Title)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("caf\xe9"), "text/html; charset=latin1", true, false)
	f.Add([]byte("\xff\xfeh\x00"), "text/plain", false, true)
	f.Add([]byte("\x1b$BF|"), "text/html; charset=iso-2022-jp", true, true)
	f.Add([]byte("<meta charset=gb18030>\x81\x30"), "", true, false)
	f.Fuzz(func(t *testing.T, body []byte, header string, isHTML, cut bool) {
		if out := decode(body, header, isHTML, cut); !utf8.ValidString(out) {
			t.Fatalf("%q as %q became %q", body, header, out)
		}
	})
}

func BenchmarkMarkdown(b *testing.B) {
	page := "<main>" + strings.Repeat(`<h2>A title</h2><p>Some <b>bold</b> words and a <a href="/link/to/x">link</a>, then <code>code()</code>.</p>
<ul><li>one</li><li>two</li></ul><pre><code class="language-go">func main() { <span>x</span>() }</code></pre>`, 400) + "</main>"
	b.SetBytes(int64(len(page)))
	for b.Loop() {
		mustConvert(b, page)
	}
}
