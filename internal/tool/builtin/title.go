package builtin

import (
	"strings"

	"taskdaemon/internal/fence"
)

// title is a call on one line for people, who judge by it: nothing is left out, and what would be
// invisible, or would change how the rest looks, is spelled out.
func title(verb, what string) string {
	what = strings.NewReplacer("\r\n", `\u{d}`+" ⏎ ", "\n", " ⏎ ", "\t", " ").Replace(what)
	return verb + " " + fence.Spell(what)
}
