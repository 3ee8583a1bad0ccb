package sandbox

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func FuzzDecodeSpec(f *testing.F) {
	f.Add([]byte(`{"id":"x","boot":"b","shell":"/bin/sh","timeout":1}`))
	f.Add([]byte(`{"id":"x","boot":"b","shell":"/bin/sh","timeout":1e99}`))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := decodeSpec(raw); err == nil && (s.ID == "" || s.Timeout <= 0) {
			t.Errorf("%q gave %+v", raw, s)
		}
	})
}

func FuzzDecodeResult(f *testing.F) {
	f.Add([]byte(`{"exit":1,"took":5,"head":"YQ==","omitted":3}`))
	f.Add([]byte(`{"exit":256}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := decodeResult(raw); err == nil && (r.Exit < 0 || r.Exit > 255 || r.Omitted < 0 || len(r.Head) > headSize) {
			t.Errorf("%q gave %+v", raw, r)
		}
	})
}

func FuzzDecodeHolder(f *testing.F) {
	f.Add([]byte(`{"host":"h","boot":"b","pid":2,"start":"1"}`))
	f.Add([]byte(`{"pid":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if h, err := decodeHolder(raw); err == nil && h.Pid <= 1 {
			t.Errorf("%q would be signalled: %+v", raw, h)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (a) b) c) S 0 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 99 1 1"))
	f.Add([]byte("1 () "))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := parseStat(raw); err == nil && s.start == "" {
			t.Errorf("%q gave %+v", raw, s)
		}
	})
}

// FuzzProbe puts anything into the files of a folder: it must be read without a panic, and without being
// taken for something that runs.
func FuzzProbe(f *testing.F) {
	f.Add([]byte("{"), []byte("{}"), []byte("{"), true, false)
	f.Add([]byte(`{"id":"x","boot":"b","shell":"/bin/sh","timeout":1}`), []byte(""), []byte(`{"exit":0}`), false, true)
	f.Fuzz(func(t *testing.T, spec, lock, result []byte, started, hasResult bool) {
		dir := t.TempDir()
		files := map[string][]byte{specFile: spec, lockFile: lock}
		if hasResult {
			files[resultFile] = result
		}
		if started {
			files[startedFile] = nil
		}
		for name, raw := range files {
			if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		switch state, _ := probe(dir, true); {
		case state == StillRunning:
			t.Error("nothing runs")
		case state == NeverStarted && (started || hasResult):
			t.Error("it may have run")
		}
		_, _, _ = readOutput(dir, 0, 10)
		_, _ = list(filepath.Dir(dir))
	})
}

func FuzzStatm(f *testing.F) {
	f.Add([]byte("1000 500 200 1 0 300 0\n"))
	f.Add([]byte("x"))
	f.Add([]byte("1 2 99999999999999999999"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if parseStatm(raw) < 0 {
			t.Error("negative")
		}
	})
}

func FuzzShared(f *testing.F) {
	f.Add([]byte("MemTotal: 24681472 kB\nShmem: 12 kB\nSwapTotal: 1 kB\nSwapFree: 2 kB\n"))
	f.Add([]byte("7f2a00000000-7f2a40000000 rw-s 00000000 00:01 1026 /dev/zero (deleted)\nPss: 512 kB\nPss:\nPss: -1 kB\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if m := parseMeminfo(raw); m.total < 0 || m.available < 0 || m.shared < 0 || m.swapped < 0 {
			t.Errorf("negative: %+v", m)
		}
		if sumMapped(bufio.NewScanner(bytes.NewReader(raw)), unix.Mkdev(0, 1), nil, false, time.Now().Add(time.Minute)) < 0 {
			t.Error("negative")
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add([]byte("HTTP/1.1 403 taskdaemon: no\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 200 OK\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if why, ok := refusal(raw); ok && (strings.ContainsAny(why, "\r\n") || !utf8.ValidString(why)) {
			t.Errorf("%q", why)
		}
	})
}
