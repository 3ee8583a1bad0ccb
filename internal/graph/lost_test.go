package graph_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/graph"
)

// Whatever is cut off a log or out of it is known to be lost, in this life or the next, and can be written again.
func TestLostIsKnownAndRestored(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"torn":       func(b []byte) []byte { return b[:len(b)-40] },
		"last line":  func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] },
		"first line": func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] },
		"emptied":    func([]byte) []byte { return nil },
	} {
		for _, restart := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				root, index := t.TempDir(), filepath.Join(t.TempDir(), "index.db")
				if err := graph.Make(root); err != nil {
					t.Fatal(err)
				}
				open := func() *graph.Store {
					s, err := graph.Open(t.Context(), graph.Options{Root: root, Index: index})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(s.Close)
					return s
				}
				s := open()
				tasks, err := s.Add(t.Context(), graph.Task{Title: "one"}, graph.Task{Title: "two"})
				if err != nil {
					t.Fatal(err)
				}
				title := "another"
				if _, err := s.Edit(t.Context(), tasks[0].ID, graph.Edit{Title: &title}); err != nil {
					t.Fatal(err)
				}
				log := filepath.Join(root, graph.Folder, graph.LogFile)
				whole, err := os.ReadFile(log)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(log, damage(bytes.Clone(whole)), 0o644); err != nil {
					t.Fatal(err)
				}
				if restart {
					s.Close()
					s = open()
				}
				lost, err := s.Lost(t.Context())
				if err != nil || len(lost) == 0 || !s.Damaged() {
					t.Fatalf("lost %v (%v)", lost, err)
				}
				if meant, err := s.Meant(t.Context(), whole); meant || err != nil {
					t.Errorf("it was meant: %v, %v", meant, err)
				}
				if m, err := s.Mend(t.Context()); err != nil || m.Tasks != len(lost) {
					t.Fatalf("mended %+v of %d (%v)", m, len(lost), err)
				}
				for i, want := range []string{"another", "two"} {
					if got, err := s.Task(t.Context(), tasks[i].ID); err != nil || got.Title != want {
						t.Errorf("%s is %q (%v)", want, got.Title, err)
					}
				}
				if lost, err := s.Lost(t.Context()); err != nil || len(lost) > 0 || s.Damaged() {
					t.Errorf("%v is lost still (%v)", lost, err)
				}
				if m, err := s.Mend(t.Context()); m != (graph.Mended{}) || err != nil {
					t.Errorf("mended %+v again (%v)", m, err)
				}
			})
		}
	}
}

// A bit that flips anywhere in a log, but in what a later change replaced, is found, whether the line can be read or not, and the log can be mended: what it says is what it said, it has no bad line, and
// what was taken out of it is kept.
func TestFlippedBitIsMended(t *testing.T) {
	root, index := t.TempDir(), filepath.Join(t.TempDir(), "index.db")
	if err := graph.Make(root); err != nil {
		t.Fatal(err)
	}
	open := func(index string) *graph.Store {
		s, err := graph.Open(t.Context(), graph.Options{Root: root, Index: index})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open(index)
	tasks, err := s.Add(t.Context(), graph.Task{Title: "one", Labels: []string{"ui"}}, graph.Task{Title: "two", Text: "do it"})
	if err != nil {
		t.Fatal(err)
	}
	title := "another"
	if _, err := s.Edit(t.Context(), tasks[0].ID, graph.Edit{Title: &title}); err != nil {
		t.Fatal(err)
	}
	want := func(s *graph.Store) string {
		var all []string
		for _, id := range []int{0, 1} {
			task, err := s.Task(t.Context(), tasks[id].ID)
			if err != nil {
				return err.Error()
			}
			all = append(all, fmt.Sprintf("%q %q %q %q", task.ID, task.Title, task.Labels, task.Text))
		}
		return strings.Join(all, "; ")
	}
	before := want(s)
	s.Close()
	log := filepath.Join(root, graph.Folder, graph.LogFile)
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	silent := 0
	for at := 0; at < len(whole); at += 2 {
		dir := t.TempDir()
		index := filepath.Join(dir, "index.db")
		if err := os.WriteFile(index, known, 0o600); err != nil {
			t.Fatal(err)
		}
		raw := bytes.Clone(whole)
		raw[at] ^= 1 << (at % 7)
		if err := os.WriteFile(log, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		s := open(index)
		lost, err := s.Lost(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h, err := s.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if found := len(lost) > 0 || len(h.Bad) > 0; !found && want(s) != before {
			t.Errorf("byte %d, %q for %q is not found", at, raw[max(at-12, 0):min(at+4, len(raw))], whole[at])
		} else if !found {
			silent++
		}
		m, err := s.Mend(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := want(s); got != before {
			t.Errorf("byte %d, %q for %q: it says %s, not %s", at, raw[max(at-12, 0):min(at+4, len(raw))], whole[at], got, before)
		}
		if h, err := s.Health(t.Context()); err != nil || len(h.Bad) > 0 || h.Tasks != len(tasks) || len(h.Problems) > 0 {
			t.Errorf("byte %d, %q for %q: %+v (%v)", at, raw[max(at-12, 0):min(at+4, len(raw))], whole[at], h, err)
		}
		if lost, err := s.Lost(t.Context()); err != nil || len(lost) > 0 {
			t.Errorf("byte %d: %v is lost still (%v)", at, lost, err)
		}
		if m.Lines > 0 {
			if kept, err := os.ReadFile(m.Aside); err != nil || bytes.Count(kept, []byte("\n")) < m.Lines {
				t.Errorf("byte %d: kept %q of %d lines (%v)", at, kept, m.Lines, err)
			}
		}
		s.Close()
	}
	if silent > 2*len("title") { // what a later change has replaced says nothing any more
		t.Errorf("%d of %d flips were not found", silent, len(whole))
	}
}
