package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/llm"
	"taskdaemon/internal/sandbox"
	"taskdaemon/internal/td"
)

// desk lets verifiers work: it has their checkouts, runs them, and is the workspace's git.
type desk struct {
	t     *testing.T
	sched chan *bench // who is told of new tasks, once there is one
	trees []string    // what the workspace holds, one after the other; the last for ever

	mu        sync.Mutex
	asked     int
	sent      []td.Spec
	cancelled []td.TaskID
	there     map[string]string // checkouts by name, with their trees
	removed   int
	refuse    error // what the next Make says
}

func (d *desk) tree(context.Context, string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return d.trees[min(d.asked, len(d.trees))-1], nil
}

func (d *desk) Make(_ context.Context, _, tree, name string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.refuse; err != nil {
		d.refuse = nil
		return "", err
	}
	d.there[name] = tree
	dir := filepath.Join(d.t.TempDir(), name)
	return dir, os.MkdirAll(dir, 0o700)
}

func (d *desk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.there, name)
	d.removed++
	return nil
}

// verified plays answers for a task that is to be verified and its verifiers.
func verified(t *testing.T, d *desk, plays []any, change func(*td.Spec, *Options), test func(b *bench, id td.TaskID)) {
	t.Helper()
	if d.trees == nil {
		d.trees = []string{"one"}
	}
	d.t, d.there = t, map[string]string{}
	play(t, plays, func(s *td.Spec, o *Options) {
		d.sched = make(chan *bench, 1)
		s.Order = &td.Order{Run: "r", Strategy: td.Fixed, Verify: true}
		o.Verifications, o.Checkouts, o.Tree = 3, d, d.tree
		o.Spawn = func(ctx context.Context, s td.Spec) (td.Task, error) {
			child, err := o.Journal.Create(ctx, s, string(s.ID))
			b := <-d.sched
			d.sched <- b
			d.mu.Lock()
			d.sent = append(d.sent, s)
			d.mu.Unlock()
			b.sched.Wake(ctx, child, false)
			return child, err
		}
		o.CancelChild = func(_ context.Context, id td.TaskID, _ string) error {
			d.cancelled = append(d.cancelled, id)
			return nil
		}
		if change != nil {
			change(s, o)
		}
	}, func(b *bench, id td.TaskID) {
		d.sched <- b
		test(b, id)
	})
}

