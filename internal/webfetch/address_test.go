package webfetch

import (
	"net/netip"
	"testing"

	"taskdaemon/internal/td"
)

func TestClassify(t *testing.T) {
	for addr, want := range map[string]class{
		"8.8.8.8": public, "93.184.215.14": public, "2606:2800:21f:cb07:6820:80da:af6b:8b2c": public,
		"100.63.255.255": public, "100.128.0.0": public, "172.15.255.255": public, "172.32.0.0": public,
		"127.0.0.1": private, "127.255.255.254": private, "::1": private,
		"10.1.2.3": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private,
		"169.254.1.1": private, "100.64.0.1": private, "100.127.255.255": private, "198.18.0.1": private,
		"fc00::1": private, "fd12:3456::1": private, "fe80::1": private, "fe80::1%eth0": private, "fec0::1": private,
		"169.254.169.254": metadata, "fd00:ec2::254": metadata, "169.254.170.2": metadata, "100.100.100.200": metadata,
		"168.63.129.16": metadata, "fd20:ce::254": metadata,
		"0.0.0.0": forbidden, "0.1.2.3": forbidden, "::": forbidden, "255.255.255.255": forbidden,
		"224.0.0.1": forbidden, "239.255.255.250": forbidden, "240.0.0.1": forbidden, "ff02::1": forbidden, "ff05::2": forbidden,
		"192.0.2.1": forbidden, "203.0.113.9": forbidden, "2001:db8::1": forbidden, "100::1": forbidden, "5f00::1": forbidden,

		"::ffff:8.8.8.8": public, "::ffff:127.0.0.1": private, "::ffff:169.254.169.254": metadata, "::ffff:0.0.0.0": forbidden,
		"64:ff9b::8.8.8.8": public, "64:ff9b::127.0.0.1": private, "64:ff9b::169.254.169.254": metadata, "64:ff9b::224.0.0.1": forbidden,
		"64:ff9b:1::1":    private,
		"2002:808:808::1": public, "2002:7f00:1::1": private, "2002:c0a8:101::1": private, "2002:a9fe:a9fe::1": metadata,
		"::127.0.0.1": forbidden, "::ffff:0:127.0.0.1": forbidden, "2001:0:7f00:1::1": forbidden,
		"2606:4700::5efe:10.0.0.1": private, "2606:4700::200:5efe:127.0.0.1": private, "2606:4700::5efe:8.8.8.8": public,
	} {
		if got := classify(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: class %d, want %d", addr, got, want)
		}
	}
	if classify(netip.Addr{}) != forbidden {
		t.Error("no address is an address")
	}
}

func TestAllowance(t *testing.T) {
	al, err := parseAllowance([]string{"LocalHost.", "wiki.corp.example", "10.0.0.0/8", "fd00::/8", "[::1]", "0.0.0.0/0", "fd00:ec2::254"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, addr string
		ok         bool
	}{
		{"localhost", "127.0.0.1", true},
		{"wiki.corp.example", "172.16.3.4", true},
		{"wiki.corp.example", "169.254.169.254", false}, // a name is not to be led there
		{"x.example", "10.9.9.9", true},
		{"x.example", "::ffff:10.9.9.9", true},
		{"x.example", "169.254.169.254", false}, // nor a range
		{"x.example", "fd00:ec2::254", true},    // only the address itself
		{"x.example", "fd00:ec2::23", false},
		{"x.example", "::1", true},
		{"x.example", "fe80::1", false},
		{"x.example", "224.0.0.1", false},
		{"localhost", "0.0.0.0", false},
		{"x.example", "8.8.8.8", true},
	} {
		err := al.judge(c.host, netip.MustParseAddr(c.addr))
		if (err == nil) != c.ok {
			t.Errorf("%s at %s: %v", c.host, c.addr, err)
		}
		if err != nil {
			wantKind(t, err, td.Refused)
		}
	}
	for _, bad := range []string{"", "a b", "http://x", "host:80", "10.0.0.0/40", "*.corp", "127.1", "fe80::1%eth0", "a/b"} {
		if _, err := New(Options{AllowPrivate: []string{bad}}); !td.IsKind(err, td.Invalid) {
			t.Errorf("%q was allowed: %v", bad, err)
		}
	}
}
