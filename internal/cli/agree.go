package cli

import (
	"bufio"
	"fmt"
	"strings"
)

// agrees asks the person at the terminal, who may just press return if they think so, too.
func (a *app) agrees(question string, think bool) bool {
	choices := "[y/N]"
	if think {
		choices = "[Y/n]"
	}
	fmt.Fprintf(a.stderr, "%s %s ", question, choices)
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	a.at.entered()
	if err != nil {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "":
		return think
	case "y", "yes":
		return true
	}
	return false
}
