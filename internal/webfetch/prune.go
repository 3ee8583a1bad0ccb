package webfetch

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// Bounds on what the converter is given. It renders an inner list or quote once for each outer one, and
// a table as a full grid, however thinly it is filled.
const (
	maxIndent = 12
	maxSpan   = 1_000
	maxCells  = 100_000
)

// noise are elements without text for readers.
var noise = tagSet("head title base svg template canvas object video audio button select option nav")

// pruner makes a parsed page fit to be converted.
type pruner struct {
	base *url.URL
	left int // characters still wanted
	cut  bool
}

// find is the elements that match, in order, not looking inside those.
func find(n *html.Node, match func(*html.Node) bool) []*html.Node {
	if n.Type == html.ElementNode && match(n) {
		return []*html.Node{n}
	}
	var out []*html.Node
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		out = append(out, find(c, match)...)
	}
	return out
}

func named(name string) func(*html.Node) bool {
	return func(n *html.Node) bool { return n.Data == name }
}

func attr(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

// article is the part of a page that is its matter: the one <main>, if there is one and it holds more
// than a few words, else everything.
func article(doc *html.Node) *html.Node {
	mains := find(doc, func(n *html.Node) bool {
		role, _ := attr(n, "role")
		return n.Data == "main" || role == "main"
	})
	if len(mains) == 1 && !isNoise(mains[0]) && utf8.RuneCountInString(textOf(mains[0])) >= 500 {
		return mains[0]
	}
	return doc
}

func textOf(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(n)
	return strings.TrimSpace(squeeze(b.String()))
}

func isNoise(n *html.Node) bool {
	role, _ := attr(n, "role")
	_, hidden := attr(n, "hidden")
	if noise[n.Data] || hidden || role == "navigation" {
		return true
	}
	if n.Data != "footer" {
		return false
	}
	for p := n.Parent; p != nil; p = p.Parent { // a page's footer, not a quotation's
		switch p.Data {
		case "article", "main", "blockquote":
			return false
		}
	}
	return true
}

// where is what stands around a node.
type where struct {
	indent  int
	inTable bool
	inPre   bool
}

// prune takes out of n's children what is noise or too much, and makes links absolute.
func (p *pruner) prune(n *html.Node, at where) {
	for c := n.FirstChild; c != nil; {
		next := c.NextSibling
		switch {
		case p.left <= 0:
			p.cut = p.cut || c.Type == html.TextNode && strings.TrimSpace(c.Data) != ""
			if c.Type == html.ElementNode {
				p.cut = p.cut || !isNoise(c) && textOf(c) != ""
			}
			n.RemoveChild(c)
		case c.Type == html.TextNode:
			p.text(c, at)
		case c.Type != html.ElementNode || isNoise(c) || !p.element(c, &at):
			n.RemoveChild(c)
		}
		c = next
	}
}

func (p *pruner) text(n *html.Node, at where) {
	if !at.inPre {
		n.Data = squeeze(n.Data)
	}
	short := firstRunes(n.Data, p.left)
	p.cut = p.cut || len(short) < len(n.Data)
	p.left -= utf8.RuneCountInString(short)
	n.Data = angles.Replace(short)
	if at.inTable {
		n.Data = strings.ReplaceAll(n.Data, "|", `\|`)
	}
}

// The converter spells < and > in text as entities, which only a browser needs: they pass it in disguise.
var (
	angles  = strings.NewReplacer("<", "\uF003", ">", "\uF004")
	angular = strings.NewReplacer("\uF003", "<", "\uF004", ">")
)

// element prunes an element and reports whether it stays.
func (p *pruner) element(n *html.Node, around *where) bool {
	at := *around
	switch n.Data {
	case "ul", "ol", "menu", "dl", "blockquote":
		if at.indent++; at.indent > maxIndent {
			plain(n)
		}
	case "pre":
		at.inPre = true
	case "table":
		if cells(n) > maxCells {
			plain(n)
		}
		at.inTable = true
	case "thead", "tbody", "tfoot", "tr", "td", "th", "caption":
		if n.Parent.Data == "div" { // of a table that is none any more
			plain(n)
		}
	case "a":
		p.link(n, "href", "http", "https", "mailto")
	case "img":
		if !p.link(n, "src", "http", "https") {
			return false
		}
	case "br", "hr":
		p.left-- // they cost a character, too
	}
	for _, a := range n.Attr { // addresses are part of what comes out
		p.left -= utf8.RuneCountInString(a.Val)
	}
	p.prune(n, at)
	return true
}

// plain makes an element one without meaning.
func plain(n *html.Node) { n.Data, n.DataAtom, n.Attr = "div", 0, nil }

// link makes the address in an attribute absolute. One of another scheme is taken out.
func (p *pruner) link(n *html.Node, key string, schemes ...string) bool {
	for i, a := range n.Attr {
		if a.Key != key {
			continue
		}
		if u, err := p.base.Parse(strings.TrimSpace(a.Val)); err == nil {
			for _, s := range schemes {
				if strings.EqualFold(u.Scheme, s) {
					n.Attr[i].Val = u.String()
					return true
				}
			}
		}
		n.Attr = append(n.Attr[:i:i], n.Attr[i+1:]...)
		return false
	}
	return false
}

// cells is the size of the grid a table would be rendered as; it is an upper bound.
func cells(table *html.Node) int {
	rows := find(table, named("tr"))
	widest, spans, tallest := 0, 0, 0
	for _, row := range rows {
		width := 0
		for c := row.FirstChild; c != nil; c = c.NextSibling {
			if c.Type == html.ElementNode {
				wide, high := span(c, "colspan"), span(c, "rowspan")
				width++
				spans += wide*high - 1
				tallest = max(tallest, high)
			}
		}
		widest = max(widest, width)
	}
	return (len(rows) + tallest) * (widest + spans)
}

func span(n *html.Node, key string) int {
	text, ok := attr(n, key)
	if v, err := strconv.Atoi(text); ok && err == nil {
		return v
	}
	return 1
}
