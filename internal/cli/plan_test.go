package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// planBench is a bench in a project with a graph.
type planBench struct {
	*bench
	dir    string
	titles map[string]string // of handles
}

func newPlanBench(t *testing.T) *planBench {
	t.Helper()
	b := &planBench{bench: newBench(t), dir: t.TempDir(), titles: map[string]string{}}
	if _, err := b.fake.InitPlan(t.Context(), api.InitPlan{Dir: b.dir}); err != nil {
		t.Fatal(err)
	}
	return b
}

// ok runs a command in the project and returns what it printed, handles replaced by what they name.
func (b *planBench) ok(t *testing.T, args ...string) string {
	t.Helper()
	if code := b.in(t, args...); code != 0 {
		t.Fatalf("%v: exit %d: %s", args, code, b.stderr)
	}
	return b.named(b.stdout.String())
}

func (b *planBench) in(t *testing.T, args ...string) int {
	t.Helper()
	return b.do(t, append(args, "--dir", b.dir)...)
}

var someHandle = regexp.MustCompile(`t-[0-9a-z]{8}`)

func (b *planBench) named(text string) string {
	return someHandle.ReplaceAllStringFunc(text, func(h string) string {
		if title := b.titles[h]; title != "" {
			return "<" + title + ">"
		}
		return h
	})
}

// plan adds a task with its title as text and returns its handle.
func (b *planBench) plan(t *testing.T, title string, flags ...string) string {
	t.Helper()
	if code := b.in(t, append([]string{"task", "add", title, "--plan"}, flags...)...); code != 0 {
		t.Fatalf("plan %s: exit %d: %s", title, code, b.stderr)
	}
	h := strings.TrimSpace(b.stdout.String())
	b.titles[h] = title
	return h
}

// house is a plan: floor and wall are in the shell, the wall waits for the floor, the roof for the shell.
func (b *planBench) house(t *testing.T) (shell, floor, wall, roof string) {
	t.Helper()
	shell = b.plan(t, "shell")
	floor = b.plan(t, "floor", "--parent", shell)
	wall = b.plan(t, "wall", "--after", floor, "--parent", shell)
	roof = b.plan(t, "roof", "--after", shell, "--related", wall)
	return shell, floor, wall, roof
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s is\n%s\nwant\n%s", what, got, want)
	}
}

