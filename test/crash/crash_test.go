// Package crash is the crash suite: it kills the real daemon, built with failpoints, at every point in
// every scenario, starts it again, lets it run to the end, and holds the end against that of a run that
// was not killed. What was done and what was acknowledged is counted outside the daemon.
package crash

import (
	"flag"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"

	"taskdaemon/internal/tool/mcp/mcptest"
)

var (
	only  = flag.String("crash.scenario", "", "run this scenario alone")
	point = flag.String("crash.point", "", "kill at this point alone, as name:hit")
)

// binary is the daemon under test, built once with failpoints.
var binary string

func TestMain(m *testing.M) {
	if mcptest.Main() {
		return
	}
	flag.Parse()
	os.Exit(build(m))
}

func build(m *testing.M) int {
	if binary = os.Getenv("TASKDAEMON_CRASH_BINARY"); binary != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "taskdaemon-crash")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary = filepath.Join(dir, "taskdaemon")
	cmd := exec.Command("go", "build", "-tags", "failpoint", "-o", binary, "taskdaemon/cmd/taskdaemon")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the daemon with failpoints: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// kill is a point to die at: its name and which of its hits.
type kill struct {
	name string
	hit  int
}

func (k kill) String() string { return fmt.Sprintf("%s:%d", k.name, k.hit) }

// points lists every failpoint that is linked into the binary.
func points(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command(binary, "failpoints").Output()
	if err != nil {
		t.Fatalf("list failpoints: %v", err)
	}
	return strings.Fields(string(out))
}

// unreached are points that no scenario of this suite passes, and why that is right. A name that ends with a dot
// stands for all that begin with it.
var unreached = map[string]string{
	"git.graph.":                 "who keeps the branch of a graph is killed at each of them in internal/git (TestGraphKilledAtEveryPoint)",
	"git.worktree.":              "who makes, moves or removes a worktree is killed at each of them in internal/git (TestWorktreeKilledAtEveryPoint)",
	"engine.attend.recovered":    "a task that another daemon on the same journal let fall: the simulation passes it",
	"memory.file.before_remove":  "only people remove learnings, and no daemon does it for them",
	"memory.file.after_remove":   "the same",
	"mirror.heal.before_aside":   "a branch of the mirror that somebody damaged: tested beside the mirror",
	"mirror.tidy.before_start":   "twenty idle seconds: the mirror's own kill test passes it",
	"rebuild.":                   "no daemon is at work while a journal is made again: who does it is killed at each of them in internal/rebuild (TestKilledAtEveryPoint)",
	"sandbox.orphan.before_kill": "a process that outlived its shim: a death there leaves it to the next start, as now",
}

func excused(name string) bool {
	for e := range unreached {
		if name == e || strings.HasSuffix(e, ".") && strings.HasPrefix(name, e) {
			return true
		}
	}
	return false
}

// TestEveryPoint kills at every failpoint of every scenario, in the middle of its hits (when soaking at up to
// fifty of them, spread over the run), and checks that every point of the binary was died at.
func TestEveryPoint(t *testing.T) {
	var plans []plan
	hits := map[string]int{}
	var mu sync.Mutex
	again := map[string][]plan{} // by scenario: those that die in a recovery
	_, parts := part(t)
	scenarios := mine(t, chosen(t))
	each(scenarios, func(s scenario) {
		base := s.baseline(t)
		if len(s.points) > 0 && !s.again {
			return
		}
		found := recoveries(t, s, base)
		mu.Lock()
		defer mu.Unlock()
		again[s.name] = found
	})
	for _, s := range scenarios {
		base := s.baseline(t)
		names := make([]string, 0, len(base.trace))
		for name := range base.trace {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			if len(s.points) > 0 && !slices.Contains(s.points, name) {
				continue
			}
			chosen := spread(base.trace[name], hitsEach())
			if len(chosen) == 1 && strings.HasPrefix(name, "sandbox.shim.") {
				chosen[0] = base.trace[name] // not that of a background job: nobody waits for those
			}
			for _, n := range chosen {
				plans = append(plans, plan{scenario: s, base: base, kills: []kill{{name, n}}})
			}
		}
		plans = append(plans, again[s.name]...)
	}
	all := plans
	plans = share(t, plans)
	if *point != "" {
		plans = slices.DeleteFunc(plans, func(p plan) bool { return p.kills[0].String() != *point })
	}
	died := func(r result) {
		mu.Lock()
		defer mu.Unlock()
		for _, k := range r.died {
			hits[k.name]++
		}
	}
	runAll(t, plans, died)
	// What happens beside a run may be over before the hit that was chosen comes, or before a recovery was looked at.
	for try := 0; try < 3 && *only == "" && *point == "" && !t.Failed(); try++ {
		if planned := undied(all, nil, 0); parts == 1 && slices.ContainsFunc(points(t), func(name string) bool {
			return !excused(name) && !slices.ContainsFunc(planned, func(p plan) bool { return p.last() == name })
		}) {
			for _, s := range scenarios {
				if s.again || len(s.points) == 0 {
					all = append(all, recoveries(t, s, s.baseline(t))...)
				}
			}
		}
		runAll(t, slices.DeleteFunc(undied(all, hits, try), func(p plan) bool { return !due(t, p.last()) }), died)
	}
	total := 0
	for _, n := range hits {
		total += n
	}
	t.Logf("%d kills at %d points", total, len(hits))
	if *only != "" || *point != "" || parts > 1 || t.Failed() {
		return
	}
	for _, name := range points(t) {
		if hits[name] == 0 && !excused(name) {
			t.Errorf("nothing died at %s: add a scenario that passes it, or say why none can", name)
		}
	}
}

