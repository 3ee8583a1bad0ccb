package coord

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/policy"
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
		"bash -c 'cd x; go build'":       "build 1 of 2",
		"find . -exec go build {} +":     "build 1 of 2",
		"go build ( unparsable":          "", // the shell runs nothing of it either
		"git status":                     "",
		"git log && git diff":            "",
		"git commit -m 'go build'":       "repo:/r/.git exclusive",
		"git -C sub -c a.b=c push":       "repo:/r/.git exclusive",
		"git --no-pager log":             "",
		"git stash; go build":            "build 1 of 2, repo:/r/.git exclusive",
		"gitk":                           "",
	} {
		if got := names(r.Wants(bash(command, "/r/.git"))); got != want {
			t.Errorf("%q wants %q, not %q", command, got, want)
		}
	}
	if got := r.Wants(bash("git commit", "")); len(got) > 0 {
		t.Errorf("outside a repository it wants %v", got)
	}
}

// TestWantsOfWorktrees: what stays in a worktree that is a task's own keeps nobody in another one waiting.
func TestWantsOfWorktrees(t *testing.T) {
	r := resources(t)
	for command, want := range map[string]string{
		"git status":                              "",
		"git commit -qam x && make test":          "repo:/r/.git shared",
		"git add . && git -c user.name=a commit":  "repo:/r/.git shared",
		"cd sub && git rebase main":               "repo:/r/.git shared",
		"git commit -m x; git push":               "repo:/r/.git exclusive",
		"git stash":                               "repo:/r/.git exclusive",
		"git gc":                                  "repo:/r/.git exclusive",
		"git -C /elsewhere commit":                "repo:/r/.git exclusive",
		"cd .. && git commit":                     "repo:/r/.git exclusive",
		"git --git-dir=/elsewhere/.git commit":    "repo:/r/.git exclusive",
		"git $SUB":                                "repo:/r/.git exclusive",
		"git worktree add ../x && git add . && x": "repo:/r/.git exclusive",
	} {
		u := bash(command, "/r/.git")
		u.Own = true
		if got := names(r.Wants(u)); got != want {
			t.Errorf("%q wants %q, not %q", command, got, want)
		}
	}
}

func bash(command, repo string) Use {
	return Use{Action: policy.Action{Tool: "Bash", Command: command, Dir: "/w"}, Home: "/home/me", Repo: repo}
}

func on(tool string, paths ...policy.PathUse) Use {
	return Use{Action: policy.Action{Tool: tool, Paths: paths, Dir: "/w"}, Home: "/home/me", Shared: true}
}

func TestWantsOfFilesAndHosts(t *testing.T) {
	r := resources(t)
	a, b := policy.PathUse{Path: "/w/a", Access: policy.Write}, policy.PathUse{Path: "/w/b", Access: policy.Write}
	read := policy.PathUse{Path: "/w/a", Access: policy.Read}
	alone := on("Edit", a)
	alone.Shared = false
	fetch := Use{Action: policy.Action{Tool: "WebFetch", Hosts: []string{"Example.ORG"}, Dir: "/w"}}
	for want, use := range map[string]Use{
		"": alone,
		"file:/w/a exclusive, file:/w/b exclusive": on("Edit", read, b, a),
		"file:/w/a shared":                         on("Read", read),
		"host:example.org 1 of 4, web 1 of 3":      fetch,
	} {
		if got := names(r.Wants(use)); got != want {
			t.Errorf("%+v wants %q, not %q", use, got, want)
		}
	}
	if got := r.Wants(on("Grep", read)); len(got) > 0 {
		t.Errorf("a search wants %v", got)
	}
}

// TestMatchAsInRules: what needs a resource is said in the words of rules.
func TestMatchAsInRules(t *testing.T) {
	wrote := func(path string) Use { return on("Write", policy.PathUse{Path: path, Access: policy.Write}) }
	for _, c := range []struct {
		match string
		use   Use
		want  bool
	}{
		{"Write(db/**)", wrote("/w/db/a"), true},
		{"Write(db/**)", wrote("/w/dbs"), false},
		{"Write(db/**)", bash("rm db/a", ""), true},
		{"Write(db/**)", bash("rm -r db", ""), true},
		{"Write(db/**)", bash("cat db/a", ""), false},
		{"Write(~/db/**)", wrote("/home/me/db/a"), true},
		{"WebFetch(*.test)", Use{Action: policy.Action{Tool: "WebFetch", Hosts: []string{"a.test"}, Dir: "/w"}}, true},
		{"WebFetch(*.test)", Use{Action: policy.Action{Tool: "WebFetch", Hosts: []string{"a.org"}, Dir: "/w"}}, false},
		{"mcp__notes__*", Use{Action: policy.Action{Tool: "mcp__notes__write", Dir: "/w"}}, true},
		{"mcp__notes__*", Use{Action: policy.Action{Tool: "mcp__other", Dir: "/w"}}, false},
		{"Bash(go test:*)", bash("go test ./...", ""), true},
		{"Bash(go test *)", Use{Action: policy.Action{Tool: "my_skill", Command: "go test", Dir: "/w"}}, true},
		{"Bash", bash("ls", ""), true},
		{"Bash", wrote("/w/a"), false},
	} {
		r, err := NewResources([]Resource{{Name: "it", Capacity: 1, Match: c.match}}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(names(r.Wants(c.use)), "it "); got != c.want {
			t.Errorf("%s on %+v: %v", c.match, c.use.Action, got)
		}
	}
}

func TestBadResources(t *testing.T) {
	for want, list := range map[string][]Resource{
		"needs a name":          {{Capacity: 1, Match: "Bash"}},
		"blanks":                {{Name: " a", Capacity: 1, Match: "Bash"}},
		"capacity 0":            {{Name: "a", Match: "Bash"}},
		"capacity -3":           {{Name: "a", Capacity: -3, Match: "Bash"}},
		"there twice":           {{Name: "a", Capacity: 1, Match: "Bash"}, {Name: "a", Capacity: 2, Match: "Read"}},
		"taskdaemon gives":      {{Name: "repo:x", Capacity: 1, Match: "Bash"}},
		"bracket is not closed": {{Name: "a", Capacity: 1, Match: "Bash("}},
		"a tool is missing":     {{Name: "a", Capacity: 1}},
		"nothing in the brack":  {{Name: "a", Capacity: 1, Match: "Bash()"}},
		"not a valid glob":      {{Name: "a", Capacity: 1, Match: "Read(a[)"}},
		`"a": match: "a b": "a`: {{Name: "a", Capacity: 1, Match: "a b"}},
		"here.yaml:3: the res":  {{Name: "a", Match: "Bash", Where: "here.yaml:3"}},
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
		u := bash(command, "/r")
		u.Hosts, u.Shared = []string{path}, true
		u.Paths = []policy.PathUse{{Path: path, Access: policy.Read}, {Path: path, Access: policy.Write}, {Path: "/x", Access: policy.Write}}
		wants := r.Wants(u)
		if err := td.CheckWants(wants); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(wants, r.Wants(u)); d != "" {
			t.Fatal("the same call wants something else: " + d)
		}
	})
}