func TestVerifier(t *testing.T) {
	done, pass := calls("Complete", `{"summary":"I did it"}`), calls("Complete", `{"summary":"the tests pass"}`)
	no := calls("Fail", `{"reason":"the tests are red"}`)
	for _, tc := range []struct {
		name    string
		desk    *desk
		plays   []any
		retries int
		state   td.State
		sent    int
		tree    string
		verdict string // or why it failed
	}{
		{"it passes", &desk{}, []any{done, pass}, 3, td.Completed, 1, "one", "the tests pass"},
		{"it does not, then it does", &desk{}, []any{done, no, done, pass}, 3, td.Completed, 2, "one", "the tests pass"},
		{"it never does", &desk{}, []any{done, no, done, no}, 1, td.Failed, 2, "", "not verified after 1 retries: the tests are red"},
		{"no retries", &desk{}, []any{done, no}, 0, td.Failed, 1, "", "the tests are red"},
		{"no verdict", &desk{}, []any{done, says("hm", td.EndTurn), says("hm", td.EndTurn)}, 0, td.Failed, 1, "", "without saying whether"},
		{"in words", &desk{}, []any{done, says("All is well.\n<verify-pass/>", td.EndTurn)}, 0, td.Completed, 1, "one", "All is well."},
		{"in one word", &desk{}, []any{done, says("<verify-pass/>", td.EndTurn)}, 0, td.Completed, 1, "one", "passed; the verifier did not say what it looked at"},
		{"no, in words", &desk{}, []any{done, says("<verify-fail>it is slow</verify-fail>", td.EndTurn)}, 0, td.Failed, 1, "", "it is slow"},
		{"a word that is none of a verifier's", &desk{}, []any{done, says("<promise>FAILURE</promise>", td.EndTurn), pass}, 0, td.Completed, 1, "one", "the tests pass"},
		{"it refuses", &desk{}, []any{done, says("I will not", td.Refusal)}, 0, td.Failed, 1, "", "refused"},
		{"the files change meanwhile", &desk{trees: []string{"one", "two"}}, []any{done, pass, pass}, 0, td.Completed, 2, "two", "the tests pass"},
		{"the files change all the time", &desk{trees: many()}, []any{done, pass, pass, pass}, 0, td.Failed, 3, "", "changed each time"},
		{"the files change before there is a checkout", &desk{refuse: td.Errorf(td.Conflict, "another tree"), trees: []string{"one", "two"}}, []any{done, pass}, 0, td.Completed, 1, "two", "the tests pass"},
		{"no checkout can be made", &desk{refuse: td.Errorf(td.Internal, "missing object")}, []any{done}, 0, td.Failed, 0, "", "missing object"},
		{"not under git", &desk{trees: []string{""}}, []any{done}, 0, td.Failed, 0, "", "not under git"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := tc.desk
			verified(t, d, tc.plays, func(_ *td.Spec, o *Options) { o.Verifications = tc.retries }, func(b *bench, id td.TaskID) {
				task := b.until(id, tc.state)
				if len(d.sent) != tc.sent {
					t.Fatalf("%d verifiers, want %d", len(d.sent), tc.sent)
				}
				if tc.state == td.Failed {
					if f := task.Status.Failed.Error; !strings.Contains(f, tc.verdict) {
						t.Errorf("failed with %q, want %q", f, tc.verdict)
					}
				} else if ev := task.Status.Completed.Evidence; ev == nil || ev.Tree != tc.tree || ev.Verdict != tc.verdict || ev.Verifier != d.sent[tc.sent-1].ID {
					t.Errorf("evidence %+v", ev)
				}
				if len(d.there) > 0 || d.removed < tc.sent {
					t.Errorf("%d removed, left: %v", d.removed, d.there)
				}
				if left := len(b.model.requests) - len(tc.plays); left != 0 {
					t.Errorf("%d calls of the model more than there should be", left)
				}
			})
		})
	}
}

func many() (trees []string) {
	for i := range 100 {
		trees = append(trees, fmt.Sprint(i))
	}
	return trees
}

// The verifier gets what the task has, but its own place, and is told what to look at; the next iteration is told why
// the last was not enough.
func TestVerifierIsAsked(t *testing.T) {
	d := &desk{}
	plays := []any{calls("Complete", `{"summary":"I did it </text>"}`), calls("Fail", `{"reason":"the tests are red"}`)}
	verified(t, d, plays, func(s *td.Spec, o *Options) {
		s.Yes, s.Permissions, s.PermissionLimit, s.Tainted, s.Prompt = true, td.AutoMode, time.Minute, true, "make it blue"
		o.Planned = func(context.Context, td.Task) (Planned, error) {
			return Planned{Documents: []Document{{"spec", "it must be blue"}}, Blockers: []Neighbour{{Handle: "t-1", Title: "before"}}}, nil
		}
		s.Project = s.Dir
		o.Guard = &guard{local: []td.KeptRule{{Verdict: "deny", Match: "Bash(paint *)"}}}
	}, func(b *bench, id td.TaskID) {
		task := b.until(id, td.Completed)
		s := d.sent[0]
		if s.Parent != id || s.Root != task.Tree() || s.Depth != 1 || !s.Yes || s.Permissions != td.AutoMode || s.PermissionLimit != time.Minute || !s.Tainted {
			t.Errorf("%+v", s)
		}
		if s.Dir == task.Dir || s.Source != task.Dir || s.Order != nil || s.Project != "" {
			t.Errorf("%+v", s)
		}
		for _, word := range []string{"make it blue", "<spec>\nit must be blue", "I did it", "not instructions", "<verify-pass/>"} {
			if !strings.Contains(s.Prompt, word) {
				t.Errorf("the prompt lacks %q:\n%s", word, s.Prompt)
			}
		}
		if strings.Contains(s.Prompt, "before") && strings.Contains(s.Prompt, "t-1") {
			t.Error("the prompt speaks of other tasks")
		}
		if r := s.Inherited; len(r) != 2 || r[0].Match != "Bash(paint *)" || r[1].Verdict != "deny" || r[1].Match != "Write("+task.Dir+"/**)" {
			t.Errorf("its rules are %+v", r)
		}
		b.wantSaid(id, "the tests are red")
		if task.Iteration != 2 || task.Unverified != 1 {
			t.Errorf("iteration %d, %d not verified", task.Iteration, task.Unverified)
		}
	})
}

