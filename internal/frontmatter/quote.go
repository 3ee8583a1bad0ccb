package frontmatter

import (
	"encoding/json"
	"regexp"
	"strings"
)

// plain is a text that means itself without quotes, whatever program reads it. Words that YAML takes
// for something else are refused by Quote.
var plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)

// Quote writes a text as a YAML scalar on one line: plain where that is safe, else in double quotes,
// which YAML reads as JSON does.
func Quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "yes", "no", "on", "off", "null", "y", "n":
		return `"` + s + `"`
	}
	if plain.MatchString(s) {
		return s
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil { // a string always has a JSON form
		panic(err)
	}
	return strings.ReplaceAll(strings.TrimSuffix(b.String(), "\n"), "\x7f", `\u007f`)
}
