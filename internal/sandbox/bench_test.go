package sandbox

import (
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// BenchmarkTrue measures Start and Wait of `true` beside the bare execution of the same shell, turn by
// turn in the same run, so that the ratio means something on any machine.
func BenchmarkTrue(b *testing.B) {
	for _, warm := range []bool{false, true} {
		b.Run(fmt.Sprintf("warm=%v", warm), func(b *testing.B) {
			s := open(b)
			s.Warm = warm
			if err := s.prepare(); err != nil {
				b.Fatal(err)
			}
			s.Preheat()
			cmd := command(b, "true")
			var bare, ours time.Duration
			n := 0
			for b.Loop() {
				begin := time.Now()
				if err := exec.Command(s.shell, "-c", "true").Run(); err != nil {
					b.Fatal(err)
				}
				bare += time.Since(begin)
				name := fmt.Sprintf("c%d", n)
				begin = time.Now()
				wait(b, start(b, s, name, cmd))
				ours += time.Since(begin)
				if err := s.Remove(name); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(bare.Microseconds())/float64(n), "bare-µs")
			b.ReportMetric(float64(ours.Microseconds())/float64(n), "ours-µs")
			b.ReportMetric(float64(ours)/float64(bare), "ours/bare")
		})
	}
}
