package memory

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/ncruces/go-sqlite3"

	"taskdaemon/internal/beneath"
	"taskdaemon/internal/words"
)

func TestSearchRanks(t *testing.T) {
	s, _ := open(t)
	for _, l := range []Learning{
		{Title: "Config parser", Text: "config.rs parser expects arrays, not objects.", Tags: []string{"config", "parser", "bug"}, Sources: []string{"task-a"}},
		{Title: "Rate limit", Text: "The API rate limit is 100 req/min."},
		{Title: "Loading order", Text: "Flags are loaded after the environment, so parseConfigFile runs first."},
		{Title: "日本語", Text: "設定ファイルは UTF-8 で書く。"},
		{Title: "Umlaute", Text: "Die Größe der Datei steht im Kopf."},
	} {
		add(t, s, l)
	}
	for _, c := range []struct{ ask, want string }{
		{"Fix the config loading bug", "Config parser, Loading order"},
		{"parse_config_file", "Loading order, Config parser"},
		{"the parsers", "Config parser"},
		{"API requests per minute: limits", "Rate limit"},
		{"設定", "日本語"},
		{"GRÖSSE größe", "Umlaute"},
		{`"quoted" AND (config*) NOT ^x OR NEAR(a b)`, "Config parser, Loading order"},
		{"the and of", ""},
		{"", ""},
		{"zebra", ""},
		{"\xff\x00", ""},
	} {
		found, err := s.Search(t.Context(), nil, c.ask, 5)
		if got := titles(t, found, err); got != c.want {
			t.Errorf("Search(%q) = %q, want %q", c.ask, got, c.want)
		}
	}
	found, err := s.Search(t.Context(), nil, "config", 1)
	if got := titles(t, found, err); got != "Config parser" || found[0].Sources[0] != "task-a" || found[0].Score <= 0 {
		t.Errorf("got %+v", found)
	}
}

func TestRelevantByFeatureAndFiles(t *testing.T) {
	s, _ := open(t)
	for _, l := range []Learning{
		{Title: "Builds", Text: "Builds are slow without the cache mount.", Tags: []string{"docker"}},
		{Title: "Carts", Text: "Builds are slow where carts are kept open.", Feature: "checkout"},
		{Title: "Tokens", Text: "They are counted from one.", Tags: []string{"lexer"}},
	} {
		add(t, s, l)
	}
	const slow = "Why are our builds so slow?"
	for _, c := range []struct {
		about About
		want  string
	}{
		{About{Text: slow}, "Builds, Carts"},
		{About{Text: slow, Feature: "checkout"}, "Carts, Builds"},
		{About{Text: "tidy up", Feature: "checkout"}, "Carts"},
		{About{Text: "tidy up", Files: []string{"internal/lexer.go"}}, "Tokens"},
		{About{Text: "tidy up", Files: []string{"internal/parser.go"}}, ""},
	} {
		found, err := s.Relevant(t.Context(), nil, c.about, 5)
		if got := titles(t, found, err); got != c.want {
			t.Errorf("Relevant(%+v) = %q, want %q", c.about, got, c.want)
		}
	}
}

func TestRelevantNeedsMoreThanAWord(t *testing.T) {
	s, _ := open(t)
	add(t, s, Learning{Title: "Docker cache", Text: "Builds are slow without the cache mount.", Tags: []string{"docker"}})
	for ask, want := range map[string]string{
		"Why are our builds so slow?": "Docker cache",
		"write a slow song":           "",
		"update docker":               "Docker cache", // what it is filed under
	} {
		found, err := s.Relevant(t.Context(), nil, About{Text: ask}, 5)
		if got := titles(t, found, err); got != want {
			t.Errorf("Relevant(%q) = %q, want %q", ask, got, want)
		}
	}
}

