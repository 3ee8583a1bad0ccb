package webfetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

// Options are what a Fetcher keeps to. Zero values stand for the defaults named.
type Options struct {
	AllowPrivate []string      // host names, addresses and ranges that may be fetched although they are private
	MaxBytes     int64         // of a body, as sent and as unpacked: 5 MiB
	Timeout      time.Duration // of a fetch with all its redirects: 30 s
	MaxRedirects int           // 5
	UserAgent    string        // "taskdaemon"
	CacheFor     time.Duration // how long a page is taken as fresh: 15 min
	CacheBytes   int64         // of text kept: 32 MiB
	Now          func() time.Time
	Secrets      *redact.Redactor // are taken out of pages before they are cut

	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	tls    *tls.Config
}

func (o Options) withDefaults() Options {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 5 << 20
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.MaxRedirects <= 0 {
		o.MaxRedirects = 5
	}
	if o.UserAgent == "" {
		o.UserAgent = "taskdaemon"
	}
	if o.CacheFor <= 0 {
		o.CacheFor = 15 * time.Minute
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = 32 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.lookup == nil {
		o.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.dial == nil {
		o.dial = (&net.Dialer{}).DialContext
	}
	return o
}

// Page is what an address led to.
type Page struct {
	URL       string // the address that answered, after redirects
	Title     string // of an HTML page
	Type      string // the media type
	Text      string // Markdown for HTML, else the text as it is; at most MaxText characters and a note
	Bytes     int64  // read of the body, unpacked
	Cut       bool   // there was more than Text holds
	MovedTo   string // the page is at another site, not followed; Text says so
	FetchedAt time.Time
	Cached    bool // nothing was sent: an earlier fetch had brought it
}

// Fetcher gets pages. It is safe for concurrent use, starts nothing that outlives a call, and needs no
// closing.
type Fetcher struct {
	opts  Options
	allow allowance
	web   *http.Transport
	cache cache

	converting chan struct{} // holds a place for each page being converted
}

// New makes a fetcher. It fails if AllowPrivate holds what is neither host, address nor range.
func New(opts Options) (*Fetcher, error) {
	allow, err := parseAllowance(opts.AllowPrivate)
	if err != nil {
		return nil, err
	}
	f := &Fetcher{opts: opts.withDefaults(), allow: allow, converting: make(chan struct{}, 2)}
	f.cache = cache{life: f.opts.CacheFor, room: f.opts.CacheBytes, now: f.opts.Now}
	f.web = f.transport()
	return f, nil
}

func (f *Fetcher) transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // one request per connection: there is nothing HTTP/2 could gain, only more to attack
	return &http.Transport{
		DialContext:            f.dial, // and no proxy: what it connects to, nobody here could judge
		Protocols:              protocols,
		TLSClientConfig:        f.opts.tls,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 128 << 10,
		DisableKeepAlives:      true, // no connection is left behind
		DisableCompression:     true, // unpacked in body.go, where both sides are counted
	}
}

// errTooSlow is the cause of a fetch that used up its time.
var errTooSlow = errors.New("out of time")

// Fetch gets the page at an address, from the cache if it was fetched in the last quarter of an hour.
// Callers that ask for one address at the same time share one fetch. A page that lives at another site
// is not an error: MovedTo says where.
//
// Effect: pure. It sends GET and nothing else; an interrupted one is simply called again.
func (f *Fetcher) Fetch(ctx context.Context, address string) (Page, error) {
	u, err := Parse(address)
	if err != nil {
		return Page{}, err
	}
	return f.cache.do(ctx, u.String(), func() (Page, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, f.opts.Timeout, errTooSlow)
		defer cancel()
		page, err := f.follow(ctx, u)
		if err != nil {
			return Page{}, f.explain(ctx, u, err)
		}
		page.FetchedAt = f.opts.Now()
		return page, nil
	})
}

// explain makes a failure one that says in plain words what happened. What the network and the server
// said is quoted and cut, for it may be anything.
func (f *Fetcher) explain(ctx context.Context, u *url.URL, err error) error {
	_, told := errors.AsType[*td.Error](err)
	dns, unresolved := errors.AsType[*net.DNSError](err)
	cert, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case errors.Is(context.Cause(ctx), errTooSlow):
		return td.Errorf(td.Timeout, "%s did not answer in full within %s; try again later or another address", u.Host, f.opts.Timeout)
	case ctx.Err() != nil:
		return td.Errorf(td.Interrupted, "fetch %s: %w", u.Host, context.Cause(ctx))
	case told:
		return err
	case unresolved && dns.IsNotFound:
		return td.Errorf(td.NotFound, "there is no host %s; check the spelling", quote(dns.Name))
	case unresolved:
		return td.Errorf(td.Unavailable, "the name %s cannot be resolved now (%s); try again later", quote(dns.Name), quote(dns.Err))
	case untrusted:
		return td.Errorf(td.Refused, "the certificate of %s cannot be trusted (%s); nothing was fetched", u.Host, quote(cert.Err.Error()))
	}
	return td.Errorf(td.Unavailable, "%s cannot be fetched: %s; check the address or try again later", u.Host, quote(err.Error()))
}
