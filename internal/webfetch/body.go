package webfetch

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding/charmap"

	"taskdaemon/internal/td"
)

// read makes a page of an answer.
func (f *Fetcher) read(ctx context.Context, u *url.URL, resp *http.Response) (Page, error) {
	header := resp.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(header)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		media, header = "", ""
	}
	guess := media == "" || media == "application/octet-stream" // the server does not know, or does not say
	if !guess && kindOf(media) == unreadable {
		return Page{}, notText(u, media, resp.ContentLength)
	}
	body, cut, err := f.unpack(resp)
	if err != nil {
		return Page{}, err
	}
	if guess {
		header = http.DetectContentType(body)
		media, _, _ = mime.ParseMediaType(header)
		if kindOf(media) == unreadable {
			return Page{}, notText(u, media, resp.ContentLength)
		}
	}
	kind := kindOf(media)
	text := decode(body, header, kind == hypertext, cut)
	if strings.IndexByte(text, 0) >= 0 {
		return Page{}, td.Errorf(td.Invalid, "%s says that it is %s, but it is not text; it cannot be read", u, quote(media))
	}
	page := Page{URL: u.String(), Type: media, Bytes: int64(len(body)), Cut: cut}
	if kind == hypertext {
		doc, err := f.convert(ctx, text, u)
		if err != nil {
			return Page{}, err
		}
		page.Title, text, page.Cut = doc.title, doc.text, cut || doc.cut
	}
	page.finish(f.opts.Secrets.Piece(clean(text), false, page.Cut))
	return page, nil
}

// MaxText is the most characters of a page that are given on.
const MaxText = 100_000

// finish cleans and cuts the text, from which secrets were taken before, and says so where something is missing.
func (p *Page) finish(text string) {
	text = clean(text)
	if n := utf8.RuneCountInString(text); n > MaxText {
		text, p.Cut = firstRunes(text, MaxText), true
	}
	p.Title = firstRunes(strings.Join(strings.Fields(clean(p.Title)), " "), 300)
	switch p.Text = strings.TrimSpace(text); {
	case p.Text == "":
		p.Text = "[The page holds no text. It may be drawn by scripts, which are not run.]"
	case p.Cut:
		p.Text += fmt.Sprintf("\n\n[The page goes on. Only its beginning is shown: %d characters.]", utf8.RuneCountInString(p.Text))
	}
}

// firstRunes is the first n characters of s.
func firstRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

// kind is how a body is read.
type kind int

const (
	unreadable kind = iota
	plaintext
	hypertext
)

var readableTypes = map[string]bool{
	"application/json": true, "application/xml": true, "application/javascript": true, "application/ecmascript": true,
	"application/x-javascript": true, "application/yaml": true, "application/x-yaml": true, "application/toml": true,
	"application/x-ndjson": true, "application/jsonl": true, "application/x-sh": true, "application/graphql": true,
	"application/sql": true, "application/typescript": true, "application/x-tex": true, "message/rfc822": true,
}

func kindOf(media string) kind {
	switch {
	case media == "text/html" || media == "application/xhtml+xml":
		return hypertext
	case media == "text/event-stream": // it has no end
		return unreadable
	case strings.HasPrefix(media, "text/"), readableTypes[media], strings.HasSuffix(media, "+json"), strings.HasSuffix(media, "+xml"),
		strings.HasSuffix(media, "+yaml"):
		return plaintext
	}
	return unreadable
}

func notText(u *url.URL, media string, size int64) error {
	length := "of unknown size"
	if size >= 0 {
		length = fmt.Sprintf("%d bytes", size)
	}
	return td.Errorf(td.Invalid, "%s is %s, %s, and cannot be read as text; download it with a command if you need it", u, quote(media), length)
}

// unpack reads a body, at most MaxBytes both as it was sent and as it comes out: a few bytes can
// unpack to any number, and any number of bytes to none.
func (f *Fetcher) unpack(resp *http.Response) (body []byte, cut bool, err error) {
	limit := f.opts.MaxBytes
	sent := &io.LimitedReader{R: resp.Body, N: limit + 1}
	var from io.Reader = sent
	switch enc := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding"))); enc {
	case "", "identity":
	case "gzip", "x-gzip":
		if from, err = gzip.NewReader(sent); err == io.EOF {
			return nil, false, nil // nothing at all
		} else if err != nil {
			return nil, false, td.Errorf(td.Unavailable, "the answer says it is packed by gzip and is not (%s)", quote(err.Error()))
		}
	default:
		return nil, false, td.Errorf(td.Unavailable, "the answer is packed as %s, which nobody asked for; it cannot be read", quote(enc))
	}
	body, err = io.ReadAll(io.LimitReader(from, limit+1))
	cut = int64(len(body)) > limit || sent.N <= 0
	if err != nil && !cut {
		return nil, false, err
	}
	return body[:min(int64(len(body)), limit)], cut, nil
}

// decode makes UTF-8 of a body. What the server or a byte order mark says counts; then, if it is valid,
// UTF-8, whatever a page says about itself; then what the page says, and else the web's old default.
func decode(body []byte, header string, isHTML, cut bool) string {
	enc, _, certain := charset.DetermineEncoding(body, header)
	if !certain {
		whole := body
		if cut { // a character may lie across the edge
			for i := 1; i <= utf8.UTFMax && i <= len(body); i++ {
				if utf8.RuneStart(body[len(body)-i]) {
					whole = body[:len(body)-i]
					break
				}
			}
		}
		escaped := bytes.IndexByte(body, 0x1b) >= 0 // as ISO-2022-JP, which else looks like ASCII
		switch {
		case utf8.Valid(whole) && !(isHTML && escaped):
			return string(whole)
		case !isHTML:
			enc = charmap.Windows1252
		}
	}
	out, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		out = body
	}
	return strings.TrimPrefix(strings.ToValidUTF8(string(out), "\uFFFD"), "\uFEFF")
}
