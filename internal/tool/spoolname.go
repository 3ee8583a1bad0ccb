package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"taskdaemon/internal/td"
)

// SpoolName is the name of the spool folder of a step's command: the same in every life of the daemon,
// safe as a file name, bounded, and different for different steps. After the step's outcome is in the
// journal the folder can go, by Spool.Remove; so it must before a person's "retry" runs the step again.
func SpoolName(task td.TaskID, step td.StepKey) string {
	sum := sha256.Sum256([]byte(string(task) + "\x00" + string(step)))
	return fileSafe(string(task), 36) + "." + fileSafe(string(step), 48) + "." + hex.EncodeToString(sum[:8])
}

// fileSafe keeps the last n bytes of s that may stand in a file name; the hash tells the rest apart.
func fileSafe(s string, n int) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, s)
	if len(safe) > n {
		safe = safe[len(safe)-n:]
	}
	if safe == "" {
		safe = "_"
	}
	return safe
}
