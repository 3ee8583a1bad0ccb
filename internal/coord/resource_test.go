package coord

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/td"
)

func resources(t *testing.T) *Resources {
	t.Helper()
	r, err := NewResources([]Resource{
		{Name: "build", Capacity: 2, Match: "Bash(go build *)"},
		{Name: "port:5432", Capacity: 1, Match: "Bash(*psql*)"},
		{Name: "web", Capacity: 3, Match: "WebFetch"},
	}, 4)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func names(wants []td.Want) string {
	var out []string
	for _, w := range wants {
		out = append(out, w.Resource+" "+w.Mode())
	}
	return strings.Join(out, ", ")
}

// TestWantsOfCommands: a command is looked through as the shell would read it.
func TestWantsOfCommands(t *testing.T) {
	r := resources(t)
	for command, want := range map[string]string{
		"":                               "",
		"go build":                       "build 1 of 2",
		"go build ./...":                 "build 1 of 2",
		"cd x && go build ./... | tee l": "build 1 of 2",
		"go  'build'   -o \"a b\" .":     "build 1 of 2",
		"if true; then go build; fi":     "build 1 of 2",
		"echo $(go build .)":             "build 1 of 2",
		"env GOOS=linux nice go build .": "build 1 of 2",
		"go builder":                     "",
		"echo go build":                  "",
		"go vet":                         "",
		"/usr/bin/psql -c x; go build":   "build 1 of 2, port:5432 1 of 1",
		"go build ( unparsable":          "build 1 of 2",
		"git status":                     "",
		"git log && git diff":            "",
		"git commit -m 'go build'":       "repo:/r/.git exclusive",
		"git -C sub -c a.b=c push":       "repo:/r/.git exclusive",
		"git --no-pager log":             "",
		"git stash; go build":            "build 1 of 2, repo:/r/.git exclusive",
		"gitk":                           "",
	} {
		if got := names(r.Wants(Use{Tool: "Bash", Command: command, Repo: "/r/.git"})); got != want {
			t.Errorf("%q wants %q, not %q", command, got, want)
		}
	}
	if got := r.Wants(Use{Tool: "Bash", Command: "git commit"}); len(got) > 0 {
		t.Errorf("outside a repository it wants %v", got)
	}
}

func TestWantsOfFilesAndHosts(t *testing.T) {
	r := resources(t)
	use := Use{Tool: "Edit", Reads: []string{"/w/a"}, Writes: []string{"/w/b", "/w/a"}}
	if got := r.Wants(use); len(got) > 0 {
		t.Errorf("a folder of its own needs no locks, got %v", got)
	}
	use.Shared = true
	if got, want := names(r.Wants(use)), "file:/w/a exclusive, file:/w/b exclusive"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := names(r.Wants(Use{Tool: "Read", Reads: []string{"/w/a"}, Shared: true})), "file:/w/a shared"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := names(r.Wants(Use{Tool: "WebFetch", Hosts: []string{"Example.ORG"}})), "host:example.org 1 of 4, web 1 of 3"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBadResources(t *testing.T) {
	for want, list := range map[string][]Resource{
		"needs a name":         {{Capacity: 1, Match: "Bash"}},
		"blanks":               {{Name: " a", Capacity: 1, Match: "Bash"}},
		"capacity 0":           {{Name: "a", Match: "Bash"}},
		"capacity -3":          {{Name: "a", Capacity: -3, Match: "Bash"}},
		"there twice":          {{Name: "a", Capacity: 1, Match: "Bash"}, {Name: "a", Capacity: 2, Match: "Read"}},
		"taskdaemon gives":     {{Name: "repo:x", Capacity: 1, Match: "Bash"}},
		`match "Bash(" is`:     {{Name: "a", Capacity: 1, Match: "Bash("}},
		`match "" is none`:     {{Name: "a", Capacity: 1}},
		`match "Bash()" is`:    {{Name: "a", Capacity: 1, Match: "Bash()"}},
		"here.yaml:3: the res": {{Name: "a", Match: "Bash", Where: "here.yaml:3"}},
	} {
		_, err := NewResources(list, 0)
		if !td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to say %q", err, want)
		}
	}
	if _, err := NewResources(nil, -1); !td.IsKind(err, td.Invalid) {
		t.Errorf("a negative bound of hosts gave %v", err)
	}
}

func TestLike(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"*", "", true}, {"a*", "abc", true}, {"*c", "abc", true}, {"a*c", "abc", true},
		{"a*b*c", "a1b2c", true}, {"a*b*c", "acb", false}, {"ab*ba", "aba", false}, {"x *", "x", true}, {"x *", "xy", false},
	} {
		if got := like(c.pattern, c.text); got != c.want {
			t.Errorf("like(%q, %q) is %v", c.pattern, c.text, got)
		}
	}
}

// FuzzWants: whatever a model writes into a command, wants are in the form of records.
func FuzzWants(f *testing.F) {
	for _, s := range []string{"go build", "a && b", "$(", "git commit", "cat <<EOF\nx\nEOF", "\x00", "((", "a() { b; }"} {
		f.Add(s, "/w/"+s)
	}
	r, err := NewResources([]Resource{{Name: "build", Capacity: 2, Match: "Bash(go build *)"}, {Name: "any", Capacity: 1, Match: "Bash"}}, 2)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, command, path string) {
		if len(path) > 4096 {
			return
		}
		u := Use{Tool: "Bash", Command: command, Repo: "/r", Reads: []string{path}, Writes: []string{path, "/x"}, Hosts: []string{path}, Shared: true}
		wants := r.Wants(u)
		if err := td.CheckWants(wants); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(wants, r.Wants(u)); d != "" {
			t.Fatal("the same call wants something else: " + d)
		}
	})
}
