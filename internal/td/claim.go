package td

import (
	"fmt"
	"time"
)

// Holder is a process that may hold claims: it cannot be confused with a later process of the same pid
// or of another boot.
type Holder struct {
	Host  string `json:"host"`
	Boot  string `json:"boot"`
	Pid   int    `json:"pid"`
	Start string `json:"start"` // the kernel's start time of the process
}

func (h Holder) String() string { return fmt.Sprintf("%s/%.8s/%d@%s", h.Host, h.Boot, h.Pid, h.Start) }

// Claim is the fenced right to run a task. The epoch grows with each claim of the task and is never
// used again; an append under an older epoch fails.
type Claim struct {
	Task    TaskID    `json:"task"`
	Epoch   uint64    `json:"epoch"`
	Holder  Holder    `json:"holder"`
	Expires time.Time `json:"expires"`
}

// The times of a claim: how long it lasts, how often it is renewed, and how long before its end, on the
// holder's own clock, no tool is started any more and running ones are killed.
const (
	ClaimTTL     = 15 * time.Second
	ClaimRenewal = 5 * time.Second
	ClaimNoStart = 5 * time.Second
	ClaimKill    = 2 * time.Second
)
