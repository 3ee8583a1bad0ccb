package workgraph

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// random makes n tasks with three blockers each, all older than themselves.
func random(n int) []Node {
	r := rand.New(rand.NewPCG(1, 2))
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{ID: name(i), State: td.Queued, Created: time.Unix(int64(i), 0), Priority: r.IntN(5)}
		for range min(i, 3) {
			nodes[i].Blockers = append(nodes[i].Blockers, name(r.IntN(i)))
		}
		if r.IntN(3) == 0 {
			nodes[i].State = td.Completed
		}
	}
	return nodes
}

// BenchmarkReady lists all that may run, after one task has changed.
func BenchmarkReady(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			g := New(random(n))
			ready, i := 0, 0
			for b.Loop() {
				g.SetState(name(i%n), []td.State{td.Completed, td.Queued}[i/n%2])
				i++
				ready = 0
				for range g.Ready("") {
					ready++
				}
			}
			b.ReportMetric(float64(ready), "ready")
		})
	}
}

// BenchmarkNew makes a graph.
func BenchmarkNew(b *testing.B) {
	nodes := random(100_000)
	for b.Loop() {
		New(nodes)
	}
}
