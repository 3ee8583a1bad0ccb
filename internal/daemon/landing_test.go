package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"taskdaemon/internal/config"
	"taskdaemon/internal/merge"
	"taskdaemon/internal/rulebook"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
	"taskdaemon/internal/worktree"
	"taskdaemon/internal/worktree/worktreetest"
)

// busyHands is a repository whose trunk gets a commit of a person right before it is updated, a number of times.
type busyHands struct {
	worktreetest.Hands
	commits *int
}

func (h busyHands) FastForward(ctx context.Context, repo, branch, to string, before func() error) error {
	return h.Hands.FastForward(ctx, repo, branch, to, func() error {
		if err := before(); err != nil {
			return err
		}
		if *h.commits > 0 {
			*h.commits--
			h.CommitByHand("mine", strings.Repeat("x", *h.commits))
		}
		return nil
	})
}

// However often a trunk goes on while it is updated, that is one step, which has an end.
func TestLandingIsOneStep(t *testing.T) {
	for name, commits := range map[string]int{"at once": 0, "at the third attempt": 2, "never": 1000} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d := bare(t, t.TempDir(), newJournal())
			var err error
			if d.own, err = openStream(ctx, d.journal, d.keeper); err != nil {
				t.Fatal(err)
			}
			repo := worktreetest.New(t.TempDir(), simTrunk)
			hands := busyHands{worktreetest.Hands{Repo: repo, Do: func(_ context.Context, _ bool, deed func()) error { deed(); return nil }}, &commits}
			d.trees = &worktree.Trees{Git: hands, Config: func(string) config.Worktree { return config.Worktree{Trunk: config.TrunkAuto} }, Log: d.o.Log}
			old, err := hands.RefAt(ctx, repo.Root, "refs/heads/"+simTrunk)
			if err != nil {
				t.Fatal(err)
			}
			tree, err := hands.TreeOf(ctx, repo.Root, old)
			if err != nil {
				t.Fatal(err)
			}
			work, err := hands.CommitTree(ctx, repo.Root, tree, "work", old)
			if err != nil {
				t.Fatal(err)
			}
			if err := hands.MoveRef(ctx, repo.Root, "refs/heads/"+simInto, work, ""); err != nil {
				t.Fatal(err)
			}
			in, err := newLanding(d).land(ctx, td.Unlanded{Repo: repo.Root, Trunk: simTrunk, Into: simInto, Commit: work})
			if err != nil || (in.Reason != "") != (name == "never") {
				t.Fatalf("%+v, %v", in, err)
			}
			var begun, ended []td.StepKey
			for ev, err := range d.journal.Read(ctx, td.DaemonStream, 0) {
				if err != nil {
					t.Fatal(err)
				}
				switch b := ev.Body.(type) {
				case td.StepIntended:
					begun = append(begun, b.Key)
				case td.StepEnded:
					ended = append(ended, b.Outcome.Key)
				}
			}
			if len(begun) != 1 || !slices.Equal(begun, ended) {
				t.Errorf("begun %v, ended %v", begun, ended)
			}
			if left, err := d.underWay(ctx, td.FollowStep); err != nil || len(left) > 0 {
				t.Errorf("under way: %v, %v", left, err)
			}
		})
	}
}

