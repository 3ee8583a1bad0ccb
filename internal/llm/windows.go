package llm

import "strings"

// Windows is how many tokens fit the windows of models, by name. The longest name counts, as with Prices.
type Windows map[string]int

// Of is the window of a model, or otherwise when no name is its own.
func (w Windows) Of(model string, otherwise int) int {
	_, bare, _ := strings.Cut(model, "/")
	for _, name := range []string{model, bare} {
		best, found := "", false
		for prefix := range w {
			if names(prefix, name) && (!found || len(prefix) > len(best)) {
				best, found = prefix, true
			}
		}
		if found {
			return w[best]
		}
	}
	return otherwise
}
