package cli

import (
	"fmt"
	"strings"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// printWarnings says which plans were damaged, or which disks fill up.
func (a *app) printWarnings(list []string) {
	for _, line := range list {
		fmt.Fprintln(a.stdout, "\n"+a.style.warn(plainLine(line, 600)))
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

// printUnlanded says which branches lack merged work, why, and what to type.
func (a *app) printUnlanded(list []td.Unlanded) {
	for _, u := range list {
		fmt.Fprintln(a.stdout, "  "+a.style.warn(unlandedWords(u)))
		if hint := unlandedHint(u); hint != "" {
			fmt.Fprintf(a.stdout, "  %s %s\n", a.style.dim("→"), a.typeable(plainLine(hint, mostTyped)))
		}
	}
}

// unlandedHint is what to type about a branch that lacks work.
func unlandedHint(u td.Unlanded) string {
	if u.Reason == "" {
		return "it is tried again by itself; to see what came of it: taskdaemon status"
	}
	return u.Hint
}

// unlandedWords say which branch lacks which work, and why.
func unlandedWords(u td.Unlanded) string {
	why := u.Reason
	if why == "" {
		why = "the next attempt is under way"
	}
	return plainLine(fmt.Sprintf("%s lacks the work of %s: %s", u.Trunk, strings.Join(u.Tasks, ", "), why), 500)
}
