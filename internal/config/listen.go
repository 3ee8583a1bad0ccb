package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
)

// checkListen refuses an address that is none, one that other machines reach unless that is wanted, and one without a sandbox
// that keeps the token from commands.
func checkListen(c *Config) error {
	if c.API.Listen == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.API.Listen)
	if err != nil {
		return fmt.Errorf("%q is not a host and a port, like 127.0.0.1:7790", c.API.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%q is no port: it is a number from 0 to 65535", port)
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return fmt.Errorf("%q is no IP address: it is 127.0.0.1, ::1 or, with api.remote, another of this machine", host)
	}
	if !ip.IsLoopback() && !c.API.Remote {
		return fmt.Errorf("other machines reach %s, where nothing is encrypted; if that is wanted, set api.remote to true", host)
	}
	if c.Sandbox.Mode == SandboxOff || c.Sandbox.Profile == "full" {
		return fmt.Errorf("the sandbox must keep the token from commands of agents: set sandbox.mode to %s, and sandbox.profile to workspace-write", SandboxRequired)
	}
	return nil
}
