package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"taskdaemon/internal/td"
)

// terminal is a pseudo terminal: what is written to tty comes out of screen.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skip("there are no pseudo terminals here: ", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

func TestTheTerminalIsToldOfTheEnd(t *testing.T) {
	task := td.Task{Spec: td.Spec{Handle: "t-abc", Title: "make \x1b]2;evil\a tea"}, Live: td.Live{
		Status: td.Status{State: td.Failed, Failed: &td.FailedData{Error: "no water"}}, Turns: 3,
	}}
	const title = "\x1b]2;t-abc make tea: failed, 3 turns: no water\a"
	for name, c := range map[string]struct {
		config, term string
		json         bool
		want         string
	}{
		"as it is":      {want: title},
		"bell":          {config: "notify: {bell: true}\n", want: title + "\a"},
		"neither":       {config: "notify: {title: false}\n"},
		"dumb":          {config: "notify: {bell: true}\n", term: "dumb"},
		"for a program": {json: true},
		"bad config":    {config: "notify: {bell: loud}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			screen, tty := terminal(t)
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			a := &app{stdout: tty, config: file, json: c.json, environ: func() []string { return nil }, getenv: func(n string) string {
				if n == "TERM" {
					return c.term
				}
				return ""
			}}
			a.notify(task)
			if _, err := io.WriteString(tty, "|"); err != nil {
				t.Fatal(err)
			}
			if err := screen.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for buf := make([]byte, 256); !strings.HasSuffix(got.String(), "|"); {
				n, err := screen.Read(buf)
				if err != nil {
					t.Fatalf("after %q: %v", got.String(), err)
				}
				got.Write(buf[:n])
			}
			if got.String() != c.want+"|" {
				t.Errorf("got %q, want %q", got.String(), c.want)
			}
		})
	}
	var b strings.Builder
	(&app{stdout: &b}).notify(task)
	if b.Len() > 0 {
		t.Errorf("a pipe got %q", b.String())
	}
}
