package memory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// open opens the learnings of a new project.
func open(t *testing.T) (*Store, string) {
	t.Helper()
	project := t.TempDir()
	return reopen(t, project, ""), project
}

func reopen(t *testing.T, project, index string) *Store {
	t.Helper()
	s, err := Open(Options{Project: project, Index: index, Redact: redact.New("hunter2hunter2"), Now: func() time.Time { return noon }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func add(t *testing.T, s *Store, l Learning) Learning {
	t.Helper()
	l, _, err := s.Add(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func write(t *testing.T, project, name, content string) string {
	t.Helper()
	path := filepath.Join(project, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func root(t *testing.T, dir string) *beneath.Folder {
	t.Helper()
	r, err := beneath.OpenResolved(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// titles are the learnings found, in order.
func titles(t *testing.T, found []Match, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, m := range found {
		out = append(out, m.Title)
	}
	return strings.Join(out, ", ")
}

func wantKind(t *testing.T, err error, kind td.Kind, says string) {
	t.Helper()
	if !td.IsKind(err, kind) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v (%s), want %s with %q", err, td.KindOf(err), kind, says)
	}
}

func snapshot(t *testing.T, project string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(project, Folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = string(src)
	}
	return out
}

func TestAddWritesAFilePeopleCanRead(t *testing.T) {
	s, project := open(t)
	l := add(t, s, Learning{
		Title: "Config parser: arrays only", Text: "It expects arrays.\r\n\r\nNot objects, and the key hunter2hunter2 stays out.\n",
		Tags: []string{"Parser", "config", "parser"}, Feature: "config", Sources: []string{"brave-otter"},
		Files: []File{{Path: "./internal/config/file.go", Hash: strings.Repeat("12", 32)}},
	})
	want := `---
title: "Config parser: arrays only"
tags: [config, parser]
feature: config
sources: [brave-otter]
files:
  - path: internal/config/file.go
    hash: "` + strings.Repeat("12", 32) + `"
created_at: 2026-01-02T12:00:00Z
---

It expects arrays.

Not objects, and the key [redacted] stays out.
`
	if diff := cmp.Diff(map[string]string{l.ID + ".md": want}, snapshot(t, project)); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(l.ID, "config-parser-arrays-only-") {
		t.Errorf("id %q", l.ID)
	}
	got, err := s.Get(t.Context(), "config-parser")
	if diff := cmp.Diff(l, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestAddRefuses(t *testing.T) {
	s, project := open(t)
	for _, c := range []struct {
		l    Learning
		says string
	}{
		{Learning{Title: "x", Text: " \n"}, "no text"},
		{Learning{Text: strings.Repeat("x", maxText+1)}, "limit"},
		{Learning{Text: "x", Files: []File{{Path: "../up"}}}, "inside the project"},
		{Learning{Text: "x", Files: []File{{Path: "/etc/passwd"}}}, "inside the project"},
		{Learning{Text: "x", Files: []File{{Path: "a", Hash: "12"}}}, "SHA-256"},
	} {
		_, _, err := s.Add(t.Context(), c.l)
		wantKind(t, err, td.Invalid, c.says)
	}
	if got := snapshot(t, project); len(got) != 0 {
		t.Errorf("it wrote %v", got)
	}
}

func TestAddAgainChangesNothing(t *testing.T) {
	s, project := open(t)
	write(t, project, "a.go", "package a")
	for _, l := range []Learning{
		{Title: "Flaky test", Text: "The clock was read twice.", Tags: []string{"test", "time"}, Sources: []string{"one"}},
		{Title: "flaky tests", Text: "Use synctest.", Sources: []string{"two"}},                                                               // the same title
		{Title: "Clock", Text: "The clock was read twice, in a test.", Tags: []string{"time", "test"}, Sources: []string{"three"}},            // alike
		{Title: "Elsewhere", Text: "  the clock WAS read twice.", Tags: []string{"zebra"}, Files: []File{{Path: "a.go"}}},                     // the same paragraph
		{Title: "Something else", Text: "```\ngo test\n\ngo vet\n```\n\nBoth must pass.", CreatedAt: noon.Add(time.Hour), Feature: "release"}, // new
	} {
		if _, done, err := s.Probe(t.Context(), l); err != nil || done {
			t.Fatalf("%s: done before it was: %v", l.Title, err)
		}
		first := add(t, s, l)
		before := snapshot(t, project)
		if there, done, err := s.Probe(t.Context(), l); err != nil || !done || !same(there, first) {
			t.Errorf("%s: not found done: %v", l.Title, err)
		}
		again, merged, err := s.Add(t.Context(), l)
		if err != nil || !merged || !cmp.Equal(again, first) {
			t.Errorf("%s: again: %+v, %v, %v", l.Title, again, merged, err)
		}
		if diff := cmp.Diff(before, snapshot(t, project)); diff != "" {
			t.Errorf("%s: %s", l.Title, diff)
		}
	}
	all, problems, err := s.List(t.Context())
	if err != nil || len(problems) != 0 || len(all) != 2 {
		t.Fatalf("%d learnings, %v, %v", len(all), problems, err)
	}
	if want := "The clock was read twice.\n\nUse synctest.\n\nThe clock was read twice, in a test."; all[1].Text != want {
		t.Errorf("merged text %q", all[1].Text)
	}
	if got := strings.Join(all[1].Sources, " "); got != "one two three" {
		t.Errorf("sources %q", got)
	}
}

func TestDifferentLearningsStayApart(t *testing.T) {
	s, _ := open(t)
	for _, l := range []Learning{
		{Title: "Rate limit", Text: "The API allows 100 requests a minute.", Tags: []string{"api"}},
		{Title: "Retries", Text: "The API wants Retry-After honoured.", Tags: []string{"api"}},
		{Title: "Setup", Text: "Install the tools first.\n\nThen make generate writes the stubs for every service."},
		{Title: "Deployment", Text: "Install the tools first.\n\nA canary takes ten minutes before the rollout."}, // one paragraph in common
		{Title: "Limits of a", Text: "Uploads are limited to 5 MiB by the proxy.", Feature: "a", Tags: []string{"x"}},
		{Title: "Limits of b", Text: "Uploads are limited to 7 MiB by the proxy.", Feature: "b", Tags: []string{"x"}},
	} {
		if _, merged, err := s.Add(t.Context(), l); merged || err != nil {
			t.Errorf("%s: merged %v, %v", l.Title, merged, err)
		}
	}
}

func TestAFullLearningGetsASecond(t *testing.T) {
	s, project := open(t)
	long := func(c string) string { return strings.Repeat(c+" ", maxText/2-1) }
	for _, c := range []string{"a", "b", "c"} {
		l := Learning{Title: "Same title", Text: long(c)}
		first := add(t, s, l)
		if again := add(t, s, l); again.ID != first.ID {
			t.Errorf("%s went to %s, then to %s", c, first.ID, again.ID)
		}
	}
	if n := len(snapshot(t, project)); n != 2 {
		t.Errorf("%d files, want 2", n)
	}
}

func TestMergeKeepsWhatOthersWroteInTheFile(t *testing.T) {
	s, project := open(t)
	write(t, project, Folder+"/by hand.md", "---\naliases: [x]  # for the editor\ntitle: By hand\nnested:\n  a: 1\n---\n\nMine.\n")
	l, merged, err := s.Add(t.Context(), Learning{Title: "By hand", Text: "Theirs.", Tags: []string{"t"}})
	if err != nil || !merged || l.ID != "by hand" {
		t.Fatalf("%+v, %v, %v", l, merged, err)
	}
	want := "---\ntitle: By hand\ntags: [t]\ncreated_at: 2026-01-02T12:00:00Z\naliases: [x]  # for the editor\nnested:\n  a: 1\n---\n\nMine.\n\nTheirs.\n"
	if got := snapshot(t, project)["by hand.md"]; got != want {
		t.Errorf("got %q", got)
	}
}

func TestRemove(t *testing.T) {
	s, project := open(t)
	if _, err := s.Remove(t.Context(), "x"); !td.IsKind(err, td.NotFound) {
		t.Errorf("without a folder: %v", err)
	}
	l := add(t, s, Learning{Title: "Gone soon", Text: "It goes."})
	add(t, s, Learning{Title: "Gone later", Text: "Stays for now."})
	write(t, project, Folder+"/broken.md", "no front matter")
	_, err := s.Remove(t.Context(), "gone")
	wantKind(t, err, td.Ambiguous, "gone-later")
	_, err = s.Get(t.Context(), "broken")
	wantKind(t, err, td.Corrupt, "broken")
	for _, id := range []string{"gone-soon", "broken"} {
		if _, err := s.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	_, err = s.Remove(t.Context(), l.ID)
	wantKind(t, err, td.NotFound, l.ID)
	all, problems, err := s.List(t.Context())
	if err != nil || len(all) != 1 || len(problems) != 0 {
		t.Errorf("%v, %v, %v", all, problems, err)
	}
	found, err := s.Search(t.Context(), nil, "goes", 5)
	if got := titles(t, found, err); got != "" {
		t.Errorf("it still finds %s", got)
	}
}
