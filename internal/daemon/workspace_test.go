package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Work lands by itself in no checkout that is, holds or lies in what the person's programs or taskdaemon read, by whatever link.
func TestKeepsOut(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string) string { return filepath.Join(base, path) }
	for _, dir := range []string{"home/.config", "home/dots/td", "home/single", "home/work", "home/.config/taskdaemon/hooks", "state/sub", "home/binaries"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"whole":                               at("home/dots/td"),
		"home/.config/taskdaemon/config.yaml": at("home/single/td.yaml"), // which is not there yet
		"home/bin":                            at("home/binaries"),
		"elsewhere":                           at("home"),
	} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	plain := Options{Getenv: func(name string) string { return map[string]string{"HOME": at("home")}[name] }, UserDir: at("home/.config/taskdaemon"), StateDir: at("state")}
	linked := plain
	linked.UserDir = at("whole")
	for _, c := range []struct {
		o    Options
		dir  string
		want string
	}{
		{plain, "home", "it is your home folder"},
		{plain, "elsewhere", "it is your home folder"},
		{plain, "", "it holds your home folder"},
		{plain, "home/.config", "it is where your programs"},
		{plain, "home/binaries", "it is where your programs"},
		{plain, "home/.config/taskdaemon", "it is where taskdaemon keeps its settings"},
		{plain, "home/.config/taskdaemon/hooks", "it lies in a folder of taskdaemon's own"},
		{plain, "home/single", "it holds settings of taskdaemon"},
		{plain, "state/sub", "it lies in a folder of taskdaemon's own"},
		{linked, "home/dots", "it holds where taskdaemon keeps its settings"},
		{plain, "home/dots", ""},
		{plain, "home/work", ""},
	} {
		if got := c.o.keepsOut(at(c.dir)); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.dir, got, c.want)
		}
	}
}