func TestStaleIsShownButNotTold(t *testing.T) {
	s, project := open(t)
	write(t, project, "src/a.go", "package a")
	write(t, project, "src/b.go", "package b")
	outside := write(t, t.TempDir(), "secret", "x")
	if err := os.Symlink(outside, filepath.Join(project, "link")); err != nil {
		t.Fatal(err)
	}
	tree := root(t, project)
	files := Cite(tree, []File{{Path: "src/a.go"}, {Path: "src/b.go"}, {Path: "gone"}, {Path: "src"}, {Path: "link"}, {Path: "../x"}})
	if len(files) != 2 || files[0].Hash == "" {
		t.Fatalf("cited %+v", files)
	}
	l := add(t, s, Learning{Title: "About a", Text: "The order of fields matters.", Files: files})
	check := func(why, told string, stale ...string) {
		t.Helper()
		found, err := s.Relevant(t.Context(), tree, About{Text: "order of fields"}, 5)
		if got := titles(t, found, err); got != told {
			t.Errorf("%s: told %q, want %q", why, got, told)
		}
		found, err = s.Search(t.Context(), tree, "order of fields", 5)
		if err != nil || len(found) != 1 || !cmp.Equal(found[0].Stale, stale) {
			t.Errorf("%s: shown %+v, %v; want stale %q", why, found, err, stale)
		}
	}
	check("fresh", "About a")
	write(t, project, "src/a.go", "package A")
	check("changed", "", "src/a.go")
	if err := os.Remove(filepath.Join(project, "src/b.go")); err != nil {
		t.Fatal(err)
	}
	check("gone", "", "src/a.go", "src/b.go")
	write(t, project, "src/a.go", "package a")
	write(t, project, "src/b.go", "package b")
	check("back", "About a")

	l.Files = []File{{Path: "link"}}
	if got := Stale(tree, l); len(got) != 1 {
		t.Errorf("a symlink out of the project counts as %v", got)
	}
}

// What was learned of a file as it was is not made to hold for the file as it is by something new about it.
func TestMergeLeavesStaleLearningsStale(t *testing.T) {
	s, project := open(t)
	tree := root(t, project)
	cite := func(content string) []File {
		write(t, project, "a.go", content)
		return Cite(tree, []File{{Path: "a.go"}})
	}
	told := func(why string, want ...string) {
		t.Helper()
		found, err := s.Relevant(t.Context(), tree, About{Text: "order of the fields in the header"}, 5)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range found {
			got = append(got, m.Text)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: told %q, want %q", why, got, want)
		}
	}
	first := Learning{Title: "Fields", Text: "The order of the fields is free.", Files: cite("one")}
	second := Learning{Title: "Fields", Text: "The order of the fields is fixed.", Files: cite("two")}
	add(t, s, first)
	told("stale")
	add(t, s, second)
	told("something new about the file", second.Text)
	third := Learning{Title: "Fields", Text: "The order of the fields is that of the header."}
	write(t, project, "a.go", "three")
	add(t, s, third)
	told("something new that cites nothing", third.Text)

	before := snapshot(t, project)
	for _, l := range []Learning{first, second, third} {
		if add(t, s, l); !cmp.Equal(snapshot(t, project), before) {
			t.Errorf("adding %q again changed something", l.Text)
		}
		if _, done, err := s.Probe(t.Context(), l); !done || err != nil {
			t.Errorf("%q was not found again: %v", l.Text, err)
		}
	}
	second.Files = cite("three")
	if add(t, s, second); len(snapshot(t, project)) != len(before) {
		t.Error("what was found again makes a learning of its own")
	}
	told("found to hold again", second.Text, third.Text)
	second.Files[0].Hash = first.Files[0].Hash
	add(t, s, second)
	told("something old about the file", second.Text, third.Text)
}

