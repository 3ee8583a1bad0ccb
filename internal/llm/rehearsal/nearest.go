package rehearsal

import (
	"maps"
	"slices"
	"strings"
)

func list(known fields) string {
	return strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// nearest is the known key with the fewest edits between it and key.
func nearest(key string, known fields) string {
	best, least := "", 0
	for _, k := range slices.Sorted(maps.Keys(known)) {
		if d := distance(key, k); best == "" || d < least {
			best, least = k, d
		}
	}
	return best
}

// distance counts letters added, removed or changed; of a long key only the beginning.
func distance(a, b string) int {
	a = a[:min(len(a), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