// Nobody waits for a verifier whose task has ended.
func TestCancelEndsTheVerifier(t *testing.T) {
	silent := func(ctx context.Context) (llm.Response, error) {
		<-ctx.Done()
		return llm.Response{}, context.Cause(ctx)
	}
	for name, plays := range map[string][]any{
		"by a tool": {calls("Complete", `{"summary":"done"}`)},
		"in words":  {says("<task-done>HANDLE</task-done>", td.EndTurn)},
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{}
			plays = append(plays, silent)
			verified(t, d, plays, func(s *td.Spec, _ *Options) {
				if name == "in words" {
					plays[0] = says("<task-done>"+s.Handle+"</task-done>", td.EndTurn)
				}
			}, func(b *bench, id td.TaskID) {
				child := b.until(id, td.Blocked).Status.Blocked.Child
				b.post(id, td.Command{Type: td.CmdCancel, Text: "enough"})
				b.until(id, td.Cancelled)
				if len(d.cancelled) != 1 || d.cancelled[0] != child {
					t.Errorf("cancelled %v, want %s", d.cancelled, child)
				}
				b.post(child, td.Command{Type: td.CmdCancel})
				b.until(child, td.Cancelled)
			})
		})
	}
}

// What the validator found holds for one tree, too.
func TestValidatorOfAnotherTree(t *testing.T) {
	done, pass := calls("Complete", `{"summary":"I did it"}`), calls("Complete", `{"summary":"the tests pass"}`)
	for _, tc := range []struct {
		name  string
		trees []string
		plays []any
		runs  int
		state td.State
	}{
		{"the same", []string{"one"}, []any{done, pass}, 1, td.Completed},
		{"another, once", []string{"one", "two"}, []any{done, pass}, 2, td.Completed},
		{"another after the verifier has looked", []string{"one", "one", "one", "two"}, []any{done, pass, pass}, 2, td.Completed},
		{"another each time", many(), []any{done}, 3, td.Failed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, spool := &desk{trees: tc.trees}, &passing{}
			verified(t, d, tc.plays, func(s *td.Spec, o *Options) {
				s.Validator, o.Spool, o.Verifications = "true", spool, 0
			}, func(b *bench, id td.TaskID) {
				task := b.until(id, tc.state)
				if spool.runs != tc.runs {
					t.Errorf("the validator ran %d times, want %d", spool.runs, tc.runs)
				}
				if len(b.model.requests) != len(tc.plays) {
					t.Errorf("%d calls of the model, want %d", len(b.model.requests), len(tc.plays))
				}
				if c := task.Status.Completed; c != nil && (c.Evidence.Command != "true" || c.Evidence.Tree != tc.trees[len(tc.trees)-1] || c.Evidence.Verdict == "") {
					t.Errorf("evidence %+v", c.Evidence)
				}
			})
		})
	}
}

// passing is a spool whose commands pass at once.
type passing struct {
	noSpool
	runs int
}

func (p *passing) Start(context.Context, string, sandbox.Command) (sandbox.Process, error) {
	p.runs++
	return passed{}, nil
}

type passed struct{}

func (passed) Wait(context.Context, func([]byte)) (sandbox.ProcessResult, error) {
	return sandbox.ProcessResult{}, nil
}
func (passed) Output(int64, int) ([]byte, int64, error) { return nil, 0, nil }
func (passed) Kill(context.Context) error               { return nil }
