package rehearsal

import (
	"maps"
	"slices"
	"strings"

	"taskdaemon/internal/typo"
)

func list(known fields) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// nearest is the known key with the fewest edits between it and key.
func nearest(key string, known fields) string {
	best, least := "", 0
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := typo.Distance(key, k); best == "" || d < least {
			best, least = k, d
		}
	}
	return best
}
