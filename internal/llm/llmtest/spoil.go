package llmtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// spoilers are the ways in which the events of a stream are made worse, at random places.
var spoilers = []func(*rand.Rand, []string) []string{
	func(r *rand.Rand, e []string) []string { i := r.IntN(len(e)); return slices.Delete(e, i, i+1) },
	func(r *rand.Rand, e []string) []string { return slices.Insert(e, r.IntN(len(e)), e[r.IntN(len(e))]) },
	func(r *rand.Rand, e []string) []string {
		i, j := r.IntN(len(e)), r.IntN(len(e))
		e[i], e[j] = e[j], e[i]
		return e
	},
	func(r *rand.Rand, e []string) []string {
		i := r.IntN(len(e))
		b := []byte(e[i])
		b[r.IntN(len(b))] = byte(r.IntN(256))
		e[i] = string(b)
		return e
	},
	func(r *rand.Rand, e []string) []string {
		i := r.IntN(len(e))
		at := r.IntN(len(e[i]))
		e[i] = e[i][:at] + strings.Repeat("\x00", 1+r.IntN(5)) + e[i][at:]
		return e
	},
	func(r *rand.Rand, e []string) []string {
		i := r.IntN(len(e))
		e[i] = e[i][:r.IntN(len(e[i]))]
		return e
	},
	func(r *rand.Rand, e []string) []string {
		return slices.Insert(e, r.IntN(len(e)), "event: error\ndata: "+strings.Repeat("{\"error\":", r.IntN(100))+"\n\n")
	},
	func(r *rand.Rand, e []string) []string {
		r.Shuffle(len(e), func(i, j int) { e[i], e[j] = e[j], e[i] })
		return e
	},
	func(r *rand.Rand, e []string) []string {
		i := r.IntN(len(e))
		e[i] = strings.Replace(e[i], `"index":0`, fmt.Sprintf(`"index":%d`, r.Int64()-r.Int64()), 1)
		return e
	},
	func(_ *rand.Rand, e []string) []string { return slices.Concat(e, e) },
}

// Spoiled hands whole answers, spoiled in every way that comes to mind, to read, which tells whether one was taken for
// an answer all the same. The seed is in the name of the test.
func Spoiled(t *testing.T, recordings [][]Frame, read func(t *testing.T, stream string) (taken bool)) {
	const answers = 1000
	whole := make([]bool, len(recordings)) // some recordings are of failures
	for i, r := range recordings {
		whole[i] = read(t, strings.Join(parts(r), ""))
	}
	taken, sound := 0, 0
	for seed := range answers {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		events := parts(recordings[seed%len(recordings)])
		if whole[seed%len(recordings)] {
			sound++
		}
		for range 1 + rng.IntN(3) {
			events = spoilers[rng.IntN(len(spoilers))](rng, events)
			events = slices.DeleteFunc(events, func(s string) bool { return s == "" })
			if len(events) == 0 {
				events = []string{"\n"}
			}
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			if read(t, strings.Join(events, "")) {
				taken++
			}
		})
	}
	if taken == 0 || taken >= sound {
		t.Errorf("%d of %d were taken for answers: the spoilers spoil nothing or everything", taken, sound)
	}
	t.Logf("%d of %d spoiled streams still were answers", taken, sound)
}

func parts(frames []Frame) (events []string) {
	for _, f := range frames {
		events = append(events, string(f.Bytes))
	}
	return events
}