func TestTaskAddPlans(t *testing.T) {
	b := newPlanBench(t)
	first, feature := b.plan(t, "first"), b.plan(t, "feature", "--kind", "prd")
	if code := b.in(t, "task", "add", "the first line\nand more", "--after", first, "--parent", feature, "--kind", "spec", "--priority", "0", "--label", "a,b",
		"--validate", "make", "--tier", "expert", "--json"); code != 0 {
		t.Fatal(b.stderr)
	}
	var p api.Planned
	if err := json.Unmarshal(b.stdout.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if p.Title != "the first line" || p.Text != "the first line\nand more" || p.Kind != td.KindSpec || p.Priority != 0 || len(p.Labels) != 2 ||
		p.Validator != "make" || p.Tier != td.Expert || p.CreatedBy != "me" || len(p.Blockers) != 1 || p.Blockers[0].Handle != first {
		t.Errorf("the task is %+v", p)
	}
	b.plan(t, "second", "--after", first)
	wantIn(t, "stderr", b.stderr.String(), "planned; it waits for "+first+" (first)")
	if tasks, _ := b.fake.Tasks(t.Context(), api.TaskQuery{}); len(tasks) != 0 {
		t.Errorf("what is planned was started: %+v", tasks)
	}
	for _, flag := range []string{"--wait", "--yes", "--model=m", "--budget=1", "--rehearse=x"} {
		if code := b.in(t, "task", "add", "x", "--plan", flag); code != exitUsage {
			t.Errorf("%s: exit %d: %s", flag, code, b.stderr)
		}
	}
	if code := b.in(t, "task", "add", "x", "--after", "t-none"); code != exitNotFound {
		t.Errorf("an unknown task: exit %d: %s", code, b.stderr)
	}
	if code := b.do(t, "task", "add", "x", "--plan", "--dir", t.TempDir()); code != exitNotFound {
		t.Errorf("no graph: exit %d", code)
	}
	wantIn(t, "stderr", b.stderr.String(), "next:  taskdaemon init")
}

func TestTaskTree(t *testing.T) {
	b := newPlanBench(t)
	b.do(t, "task", "tree", "--dir", b.dir)
	wantIn(t, "an empty tree", b.stderr.String(), "nothing is planned")
	shell, floor, _, _ := b.house(t)
	inner := b.plan(t, "nails", "--parent", floor)
	b.plan(t, "iron", "--parent", inner)
	same(t, "the tree", b.ok(t, "task", "tree"), `· <shell>  shell
├─ · <floor>  floor
│  └─ · <nails>  nails
│     └─ ○ <iron>  iron
└─ · <wall>  wall  waits for <floor> (floor)
· <roof>  roof  waits for <shell> (shell)
`)
	same(t, "a part of it", b.ok(t, "task", "tree", floor), "· <floor>  floor\n└─ · <nails>  nails\n   └─ ○ <iron>  iron\n")
	same(t, "a leaf", b.ok(t, "task", "tree", b.plan(t, "bell")), "○ <bell>  bell\n")
	b.plan(t, "wire", "--parent", b.plan(t, "fence"))
	wantIn(t, "the tree", b.ok(t, "task", "tree"), "└─ · <wall>  wall", "· <fence>  fence\n└─ ○ <wire>  wire\n")
	var all []api.Planned
	b.in(t, "task", "tree", shell, "--json")
	if err := json.Unmarshal(b.stdout.Bytes(), &all); err != nil || len(all) != 5 {
		t.Errorf("as JSON: %d, %v", len(all), err)
	}
}

func TestTaskReadyAndBlocked(t *testing.T) {
	b := newPlanBench(t)
	_, floor, wall, roof := b.house(t)
	wantIn(t, "ready", b.ok(t, "task", "ready"), "TASK", "<floor>", "○ ready")
	if out := b.ok(t, "task", "ready"); strings.Contains(out, "wall") {
		t.Errorf("ready is %s", out)
	}
	wantIn(t, "blocked", b.ok(t, "task", "blocked"), "<wall>", "waits", "waits for <floor> (floor)", "<roof>")
	if out := b.ok(t, "task", "blocked", "--json"); strings.Contains(out, `"ready": true`) {
		t.Errorf("blocked is %s", out)
	}
	b.ok(t, "task", "fail", floor, "no", "wood")
	wantIn(t, "blocked", b.ok(t, "task", "blocked"), "failed", "cannot go on: <floor> (floor) did not succeed")
	b.ok(t, "task", "reset", floor)
	b.ok(t, "task", "done", floor, "it", "is", "level")
	wantIn(t, "ready", b.ok(t, "task", "ready", "--json"), `"title": "wall"`)
	wantIn(t, "list", b.ok(t, "task", "list", "--plan"), "<wall>", "<roof>")
	if out := b.ok(t, "task", "list", "--plan"); strings.Contains(out, "<floor>") {
		t.Errorf("the list is %s", out)
	}
	wantIn(t, "list --all", b.ok(t, "task", "list", "--plan", "--all"), "✓ completed", "<floor>")
	if out := b.ok(t, "task", "list", "--in", wall); strings.Contains(out, roof) {
		t.Errorf("what is in the wall: %s", out)
	}
	// By hand or by a merge there may be more in the way than one can plan.
	gone := td.NewTaskID()
	b.fake.Plant(b.dir, "lost", "", gone)
	self := b.fake.Plant(b.dir, "me first", "")
	b.fake.Plant(b.dir, "no, me", self)
	wantIn(t, "blocked", b.ok(t, "task", "blocked"), "unknown", "waits for what is not in the graph: t-")
}

func TestTaskDeps(t *testing.T) {
	b := newPlanBench(t)
	shell, floor, wall, roof := b.house(t)
	b.ok(t, "task", "deps", "add", roof, floor, wall)
	wantIn(t, "stderr", b.named(b.stderr.String()), "<roof> waits for <shell> (shell), <floor> (floor), <wall> (wall)")
	if code := b.in(t, "task", "deps", "add", floor, roof); code != exitConflict {
		t.Errorf("a circle: exit %d: %s", code, b.stderr)
	}
	wantIn(t, "stderr", b.stderr.String(), "next: ")
	b.ok(t, "task", "deps", "rm", roof, floor, shell)
	b.ok(t, "task", "deps", "add", floor, roof, "--related")
	wantIn(t, "stderr", b.named(b.stderr.String()), "<floor> is related to <roof> (roof)")
	same(t, "deps list", b.ok(t, "task", "deps", "list", floor), "blocks   · <wall> (wall), queued\nrelated  · <roof> (roof), queued\n")
	b.ok(t, "task", "deps", "rm", floor, roof, "--related")
	wantIn(t, "deps as JSON", b.ok(t, "task", "deps", "list", floor, "--json"), `"related": []`)
}

func TestTaskUpdateLogDelete(t *testing.T) {
	b := newPlanBench(t)
	shell, floor, wall, _ := b.house(t)
	b.stdin = strings.NewReader("of stone\nand sand")
	b.ok(t, "task", "update", floor, "--title", "ground", "--file", "-", "--priority", "1", "--parent", "", "--label", "x,y", "--validate", "true")
	b.ok(t, "task", "update", floor, "--unlabel", "x")
	p, err := b.fake.PlannedTask(t.Context(), b.dir, floor)
	if err != nil || p.Title != "ground" || p.Text != "of stone\nand sand" || p.Priority != 1 || p.Parent != nil || len(p.Labels) != 1 || p.Validator != "true" {
		t.Errorf("the task is %+v, %v", p, err)
	}
	for _, args := range [][]string{{floor}, {floor, "--text", "a", "--file", "b"}, {}} {
		if code := b.in(t, append([]string{"task", "update"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit %d: %s", args, code, b.stderr)
		}
	}
	wantIn(t, "log", b.ok(t, "task", "log", floor), "WHEN", "title: floor", "update")

	for _, ref := range []string{floor, shell} {
		if code := b.in(t, "task", "delete", ref); code != exitConflict {
			t.Errorf("delete %s: exit %d", ref, code)
		}
		wantIn(t, "stderr", b.stderr.String(), "--yes")
	}
	b.ok(t, "task", "delete", floor, "--yes")
	b.ok(t, "task", "delete", b.plan(t, "alone"))
	if p, _ := b.fake.PlannedTask(t.Context(), b.dir, wall); !p.Ready {
		t.Errorf("the wall still waits: %+v", p)
	}
	if code := b.in(t, "task", "delete", floor); code != exitNotFound {
		t.Errorf("delete again: exit %d", code)
	}
}

// On a terminal it is asked whether what others wait for shall go.
func TestTaskDeleteAsks(t *testing.T) {
	for answer, want := range map[string]int{"y\n": exitOK, "no\n": exitConflict} {
		b := newPlanBench(t)
		_, floor, _, _ := b.house(t)
		screen, tty := terminal(t)
		b.stdin = tty
		if _, err := screen.WriteString(answer); err != nil {
			t.Fatal(err)
		}
		if code := b.in(t, "task", "delete", floor); code != want {
			t.Errorf("%q: exit %d, want %d: %s", answer, code, want, b.stderr)
		}
		wantIn(t, "stderr", b.named(b.stderr.String()), "these wait for it: <wall> (wall)", "Delete it? [y/N]")
	}
}

func TestTaskShowPlanned(t *testing.T) {
	b := newPlanBench(t)
	_, floor, wall, roof := b.house(t)
	b.ok(t, "task", "update", wall, "--text", "of \x1b[31mbricks", "--label", "x")
	out := b.ok(t, "task", "show", wall)
	wantIn(t, "show", out, "<wall>  wall", "· waits: waits for <floor> (floor)", "part of    · <shell> (shell), queued", "waits for  · <floor> (floor), queued",
		"of ␛[31mbricks", "priority 2", "by me")
	wantIn(t, "show", b.ok(t, "task", "show", roof), "related    · <wall> (wall), queued")
	b.ok(t, "task", "fail", floor, "no", "wood")
	wantIn(t, "show", b.ok(t, "task", "show", floor), "✗ failed", "no wood", "blocks")
	if code := b.in(t, "task", "show", "t-none"); code != exitNotFound {
		t.Errorf("an unknown task: exit %d", code)
	}
	if code := b.do(t, "task", "show", "t-none", "--dir", t.TempDir()); code != exitNotFound {
		t.Errorf("an unknown task where there is no graph: exit %d", code)
	}
	wantIn(t, "stderr", b.stderr.String(), "no task matches")
}

func TestGraph(t *testing.T) {
	b := newPlanBench(t)
	b.in(t, "graph")
	wantIn(t, "an empty graph", b.stderr.String(), "nothing is planned")
	shell, floor, wall, roof := b.house(t)
	same(t, "the graph", b.ok(t, "graph"), `  1  ○ <floor>  floor
  2  · <wall>  wall  ← <floor>
  3  · <roof>  roof  ← <shell>
`)
	same(t, "the path", b.ok(t, "graph", "--path", "--in", shell), "  1  ○ <floor>  floor\n  2  · <wall>  wall  ← <floor>\n")
	same(t, "the whole path", b.ok(t, "graph", "--path"), "  1  ○ <floor>  floor\n  2  · <wall>  wall  ← <floor>\n  3  · <roof>  roof  ← <shell>\n")
	wantIn(t, "the impact", b.ok(t, "graph", "--impact", floor), "<wall>", "<roof>")
	b.in(t, "graph", "--impact", roof)
	wantIn(t, "no impact", b.stderr.String(), "nothing waits for it")
	b.ok(t, "task", "update", floor, "--title", `a "quoted" <b> \ #1`)
	dot := b.ok(t, "graph", "--format", "dot")
	wantIn(t, "dot", dot, "digraph tasks {", `"<floor>" -> "<wall>";`, `"<wall>" -> "<shell>" [style=dotted`, `"<roof>" -> "<wall>" [style=dashed`, `a \"quoted\" <b> \\ #1`, "shape=folder")
	mermaid := b.ok(t, "graph", "--format", "mermaid")
	name := func(h string) string { return strings.ReplaceAll(h, "-", "_") }
	wantIn(t, "mermaid", mermaid, "flowchart LR", "subgraph "+name(shell)+` ["· shell"]`, name(floor)+" --> "+name(wall), name(roof)+" -.- "+name(wall),
		`"○ a #quot;quoted#quot; #lt;b#gt; \ #35;1"`)
	wantIn(t, "json", b.ok(t, "graph", "--format", "json"), `"handle": `)
	for _, args := range [][]string{{"--format", "png"}, {"--path", "--impact", floor}} {
		if code := b.in(t, append([]string{"graph"}, args...)...); code != exitUsage {
			t.Errorf("%v: exit %d", args, code)
		}
	}
	// A circle that came by a merge hangs nothing.
	one := td.NewTaskID()
	two := b.fake.Plant(b.dir, "two", "", one)
	b.fake.Plant(b.dir, "three", two, two)
	if code := b.in(t, "graph"); code != 0 || !strings.Contains(b.stdout.String(), "roof") {
		t.Errorf("exit %d: %s", code, b.stdout)
	}
	b.ok(t, "graph", "--format", "mermaid")
}

func TestLayersLeaveCirclesOut(t *testing.T) {
	ref := func(ids ...td.TaskID) (out []api.PlanRef) {
		for _, id := range ids {
			out = append(out, api.PlanRef{ID: id, Handle: string(id)})
		}
		return out
	}
	all := []api.Planned{
		{ID: "a", Blockers: ref("b")},
		{ID: "b", Blockers: ref("a")},
		{ID: "c", Blockers: ref("a")},
		{ID: "d", Blockers: ref("gone")},
		{ID: "p", Container: true, Parent: &api.PlanRef{ID: "q"}},
		{ID: "q", Container: true, Parent: &api.PlanRef{ID: "p"}},
		{ID: "e", Parent: &api.PlanRef{ID: "p"}, Blockers: ref("d")},
	}
	layers, knots := layered(all)
	if len(layers) != 2 || layers[0][0].ID != "d" || layers[1][0].ID != "e" || len(knots) != 3 {
		t.Errorf("layers %+v, knots %+v", layers, knots)
	}
}

func TestImport(t *testing.T) {
	b := newPlanBench(t)
	file := filepath.Join(b.dir, "todo.md")
	if err := os.WriteFile(file, []byte("# House\n- [x] floor\n  of oak\n- [ ] wall\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	same(t, "the preview", b.ok(t, "import", file, "--dry-run"), "· House\n  ✓ floor\n  · wall\n")
	if all, _ := b.fake.Planned(t.Context(), api.PlanQuery{Dir: b.dir}); len(all) != 0 {
		t.Errorf("the preview added %+v", all)
	}
	wantIn(t, "import", b.ok(t, "import", file), "House", "floor", "wall")
	wantIn(t, "stderr", b.stderr.String(), "3 tasks added, 0 there already")
	if err := os.WriteFile(file, []byte("# House\n- [x] floor\n- [ ] wall\n- [ ] roof\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	wantIn(t, "import again", b.ok(t, "import", file), "roof")
	wantIn(t, "stderr", b.stderr.String(), "1 task added, 3 there already")
	floor, _ := b.fake.Planned(t.Context(), api.PlanQuery{Dir: b.dir, States: []td.State{td.Completed}})
	if len(floor) != 1 || floor[0].Text != "of oak" || floor[0].Parent == nil || floor[0].Parent.Title != "House" {
		t.Errorf("the floor is %+v", floor)
	}
	b.stdin = strings.NewReader(`{"id":"bd-2","title":"late","dependencies":[{"depends_on_id":"bd-1","type":"blocks"},{"depends_on_id":"bd-0","type":"blocks"}]}` + "\n" + `{"id":"bd-1","title":"soon"}`)
	wantIn(t, "import of beads", b.ok(t, "import", "-", "--format", "beads", "--parent", floor[0].Parent.Handle), "soon", "late")
	wantIn(t, "stderr", b.stderr.String(), "line 1: bd-2: its tie to bd-0 is left out")
	for _, tc := range []struct{ text, format, want string }{
		{"- [ ]\n", "markdown", "line 1: the item has no title"},
		{"{}\n", "beads", "line 1: the issue has no id"},
		{"x", "word", "markdown or beads"},
		{"x", "", "--format markdown"},
	} {
		b.stdin = strings.NewReader(tc.text)
		if code := b.in(t, "import", "-", "--format", tc.format); code != exitUsage {
			t.Errorf("%q: exit %d", tc.text, code)
		}
		wantIn(t, "stderr", b.stderr.String(), tc.want)
	}
}

func TestSync(t *testing.T) {
	b := newPlanBench(t)
	b.ok(t, "sync")
	wantIn(t, "stderr", b.stderr.String(), "nothing new")
	b.fake.Synced = api.PlanSynced{Pulled: 2, Pushed: 1, Conflicts: []string{"prds/x/spec.md"}, Problems: []string{"odd"}, Stopped: []string{"t-1"}}
	b.ok(t, "sync")
	wantIn(t, "stderr", b.stderr.String(), "2 commits came, 1 commit went", "both versions were kept: prds/x/spec.md", "problem: odd", "stopped: t-1")
	wantIn(t, "json", b.ok(t, "sync", "--json"), `"pulled": 2`)
}

func TestInitGivesAGraph(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	if code := b.do(t, "init", "--dir", dir, "--no-graph"); code != 0 {
		t.Fatal(b.stderr)
	}
	if code := b.do(t, "task", "tree", "--dir", dir); code != exitNotFound {
		t.Errorf("--no-graph: exit %d", code)
	}
	for _, want := range []string{"made", "kept"} {
		if code := b.do(t, "init", "--dir", dir); code != 0 {
			t.Fatal(b.stderr)
		}
		wantIn(t, "stderr", b.stderr.String(), want+" the graph of "+dir+" in .taskdaemon, a plain folder")
	}
	b.do(t, "init", "--dir", dir, "--json")
	wantIn(t, "json", b.stdout.String(), `"root": "`+dir)
}

// Everything below a graph is part of its project, so a home folder gets one only if it is named.
func TestInitGivesAHomeFolderNoGraph(t *testing.T) {
	b := newBench(t)
	t.Chdir(b.env["HOME"])
	if code := b.do(t, "init"); code != 0 {
		t.Fatal(b.stderr)
	}
	wantIn(t, "stderr", b.stderr.String(), "wrote ", "no graph for ", "taskdaemon init --dir PROJECT")
	if code := b.do(t, "task", "tree"); code != exitNotFound {
		t.Errorf("there is a graph: exit %d: %s", code, b.stdout)
	}
	if code := b.do(t, "init", "--dir", "."); code != 0 {
		t.Fatal(b.stderr)
	}
	wantIn(t, "stderr", b.stderr.String(), "made the graph of")
}

func TestGraphMergeDriver(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours := file("ours", "ours is no change\nboth\n")
	if code := b.do(t, "graph", "merge-driver", file("base", ""), ours, file("theirs", "both\ntheirs is none\n")); code != 0 {
		t.Fatal(b.stderr)
	}
	got, err := os.ReadFile(ours)
	if err != nil || string(got) != "both\nours is no change\ntheirs is none\n" {
		t.Errorf("merged: %q, %v", got, err)
	}
	if code := b.do(t, "graph", "merge-driver", ours, ours, filepath.Join(dir, "absent")); code != exitStorage {
		t.Errorf("without a file: exit %d", code)
	}
}
