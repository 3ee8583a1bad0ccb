package knowledge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"taskdaemon/internal/memory"
	"taskdaemon/internal/redact"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func add(t *testing.T, s *Shelf, dir string, l memory.Learning) {
	t.Helper()
	err := s.Use(dir, func(store *memory.Store) error {
		_, _, err := store.Add(t.Context(), l)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFoldersOfOneProjectShareItsLearnings(t *testing.T) {
	top := t.TempDir()
	write(t, filepath.Join(top, ".git"), "gitdir: elsewhere")
	here := filepath.Dir(write(t, filepath.Join(top, "a", "code.go"), "package a"))
	there := filepath.Dir(write(t, filepath.Join(top, "b", "c", "x.go"), "package c"))
	s := New(t.TempDir(), redact.New("hunter2hunter2"))
	files, missing, err := Cite(here, []string{"code.go", "../b/c/x.go", filepath.Join(top, "a/code.go"), "none.go", "../../etc/passwd"})
	if err != nil || !slices.Equal(missing, []string{"none.go", "../../etc/passwd"}) || len(files) != 3 || files[0].Path != "a/code.go" || files[1].Path != "b/c/x.go" {
		t.Fatalf("cited %+v, missing %q, %v", files, missing, err)
	}
	add(t, s, here, memory.Learning{Title: "Parser", Text: "The parser wants arrays, key hunter2hunter2.", Files: files})
	found, err := s.Told(t.Context(), there, About{Text: "why does the parser refuse arrays"}, 5)
	if err != nil || len(found) != 1 || strings.Contains(found[0].Text, "hunter2") {
		t.Fatalf("told %+v, %v", found, err)
	}
	if _, err := os.Stat(filepath.Join(top, File(found[0].ID))); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(top, "a", "code.go"), "package other")
	if found, err := s.Told(t.Context(), there, About{Text: "why does the parser refuse arrays"}, 5); err != nil || len(found) != 0 {
		t.Errorf("a void learning was told: %+v, %v", found, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAProjectWithoutLearningsIsNotOpened(t *testing.T) {
	s := New("", nil)
	if found, err := s.Told(t.Context(), t.TempDir(), About{Text: "anything"}, 5); err != nil || found != nil || len(s.books) != 0 {
		t.Errorf("got %v, %v with %d stores", found, err, len(s.books))
	}
}

func TestFewIdleStoresStayOpen(t *testing.T) {
	s := New("", nil)
	base := t.TempDir()
	var wg sync.WaitGroup
	for i := range 3 * maxIdle {
		dir := filepath.Dir(write(t, filepath.Join(base, fmt.Sprint(i), "x"), ""))
		wg.Go(func() {
			for range 3 {
				add(t, s, dir, memory.Learning{Title: "T", Text: "Text."})
			}
		})
	}
	wg.Wait()
	if len(s.books) != maxIdle || len(s.idle) != maxIdle {
		t.Errorf("%d stores open, %d idle", len(s.books), len(s.idle))
	}
	if err := s.Close(); err != nil || len(s.books) != 0 {
		t.Errorf("close: %v, %d left", err, len(s.books))
	}
	failed := errors.New("no")
	if err := s.Use(base, func(*memory.Store) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}
