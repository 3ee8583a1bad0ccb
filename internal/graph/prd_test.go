package graph

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/redact"
	"taskdaemon/internal/td"
)

func addPRD(t *testing.T, s *Store, name string) Task {
	t.Helper()
	prd, _, err := s.AddPRD(t.Context(), Task{Title: name})
	if err != nil {
		t.Fatal(err)
	}
	return prd
}

func document(t *testing.T, s *Store, id td.TaskID, name td.DocName) string {
	t.Helper()
	text, _, err := s.Document(t.Context(), id, name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPRDIsFoundByItsName(t *testing.T) {
	s, _ := fresh(t)
	first := addPRD(t, s, "Auth / Login")
	if first.Slug != "auth-login" || first.Kind != td.KindPRD || first.Title != "Auth / Login" {
		t.Errorf("it is %+v", first)
	}
	for _, name := range []string{"Auth / Login", "  Auth /  Login", "auth-login"} {
		if again, added, err := s.AddPRD(t.Context(), Task{Title: name}); err != nil || added || again.ID != first.ID {
			t.Errorf("%q is %+v, %t, %v", name, again, added, err)
		}
	}
	_, _, err := s.AddPRD(t.Context(), Task{Title: "auth.login"})
	if !td.IsKind(err, td.Conflict) || !strings.Contains(err.Error(), first.Handle) {
		t.Errorf("another name with the same folder: %v", err)
	}
	if _, err := s.Add(t.Context(), Task{Title: "auth login", Kind: td.KindPRD}); !td.IsKind(err, td.Conflict) {
		t.Errorf("the same folder by a plan: %v", err)
	}
	for _, name := range []string{"", "..", "/", strings.Repeat("x", 301)} {
		if _, _, err := s.AddPRD(t.Context(), Task{Title: name}); !td.IsKind(err, td.Invalid) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	found, err := s.Match(t.Context(), "Auth-Login")
	if err != nil || len(found) != 1 || found[0].ID != first.ID {
		t.Errorf("by its slug: %v, %v", found, err)
	}
}

func TestSlugOfOthersStaysInItsFolder(t *testing.T) {
	root := project(t)
	const id = "019a86d3-b5c0-7abc-8def-000000000001"
	write(t, root, `{"op":"019a86d3b5c0-000000-ana","set":{"kind":"prd","slug":"../../../etc","title":"Mine"},"task":"`+id+`"}`+"\n")
	s := open(t, root, filepath.Join(t.TempDir(), "index.db"))
	prd, err := s.Task(t.Context(), id)
	if err != nil || prd.Slug != "mine" || len(prd.Problems) != 1 {
		t.Fatalf("it is %+v, %v", prd, err)
	}
	if err := s.WriteDocument(t.Context(), id, td.DocSpec, "words", false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, Folder, PRDFolder, "mine", "spec.md")); err != nil {
		t.Error(err)
	}
}

func TestDocuments(t *testing.T) {
	s, root := fresh(t)
	prd := addPRD(t, s, "Login")
	if text, there, err := s.Document(t.Context(), prd.ID, td.DocSpec); there || err != nil || text != "" {
		t.Errorf("before it is written: %q, %t, %v", text, there, err)
	}
	put := func(name td.DocName, text string, force bool) error {
		return s.WriteDocument(t.Context(), prd.ID, name, text, force)
	}
	if err := put(td.DocSpec, "# Login\n", false); err != nil {
		t.Fatal(err)
	}
	if err := put(td.DocSpec, "# Login\n", false); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := put(td.DocSpec, "# Other\n", false); !td.IsKind(err, td.Conflict) || td.HintOf(err) == "" {
		t.Errorf("something else: %v", err)
	}
	if got := document(t, s, prd.ID, td.DocSpec); got != "# Login\n" {
		t.Errorf("it says %q", got)
	}
	if err := put(td.DocSpec, "# Other\n", true); err != nil || document(t, s, prd.ID, td.DocSpec) != "# Other\n" {
		t.Errorf("by force: %v", err)
	}
	for name, text := range map[string]string{
		"empty": " \n", "too long": strings.Repeat("x", maxDocument+1), "no text": "a\x00b", "not UTF-8": "\xff",
	} {
		if err := put(td.DocPlan, text, true); !td.IsKind(err, td.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := put("notes", "x", true); !td.IsKind(err, td.Invalid) {
		t.Errorf("another document: %v", err)
	}
	if err := put(td.DocPlan, strings.Repeat("x", maxDocument), false); err != nil {
		t.Errorf("as long as it may be: %v", err)
	}
	files, err := os.ReadDir(filepath.Join(root, Folder, PRDFolder, "login"))
	if err != nil || len(files) != 2 {
		t.Errorf("the folder holds %v, %v", files, err)
	}
	task := add(t, s, Task{Title: "loose"})[0]
	if err := s.WriteDocument(t.Context(), task.ID, td.DocSpec, "x", false); !td.IsKind(err, td.Conflict) {
		t.Errorf("a document of a task: %v", err)
	}
}

func TestDocumentHasNoSecrets(t *testing.T) {
	root := project(t)
	secrets := redact.New()
	secrets.Add("hunter2-and-more")
	s, err := Open(t.Context(), Options{Root: root, Index: filepath.Join(t.TempDir(), "i.db"), Secrets: secrets})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	prd := addPRD(t, s, "Login")
	if err := s.WriteDocument(t.Context(), prd.ID, td.DocSpec, "it is hunter2-and-more", false); err != nil {
		t.Fatal(err)
	}
	if got := document(t, s, prd.ID, td.DocSpec); strings.Contains(got, "hunter2") {
		t.Errorf("it says %q", got)
	}
}

// TestDocumentsLeadNowhere puts something else in each place on the way to a document.
func TestDocumentsLeadNowhere(t *testing.T) {
	for name, spoil := range map[string]func(root, dir string) error{
		"the file is a link":   func(_, dir string) error { return os.Symlink("../../../secret", filepath.Join(dir, "spec.md")) },
		"the file is a folder": func(_, dir string) error { return os.Mkdir(filepath.Join(dir, "spec.md"), 0o755) },
		"the folder is a link": func(root, dir string) error {
			other := filepath.Join(root, "other")
			err := os.Mkdir(other, 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(other, "spec.md"), []byte("secret"), 0o644)
			}
			if err == nil {
				err = os.Remove(dir)
			}
			if err == nil {
				err = os.Symlink(other, dir)
			}
			return err
		},
		"the folder is a file": func(_, dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o644)
		},
		"the folder of all is a link": func(root, dir string) error {
			other := filepath.Join(root, "other")
			if err := os.Rename(filepath.Dir(dir), other); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(other, filepath.Base(dir), "spec.md"), []byte("secret"), 0o644); err != nil {
				return err
			}
			return os.Symlink(other, filepath.Dir(dir))
		},
		"too long": func(_, dir string) error {
			return os.WriteFile(filepath.Join(dir, "spec.md"), make([]byte, maxDocument+1), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, root := fresh(t)
			prd := addPRD(t, s, "Login")
			dir := filepath.Join(root, Folder, PRDFolder, "login")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, "secret"), []byte("secret"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := spoil(root, dir); err != nil {
				t.Fatal(err)
			}
			if text, _, err := s.Document(t.Context(), prd.ID, td.DocSpec); !td.IsKind(err, td.Invalid) || text != "" {
				t.Errorf("it is read: %q, %v", text, err)
			}
			if err := s.WriteDocument(t.Context(), prd.ID, td.DocSpec, "words", false); err == nil {
				t.Error("it is written")
			}
			raw, err := os.ReadFile(filepath.Join(root, "secret"))
			if err != nil || string(raw) != "secret" {
				t.Errorf("what it leads to is %q, %v", raw, err)
			}
		})
	}
}

func TestDeletePRD(t *testing.T) {
	s, root := fresh(t)
	prd := addPRD(t, s, "Login")
	for _, name := range td.DocNames {
		if err := s.WriteDocument(t.Context(), prd.ID, name, "words", false); err != nil {
			t.Fatal(err)
		}
	}
	all := add(t, s, Task{Title: "part", Parent: prd.ID})
	all = append(all, add(t, s, Task{Title: "open", Parent: all[0].ID}, Task{Title: "ended", Parent: all[0].ID}, Task{Title: "elsewhere"})...)
	if err := s.End(t.Context(), all[2].ID, Verdict{State: td.Completed}); err != nil {
		t.Fatal(err)
	}
	s.SetState(all[1].ID, td.Waiting)
	if err := s.DeletePRD(t.Context(), prd.ID); !td.IsKind(err, td.Conflict) || !strings.Contains(td.HintOf(err), all[1].Handle) {
		t.Errorf("while a task of it waits: %v", err)
	}
	if document(t, s, prd.ID, td.DocSpec) != "words" {
		t.Error("the document is gone")
	}
	s.SetState(all[1].ID, "")
	before := strings.Count(content(t, root), "\n")
	if err := s.DeletePRD(t.Context(), prd.ID); err != nil {
		t.Fatal(err)
	}
	if now := strings.Count(content(t, root), "\n"); now != before+3 {
		t.Errorf("%d lines were added", now-before)
	}
	for i, there := range []bool{false, false, true, true} {
		if _, err := s.Task(t.Context(), all[i].ID); (err == nil) != there {
			t.Errorf("%s: %v", all[i].Title, err)
		}
	}
	if _, err := os.Stat(filepath.Join(root, Folder, PRDFolder, "login")); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if h, err := s.Health(t.Context()); err != nil || len(h.Problems) > 0 {
		t.Errorf("what is wrong: %v, %v", h.Problems, err)
	}
	if again, added, err := s.AddPRD(t.Context(), Task{Title: "Login"}); err != nil || !added || again.ID == prd.ID {
		t.Errorf("the same name again: %+v, %t, %v", again, added, err)
	}
	if err := s.DeletePRD(t.Context(), all[3].ID); !td.IsKind(err, td.Conflict) {
		t.Errorf("of a task: %v", err)
	}
}

// A PRD is worked on itself only if there is something to go by and nothing in it.
func TestPRDIsWorkedOnItself(t *testing.T) {
	s, root := fresh(t)
	prd, _, err := s.AddPRD(t.Context(), Task{Title: "Login"})
	if err != nil {
		t.Fatal(err)
	}
	is := func(want bool) {
		t.Helper()
		before := content(t, root)
		if direct, err := s.WorkOnItself(t.Context(), prd.ID); err != nil || direct != want {
			t.Fatalf("worked on itself: %v, %v", direct, err)
		}
		if again, err := s.WorkOnItself(t.Context(), prd.ID); err != nil || again != want {
			t.Fatalf("asked again: %v, %v", again, err)
		}
		if lines := strings.Count(content(t, root), "\n") - strings.Count(before, "\n"); lines > 1 {
			t.Errorf("it is written %d times", lines)
		}
	}
	is(false)
	wants(t, s)
	if err := s.WriteDocument(t.Context(), prd.ID, td.DocSpec, "what is wanted", false); err != nil {
		t.Fatal(err)
	}
	is(true)
	wants(t, s, "Login")
	wants(t, open(t, root, filepath.Join(t.TempDir(), "other.db")), "Login")
	add(t, s, Task{Title: "part of it", Parent: prd.ID})
	is(false)
	wants(t, s, "part of it")
	if _, err := s.WorkOnItself(t.Context(), add(t, s, Task{Title: "none"})[0].ID); !td.IsKind(err, td.Conflict) {
		t.Errorf("a task that is no PRD: %v", err)
	}
}

func TestHealthOfDocuments(t *testing.T) {
	root := project(t)
	line := func(n, title string) string {
		return `{"op":"019a86d3b5c0-00000` + n + `-ana","set":{"kind":"prd","slug":"login","title":"` + title + `"},"task":"019a86d3-b5c0-7abc-8def-00000000000` + n + "\"}\n"
	}
	write(t, root, line("1", "Login")+line("2", "login"))
	s := open(t, root, filepath.Join(t.TempDir(), "index.db"))
	for _, file := range []string{"login/spec.md", "login/spec.conflict-abc.md", "stray/spec.md", ".hidden/x"} {
		path := filepath.Join(root, Folder, PRDFolder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := s.Health(t.Context())
	if err != nil || len(h.Problems) != 3 {
		t.Fatalf("what is wrong: %v, %v", h.Problems, err)
	}
	all := ""
	for _, p := range h.Problems {
		all += p.Handle + ": " + p.Why + "\n"
	}
	for _, want := range []string{"prds/stray: it holds documents of no PRD", "two versions were kept, the other in prds/login/spec.conflict-abc.md", "and so has"} {
		if !strings.Contains(all, want) {
			t.Errorf("it does not say %q:\n%s", want, all)
		}
	}
	// The documents of two stay when one of them goes.
	if err := s.DeletePRD(t.Context(), "019a86d3-b5c0-7abc-8def-000000000002"); err != nil {
		t.Fatal(err)
	}
	if document(t, s, "019a86d3-b5c0-7abc-8def-000000000001", td.DocSpec) != "x" {
		t.Error("the document of the other is gone")
	}
}

// FuzzDocument reads whatever may lie at a document's place.
func FuzzDocument(f *testing.F) {
	for _, s := range []string{"", "# Spec\n", "\xff\xfe", "a\x00b", strings.Repeat("x", 1000)} {
		f.Add([]byte(s))
	}
	root := f.TempDir()
	if err := os.MkdirAll(filepath.Join(root, filepath.Dir(documentFile("p", td.DocSpec))), 0o755); err != nil {
		f.Fatal(err)
	}
	in, err := beneath.OpenResolved(root)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = in.Close() })
	f.Fuzz(func(t *testing.T, raw []byte) {
		file := documentFile("p", td.DocSpec)
		if err := os.WriteFile(filepath.Join(root, file), raw, 0o644); err != nil {
			t.Fatal(err)
		}
		text, there, err := readDocument(in, file)
		if err != nil || !there || !utf8.ValidString(text) {
			t.Fatalf("%q is read as %q, %t, %v", raw, text, there, err)
		}
		if utf8.Valid(raw) && text != string(raw) {
			t.Errorf("%q is read as %q", raw, text)
		}
		if CheckDocument(td.DocSpec, string(raw)) == nil {
			if err := placeDocument(in, file, string(raw)); err != nil {
				t.Fatal(err)
			}
			if again, _, err := readDocument(in, file); err != nil || again != string(raw) {
				t.Errorf("%q is written as %q, %v", raw, again, err)
			}
		}
	})
}
