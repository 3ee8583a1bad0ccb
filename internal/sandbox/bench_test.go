package sandbox

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"
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

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
