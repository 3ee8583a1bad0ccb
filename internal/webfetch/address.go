package webfetch

import (
	"net/netip"
	"strings"

	"taskdaemon/internal/td"
)

// class says what sort of network an address belongs to.
type class int

const (
	public    class = iota
	private         // this machine or the networks around it: may be allowed by name or range
	metadata        // hands out a machine's credentials: may be allowed only by the address itself
	forbidden       // no server can be meant by it
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

func within(a netip.Addr, nets []netip.Prefix) bool {
	for _, n := range nets {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

var (
	// Where clouds answer a machine's questions about itself, its passwords among them. Some of these
	// look like ordinary public addresses.
	metadataNets = prefixes(
		"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32",
		"168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128",
	)
	privateNets = prefixes(
		"10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.168.0.0/16", "198.18.0.0/15",
		"::1/128", "fc00::/7", "fe80::/10", "fec0::/10", "64:ff9b:1::/48",
	)
	forbiddenNets = prefixes(
		"0.0.0.0/8", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "3fff::/20", // of 2000::/3; Teredo, which hides an address by flipping its bits, is in the first
	)
	globalV6 = netip.MustParsePrefix("2000::/3")
)

// classify judges an address by what it reaches. An IPv6 address that carries an IPv4 one for some
// gateway to unpack is judged by what it carries.
func classify(a netip.Addr) class {
	a = a.Unmap().WithZone("")
	switch v4, carries := carried(a); {
	case !a.IsValid():
		return forbidden
	case within(a, metadataNets):
		return metadata
	case within(a, privateNets):
		return private
	case within(a, forbiddenNets):
		return forbidden
	case carries:
		return classify(v4)
	case a.Is6() && !globalV6.Contains(a):
		return forbidden
	}
	return public
}

// carriers are the forms in which an IPv6 address carries an IPv4 one: the prefix, and the byte the
// IPv4 address begins at.
var carriers = []struct {
	net netip.Prefix
	at  int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
}

func carried(a netip.Addr) (netip.Addr, bool) {
	if !a.Is6() {
		return netip.Addr{}, false
	}
	b := a.As16()
	for _, c := range carriers {
		if c.net.Contains(a) {
			return netip.AddrFrom4([4]byte(b[c.at : c.at+4])), true
		}
	}
	if globalV6.Contains(a) && (b[8] == 0 || b[8] == 2) && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP
		return netip.AddrFrom4([4]byte(b[12:])), true
	}
	return netip.Addr{}, false
}

// allowance is what Options.AllowPrivate lists.
type allowance struct {
	hosts map[string]bool
	nets  []netip.Prefix
}

func parseAllowance(entries []string) (allowance, error) {
	al := allowance{hosts: map[string]bool{}}
	for _, e := range entries {
		if n, err := netip.ParsePrefix(e); err == nil {
			al.nets = append(al.nets, n.Masked())
			continue
		}
		if a, err := netip.ParseAddr(strings.Trim(e, "[]")); err == nil && a.Zone() == "" {
			a = a.Unmap()
			al.nets = append(al.nets, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		host, err := checkHost(e)
		if err != nil || strings.ContainsAny(e, "/:*") {
			return al, td.Errorf(td.Invalid, "%q cannot be allowed: give a host name, an address or a range like 10.0.0.0/8", e)
		}
		al.hosts[host] = true
	}
	return al, nil
}

// judge says why a connection to a for the sake of host is refused, or nothing.
func (al allowance) judge(host string, a netip.Addr) error {
	a = a.Unmap()
	switch classify(a) {
	case public:
		return nil
	case private:
		if al.hosts[host] || within(a, al.nets) {
			return nil
		}
		return td.Errorf(td.Refused, "%s is at %s, a private address, and is not fetched; only a person can allow it, in the configuration", host, a)
	case metadata:
		for _, n := range al.nets {
			if n.IsSingleIP() && n.Addr() == a {
				return nil
			}
		}
		return td.Errorf(td.Refused, "%s is at %s, where a cloud hands out credentials, and is never fetched", host, a)
	default:
		return td.Errorf(td.Refused, "%s is at %s, which is no address of a server; check the address", host, a)
	}
}