// lander is a landing that validates commits of a real repository, with commands that are not confined.
func lander(t *testing.T, set *config.Worktree) (*landing, td.Unlanded, string) {
	t.Helper()
	state := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	repo, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	commit := ""
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"commit", "-q", "--allow-empty", "-m", "begin"}, {"rev-parse", "HEAD"}} {
		cmd := exec.Command("git", append([]string{"-C", repo, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		commit = strings.TrimSpace(string(out))
	}
	log := slog.New(slog.NewTextHandler(logTo(t), nil))
	conf := config.Default()
	conf.Sandbox.Mode = config.SandboxOff
	d := &Daemon{markIn: unmarked, o: Options{StateDir: state, UserDir: state, Log: log, Config: conf, Getenv: func(string) string { return "" }, Self: self}}
	d.spool = &sandbox.Spool{Dir: filepath.Join(state, "spool"), Self: self}
	d.book = rulebook.New(rulebook.Options{UserDir: state, StateDir: state, Checkouts: CheckoutsDir(state), Config: conf})
	d.trees = &worktree.Trees{Git: worktree.Program{}, Config: func(string) config.Worktree { return *set }, Checkouts: CheckoutsDir(state), Log: log}
	return newLanding(d), td.Unlanded{Repo: repo, Trunk: "main", Into: simInto}, commit
}

// What did not pass is not tried again until something changes that it depends on: the tree, the validators, the set-up, or the rules.
func TestChecksAreTriedAgainWhenTheyChange(t *testing.T) {
	set := &config.Worktree{}
	l, u, commit := lander(t, set)
	count := filepath.Join(t.TempDir(), "count")
	ran := 0
	try := func(validator, want string, runs bool) {
		t.Helper()
		l.slots <- struct{}{} // as whoever looks has
		defer func() { <-l.slots }()
		said, err := l.check(u)(t.Context(), commit, []merge.Work{{Task: td.NewTaskID(), Check: validator}})
		if err != nil || (said == "") != (want == "") || !strings.Contains(said, want) {
			t.Errorf("it says %q, want %q; %v", said, want, err)
		}
		raw, _ := os.ReadFile(count) // there is none before the first
		if runs != (len(raw) > ran) {
			t.Errorf("commands have run %d times after %d", len(raw), ran)
		}
		ran = len(raw)
	}
	runs := "printf x >> " + count
	try(runs+"; false", "ended with 1", true)
	try(runs+"; false", "ended with 1", false)
	try(runs, "", true)
	set.Setup = runs + "; exit 3"
	try(runs, "ended with 3", true)
	try(runs, "ended with 3", false)
	set.Setup = runs
	try(runs, "", true)

	rules := filepath.Join(l.o.UserDir, "permissions.yaml")
	if err := os.WriteFile(rules, []byte("rules: [{deny: 'Bash(shuf *)'}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	try(runs+"; shuf -e x", "is forbidden", false) // nor is the set-up run for that
	if err := os.Remove(rules); err != nil {
		t.Fatal(err)
	}
	try(runs+"; shuf -e x", "", true)
}

// A repository is watched where git keeps it, whatever keeps its refs.
func TestWatchedFolders(t *testing.T) {
	for name, args := range map[string][]string{"inside": nil, "elsewhere": {"--separate-git-dir", filepath.Join(t.TempDir(), "git")}} {
		t.Run(name, func(t *testing.T) {
			repo := t.TempDir()
			common := filepath.Join(repo, ".git")
			if len(args) > 0 {
				common = args[1]
			}
			if out, err := exec.Command("git", slices.Concat([]string{"init", "-q"}, args, []string{repo})...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			got := watched(repo, "feature/x")
			for _, want := range []string{"", "refs/heads", "refs/heads/feature", "reftable"} {
				if want = filepath.Join(common, want); !slices.Contains(got, want) {
					t.Errorf("%s is not among %q", want, got)
				}
			}
		})
	}
}

// hanging is a repository whose validators come to no end, and which tells that it was looked at.
type hanging struct {
	worktreetest.Hands
	begun  chan string // validators
	looked chan string // repositories
}

func (h hanging) CheckoutCommit(ctx context.Context, repo, _, _ string) error {
	h.begun <- repo
	<-ctx.Done()
	return context.Cause(ctx)
}

func (h hanging) Refs(_ context.Context, repo string, _ ...string) (map[string]string, error) {
	h.looked <- repo
	return nil, nil
}

// A validator that hangs holds up the landing of its own repository, and not that of others.
func TestLandingIsHeldUpByItsOwnRepositoryAlone(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := bare(t, t.TempDir(), newJournal())
	d.spool = &sandbox.Spool{Dir: filepath.Join(t.TempDir(), "spool")}
	hands := hanging{worktreetest.Hands{Repo: worktreetest.New(t.TempDir(), simTrunk), Do: func(_ context.Context, _ bool, deed func()) error { deed(); return nil }}, make(chan string, 10), make(chan string, 10)}
	d.trees = &worktree.Trees{Git: hands, Config: func(string) config.Worktree { return config.Worktree{} }, Log: d.o.Log, Checkouts: t.TempDir()}
	l := newLanding(d)
	commit, err := hands.RefAt(ctx, "", "refs/heads/"+simTrunk)
	if err != nil {
		t.Fatal(err)
	}
	for range mostLooks {
		l.at.Go(func() {
			l.slots <- struct{}{}
			defer func() { <-l.slots }()
			if _, err := l.check(td.Unlanded{Repo: "/hangs"})(ctx, commit, []merge.Work{{Check: "sleep"}}); err == nil {
				t.Error("it came to an end")
			}
		})
		<-hands.begun
	}
	l.knows("/other")
	l.look(ctx, func(td.Unlanded) {})
	if repo := <-hands.looked; repo != "/other" {
		t.Errorf("looked at %s", repo)
	}
	if len(l.checksIn()) != mostLooks {
		t.Errorf("checkouts in use: %v", l.checksIn())
	}
	cancel()
	l.wait()
}

// Doctor leaves alone a validator that runs for work of a task that has ended, and names it when nobody waits for it any more.
func TestDoctorKnowsValidators(t *testing.T) {
	l, u, commit := lander(t, &config.Worktree{})
	d := l.Daemon
	d.journal = newJournal()
	d.trunks = &trunks{Daemon: d, landing: l}
	dir := t.TempDir()
	began, goOn := filepath.Join(dir, "began"), filepath.Join(dir, "go")
	if err := syscall.Mkfifo(began, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		l.slots <- struct{}{} // as whoever looks has
		defer func() { <-l.slots }()
		said, err := l.check(u)(t.Context(), commit, []merge.Work{{Task: td.NewTaskID(), Check: ": > " + began + "; until test -e " + goOn + "; do sleep 0.05; done"}})
		if said != "" {
			err = errors.Join(err, errors.New(said))
		}
		done <- err
	}()
	if _, err := os.ReadFile(began); err != nil { // which comes to an end when the validator runs
		t.Fatal(err)
	}
	for _, fix := range []bool{false, true} {
		if c, err := d.checkProcesses(t.Context(), fix); err != nil || len(c.Findings) > 0 {
			t.Fatalf("doctor finds %v, %v", c.Findings, err)
		}
	}
	name := l.checksIn()[0]
	l.uses(name, false) // as after a crash
	if c, err := d.checkProcesses(t.Context(), false); err != nil || len(c.Findings) != 1 {
		t.Errorf("of one that nobody waits for doctor finds %v, %v", c.Findings, err)
	}
	l.uses(name, true)
	if err := os.WriteFile(goOn, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
