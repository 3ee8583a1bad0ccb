package webfetch

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/strikethrough"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
)

// document is an HTML page as Markdown.
type document struct {
	title string
	text  string
	cut   bool
}

// convert makes Markdown of a page that came from u. Few pages are converted at once: a page made for
// it takes many times its size in memory.
func (f *Fetcher) convert(ctx context.Context, page string, u *url.URL) (document, error) {
	select {
	case f.converting <- struct{}{}:
		defer func() { <-f.converting }()
	case <-ctx.Done():
		return document{}, ctx.Err()
	}
	return markdown(&untilDone{ctx, strings.NewReader(page)}, u)
}

// untilDone ends reading with its context, so that a page which takes long to parse takes no longer.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u *untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// markdown converts the page in r, whose links are relative to u. It fails only if r does: a page that
// cannot be parsed or converted is given as its bare text.
func markdown(r io.Reader, u *url.URL) (document, error) {
	page, cut, err := slim(r)
	if err != nil {
		return document{}, err
	}
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil { // nested deeper than the parser goes
		return document{text: bareText(page), cut: cut}, nil
	}
	d := document{cut: cut}
	if titles := find(doc, named("title")); len(titles) > 0 {
		d.title = textOf(titles[0])
	}
	p := pruner{base: baseOf(doc, u), left: MaxText}
	root := article(doc)
	if root.Parent != nil {
		root.Parent.RemoveChild(root)
	}
	p.prune(root, where{})
	d.cut = d.cut || p.cut
	if d.text, err = render(root); err != nil {
		d.text = bareText(page)
	}
	return d, nil
}

func baseOf(doc *html.Node, u *url.URL) *url.URL {
	for _, n := range find(doc, named("base")) {
		href, _ := attr(n, "href")
		if b, err := u.Parse(strings.TrimSpace(href)); err == nil && (b.Scheme == "http" || b.Scheme == "https") {
			return b
		}
	}
	return u
}

// render lets the library convert a tree. A panic in it, on a page nobody has thought of, is not to
// take other work down.
func render(root *html.Node) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("convert the page: %v", p)
		}
	}()
	// Nothing is escaped: a model reads it as it is, and finding out what needs it takes the square of the time.
	out, err := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(
			commonmark.WithLinkEmptyContentBehavior(commonmark.LinkBehaviorSkip),
			commonmark.WithLinkEmptyHrefBehavior(commonmark.LinkBehaviorSkip),
			commonmark.WithListEndComment(false),
		),
		table.NewTablePlugin(
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal),
			table.WithHeaderPromotion(true),
			table.WithSkipEmptyRows(true),
		),
		strikethrough.NewStrikethroughPlugin(),
	)).ConvertNode(root)
	return angular.Replace(string(out)), err
}

// bareText is the text of a slim page, a line for each tag that is not within a line.
func bareText(page string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return b.String()
		case html.TextToken:
			b.Write(z.Text())
		case html.StartTagToken, html.SelfClosingTagToken:
			if name, _ := z.TagName(); !inline[string(name)] && b.Len() > 0 {
				b.WriteByte('\n')
			}
		}
	}
}

var inline = tagSet("a em strong s code kbd samp q img span")
