package daemon

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/config"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
	"taskdaemon/internal/telemetry"
)

// TestOneRedactor teaches the daemon a secret while it runs, and finds it nowhere: neither in the journal, the mirror, the audit and the log, nor in what it answers and tells.
func TestOneRedactor(t *testing.T) {
	const late = "learned-while-it-ran-7391"
	dir, work := t.TempDir(), t.TempDir()
	told, secrets := filepath.Join(t.TempDir(), "told"), redact.New("known-from-the-beginning")
	log, closer, err := telemetry.Open(telemetry.Options{Path: filepath.Join(dir, "logs", "daemon.log"), Redact: secrets.Bytes})
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()
	l := startWith(t, dir, func(c *config.Config) { c.Notify.Command = `printf %s "$TASK_SENTENCE $TASK_TITLE" >> '` + told + `'` },
		func(o *Options) { o.Secrets, o.Log = secrets, log })
	secrets.Add(late)

	if err := os.WriteFile(filepath.Join(work, "file"), []byte("it is "+late+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log.Info("somebody says " + late)
	task, err := l.AddTask(t.Context(), api.AddTask{
		Prompt: "use " + late, Dir: work, Yes: true,
		Rehearsal: "turns:\n  - tools: [{name: Bash, input: {command: cat file}}]\n  - tools: [{name: Complete, input: {summary: done}}]\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	until(t, l, task.ID, td.Completed)
	clean := func(where, text string) {
		t.Helper()
		if strings.Contains(text, late) || !strings.Contains(text, "[redacted]") {
			t.Errorf("%s: %.2000s", where, text)
		}
	}
	var said strings.Builder
	for item, err := range l.Events(t.Context(), api.EventQuery{Refs: []string{task.Handle}}) {
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewEncoder(&said).Encode(item); err != nil {
			t.Fatal(err)
		}
	}
	clean("answers", said.String())
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if raw, err := os.ReadFile(told); err == nil && strings.Contains(string(raw), "use ") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nobody was told")
		}
	}
	if err := l.stop(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	clean("notification", string(raw))
	logged, err := os.ReadFile(filepath.Join(dir, "logs", "daemon.log"))
	if err != nil {
		t.Fatal(err)
	}
	clean("log", string(logged))
	mirrored, err := exec.Command("git", "--git-dir", filepath.Join(dir, "conversations.git"), "log", "--all", "-p").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, mirrored)
	}
	clean("mirror", string(mirrored))
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if strings.Contains(string(raw), late) {
			t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
