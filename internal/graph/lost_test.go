package graph_test

import (
	"bytes"
	"os"
	"path/filepath"
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
				if n, err := s.Restore(t.Context()); err != nil || n != len(lost) {
					t.Fatalf("restored %d of %d (%v)", n, len(lost), err)
				}
				for i, want := range []string{"another", "two"} {
					if got, err := s.Task(t.Context(), tasks[i].ID); err != nil || got.Title != want {
						t.Errorf("%s is %q (%v)", want, got.Title, err)
					}
				}
				if lost, err := s.Lost(t.Context()); err != nil || len(lost) > 0 || s.Damaged() {
					t.Errorf("%v is lost still (%v)", lost, err)
				}
				if n, err := s.Restore(t.Context()); n != 0 || err != nil {
					t.Errorf("restored %d again (%v)", n, err)
				}
			})
		}
	}
}
