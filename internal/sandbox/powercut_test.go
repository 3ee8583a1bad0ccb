package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"taskdaemon/internal/disk/disktest"
)

// TestResultOutlastsThePower cuts the power as soon as the daemon knows how a command ended: from then on its spool folder
// must say so, with all the output that is kept.
func TestResultOutlastsThePower(t *testing.T) {
	if !disktest.Inside(t) {
		return
	}
	d := disktest.New(t, 64)
	s := openAt(t, filepath.Join(d.Dir, "spool"))
	const size = headSize + tailSize + 1000 // more than a result holds
	p := start(t, s, "cmd", command(t, "head -c 66536 /dev/zero | tr '\\0' x; exit 5"))
	if res := wait(t, p); res.Exit != 5 || res.Omitted != size-headSize-tailSize {
		t.Fatalf("got exit %d, %d omitted", res.Exit, res.Omitted)
	}
	d.Cut(t)
	s.Close() // its shim has nothing open any more
	d.Again(t)

	dir := filepath.Join(s.Dir, "cmd")
	res, err := load(dir, resultFile, decodeResult)
	if err != nil || res.Exit != 5 || len(res.Head) != headSize {
		t.Errorf("the result is exit %d with %d bytes, %v", res.Exit, len(res.Head), err)
	}
	out, err := os.ReadFile(filepath.Join(dir, outFile))
	if err != nil || len(out) != size {
		t.Errorf("of the output %d bytes are left, %v", len(out), err)
	}
	if _, state, err := openAt(t, s.Dir).Find("cmd"); state != Finished || err != nil {
		t.Errorf("found %v, %v", state, err)
	}
}
