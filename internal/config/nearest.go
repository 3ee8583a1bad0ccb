package config

import (
	"strings"

	"taskdaemon/internal/typo"
)

// nearest is the known key that name was most likely meant to be, or "" when none is close. A key that
// was put into the wrong section is found by its last word.
func nearest(name string) string {
	if len(name) > 100 {
		return ""
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	best, least := "", 1+len(name)/3
	for _, k := range Keys {
		if d := typo.Distance(name, k.Name); d < least || d == least && best == "" {
			best, least = k.Name, d
		}
	}
	if best != "" {
		return best
	}
	for _, k := range Keys {
		if word := k.Name[strings.LastIndexByte(k.Name, '.')+1:]; typo.Distance(last, word) <= len(word)/4 {
			return k.Name
		}
	}
	return ""
}
