package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/td"
)

const crowd = 1000

// perTask is how much resident memory a task may cost, in KiB.
const perTask = 256

// BenchmarkMemory measures what 1,000 tasks cost in one daemon, over the same daemon before it had any:
// tasks that wait for a person, and tasks in the middle of an answer. Child processes are not counted.
func BenchmarkMemory(b *testing.B) {
	b.Run("waiting", func(b *testing.B) {
		h := newHouse(b, "turns: [{tools: [{name: Ask, input: {question: what now?}}]}]", llmtest.Options{})
		measureCrowd(b, h, "waiting for a person", func(ctx context.Context) bool {
			st, err := h.svc.Status(ctx)
			return err == nil && st.Tasks[td.Waiting] == crowd
		})
	})
	b.Run("calling", func(b *testing.B) {
		hold := make(chan struct{})
		b.Cleanup(func() { close(hold) })
		h := newHouse(b, "turns: [{text: a few words}]", llmtest.Options{Hold: hold}, "limits: {loops: 2000}")
		measureCrowd(b, h, "in a model call", func(context.Context) bool { return h.model.Held() == crowd })
	})
}

func measureCrowd(b *testing.B, h *house, where string, there func(context.Context) bool) {
	b.Helper()
	d := h.start()
	d.answers()
	idle := d.settled()
	h.addEach(crowd, nil)
	d.until("all tasks are "+where, time.Second, there)
	full := d.settled()
	rss, pss := float64(full.rss-idle.rss)/crowd, float64(full.pss-idle.pss)/crowd
	figures.add(fmt.Sprintf("memory, %d tasks %s", crowd, where),
		fmt.Sprintf("%.1f × idle", float64(full.rss)/float64(idle.rss)),
		goal(fmt.Sprintf("≤ %d KiB a task", perTask), rss <= perTask),
		fmt.Sprintf("%.1f KiB a task (PSS %.1f); %.1f MiB, peak %.1f; idle %.1f MiB", rss, pss,
			float64(full.rss)/1024, float64(full.peak)/1024, float64(idle.rss)/1024))
	report(b, map[string]float64{
		"/idle": float64(full.rss) / float64(idle.rss), "KiB/task": rss, "PSS-KiB/task": pss,
		"MiB": float64(full.rss) / 1024, "idle-MiB": float64(idle.rss) / 1024, "peak-MiB": float64(full.peak) / 1024,
	})
}
