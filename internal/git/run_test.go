package git

import (
	"context"
	"os"
	"testing"

	"taskdaemon/internal/td"
)

// What git finds in its environment must not lead it elsewhere, and no hook may run.
func TestEnvironmentIsClean(t *testing.T) {
	dir := checkout(t)
	other := checkout(t)
	write(t, other+"/extra", "1")
	t.Setenv("GIT_DIR", other+"/.git")
	t.Setenv("GIT_WORK_TREE", other)
	t.Setenv("GIT_INDEX_FILE", other+"/.git/index")
	t.Setenv("GIT_OBJECT_DIRECTORY", "/nonexistent")
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	write(t, dir+"/.git/hooks/reference-transaction", "#!/bin/sh\necho ran >> "+dir+"/.git/ran\n")
	if err := os.Chmod(dir+"/.git/hooks/reference-transaction", 0o700); err != nil {
		t.Fatal(err)
	}
	if info, err := Describe(t.Context(), dir); err != nil || info.Top != dir {
		t.Errorf("%+v, %v", info, err)
	}
	if _, _, err := Snapshot(t.Context(), dir, "t-1", "m"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir + "/.git/ran"); err == nil {
		t.Error("a hook ran")
	}
}

func TestNoGit(t *testing.T) {
	dir := checkout(t)
	t.Setenv("PATH", t.TempDir())
	if info, err := Describe(t.Context(), t.TempDir()); err != nil || info.Repo {
		t.Errorf("a folder that is in no repository: %v", err)
	}
	_, err := Describe(t.Context(), dir)
	if !td.IsKind(err, td.Unavailable) || td.HintOf(err) == "" {
		t.Errorf("%v, hint %q", err, td.HintOf(err))
	}
}

func TestCancelledCallEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Describe(ctx, checkout(t)); !td.IsKind(err, td.Interrupted) {
		t.Errorf("%v", err)
	}
}

func TestDurability(t *testing.T) {
	for version, want := range map[string]string{
		"git version 2.39.5\n":                 syncAll,
		"git version 2.36.0":                   syncAll,
		"git version 2.35.8":                   syncObjects,
		"git version 1.9.1":                    syncObjects,
		"git version 3.0.0-rc1":                syncAll,
		"git version 2.39.3 (Apple Git-146)\n": syncAll,
		"nonsense":                             syncAll,
	} {
		if got := durabilityOf(version); got != want {
			t.Errorf("%q: %s, want %s", version, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	for said, want := range map[string]td.Kind{
		"fatal: not a git repository: 'x'":                                       td.NotFound,
		"fatal: Unable to create 'x/packed-refs.lock': File exists.":             td.Locked,
		"fatal: cannot lock ref 'x/y': unable to create directory for x/y":       td.Locked,
		"fatal: cannot lock ref 'x/y': is at 1 but expected 2":                   td.Conflict,
		"fatal: unable to write file: No space left on device":                   td.Storage,
		"warning: Not updating refs/heads/a (new tip 1 does not contain 2)":      td.Conflict,
		"fatal: loose object 1 (stored in objects/1) is corrupt":                 td.Corrupt,
		"fatal: detected dubious ownership in repository at '/home/someone/src'": td.Refused,
		"fatal: something else":                                                  td.Internal,
	} {
		if kind, _ := judge(said); kind != want {
			t.Errorf("%q: %s, want %s", said, kind, want)
		}
	}
}
