package webfetch

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"taskdaemon/internal/td"
)

// accept prefers Markdown, which some sites of documentation offer beside HTML.
const accept = "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1"

// follow gets u, and goes on to where the answer sends it as long as that is the same site.
func (f *Fetcher) follow(ctx context.Context, u *url.URL) (Page, error) {
	seen := map[string]bool{}
	for range f.opts.MaxRedirects + 1 {
		seen[u.String()] = true
		page, next, err := f.get(ctx, u)
		if err != nil || next == nil {
			return page, err
		}
		switch {
		case !sameSite(u, next):
			return moved(u, next), nil
		case seen[next.String()]:
			return Page{}, td.Errorf(td.Unavailable, "%s sends its visitors in a circle; it cannot be fetched", u.Host)
		}
		u = next
	}
	return Page{}, td.Errorf(td.Unavailable, "%s redirects more than %d times; it cannot be fetched", u.Host, f.opts.MaxRedirects)
}

// get makes one request. next is set if the answer is a redirect.
func (f *Fetcher) get(ctx context.Context, u *url.URL) (page Page, next *url.URL, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return Page{}, nil, td.Errorf(td.Invalid, "%s cannot be requested; check the address", quote(u.String()))
	}
	req.Header.Set("User-Agent", f.opts.UserAgent)
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := f.web.RoundTrip(req) // and not a Client, which would follow redirects and keep cookies
	if err != nil {
		return Page{}, nil, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		next, err := target(u, resp.Header.Get("Location"))
		return Page{}, next, err
	}
	if err := refusal(u, resp); err != nil {
		return Page{}, nil, err
	}
	page, err = f.read(ctx, u, resp)
	return page, nil, err
}

// target is where a redirect leads, checked like an address somebody gave.
func target(from *url.URL, location string) (*url.URL, error) {
	if location == "" {
		return nil, td.Errorf(td.Unavailable, "%s redirects without saying where; it cannot be fetched", from.Host)
	}
	ref, err := from.Parse(location)
	if err != nil {
		return nil, td.Errorf(td.Refused, "%s redirects to %s, which is no address", from.Host, quote(location))
	}
	next, err := Parse(ref.String())
	if err != nil {
		return nil, td.Errorf(td.Refused, "%s redirects to an address that is not followed: %w", from.Host, err)
	}
	return next, nil
}

// sameSite reports whether a redirect stays where the fetch was allowed to go: the same host, with or
// without www, on the same port or from http to https. Any other host, a sibling below the same domain
// among them, may be another's, and whoever allowed this one has not been asked about that one.
func sameSite(from, to *url.URL) bool {
	bare := func(u *url.URL) string { return strings.TrimPrefix(u.Hostname(), "www.") }
	if bare(from) != bare(to) {
		return false
	}
	if from.Scheme == to.Scheme {
		return from.Port() == to.Port()
	}
	return to.Scheme == "https" && from.Port() == "" && to.Port() == ""
}

func moved(from, to *url.URL) Page {
	return Page{
		URL:     from.String(),
		MovedTo: to.String(),
		Text: fmt.Sprintf("%s redirects to another site, which was not followed. If that is the right place, fetch it there:\n\n%s\n",
			from, to),
	}
}

// refusal is the error for an answer that carries no page.
func refusal(u *url.URL, resp *http.Response) error {
	code := resp.StatusCode
	if code == http.StatusOK || code == http.StatusNonAuthoritativeInfo {
		return nil
	}
	said := fmt.Sprintf("%s answered %d %s", u.Host, code, http.StatusText(code))
	switch {
	case code == http.StatusNotFound || code == http.StatusGone:
		return td.Errorf(td.NotFound, "%s: there is no such page; check the address", said)
	case code == http.StatusUnauthorized || code == http.StatusForbidden || code == http.StatusUnavailableForLegalReasons:
		return td.Errorf(td.Refused, "%s: it wants a login or does not serve programs; look for the same elsewhere", said)
	case code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable:
		wait := ""
		if after := resp.Header.Get("Retry-After"); after != "" {
			wait = " (it asks to wait for " + quote(after) + ")"
		}
		return td.Errorf(td.Unavailable, "%s: try again later%s", said, wait)
	case code >= 500:
		return td.Errorf(td.Unavailable, "%s: the server is in trouble; try again later", said)
	case code >= 400:
		return td.Errorf(td.Invalid, "%s: check the address", said)
	case code == http.StatusNoContent || code == http.StatusResetContent:
		return td.Errorf(td.NotFound, "%s: there is nothing to read", said)
	}
	return td.Errorf(td.Unavailable, "%s, which is no page", said)
}
