package bench

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/llm/llmtest"
)

const cacheTurns = 50

var mark = []byte(`,"cache_control":{"type":"ephemeral"}`)

// BenchmarkCache counts how much of what a 50-turn run sends could be read from the provider's cache: all up
// to the last mark of the call before, if this call begins with the same bytes. The daemon is killed in
// the middle, which must not cost anything.
func BenchmarkCache(b *testing.B) {
	script := fmt.Sprintf(`
turns:
  - {repeat: %d, text: "I read it once more, for the {{turn}}th time.", tools: [{name: Read, input: {path: %s}}]}
  - tools: [{name: Complete, input: {summary: done}}]
`, cacheTurns, smallFile)
	h := newHouse(b, script, llmtest.Options{Record: true}, "limits: {turns: 1000}", "drift: {repeats: 0}")
	d := h.start()
	d.answers()
	if _, err := h.svc.AddTask(b.Context(), api.AddTask{Prompt: "do it", Dir: h.workspace(0), Yes: true}); err != nil {
		b.Fatal(err)
	}
	d.until("half of the turns are made", time.Millisecond, func(context.Context) bool { return len(h.model.Exchanges()) > cacheTurns/2 })
	d.kill()
	d = h.start()
	d.until("all turns are made", 20*time.Millisecond, func(context.Context) bool {
		all := h.model.Exchanges()
		return len(all) > 0 && bytes.Contains(all[len(all)-1].Body, fmt.Appendf(nil, "the %dth time", cacheTurns))
	})
	var sent, read int
	var before []byte
	for _, e := range h.model.Exchanges() {
		if len(e.Body) == 0 {
			continue // the kill came before it was sent
		}
		last := bytes.LastIndex(e.Body, mark)
		if last < 0 {
			b.Fatal("a call marks nothing for the cache")
		}
		kept := bytes.ReplaceAll(e.Body[:last], mark, nil)
		whole := bytes.ReplaceAll(e.Body, mark, nil)
		sent += len(whole)
		if bytes.HasPrefix(whole, before) {
			read += len(before)
		}
		before = kept
	}
	share := float64(read) / float64(sent)
	figures.add(fmt.Sprintf("input that the cache can serve, %d turns", cacheTurns), fmt.Sprintf("%.1f %% of sent", 100*share),
		goal("≥ 95 %", share >= 0.95), fmt.Sprintf("%d of %d bytes in %d calls, killed once", read, sent, len(h.model.Exchanges())))
	report(b, map[string]float64{"/sent": share})
}
