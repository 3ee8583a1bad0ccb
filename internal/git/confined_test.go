package git

import (
	"testing"
	"time"
)

// BenchmarkConfined prints what a git costs in its view, against one that is started as it is: the ratio is the price of confinement.
func BenchmarkConfined(b *testing.B) {
	dir := b.TempDir()
	user(b, dir, "init", "-q", "-b", "main")
	write(b, dir+"/main.go", "package main\n")
	user(b, dir, "add", "-A")
	user(b, dir, "commit", "-q", "-m", "first")
	real, err := binary()
	if err != nil {
		b.Fatal(err)
	}
	look := func(program string) time.Duration {
		standIn = program
		defer func() { standIn = "" }()
		begin := time.Now()
		if _, err := RefAt(b.Context(), dir, "HEAD"); err != nil {
			b.Fatal(err)
		}
		return time.Since(begin)
	}
	look("")
	look(real)
	var confined, free time.Duration
	n := 0
	for b.Loop() {
		confined += look("")
		free += look(real)
		n++
	}
	b.ReportMetric(float64(confined)/float64(free), "x")
	b.ReportMetric(float64(confined.Microseconds())/float64(n), "µs/confined")
	b.ReportMetric(float64(free.Microseconds())/float64(n), "µs/free")
}
