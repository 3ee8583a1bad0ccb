package config

import (
	"fmt"
	"path"
	"strings"
)

// Branches are the protected branches, one by one.
func (g Git) Branches() []string {
	var out []string
	for b := range strings.SplitSeq(g.Protected, ",") {
		out = append(out, strings.TrimSpace(b))
	}
	return out
}

// checkBranches refuses a pattern that can fit no branch.
func checkBranches(c *Config) error {
	for _, b := range c.Git.Branches() {
		if _, err := path.Match(b, ""); err != nil || b == "" || strings.ContainsAny(b, " ~^:") {
			return fmt.Errorf("%q is no branch; want a name like main or release/*", b)
		}
	}
	return nil
}
