package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/llm/llmtest"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

const (
	commandRuns = 50
	shimRuns    = 200
)

// BenchmarkCommand measures commands from exec to exit, with the daemon running, beside /bin/true.
func BenchmarkCommand(b *testing.B) {
	h := newHouse(b, "turns: [{tools: [{name: Ask, input: {question: what now?}}]}]", llmtest.Options{})
	d := h.start()
	d.answers()
	for i := range 20 {
		d.add(api.AddTask{Prompt: fmt.Sprintf("task %d", i), Dir: h.workspace(i)}, td.Waiting)
	}
	for _, args := range []string{"status", "task list"} {
		b.Run(strings.ReplaceAll(args, " ", "-"), func(b *testing.B) {
			var ours, bare sample
			for range commandRuns {
				bare = append(bare, timed(b, exec.Command("/bin/true")))
				ours = append(ours, timed(b, h.program(strings.Fields(args)...)))
			}
			figures.add("taskdaemon "+args, fmt.Sprintf("%.1f × /bin/true", ours.at(0.5)/bare.at(0.5)),
				goal("≤ 30 ms", ours.at(0.5) <= 30), fmt.Sprintf("p50 / p95 %s; /bin/true %s", ours.both(), bare.both()))
			report(b, map[string]float64{
				"/true": ours.at(0.5) / bare.at(0.5), "p50-ms": ours.at(0.5), "p95-ms": ours.at(0.95),
				"true-p50-ms": bare.at(0.5), "true-p95-ms": bare.at(0.95),
			})
		})
	}
}

// BenchmarkShim measures one command under the shim beside the same shell alone, by turns: with a shim that
// waits for work, as a daemon keeps it, and with one that has to be started first.
func BenchmarkShim(b *testing.B) {
	for _, c := range []struct {
		name string
		warm int
	}{{"warm", 2}, {"cold", 0}} {
		b.Run(c.name, func(b *testing.B) {
			s := &sandbox.Spool{Dir: b.TempDir(), Self: binary, Warm: c.warm}
			defer s.Close()
			cmd := sandbox.Command{Shell: "true", Dir: b.TempDir(), Timeout: time.Minute, Task: td.NewTaskID(), Run: td.NewRunID()}
			var ours, bare sample
			for i := range shimRuns {
				bare = append(bare, timed(b, exec.Command(shell(), "-c", "true")))
				name := fmt.Sprintf("c%d", i)
				cmd.Step = td.StepKey(name)
				ours = append(ours, shimmed(b, s, name, cmd))
			}
			figures.add("`true` under a "+c.name+" shim", fmt.Sprintf("%.1f × bare", ours.at(0.5)/bare.at(0.5)), "",
				fmt.Sprintf("p50 / p95 %s; %s alone %s", ours.both(), shell(), bare.both()))
			report(b, map[string]float64{
				"/bare": ours.at(0.5) / bare.at(0.5), "p50-ms": ours.at(0.5), "p95-ms": ours.at(0.95),
				"bare-p50-ms": bare.at(0.5), "bare-p95-ms": bare.at(0.95),
			})
		})
	}
}

// BenchmarkSandbox measures one command in the sandbox beside the same command under the shim alone, by turns.
func BenchmarkSandbox(b *testing.B) {
	for _, c := range []struct {
		name    string
		network sandbox.Network
		repo    bool
	}{
		{"network full", sandbox.NetworkFull, false}, {"network off", sandbox.NetworkOff, false}, {"in a repository", sandbox.NetworkFull, true},
	} {
		b.Run(strings.ReplaceAll(c.name, " ", "-"), func(b *testing.B) {
			s := &sandbox.Spool{Dir: filepath.Join(b.TempDir(), "spool"), Self: binary, Warm: 2, Nested: true}
			defer s.Close()
			free := sandbox.Command{Shell: "true", Dir: b.TempDir(), Timeout: time.Minute, Task: td.NewTaskID(), Run: td.NewRunID()}
			if c.repo {
				if out, err := exec.Command("git", "init", "-q", free.Dir).CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
			}
			boxed := free
			boxed.Task = td.NewTaskID() // a shim of its own
			boxed.Profile = &sandbox.Profile{
				Files: sandbox.WorkspaceWrite, Network: c.network, Required: true, Workspace: free.Dir,
				Cache: sandbox.Caches(os.Getenv), Blank: sandbox.Blanks(os.Getenv), See: sandbox.Readable(os.Getenv), Hide: append(sandbox.Hidden(os.Getenv), filepath.Dir(s.Dir)),
				Limits: sandbox.Limits{Memory: 1 << 30, Processes: 1000, FileSize: 1 << 30},
			}
			var ours, bare sample
			for i := range shimRuns {
				free.Step, boxed.Step = td.StepKey(fmt.Sprintf("f%d", i)), td.StepKey(fmt.Sprintf("b%d", i))
				bare = append(bare, shimmed(b, s, string(free.Step), free))
				ours = append(ours, shimmed(b, s, string(boxed.Step), boxed))
			}
			more := ours.at(0.5) - bare.at(0.5)
			figures.add("`true` in the sandbox, "+c.name, fmt.Sprintf("%.1f × the shim alone", ours.at(0.5)/bare.at(0.5)),
				goal("≤ 3 ms more", more <= 3), fmt.Sprintf("p50 / p95 %s; the shim alone %s", ours.both(), bare.both()))
			report(b, map[string]float64{
				"/shim": ours.at(0.5) / bare.at(0.5), "more-ms": more, "p50-ms": ours.at(0.5), "p95-ms": ours.at(0.95),
				"shim-p50-ms": bare.at(0.5), "shim-p95-ms": bare.at(0.95),
			})
		})
	}
}

func timed(b *testing.B, cmd *exec.Cmd) time.Duration {
	b.Helper()
	begun := time.Now()
	err := cmd.Run()
	took := time.Since(begun)
	if err != nil {
		b.Fatalf("%s: %v", cmd, err)
	}
	return took
}

// shimmed starts the command, waits for it and, off the clock, forgets it.
func shimmed(b *testing.B, s *sandbox.Spool, name string, cmd sandbox.Command) time.Duration {
	b.Helper()
	begun := time.Now()
	p, err := s.Start(b.Context(), name, cmd)
	if err != nil {
		b.Fatal(err)
	}
	res, err := p.Wait(b.Context(), nil)
	took := time.Since(begun)
	if err != nil || res.Exit != 0 {
		b.Fatalf("%s ended with %d (%v)", name, res.Exit, err)
	}
	if err := s.Remove(name); err != nil {
		b.Fatal(err)
	}
	return took
}
