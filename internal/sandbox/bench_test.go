package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"taskdaemon/internal/td"
)

// BenchmarkTrue measures Start and Wait of `true` beside the bare execution of the same shell, turn by
// turn in the same run, so that the ratio of the medians means something on any machine.
func BenchmarkTrue(b *testing.B) {
	for _, warm := range []int{0, 2} {
		b.Run(fmt.Sprintf("warm=%d", warm), func(b *testing.B) {
			s := open(b)
			s.Warm = warm
			if err := s.prepare(); err != nil {
				b.Fatal(err)
			}
			s.Preheat()
			cmd := command(b, "true")
			var bare, ours []time.Duration
			for b.Loop() {
				begin := time.Now()
				if err := exec.Command(s.shell, "-c", "true").Run(); err != nil {
					b.Fatal(err)
				}
				bare = append(bare, time.Since(begin))
				name := fmt.Sprintf("c%d", len(ours))
				begin = time.Now()
				wait(b, start(b, s, name, cmd))
				ours = append(ours, time.Since(begin))
				if err := s.Remove(name); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(median(bare).Microseconds()), "bare-µs")
			b.ReportMetric(float64(median(ours).Microseconds()), "ours-µs")
			b.ReportMetric(float64(median(ours))/float64(median(bare)), "ours/bare")
		})
	}
}

// BenchmarkConfined measures `true` in the sandbox as the daemon has it, beside the same command under the shim alone, turn by turn. The
// first command of a shim makes the mounts that the others copy; it is measured by itself.
func BenchmarkConfined(b *testing.B) {
	s := open(b)
	s.Warm, s.Nested = 2, true
	free := command(b, "true")
	boxed := command(b, "true")
	boxed.Profile = &Profile{
		Files: WorkspaceWrite, Network: NetworkFull, Required: true, Workspace: boxed.Dir, Cache: Caches(os.Getenv), Blank: Blanks(os.Getenv),
		See: Readable(os.Getenv), Hide: append(Hidden(os.Getenv), s.Dir),
	}
	var bare, ours, first []time.Duration
	turn := func(name string, cmd Command) time.Duration {
		begin := time.Now()
		if res := wait(b, start(b, s, name, cmd)); res.Exit != 0 {
			b.Fatalf("%s", res.Head)
		}
		took := time.Since(begin)
		if err := s.Remove(name); err != nil {
			b.Fatal(err)
		}
		return took
	}
	for b.Loop() {
		bare = append(bare, turn("free", free))
		ours = append(ours, turn("boxed", boxed))
		if len(ours)%10 == 0 {
			fresh := boxed
			fresh.Task = td.NewTaskID()
			first = append(first, turn("first", fresh))
		}
	}
	b.ReportMetric(float64(median(bare).Microseconds()), "shim-µs")
	b.ReportMetric(float64(median(ours).Microseconds()), "ours-µs")
	b.ReportMetric(float64(median(ours))/float64(median(bare)), "ours/shim")
	if len(first) > 0 {
		b.ReportMetric(float64(median(first))/float64(median(bare)), "first/shim")
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
