package webfetch

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"taskdaemon/internal/td"
)

// oneAddress is how long one of several addresses may take to answer before the next is tried.
const oneAddress = 5 * time.Second

// Dial connects to a host on somebody else's behalf, by the same rules as for a page.
func (f *Fetcher) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return f.dial(ctx, network, address)
}

// dial connects to a host that every check has passed. It resolves the name once and connects to the
// addresses it has judged, never to the name: between a check and a second lookup the answer may change.
func (f *Fetcher) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs, err := f.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i, a := range addrs {
		conn, err := f.dialOne(ctx, network, net.JoinHostPort(a.String(), port), i == len(addrs)-1)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (f *Fetcher) dialOne(ctx context.Context, network, address string, last bool) (net.Conn, error) {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, oneAddress)
		defer cancel()
	}
	return f.opts.dial(ctx, network, address)
}

// resolve is the addresses of host, all of them judged. One that is refused refuses the host: a name
// that is half public and half private is a trap or a mistake.
func (f *Fetcher) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{a}
	} else if addrs, err = f.opts.lookup(ctx, host); err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, td.Errorf(td.NotFound, "the host %s has no address; check the spelling", host)
	}
	for i, a := range addrs {
		addrs[i] = a.Unmap().WithZone("")
		if err := f.allow.judge(host, addrs[i]); err != nil {
			return nil, err
		}
	}
	return addrs, nil
}
