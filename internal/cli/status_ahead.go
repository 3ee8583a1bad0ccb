package cli

import (
	"fmt"
	"strings"

	"taskdaemon/internal/api"
)

// printCrowded says which disks fill up.
func (a *app) printCrowded(list []string) {
	for _, line := range list {
		fmt.Fprintln(a.stdout, "\n"+a.style.warn(plainLine(line, 300)))
	}
}

// printClashes says which work will conflict when it is merged.
func (a *app) printClashes(list []api.Clash) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(a.stdout, "\nwill conflict when merged")
	for _, c := range list {
		fmt.Fprintf(a.stdout, "  %s and %s: %s\n", plainLine(c.A, 60), plainLine(c.B, 60), plainLine(strings.Join(c.Files, ", "), 200))
	}
}
