package config

import (
	"fmt"
	"path"
	"strings"
)

// checkHosts refuses a pattern that can fit no host.
func checkHosts(c *Config) error {
	for h := range strings.SplitSeq(c.Sandbox.Hosts, ",") {
		if _, err := path.Match(h, ""); err != nil || strings.ContainsAny(strings.TrimSpace(h), "/@ ") {
			return fmt.Errorf("%q is no host; want a name like *.example.org", strings.TrimSpace(h))
		}
	}
	return nil
}
