package webfetch

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"

	"taskdaemon/internal/td"
)

// maxURL is the longest address that is looked at; servers refuse longer ones.
const maxURL = 8 << 10

// Parse reads an address as Fetch does and brings it into one form: lower-case ASCII host without a
// trailing dot, no default port, no fragment. Whoever judges a fetch by its host judges this one.
// Effect: none.
func Parse(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if len(raw) > maxURL {
		return nil, td.Errorf(td.Invalid, "the address is %d bytes long; at most %d are allowed", len(raw), maxURL)
	}
	u, err := url.Parse(raw)
	if err != nil || !utf8.ValidString(raw) {
		return nil, td.Errorf(td.Invalid, "%s is no address; give one like https://example.com/page", quote(raw))
	}
	u.Scheme = strings.ToLower(u.Scheme)
	switch {
	case u.Scheme == "":
		return nil, td.Errorf(td.Invalid, "%s has no scheme; begin it with https://", quote(raw))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, td.Errorf(td.Invalid, "%s is not fetched: only http and https are", quote(raw))
	case u.User != nil:
		return nil, td.Errorf(td.Invalid, "the address holds a user name; leave out all between // and @")
	case u.Opaque != "" || u.Host == "":
		return nil, td.Errorf(td.Invalid, "%s names no host; give an address like https://example.com/page", quote(raw))
	}
	host, err := checkHost(u.Hostname())
	if err != nil {
		return nil, err
	}
	port, err := checkPort(u)
	if err != nil {
		return nil, err
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	u.Host = host + port
	if u.Path == "" {
		u.Path = "/"
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	u.Fragment, u.RawFragment, u.ForceQuery = "", "", false
	return u, nil
}

func checkPort(u *url.URL) (string, error) {
	text := u.Port()
	if text == "" {
		return "", nil
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return "", td.Errorf(td.Invalid, "%s is no port", quote(text))
	}
	if u.Scheme == "http" && n == 80 || u.Scheme == "https" && n == 443 {
		return "", nil
	}
	return ":" + strconv.FormatUint(n, 10), nil
}

// checkHost brings a host into one form. An address must be written in the one way everybody reads
// alike: a resolver that takes 0177.1 or 2130706433 for 127.0.0.1 is not to be asked.
func checkHost(host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return "", td.Errorf(td.Invalid, "%s holds a zone; leave out the %% and all after it", quote(host))
		}
		return a.Unmap().String(), nil
	}
	ascii, err := idna.Lookup.ToASCII(strings.TrimSuffix(host, "."))
	if err != nil {
		// The profile for names refuses an underscore, which real hosts have.
		if ascii = strings.ToLower(strings.TrimSuffix(host, ".")); !plainName(ascii) {
			return "", td.Errorf(td.Invalid, "%s is no host name", quote(host))
		}
	}
	if a, err := netip.ParseAddr(ascii); err == nil { // full-width or circled digits
		return a.String(), nil
	}
	last := ascii[strings.LastIndexByte(ascii, '.')+1:]
	switch {
	case !plainName(ascii):
		return "", td.Errorf(td.Invalid, "%s is no host name", quote(host))
	case last == "" || last[0] >= '0' && last[0] <= '9' && numeric(last):
		return "", td.Errorf(td.Invalid, "%s is no host name; write an address as four decimal numbers", quote(host))
	}
	return ascii, nil
}

// numeric reports whether an old-fashioned reader would take a label for a number.
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

func plainName(host string) bool {
	if host == "" || len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// escapeQuery spells out what would break the request line; what is escaped already stays.
func escapeQuery(q string) string {
	const bad = " \"<>`{}|\\^"
	var b strings.Builder
	for i := range len(q) {
		if c := q[i]; c <= 0x20 || c >= 0x7f || strings.IndexByte(bad, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// quote shows text from outside in an error: on one line, and not too much of it.
func quote(s string) string {
	if r := []rune(s); len(r) > 120 {
		s = string(r[:120]) + "…"
	}
	return strconv.Quote(s)
}
