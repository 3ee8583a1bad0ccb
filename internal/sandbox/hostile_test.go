package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestNothingIsLeftBehind runs commands that try to leave something behind. Each writes the pid of what
// it leaves to a file; the command must end at once and that process with it.
func TestNothingIsLeftBehind(t *testing.T) {
	for name, script := range map[string]string{
		"background child":        "sleep 61 & echo $! > pid",
		"holds the pipe open":     "(trap '' TERM HUP; echo $BASHPID > pid; sleep 61; sleep 61) & until [ -s pid ]; do :; done",
		"own session":             "setsid sh -c 'echo $$ > pid; exec sleep 61' & until [ -s pid ]; do :; done",
		"double fork":             "( setsid sh -c '(echo $$ > pid; exec sleep 61) & exit' & ) ; until [ -s pid ]; do :; done",
		"no output, own session":  "setsid sh -c 'exec >/dev/null 2>&1 </dev/null; echo $$ > pid; exec sleep 61' & until [ -s pid ]; do :; done",
		"cleaned its environment": "env -i setsid /bin/sh -c 'echo $$ > pid; exec sleep 61' & until [ -s pid ]; do :; done",
		"ignores every signal":    "setsid bash -c 'trap \"\" TERM INT HUP QUIT; echo $$ > pid; while :; do sleep 61; done' & until [ -s pid ]; do :; done",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			cmd := command(t, script)
			begin := time.Now()
			res := wait(t, start(t, s, "cmd", cmd))
			if took := time.Since(begin); took > 30*time.Second || res.TimedOut {
				t.Errorf("took %v: %+v", took, res)
			}
			raw, err := os.ReadFile(filepath.Join(cmd.Dir, "pid"))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			if err != nil {
				t.Fatal(err)
			}
			if st, err := readStat(pid); err == nil && !st.dead() {
				t.Errorf("process %d is still there: %+v", pid, st)
			}
		})
	}
}

func TestForkFlood(t *testing.T) {
	for name, script := range map[string]string{
		"wide":              "for i in $(seq 200); do (sleep 61; sleep 61) & done",
		"chain":             "f() { ( f & ) ; }; f & sleep 0.2", // each starts the next and exits
		"chain of sessions": "echo 'setsid sh ./next & exit' > next; for i in 1 2 3; do sh ./next; done; sleep 0.2",
		"tree":              "f() { [ $1 -gt 0 ] && { f $(($1-1)) & f $(($1-1)) & wait; }; sleep 61; }; f 6 & sleep 0.2",
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			res := run(t, open(t), script)
			if took := time.Since(begin); took > 45*time.Second || res.Exit != 0 {
				t.Errorf("took %v: %+v", took, res)
			}
		})
	}
}

func TestFloodOfOutput(t *testing.T) {
	for name, script := range map[string]string{
		"no newline": "head -c 300000000 /dev/zero",
		"lines":      "yes | head -c 300000000",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			res := run(t, s, script)
			if res.Exit != 0 || len(res.Head) != headSize || len(res.Tail) != tailSize || res.Omitted != 300_000_000-headSize-tailSize {
				t.Errorf("got exit %d, head %d, tail %d, omitted %d", res.Exit, len(res.Head), len(res.Tail), res.Omitted)
			}
			if info, err := os.Stat(filepath.Join(s.Dir, "cmd", outFile)); err != nil || info.Size() != OutputCap {
				t.Errorf("on disk: %v, %v", info.Size(), err)
			}
		})
	}
}

func TestGigabyteOfOutput(t *testing.T) {
	size := 1 << 30
	if testing.Short() {
		size >>= 4
	}
	res := run(t, open(t), fmt.Sprintf("head -c %d /dev/zero", size))
	if res.Exit != 0 || res.Omitted != int64(size-headSize-tailSize) {
		t.Errorf("got exit %d, omitted %d", res.Exit, res.Omitted)
	}
}

func TestEndlessOutputIsCutByTheLimit(t *testing.T) {
	cmd := command(t, "tr '\\0' x < /dev/zero")
	cmd.Timeout = 300 * time.Millisecond
	begin := time.Now()
	res := wait(t, start(t, open(t), "cmd", cmd))
	if !res.TimedOut || res.Omitted == 0 || time.Since(begin) > time.Minute {
		t.Errorf("took %v, omitted %d, timed out %v", time.Since(begin), res.Omitted, res.TimedOut)
	}
}

func TestRecorderKeepsTheTail(t *testing.T) {
	for _, total := range []int{0, 1, headSize - 1, headSize, headSize + 1, headSize + tailSize, headSize + tailSize + 1, 5*tailSize + 77} {
		for _, chunk := range []int{1 << 10, 1000, 65536, 1 << 20} {
			f, err := os.Create(filepath.Join(t.TempDir(), "out"))
			if err != nil {
				t.Fatal(err)
			}
			all := make([]byte, total)
			for i := range all {
				all[i] = byte(i * 7 / 3)
			}
			r := &recorder{file: f}
			for rest := all; len(rest) > 0; {
				k := min(chunk, len(rest))
				if _, err := r.Write(rest[:k]); err != nil {
					t.Fatal(err)
				}
				rest = rest[k:]
			}
			var res ProcessResult
			r.result(&res)
			head := all[:min(total, headSize)]
			tail := all[max(len(head), total-tailSize):]
			if !bytes.Equal(res.Head, head) || !bytes.Equal(res.Tail, tail) || res.Omitted != int64(total-len(head)-len(tail)) {
				t.Errorf("%d bytes in chunks of %d: head %d, tail %d, omitted %d", total, chunk, len(res.Head), len(res.Tail), res.Omitted)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestSpoolFolderIsDestroyed lets a command remove the folder it is recorded in: nothing can be written
// any more, and a living daemon is told all the same.
func TestSpoolFolderIsDestroyed(t *testing.T) {
	res := run(t, open(t), `rm -rf "$TASKDAEMON_SPOOL"/cmd; echo "$PWD" | head -c 1; head -c 200000 /dev/zero; exit 9`)
	if res.Exit != 9 || len(res.Head) != headSize || res.Head[0] != '/' || len(res.Tail) != tailSize {
		t.Errorf("got exit %d, head %d, tail %d", res.Exit, len(res.Head), len(res.Tail))
	}
}
