package memory

import (
	"math"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
)

// weights say how much a word counts in the title, among tags and files, and in the text.
var weights = [3]float64{3, 2, 1}

// The usual constants of BM25: how soon more of the same word stops to matter, and how much the length does.
const (
	saturation   = 1.2
	lengthWeight = 0.75
)

// ranking is BM25 for the question that is being asked. The full-text index's own would count anew, by going through
// all of them, how many learnings have each word, and look up how long each one is; here both are known.
type ranking struct {
	rarity []float64       // of each word of the question, in its order
	length map[int64]int64 // of each learning, in words
	total  int64
}

func newRanking() *ranking { return &ranking{length: map[int64]int64{}} }

func (r *ranking) learn(e entry) {
	if e.words > 0 { // what cannot be read is no learning
		r.length[e.n] = e.words
		r.total += e.words
	}
}

func (r *ranking) forget(e entry) {
	r.total -= r.length[e.n]
	delete(r.length, e.n)
}

// ask begins a question each of whose words so many learnings have.
func (r *ranking) ask(docs []int) {
	r.rarity = r.rarity[:0]
	for _, n := range docs {
		// A word that most learnings have counts for next to nothing, but not against one.
		r.rarity = append(r.rarity, max(math.Log((float64(len(r.length)-n)+0.5)/(float64(n)+0.5)), 1e-6))
	}
}

// score is the extension function of the table: less is better, as its order wants it.
func (r *ranking) score(fts fts5.Context, ctx sqlite3.Context, _ ...sqlite3.Value) {
	score, err := r.of(fts)
	if err != nil {
		ctx.ResultError(err)
		return
	}
	ctx.ResultFloat(-score)
}

func (r *ranking) of(fts fts5.Context) (score float64, err error) {
	places, err := fts.InstCount()
	if err != nil {
		return 0, err
	}
	var found [maxMatched]float64 // of each word
	for i := range places {
		word, column, _, err := fts.Inst(i)
		if err != nil {
			return 0, err
		}
		if word < len(r.rarity) && column < len(weights) {
			found[word] += weights[column]
		}
	}
	average := float64(r.total) / float64(len(r.length))
	norm := saturation * (1 - lengthWeight + lengthWeight*float64(r.length[fts.RowID()])/average)
	for i, rarity := range r.rarity {
		if f := found[i]; f > 0 {
			score += rarity * f * (saturation + 1) / (f + norm)
		}
	}
	return score, nil
}
