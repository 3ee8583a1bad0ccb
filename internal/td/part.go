package td

import (
	"fmt"
	"strconv"
	"strings"
)

// PRDPart is a phase that the work of a PRD is divided into.
type PRDPart struct {
	Number       int      `json:"number"` // from 1
	Name         string   `json:"name"`
	Requirements []string `json:"requirements,omitempty"`
	Criteria     []string `json:"success_criteria,omitempty"`
}

// phaseLabel begins the label by which a planned task is in a phase of its PRD. It is on disk.
const phaseLabel = "phase-"

// PhaseLabel is the label of the tasks in a phase.
func PhaseLabel(number int) string { return phaseLabel + strconv.Itoa(number) }

// PartOf is the number of the phase that a task with these labels is in; 0: in none.
func PartOf(labels []string) int {
	for _, l := range labels {
		digits, is := strings.CutPrefix(l, phaseLabel)
		if n, err := strconv.Atoi(digits); is && err == nil && n > 0 && l == PhaseLabel(n) {
			return n
		}
	}
	return 0
}

// String is a phase with all that is said of it, as a list.
func (p PRDPart) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "- phase %d: %s\n", p.Number, p.Name)
	for _, r := range p.Requirements {
		fmt.Fprintf(&b, "  - requires: %s\n", r)
	}
	for _, c := range p.Criteria {
		fmt.Fprintf(&b, "  - done when: %s\n", c)
	}
	return b.String()
}