// part is which of how many parts of the suite TASKDAEMON_CRASH_PART asks for, as 0/3 to 2/3 for the thirds; all of it when it is not set.
func part(t *testing.T) (k, n int) {
	t.Helper()
	k, n = 0, 1
	if text := os.Getenv("TASKDAEMON_CRASH_PART"); text != "" {
		if _, err := fmt.Sscanf(text, "%d/%d", &k, &n); err != nil || n < 1 || k < 0 || k >= n {
			t.Fatalf("TASKDAEMON_CRASH_PART=%s: want a part such as 0/2", text)
		}
	}
	return k, n
}

// groups is how many groups of scenarios the parts of the suite take turns with: each scenario has to be run a few times before the first kill.
const groups = 4

// mine are those of the scenarios that a part of the suite runs; all, if that would be none.
func mine(t *testing.T, all []scenario) []scenario {
	t.Helper()
	k, n := part(t)
	some := slices.DeleteFunc(slices.Clone(all), func(s scenario) bool {
		return n > 1 && int(crc32.ChecksumIEEE([]byte(s.name))%groups) != k%groups
	})
	if len(some) == 0 {
		return all
	}
	return some
}

// due reports whether a part of the suite must die at a point: at half of them, which half goes by the part. The whole suite dies at all.
func due(t *testing.T, name string) bool {
	t.Helper()
	k, n := part(t)
	return n == 1 || int(crc32.ChecksumIEEE([]byte(name))%2) == k%2
}

// share leaves the part of the plans that is asked for, and so each point that is due and would be left out once.
func share(t *testing.T, plans []plan) []plan {
	t.Helper()
	k, n := part(t)
	var mine, rest []plan
	for _, p := range plans {
		if p.spare {
			continue
		}
		sum := crc32.ChecksumIEEE(fmt.Append(nil, p.scenario.name, p.kills))
		if of := max(n/groups, 1); int(sum)%of == k/groups%of {
			mine = append(mine, p)
		} else {
			rest = append(rest, p)
		}
	}
	// A shim may be through before it comes to the hit that was chosen, so its points need more than one try.
	enough := func(name string) int {
		if strings.HasPrefix(name, "sandbox.shim.") {
			return 4
		}
		return 1
	}
	planned := map[string]int{}
	for _, p := range mine {
		planned[p.last()]++
	}
	for _, p := range rest {
		if due(t, p.last()) && planned[p.last()] < enough(p.last()) {
			planned[p.last()]++
			mine = append(mine, p)
		}
	}
	return mine
}

