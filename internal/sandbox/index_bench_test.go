package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// BenchmarkReadIndex reads the index of 5,000 files, as after each command in such a repository, against reading its bytes alone.
func BenchmarkReadIndex(b *testing.B) {
	dir := b.TempDir()
	for i := range 5000 {
		if err := os.WriteFile(fmt.Sprintf("%s/file-of-some-length-%d", dir, i), nil, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if out, err := exec.Command("sh", "-c", "cd "+dir+" && git init -q && git add .").CombinedOutput(); err != nil {
		b.Skipf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(dir + "/.git/index")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := readIndex(raw, 40); err != nil {
			b.Fatal(err)
		}
	}
	ours := b.Elapsed() / time.Duration(b.N)
	began := time.Now()
	const times = 100
	for range times {
		if _, err := os.ReadFile(dir + "/.git/index"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(ours)/float64(time.Since(began)/times), "ours/read")
}
