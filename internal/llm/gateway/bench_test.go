package gateway

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/llm/rehearsal"
)

func benchModel(b *testing.B) llm.Model {
	script, err := rehearsal.Parse([]byte("turns: [{text: I read the next file., repeat: forever}]"))
	if err != nil {
		b.Fatal(err)
	}
	return rehearsal.New(rehearsal.Options{Default: script})
}

// perCall is the time of one call, in parallel.
func perCall(b *testing.B, m llm.Model, n int) float64 {
	start := time.Now()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range n / 4 {
				if _, err := m.Stream(b.Context(), llm.Request{Model: "m", Tokens: 1}, nil); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	return float64(time.Since(start).Nanoseconds()) / float64(n/4*4)
}

// BenchmarkStream is what a gateway adds to a call of the quickest model there is, with no bounds and with
// all of them.
func BenchmarkStream(b *testing.B) {
	model := benchModel(b)
	for _, p := range []Provider{
		{Name: "free"},
		{Name: "bounded", Keys: []string{"a", "b", "c"}, InFlight: 100, Requests: 1 << 40, Tokens: 1 << 60},
	} {
		b.Run(p.Name, func(b *testing.B) {
			p.New = func(string) llm.Model { return model }
			g := newGateway(b, Options{InFlight: 100, Providers: []Provider{p}})
			b.ReportAllocs()
			var direct, through float64
			for b.Loop() {
				direct += perCall(b, model, 1000)
				through += perCall(b, g, 1000)
			}
			b.ReportMetric(through/direct, "x-direct")
			b.ReportMetric((through-direct)/float64(b.N), "added-ns/call")
		})
	}
}

// BenchmarkLongLine is a call that ends and lets in the next of many that wait.
func BenchmarkLongLine(b *testing.B) {
	for _, waiting := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			step := make(chan struct{})
			g := newGateway(b, Options{InFlight: 1, Providers: []Provider{{Name: "p", New: faking(
				func(ctx context.Context, _ string, _ llm.Request) (llm.Response, error) {
					select {
					case <-step:
						return llm.Response{}, nil
					case <-ctx.Done():
						return llm.Response{}, context.Cause(ctx)
					}
				})}}})
			ctx, cancel := context.WithCancel(b.Context())
			var all sync.WaitGroup
			for i := range waiting {
				all.Go(func() {
					for ctx.Err() == nil {
						_, _ = g.Stream(ctx, llm.Request{Priority: i % 5}, nil)
					}
				})
			}
			for g.Stats().Waiting < waiting-1 {
				<-time.After(time.Millisecond)
			}
			for b.Loop() {
				step <- struct{}{}
			}
			cancel()
			all.Wait()
		})
	}
}
