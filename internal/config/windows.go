package config

import (
	"github.com/goccy/go-yaml/ast"
)

// ModelWindow is one entry of `windows:`, the window of the models whose names begin so.
type ModelWindow struct {
	Model  string `yaml:"model"`
	Tokens int    `yaml:"tokens"`
	Where  string `yaml:"-"`
}

// windows reads `windows:`.
func windows(r *reader, n ast.Node) error {
	err := list("windows", func(c *Config) *[]ModelWindow { return &c.Windows }, func(w *ModelWindow, at string) { w.Where = at })(r, n)
	if err != nil {
		return err
	}
	for _, w := range r.c.Windows {
		if w.Model == "" || w.Tokens < 1000 {
			return r.fail(n.GetToken(), "a window needs the name of a model and at least 1000 tokens")
		}
	}
	return nil
}
