package webfetch

import (
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// What is read of a page before the rest is let go. A page's noise counts as well, so there is more
// room than for the text that comes out.
const (
	maxTags      = 100_000
	maxSlimText  = 4 * MaxText
	maxHref      = 2_000
	maxAttribute = 300
)

// slim writes a page anew with only the tags, attributes and text that conversion looks at, up to a
// bound. A parser has to open formatting tags again in every paragraph, once for each that differs, so
// that a page of a few megabytes can ask for a tree of gigabytes; after this pass it cannot: few
// formatting tags are left, they carry nothing by which they differ, and their number is bounded.
//
// It fails only if r does.
func slim(r io.Reader) (page string, cut bool, err error) {
	s := slimmer{z: html.NewTokenizer(r)}
	for s.tags < maxTags && s.text < maxSlimText {
		switch s.z.Next() {
		case html.ErrorToken:
			if err := s.z.Err(); err != io.EOF {
				return "", false, err
			}
			s.flush("")
			return s.out.String(), false, nil
		case html.TextToken:
			if s.skip == 0 {
				s.flush("")
				t := firstRunes(clean(string(s.z.Text())), maxSlimText-s.text)
				s.text += utf8.RuneCountInString(squeeze(t))
				s.out.WriteString(html.EscapeString(t))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			s.start(s.z.Token())
		case html.EndTagToken:
			s.end(s.z.Token())
		}
	}
	s.flush("")
	return s.out.String(), true, nil
}

// slimmer is the state of one slim pass.
type slimmer struct {
	z          *html.Tokenizer
	out        strings.Builder
	tags, text int
	skip       atom.Atom // its content is left out
	inPre      bool
	pre        *html.Token // seen, not written: the next tag may name the language of the code
}

func (s *slimmer) start(t html.Token) {
	switch {
	case rawElements[t.DataAtom]:
		s.skip = t.DataAtom
		return
	case s.skip != 0:
		return
	case s.pre != nil && t.Data == "code":
		s.flush(language(t.Attr))
		return
	}
	s.flush("")
	lang := language(t.Attr)
	switch {
	case !keepTag(&t), s.inPre && (t.Data == "code" || t.Data == "span"):
	case t.Data == "pre":
		s.pre, s.inPre = &t, true
		if lang != "" {
			s.flush(lang)
		}
	default:
		s.tags++
		s.out.WriteString(t.String())
	}
}

func (s *slimmer) end(t html.Token) {
	if s.skip != 0 {
		if t.DataAtom == s.skip {
			s.skip = 0
		}
		return
	}
	s.flush("")
	if !keepTag(&t) || s.inPre && (t.Data == "code" || t.Data == "span") {
		return
	}
	if t.Data == "pre" {
		s.inPre = false
	}
	s.tags++
	s.out.WriteString(t.String())
}

// flush writes the <pre> that was held back. The language stands on it, because <code> is a formatting
// tag and carries nothing.
func (s *slimmer) flush(lang string) {
	if s.pre == nil {
		return
	}
	if lang != "" {
		s.pre.Attr = append(s.pre.Attr, html.Attribute{Key: "class", Val: lang})
	}
	s.tags++
	s.out.WriteString(s.pre.String())
	s.pre = nil
}

// squeeze is s as a page shows it: runs of space are one.
func squeeze(s string) string {
	gap := false
	return strings.Map(func(r rune) rune {
		if !unicode.IsSpace(r) {
			gap = false
			return r
		}
		if gap {
			return -1
		}
		gap = true
		return ' '
	}, s)
}

// rawElements hold what is no text for readers. The tokenizer gives their content in one piece.
var rawElements = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Iframe: true, atom.Noembed: true, atom.Noframes: true,
	atom.Textarea: true,
}

// known are the tags that mean something to the conversion, to the pruning before it, or to the parser
// on its way there. All others become a span: it means nothing, but may be hidden.
var known = tagSet(`html head title base body main header footer nav article section aside hgroup div p h1 h2 h3 h4 h5 h6
	address blockquote pre ul ol li dl dt dd menu figure hr br img a em strong s code kbd samp q span
	table caption thead tbody tfoot tr th td svg template canvas object video audio form button select option dialog fieldset`)

// void are tags that are never closed, and mean nothing here.
var void = tagSet("area bgsound col embed frame input keygen link meta param source track wbr")

func tagSet(names string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.FieldsSeq(names) {
		set[name] = true
	}
	return set
}

// renamed are tags that another one stands for.
var renamed = map[string]string{
	"b": "strong", "i": "em", "strike": "s", "del": "s", "tt": "code", "xmp": "pre", "plaintext": "pre", "listing": "pre", "center": "div",
	"search": "nav", "dir": "ul", "details": "div", "summary": "p", "legend": "p", "figcaption": "p",
}

// keepTag reports whether a tag is kept, and takes from it what is not.
func keepTag(t *html.Token) bool {
	if other := renamed[t.Data]; other != "" {
		t.Data = other
	}
	switch {
	case void[t.Data]:
		return false
	case !known[t.Data]:
		t.Data = "span"
	}
	kept := t.Attr[:0]
	hidden := false
	for _, a := range t.Attr {
		switch {
		case a.Key == "hidden", a.Key == "aria-hidden" && a.Val == "true", a.Key == "style" && unseen(a.Val):
			hidden = true
		case wanted(t.Data, &a):
			kept = append(kept, a)
		}
	}
	if hidden && !formatting[t.Data] {
		kept = append(kept, html.Attribute{Key: "hidden"})
	}
	t.Attr = kept
	return true
}

// formatting tags are opened again by the parser wherever they were left open. A link is one, too, but
// never within another.
var formatting = tagSet("em strong s code")

func unseen(style string) bool {
	style = strings.ToLower(strings.Join(strings.Fields(style), ""))
	return strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")
}

func wanted(tag string, a *html.Attribute) bool {
	switch a.Key {
	case "href":
		return len(a.Val) <= maxHref && (tag == "a" || tag == "base")
	case "src":
		return len(a.Val) <= maxHref && tag == "img"
	case "alt", "title":
		a.Val = firstRunes(clean(a.Val), maxAttribute)
		return tag == "img" || tag == "a"
	case "role":
		return !formatting[tag] && (a.Val == "navigation" || a.Val == "main" || a.Val == "presentation")
	case "colspan", "rowspan":
		n, err := strconv.Atoi(a.Val)
		a.Val = strconv.Itoa(min(n, maxSpan))
		return err == nil && n > 1 && (tag == "td" || tag == "th")
	case "start":
		n, err := strconv.Atoi(a.Val)
		return err == nil && n >= 0 && n < 1_000_000 && tag == "ol"
	}
	return false
}

// language is the class by which pages name the language of their code, if there is one.
func language(attrs []html.Attribute) string {
	for _, a := range attrs {
		if a.Key != "class" {
			continue
		}
		for c := range strings.FieldsSeq(a.Val) {
			if rest, ok := strings.CutPrefix(c, "language-"); ok && languageName.MatchString(rest) {
				return c
			}
		}
	}
	return ""
}

var languageName = regexp.MustCompile(`^[A-Za-z0-9+#._-]{1,30}$`)
