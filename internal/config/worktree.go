package config

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Copies are the files and folders that every new worktree gets, one by one.
func (w Worktree) Copies() []string {
	var out []string
	for p := range strings.SplitSeq(w.Copy, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, filepath.Clean(p))
		}
	}
	return out
}

// checkCopies refuses what is not in the project's folder, and what is git's.
func checkCopies(c *Config) error {
	for _, p := range c.Worktree.Copies() {
		if first, _, _ := strings.Cut(p, "/"); !filepath.IsLocal(p) || p == "." || first == ".git" || first == ".worktrees" {
			return fmt.Errorf("%q is no file or folder within the project's folder", p)
		}
	}
	return nil
}

func percent(of func(c *Config) int) func(c *Config) error {
	return func(c *Config) error {
		if n := of(c); n < 1 || n > 100 {
			return fmt.Errorf("must be between 1 and 100")
		}
		return nil
	}
}