// undied are plans for the points that nothing died at yet, one for each: with each try another one, from the last on.
func undied(plans []plan, hits map[string]int, try int) (again []plan) {
	lead := map[string][]plan{}
	for _, p := range plans {
		if last := p.last(); hits[last] == 0 {
			lead[last] = append(lead[last], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lead)) {
		some := lead[name]
		again = append(again, some[len(some)-1-try%len(some)])
	}
	return again
}

// inFlight are points that leave something in flight, so that recovery has something to settle: what all scenarios have first.
var inFlight = []kill{
	{"durable.step.intended", 2},
	{"engine.tool.ran", 1},
	{"sandbox.start.before_spawn", 1},
	{"sandbox.start.after_started", 1},
	{"builtin.change.before_rename", 1},
	{"daemon.query.intended", 1},
	{"daemon.removal.before_record", 1},
}

// recoveries are plans that die a second time at each point that only a recovery passes.
func recoveries(t *testing.T, s scenario, base baseline) []plan {
	t.Helper()
	var plans []plan
	seen := map[string]bool{}
	for _, first := range inFlight {
		if base.trace[first.name] < first.hit {
			continue
		}
		w := newRun(t, s)
		w.what = fmt.Sprintf("%s, killed at %s and recovered", s.name, first)
		w.toTheEnd([]kill{first})
		w.checkHouse()
		for name := range readTrace(t, w.traceOf(1)) {
			if base.trace[name] == 0 {
				// One that was passed by chance, because something else was in flight, too, may not be passed again.
				plans = append(plans, plan{scenario: s, base: base, kills: []kill{first, {name, 1}}, spare: seen[name]})
				seen[name] = true
			}
		}
		if !w.failed {
			w.remove()
		}
	}
	return plans
}

// TestKilledAgainWhileRecovering kills a second time, somewhere in the recovery from the first.
func TestKilledAgainWhileRecovering(t *testing.T) {
	_, parts := part(t)
	want := 200 / parts
	rnd := rand.New(rand.NewPCG(seed(t), 2))
	var plans []plan
	// Those that are there for a few points alone are killed at those.
	scenarios := mine(t, slices.DeleteFunc(slices.Clone(chosen(t)), func(s scenario) bool { return len(s.points) > 0 }))
	if len(scenarios) == 0 {
		t.Skipf("%q is killed at its own points alone, by TestEveryPoint", *only)
	}
	bases := make([]baseline, len(scenarios))
	for i, s := range scenarios {
		bases[i] = s.baseline(t)
	}
	for i := range soak(want*7/5+8, 2040) { // not all of them live long enough to be killed twice; of a few, luck has it
		s, base := scenarios[i%len(scenarios)], bases[i%len(scenarios)]
		plans = append(plans, plan{scenario: s, base: base, kills: []kill{
			{"*", 1 + rnd.IntN(base.total)}, {"*", 1 + rnd.IntN(max(base.total*2/3, 1))},
		}})
	}
	var mu sync.Mutex
	twice := 0
	runAll(t, plans, func(r result) {
		mu.Lock()
		defer mu.Unlock()
		if len(r.died) == 2 {
			twice++
		}
	})
	t.Logf("%d runs were killed twice", twice)
	if twice < want && *only == "" && !t.Failed() {
		t.Errorf("%d runs were killed twice; the suite is meant to make at least %d", twice, want)
	}
}

// spread is up to n of the hits 1..total: the first, the last, and some between; one alone is in the middle.
func spread(total, n int) []int {
	if n == 1 {
		return []int{(total + 1) / 2}
	}
	if total <= n {
		n = total
	}
	var out []int
	for i := range n {
		h := 1 + i
		if i > 0 && n > 1 {
			h = 1 + i*(total-1)/(n-1)
		}
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	return out
}

func hitsEach() int { return soak(1, 50) }

func soak(commit, long int) int {
	if os.Getenv("TASKDAEMON_SOAK") != "" {
		return long
	}
	return commit
}

func seed(t *testing.T) uint64 {
	s := rand.Uint64()
	if v := os.Getenv("TASKDAEMON_SEED"); v != "" {
		if _, err := fmt.Sscan(v, &s); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TASKDAEMON_SEED=%d", s)
	return s
}

// runAll carries the plans out, a few at a time.
func runAll(t *testing.T, plans []plan, ended func(result)) {
	t.Helper()
	each(plans, func(p plan) { ended(p.run(t)) })
}

// each does it for all, four at a time: runs wait for disks and processes more than they compute.
func each[T any](all []T, do func(T)) {
	jobs := make(chan T)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for one := range jobs {
				do(one)
			}
		})
	}
	for _, one := range all {
		jobs <- one
	}
	close(jobs)
	wg.Wait()
}
