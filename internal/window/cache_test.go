package window

import (
	"fmt"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

// sameStart is how many tokens two calls begin with in common: what a provider's cache can serve.
func sameStart(fixed int, a, b []td.Message) int {
	n := fixed
	for i := range min(len(a), len(b)) {
		if fmt.Sprint(a[i]) != fmt.Sprint(b[i]) {
			break
		}
		n += MessageTokens(a[i])
	}
	return n
}

// A compaction makes the cache of all that follows it useless: there must be few, and deep ones. Of the input of a hundred turns that
// overflow the window a few times at least 93 % comes from the cache, whatever the turns bring and whether there is a summary or not.
func TestCacheOutlivesAFullWindow(t *testing.T) {
	system := strings.Repeat("Look before you change: read the files that matter. ", 100)
	fixed := Count(system, nil, nil)
	for _, c := range []struct {
		name   string
		words  int // of an answer
		result int // lines of a result
	}{
		{"talk", 600, 2}, {"small results", 30, 60}, {"medium results", 30, 180}, {"large results", 30, 700}, {"of all sizes", 100, 0},
	} {
		for _, noSummary := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/no summary %v", c.name, noSummary), func(t *testing.T) {
				grown := 0
				var msgs, before []td.Message
				size := func(turn int) int {
					if c.result > 0 {
						return c.result
					}
					return []int{3, 40, 150, 10, 400, 1000, 20}[turn%7]
				}
				turns := func(turn int) []td.Message {
					id := fmt.Sprintf("id%d", turn)
					a, r := call(id), results(id)
					a.Blocks = append([]td.Block{{Type: td.TextBlock, Text: fmt.Sprint(turn, strings.Repeat(" and so on", c.words/3))}}, a.Blocks...)
					r.Blocks[0].Text = fmt.Sprint(turn, "\n", lines(size(turn)))
					return []td.Message{a, r}
				}
				for turn := range 100 {
					for _, m := range turns(turn) {
						grown += MessageTokens(m)
					}
				}
				// All of it would fill the window about two and a half times.
				budget := Budget{Window: fixed.Total() + grown*2/5, Share: 0.9}
				msgs = []td.Message{user("do it")}
				sent, cached, compactions := 0, 0, 0
				for turn := range 100 {
					o := Options{NoSummary: noSummary}
					rewritten := false
					for {
						d := Plan(msgs, fixed, budget, o)
						if d.Do == Fits {
							break
						}
						rewritten = true
						if d.Do == Summarise {
							var err error
							if d.Compaction, err = d.Summary.Compaction(fmt.Sprint(turn, strings.Repeat(" it was done", 100))); err != nil {
								t.Fatal(err)
							}
						} else if d.Do != Compact {
							t.Fatal(d.Err)
						}
						msgs = mustApply(t, msgs, d.Compaction)
					}
					if rewritten {
						compactions++
					}
					sent += fixed.Total() + tokensOf(msgs)
					if before != nil {
						cached += sameStart(fixed.Total(), before, msgs)
					}
					before = msgs
					msgs = append(msgs[:len(msgs):len(msgs)], turns(turn)...)
				}
				ratio := 100 * float64(cached) / float64(sent)
				t.Logf("%.1f %% of %d tokens from the cache, %d compactions", ratio, sent, compactions)
				if ratio < 93 || compactions < 2 || compactions > 4 {
					t.Errorf("%.1f %% from the cache, %d compactions", ratio, compactions)
				}
			})
		}
	}
}