// The same files give the same answer, in whatever order the index came to know them.
func TestSearchIsDeterministic(t *testing.T) {
	var want []Match
	for seed := range uint64(3) {
		s, _ := open(t)
		r := rand.New(rand.NewPCG(seed, 1))
		for _, i := range r.Perm(60) {
			add(t, s, Learning{Title: fmt.Sprintf("Number %d", i), Text: fmt.Sprintf("common words w%d", i), CreatedAt: noon})
		}
		got, err := s.Search(t.Context(), nil, "common words w3 w4", 10)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want[:2], got[:2]); diff != "" || len(got) != 10 {
			t.Errorf("seed %d: %s", seed, diff)
		}
	}
}

// How many learnings have a word is kept beside the full-text index, and is what it would count itself.
func TestTermsAreCounted(t *testing.T) {
	s, project := open(t)
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 200 {
		id := fmt.Sprintf("n%d", r.IntN(20))
		switch r.IntN(4) {
		case 0:
			_, _ = s.Remove(t.Context(), id) // it may not be there
		case 1:
			write(t, project, Folder+"/"+id+".md", "no learning")
		default:
			text := fmt.Sprintf("---\ntitle: Title w%d\ntags: w%d, tag\n---\nwords w%d w%d w%d", r.IntN(9), r.IntN(9), r.IntN(9), r.IntN(9), i)
			write(t, project, Folder+"/"+id+".md", text)
		}
		if i%10 > 0 {
			continue // several at once
		}
		if _, _, err := s.List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.ix.db.Exec("CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab (main, word, row)"); err != nil {
		t.Fatal(err)
	}
	count := func(sql string) map[string]int {
		out := map[string]int{}
		err := s.ix.query(sql, nil, func(st *sqlite3.Stmt) error {
			out[st.ColumnText(0)] = st.ColumnInt(1)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := count("SELECT term, doc FROM vocabulary")
	if diff := cmp.Diff(want, count("SELECT word, docs FROM term WHERE docs <> 0")); diff != "" || len(want) < 10 {
		t.Error(diff)
	}
}

// The ranking is the one that the full-text index has of its own.
func TestRankingIsBM25(t *testing.T) {
	s, project := open(t)
	for i, l := range benchDocs(300) {
		l.Tags, l.Text = []string{fmt.Sprintf("word%d", i%7)}, l.Text+strings.Repeat(" parseConfigFile", i%3)
		write(t, project, fmt.Sprintf("%s/%s.md", Folder, l.ID), string(page{Learning: l}.format()))
	}
	for _, q := range []string{"word1", "word1 word2 word30 title7", "word150 word6", "word0 word0 word5"} {
		got, err := s.Search(t.Context(), nil, q, 1000)
		if err != nil || len(got) == 0 {
			t.Fatal(len(got), err)
		}
		terms, _, err := s.rarest(words.Terms(q, maxQuery))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]float64{}
		err = s.ix.query("SELECT doc.id, -bm25(word, 3.0, 2.0, 1.0) FROM word JOIN doc ON doc.n = word.rowid WHERE word MATCH ?",
			[]any{`"` + strings.Join(terms, `" OR "`) + `"`}, func(st *sqlite3.Stmt) error {
				want[st.ColumnText(0)] = st.ColumnFloat(1)
				return nil
			})
		if err != nil || len(want) != len(got) {
			t.Fatalf("%q: %d of %d, %v", q, len(got), len(want), err)
		}
		for _, m := range got {
			if math.Abs(m.Score-want[m.ID]) > 1e-9 {
				t.Errorf("%q: %s has %v, by the index's own %v", q, m.ID, m.Score, want[m.ID])
			}
		}
	}
}

func TestLongQuestion(t *testing.T) {
	s, _ := open(t)
	add(t, s, Learning{Title: "Needle", Text: "xyzzy plugh"})
	found, err := s.Relevant(t.Context(), nil, About{Text: strings.Repeat("filler ", 5000) + "xyzzy plugh"}, 5)
	if got := titles(t, found, err); got != "Needle" {
		t.Errorf("got %q", got)
	}
}

func FuzzSearch(f *testing.F) {
	s, err := Open(Options{Project: f.TempDir()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	if _, _, err := s.Add(f.Context(), Learning{Title: "Config parser", Text: "It expects arrays."}); err != nil {
		f.Fatal(err)
	}
	for _, q := range []string{`"`, `a" OR "b`, "NEAR(", "*", "config", "\x00", "設定", "a'b"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, q string) {
		if _, err := s.Search(t.Context(), nil, q, 5); err != nil {
			t.Errorf("Search(%q): %v", q, err)
		}
	})
}

// benchDocs makes n learnings whose words are spread as those of a language are.
func benchDocs(n int) []Learning {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 10, 20000)
	docs := make([]Learning, n)
	for i := range docs {
		var b strings.Builder
		for range 50 {
			fmt.Fprintf(&b, "word%d ", z.Uint64())
		}
		docs[i] = Learning{ID: fmt.Sprintf("doc-%d", i), Title: fmt.Sprintf("title%d word%d", i, z.Uint64()), Text: b.String(), CreatedAt: noon}
	}
	return docs
}

// BenchmarkSearch50k asks 50,000 learnings on disk what a task should be told, by a text of 15 words, and compares
// with the least that any index must do: going once through the lists of learnings that hold the words.
func BenchmarkSearch50k(b *testing.B) {
	project := b.TempDir()
	dir := filepath.Join(project, Folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	docs := benchDocs(50_000)
	postings := map[string][]int{}
	long := time.Now().Add(-time.Hour) // files that were not changed just now
	for i, l := range docs {
		name := filepath.Join(dir, l.ID+extension)
		if err := os.WriteFile(name, page{Learning: l}.format(), 0o644); err != nil {
			b.Fatal(err)
		}
		if err := os.Chtimes(name, long, long); err != nil {
			b.Fatal(err)
		}
		for _, w := range words.Set(l.Title+" "+l.Text, maxMerged) {
			postings[w] = append(postings[w], i)
		}
	}
	if err := os.Chtimes(dir, long, long); err != nil {
		b.Fatal(err)
	}
	s, err := Open(Options{Project: project, Index: filepath.Join(b.TempDir(), "index.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	tree, err := beneath.OpenResolved(project)
	if err != nil {
		b.Fatal(err)
	}
	defer tree.Close()
	z := rand.NewZipf(rand.New(rand.NewPCG(3, 4)), 1.1, 10, 20000)
	questions := make([]string, 8)
	for i := range questions {
		for range 15 {
			questions[i] += fmt.Sprintf("word%d ", z.Uint64())
		}
	}
	if _, err := s.Relevant(b.Context(), tree, About{Text: questions[0]}, 5); err != nil { // reads all of them
		b.Fatal(err)
	}
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		found, err := s.Relevant(b.Context(), tree, About{Text: questions[i%len(questions)]}, 5)
		if err != nil || len(found) == 0 {
			b.Fatal(len(found), err)
		}
		i++
	}
	each := b.Elapsed() / time.Duration(b.N)
	start := time.Now()
	for _, q := range questions { // as tasks ask: now and then
		s.last.at = s.last.at.Add(-2 * lookAgain)
		if _, err := s.Relevant(b.Context(), tree, About{Text: q}, 5); err != nil {
			b.Fatal(err)
		}
	}
	later := time.Since(start) / time.Duration(len(questions))
	start = time.Now()
	hits := 0
	for _, q := range questions {
		counts := make([]uint8, len(docs))
		for _, w := range words.Terms(q, maxQuery) {
			for _, doc := range postings[w] {
				counts[doc]++
				hits++
			}
		}
	}
	least := time.Since(start) / time.Duration(len(questions))
	if hits == 0 {
		b.Fatal("no learning has any of the words")
	}
	b.ReportMetric(float64(each)/float64(least), "x-postings")
	fmt.Printf("learnings for a task, of 50,000  %.1f x going through the postings  mean %v, after a pause %v; postings %v\n",
		float64(each)/float64(least), each, later, least)
}
