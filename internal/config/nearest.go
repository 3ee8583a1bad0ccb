package config

import "strings"

// nearest is the known key that name was most likely meant to be, or "" when none is close. A key that
// was put into the wrong section is found by its last word.
func nearest(name string) string {
	if len(name) > 100 {
		return ""
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	best, least := "", 1+len(name)/3
	for _, k := range Keys {
		if d := distance(name, k.Name); d < least || d == least && best == "" {
			best, least = k.Name, d
		}
	}
	if best != "" {
		return best
	}
	for _, k := range Keys {
		if word := k.Name[strings.LastIndexByte(k.Name, '.')+1:]; distance(last, word) <= len(word)/4 {
			return k.Name
		}
	}
	return ""
}

// distance counts the insertions, deletions and replacements between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
