package memory

import (
	"crypto/sha256"
	"slices"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/words"
)

// How alike two learnings must be to be one. Merging keeps every paragraph of both, so a mistake loses
// nothing; it only puts two things under one title.
const (
	alikeTagged = 0.5 // share of common words, when half of the tags are the same
	alikePlain  = 0.8 // the same, when the tags say nothing
	maxTerms    = 400
)

// merge is old with what b adds to it. Merging b again changes nothing. It reports whether there is
// room for it.
func merge(old, b Learning) (Learning, bool) {
	m := old
	have := map[string]bool{}
	for _, p := range paragraphs(old.Text) {
		have[paragraphKey(p)] = true
	}
	for _, p := range paragraphs(b.Text) {
		if key := paragraphKey(p); !have[key] {
			have[key] = true
			m.Text += "\n\n" + p
		}
	}
	if b.Kind == td.KindDecision { // what was settled stays so, however it is told again
		m.Kind = b.Kind
	}
	m.Tags = cleanTags(slices.Concat(old.Tags, b.Tags))
	m.Sources = cleanSources(slices.Concat(old.Sources, b.Sources))
	if m.Feature == "" {
		m.Feature = b.Feature
	}
	if m.CreatedAt.IsZero() {
		m.CreatedAt = b.CreatedAt
	}
	files, err := cleanFiles(slices.Concat(old.Files, b.Files)) // the newer hash of a file counts
	if err != nil || len(m.Text) > maxMerged && m.Text != old.Text {
		return old, false
	}
	m.Files = files
	return m, true
}

// restates reports whether l has every paragraph of old.
func restates(l, old Learning) bool {
	have := map[string]bool{}
	for _, p := range paragraphs(l.Text) {
		have[paragraphKey(p)] = true
	}
	return !slices.ContainsFunc(paragraphs(old.Text), func(p string) bool { return !have[paragraphKey(p)] })
}

// same reports whether two learnings are equal in all that is written.
func same(a, b Learning) bool {
	return a.Kind == b.Kind && a.Title == b.Title && a.Text == b.Text && a.Feature == b.Feature && a.CreatedAt.Equal(b.CreatedAt) &&
		slices.Equal(a.Tags, b.Tags) && slices.Equal(a.Sources, b.Sources) && slices.Equal(a.Files, b.Files)
}

// alike reports how much two learnings of different titles say the same, or 0 when they are two.
func alike(a, b Learning) float64 {
	if a.Feature != "" && b.Feature != "" && a.Feature != b.Feature {
		return 0
	}
	x, y := words.Set(a.Title+" "+a.Text, maxTerms), words.Set(b.Title+" "+b.Text, maxTerms)
	common := words.Shared(x, y)
	if common == 0 {
		return 0
	}
	score := float64(common) / float64(len(x)+len(y)-common)
	need := alikePlain
	if less := min(len(a.Tags), len(b.Tags)); less > 0 && 2*words.Shared(a.Tags, b.Tags) >= less {
		need = alikeTagged
	}
	if score < need {
		return 0
	}
	return score
}

// paragraphs cuts a text at its empty lines; a fenced block stays whole.
func paragraphs(text string) []string {
	var out []string
	var now []string
	fenced := false
	end := func() {
		if p := strings.TrimSpace(strings.Join(now, "\n")); p != "" {
			out = append(out, p)
		}
		now = now[:0]
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		if !fenced && strings.TrimSpace(line) == "" {
			end()
			continue
		}
		now = append(now, line)
	}
	end()
	return out
}

// paragraphKey is the same for paragraphs that differ only in case and white space.
func paragraphKey(p string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(strings.Join(strings.Fields(p), " "))))
	return string(sum[:12])
}
