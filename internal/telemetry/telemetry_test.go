package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func redactHush(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`hu"sh`), []byte("***")) }

func TestLinesAreJSONAndRedacted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "daemon.log")
	var text bytes.Buffer
	log, closer, err := Open(Options{Path: path, Redact: redactHush, Text: &text})
	if err != nil {
		t.Fatal(err)
	}
	log.With("task", "t-1").Info(`said hu"sh`, "key", `hu"sh`, "err", fmt.Errorf("no: %w", errors.New(`hu"sh`)))
	log.Debug("too fine")
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(raw, &line); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if line["msg"] != "said ***" || line["key"] != "***" || line["err"] != "no: ***" || line["task"] != "t-1" {
		t.Errorf("line is %s", raw)
	}
	if got := text.String(); !strings.HasSuffix(got, `info said ***  task=t-1 key=*** err="no: ***"`+"\n") {
		t.Errorf("text is %q", got)
	}
	info, _ := os.Stat(path)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("log has mode %v", info.Mode())
	}
}

func TestRotationKeepsThreeAndTearsNoLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "daemon.log")
	log, closer, err := Open(Options{Path: path, MaxSize: 2000})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 100 {
				log.Info("line", "writer", w, "i", i)
			}
		})
	}
	wg.Wait()
	if err := closer.Close(); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(path + "*")
	if len(files) != 1+Kept {
		t.Errorf("files are %v", files)
	}
	for _, f := range files {
		raw, _ := os.ReadFile(f)
		if len(raw) > 2000 {
			t.Errorf("%s has %d bytes", f, len(raw))
		}
		for line := range strings.Lines(string(raw)) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s has a torn line %q", f, line)
			}
		}
	}
}

func TestLogIsAppendedToAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "daemon.log")
	for range 2 {
		log, closer, err := Open(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		log.Info("started")
		closer.Close()
	}
	if raw, _ := os.ReadFile(path); strings.Count(string(raw), "started") != 2 {
		t.Errorf("log is %q", raw)
	}
}

func TestLevels(t *testing.T) {
	if l, err := Level("warn"); l != slog.LevelWarn || err != nil {
		t.Errorf("warn is %v, %v", l, err)
	}
	if _, err := Level("loud"); err == nil {
		t.Error("loud is a level")
	}
}
