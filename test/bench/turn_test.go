package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/llm/rehearsal"
)

const (
	turns      = 200
	turnRounds = 3
)

// BenchmarkTurn measures what a turn costs beside the model: from the last byte of an answer to the first
// byte of the next request, as the model's server sees it, while one task makes 200 turns and everything
// goes to disk. A bare client makes the same turns before and after. The sandbox has a goal of its own, 3 ms,
// which the turn with it may take on top. In a repository the task has a worktree of its own, as tasks there have
// by default, and each turn with Bash has its snapshot.
func BenchmarkTurn(b *testing.B) {
	for _, c := range []struct {
		name, tool, input string
		sandbox           string
		files             int     // of the repository around it; 0: none
		goal              float64 // milliseconds, p50
	}{
		{"Read", "Read", "{path: " + smallFile + "}", "off", 0, 1.5},
		{"Bash", "Bash", "{command: 'true'}", "off", 0, 5},
		{"Bash in the sandbox", "Bash", "{command: 'true'}", "required", 0, 8},
		{"Read in a repository", "Read", "{path: " + smallFile + "}", "required", worktreeFiles, 1.2},
		{"Bash in a repository, in the sandbox", "Bash", "{command: 'true'}", "required", worktreeFiles, 5},
		{"Bash that writes in a repository, in the sandbox", "Bash", "{command: 'echo >>" + smallFile + "'}", "required", worktreeFiles, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			script := fmt.Sprintf(`
turns:
  - {repeat: %d, tools: [{name: %s, input: %s}]}
  - tools: [{name: Complete, input: {summary: done}}]
`, turns, c.tool, c.input)
			h := newHouse(b, script, llmtest.Options{}, "limits: {turns: 1000}", "drift: {repeats: 0}",
				"sandbox: {mode: "+c.sandbox+"}")
			d := h.start()
			d.answers()
			dir := h.workspace(0)
			if c.files > 0 {
				dir = codebase(b, c.files)
			}
			var bare, ours sample
			var ratios []float64
			bareTurns(b, script, dir) // warms up
			for range turnRounds {
				floor := bareTurns(b, script, dir)
				from := len(h.model.Exchanges())
				if _, err := h.svc.AddTask(b.Context(), api.AddTask{Prompt: "do it", Dir: dir, Yes: true}); err != nil {
					b.Fatal(err)
				}
				d.until("all turns are made", 20*time.Millisecond, func(context.Context) bool {
					return len(h.model.Exchanges()) == from+turns+1
				})
				d.idle()
				got := gaps(b, h.model.Exchanges()[from:])
				bare, ours = append(bare, floor...), append(ours, got...)
				ratios = append(ratios, got.at(0.5)/floor.at(0.5))
			}
			wanted := ""
			if c.goal > 0 {
				wanted = goal(fmt.Sprintf("p50 ≤ %.1f ms", c.goal), ours.at(0.5) <= c.goal)
			}
			figures.add("overhead per turn, "+c.name, fmt.Sprintf("%.1f × bare", median(ratios)), wanted,
				fmt.Sprintf("p50 / p95 %s; bare client that stores nothing %s", ours.both(), bare.both()))
			report(b, map[string]float64{
				"/bare": median(ratios), "p50-ms": ours.at(0.5), "p95-ms": ours.at(0.95),
				"bare-p50-ms": bare.at(0.5), "bare-p95-ms": bare.at(0.95),
			})
		})
	}
}

// bareTurns lets the bare client, a process of its own as the daemon is, play the script.
func bareTurns(b *testing.B, script, dir string) sample {
	b.Helper()
	s, err := rehearsal.Parse([]byte(script))
	if err != nil {
		b.Fatal(err)
	}
	server := llmtest.NewServer(llmtest.Options{Script: s, Fast: true})
	defer server.Close()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command(self, bareArg, server.URL, dir).CombinedOutput(); err != nil {
		b.Fatalf("bare client: %v\n%s", err, out)
	}
	return gaps(b, server.Exchanges())
}

// gaps are the times between answers and the requests that follow them.
func gaps(b *testing.B, exchanges []llmtest.Exchange) sample {
	b.Helper()
	if len(exchanges) != turns+1 {
		b.Fatalf("%d requests; want %d", len(exchanges), turns+1)
	}
	var out sample
	for i, e := range exchanges[1:] {
		out = append(out, e.Asked.Sub(exchanges[i].Answered))
	}
	return out
}
