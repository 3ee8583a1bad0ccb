package sqlite

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"taskdaemon/internal/store"
	"taskdaemon/internal/td"
)

// ack is one line of the ledger: something the journal acknowledged. The ledger is kept by another
// process, outside the journal.
type ack struct {
	Task   td.TaskID `json:"task"`
	Head   uint64    `json:"head,omitempty"`  // an append of two events, "w#a" and "w#b", that ended at this head
	Word   string    `json:"word,omitempty"`  // what they said
	Post   string    `json:"post,omitempty"`  // a command's key
	Took   bool      `json:"took,omitempty"`  // the command was consumed
	Epoch  uint64    `json:"epoch,omitempty"` // a claim
	Cursor uint64    `json:"cursor,omitempty"`
	// Refused: an append that failed with td.Storage, which promises that nothing was written.
	Refused bool `json:"refused,omitempty"`
	// Late: the ledger got it after it had begun to end the writer.
	Late bool `json:"-"`
}

// scribble writes to the journal from several goroutines until it ends or fails, and reports each
// acknowledgement. Bodies are of all sizes.
func scribble(ctx context.Context, s *Store, writers int, seed uint64, report func(ack)) error {
	var wg sync.WaitGroup
	errs := make(chan error, writers)
	for i := range writers {
		wg.Go(func() {
			w := scribbler{s: s, report: report, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
			errs <- w.run(ctx)
		})
	}
	wg.Wait()
	return <-errs
}

type scribbler struct {
	s      *Store
	report func(ack)
	rnd    *rand.Rand
	rounds int // zero: until it fails
	task   td.Task
	claim  td.Claim
}

func (w *scribbler) run(ctx context.Context) error {
	id := td.NewTaskID()
	t, err := w.s.Create(ctx, td.Spec{ID: id, Handle: td.Handle(td.TaskHandle, string(id), td.HandleLength), CreatedAt: time.Now()}, string(id))
	if err != nil {
		return err
	}
	c, err := w.s.Claim(ctx, id, td.Holder{Host: "h", Pid: os.Getpid()})
	if err != nil {
		return err
	}
	w.report(ack{Task: id, Epoch: c.Epoch})
	for n := 0; w.rounds == 0 || n < w.rounds; n++ {
		switch w.rnd.IntN(8) {
		case 0:
			key := fmt.Sprint("key ", n)
			if err := w.s.Post(ctx, id, td.Command{Key: key, Type: td.CmdMessage}); err != nil {
				return err
			}
			w.report(ack{Task: id, Post: key})
			ev := said("taken")
			ev.Takes = key
			if t, err = w.s.Append(ctx, c, t.Head, ev); err != nil {
				return err
			}
			w.report(ack{Task: id, Post: key, Took: true})
		case 1:
			if c, err = w.s.Claim(ctx, id, c.Holder); err != nil {
				return err
			}
			w.report(ack{Task: id, Epoch: c.Epoch})
		case 2:
			if err := w.s.SetCursor(ctx, string(id), uint64(n)); err != nil {
				return err
			}
			w.report(ack{Task: id, Cursor: uint64(n)})
		case 3:
			note := td.IterationEnded{Iteration: n, Ending: td.EndedUnclear, Notes: fmt.Sprint("note ", n), Run: "r"}
			if t, err = w.s.Append(ctx, c, t.Head, td.Event{At: time.Now(), Body: note}); err != nil {
				return err
			}
		default:
			word := fmt.Sprint("word ", n)
			pad := strings.Repeat("x", []int{10, 500, 5000, blobOver + n}[min(w.rnd.IntN(30)/9, 3)])
			if t, err = w.s.Append(ctx, c, t.Head, said(word+"#a "+pad), said(word+"#b")); err != nil {
				if td.IsKind(err, td.Storage) {
					w.report(ack{Task: id, Word: word, Refused: true})
				}
				return err
			}
			w.report(ack{Task: id, Head: t.Head, Word: word})
		}
	}
	w.task, w.claim = t, c
	return nil
}

func said(text string) td.Event { return td.Event{At: time.Now(), Body: td.Said{Text: text}} }

// audit compares the journal with the ledger. It returns what is wrong: an acknowledged write that is
// not there, or one that is there by half.
func audit(ctx context.Context, s *Store, acks []ack) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	texts := map[td.TaskID][]string{}
	for ev, err := range s.Follow(ctx, store.EventFilter{NoFuture: true}, 0) {
		if err != nil {
			return []string{err.Error()}
		}
		for len(texts[ev.Task]) < int(ev.Seq) {
			texts[ev.Task] = append(texts[ev.Task], "")
		}
		if b, ok := ev.Body.(td.Said); ok {
			texts[ev.Task][ev.Seq-1], _, _ = strings.Cut(b.Text, " x")
		} else if u, bad := ev.Body.(td.Unreadable); bad {
			complain("%s %d cannot be read: %s", ev.Task, ev.Seq, u.Err)
		}
	}
	for id, stream := range texts {
		halves := 0
		for _, text := range stream {
			switch {
			case strings.HasSuffix(text, "#a"):
				halves++
			case strings.HasSuffix(text, "#b"):
				halves--
			}
		}
		if halves != 0 {
			complain("%s has half of an append", id)
		}
	}
	last, of := map[td.TaskID]ack{}, map[td.TaskID][]ack{}
	for _, a := range acks {
		of[a.Task] = append(of[a.Task], a)
		l := last[a.Task]
		l.Epoch, l.Cursor = max(l.Epoch, a.Epoch), max(l.Cursor, a.Cursor)
		last[a.Task] = l
		if a.Word == "" {
			continue
		}
		stream := texts[a.Task]
		if a.Refused {
			if slices.Contains(stream, a.Word+"#a") {
				complain("%s has %q, which was refused", a.Task, a.Word)
			}
			continue
		}
		if int(a.Head) > len(stream) || stream[a.Head-2] != a.Word+"#a" || stream[a.Head-1] != a.Word+"#b" {
			complain("%s lost %q, acknowledged at %d", a.Task, a.Word, a.Head)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(last)) {
		if at, err := s.Cursor(ctx, string(id)); err != nil || at < last[id].Cursor {
			complain("the cursor of %s is %d (%v), acknowledged %d", id, at, err, last[id].Cursor)
		}
		c, err := s.Claim(ctx, id, td.Holder{Host: "auditor"})
		if err != nil || c.Epoch <= last[id].Epoch {
			complain("%s was claimed again with epoch %d (%v), acknowledged %d", id, c.Epoch, err, last[id].Epoch)
			continue
		}
		for _, w := range inboxWrong(ctx, s, c, of[id]) {
			complain("%s", w)
		}
	}
	problems, err := s.Check(ctx)
	if err != nil || len(problems) > 0 {
		complain("check: %+v %v", problems, err)
	}
	return wrong
}

func inboxWrong(ctx context.Context, s *Store, c td.Claim, acks []ack) (wrong []string) {
	waiting := map[string]bool{}
	cmds, err := s.Take(ctx, c)
	if err != nil {
		return []string{err.Error()}
	}
	for _, cmd := range cmds {
		waiting[cmd.Key] = true
	}
	consumed := map[string]bool{}
	for ev, err := range s.Read(ctx, c.Task, 0) {
		if err != nil {
			return []string{err.Error()}
		}
		consumed[ev.Takes] = true
	}
	for _, a := range acks {
		if a.Post == "" {
			continue
		}
		if a.Took && (waiting[a.Post] || !consumed[a.Post]) || waiting[a.Post] == consumed[a.Post] {
			wrong = append(wrong, fmt.Sprintf("%s: command %q waits: %v, was consumed: %v", c.Task, a.Post, waiting[a.Post], consumed[a.Post]))
		}
	}
	return wrong
}

const childEnv = "TASKDAEMON_TEST_CHILD"

// TestMain lets the test binary be the process that writes and is killed.
func TestMain(m *testing.M) {
	if raw := os.Getenv(childEnv); raw != "" {
		var c child
		if err := json.Unmarshal([]byte(raw), &c); err != nil {
			panic(err)
		}
		c.main()
		return
	}
	os.Exit(m.Run())
}

// child is a process that writes to a journal and prints what was acknowledged.
type child struct {
	Dir       string
	Early     bool // acknowledge before the sync
	Seed      uint64
	Tour      bool   // do one of everything and stop, instead of writing until killed
	Failpoint string // die there
}

func (c child) main() {
	alive := func(td.Holder) bool { return false }
	s, err := Open(context.Background(), Options{Dir: c.Dir, early: c.Early, Alive: alive})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	report := func(a ack) {
		mu.Lock()
		defer mu.Unlock()
		if out.Encode(a) != nil {
			os.Exit(2)
		}
	}
	if c.Tour {
		err = tour(context.Background(), s, report)
	} else {
		err = scribble(context.Background(), s, 8, c.Seed, report)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// tour does one of everything the journal offers, and some of it often enough for a checkpoint.
func tour(ctx context.Context, s *Store, report func(ack)) error {
	w := scribbler{s: s, report: report, rnd: rand.New(rand.NewPCG(1, 1)), rounds: 60}
	if err := w.run(ctx); err != nil {
		return err
	}
	if _, err := s.Renew(ctx, w.claim.Holder); err != nil {
		return err
	}
	m, err := td.Cancel(w.task, "enough", time.Now())
	if err != nil {
		return err
	}
	if _, err := s.Append(ctx, w.claim, w.task.Head, m.Events...); err != nil {
		return err
	}
	if err := s.Release(ctx, w.claim); err != nil {
		return err
	}
	w.rounds = 400
	if err := w.run(ctx); err != nil {
		return err
	}
	// Retention would take what the ledger knows of, so it sees only tasks of its own.
	last, err := s.Last(ctx)
	if err != nil {
		return err
	}
	if _, err := s.Trim(ctx, store.Retention{
		Now: time.Now().Add(time.Hour), Completed: 2 * time.Hour, Failed: 2 * time.Hour,
		Audit: 2 * time.Hour, Mirrored: last,
	}); err != nil {
		return err
	}
	if err := retire(ctx, s); err != nil {
		return err
	}
	return s.Close()
}

// retire ends a task without a ledger and lets retention take it.
func retire(ctx context.Context, s *Store) error {
	old := time.Now().Add(-1000 * time.Hour)
	id := td.NewTaskID()
	t, err := s.Create(ctx, td.Spec{ID: id, CreatedAt: old}, "")
	if err != nil {
		return err
	}
	c, err := s.Claim(ctx, id, td.Holder{Host: "h", Pid: os.Getpid()})
	if err != nil {
		return err
	}
	// What a life before this one left has it, too: it is shared.
	if t, err = s.Append(ctx, c, t.Head, td.Event{At: old, Body: td.StepIntended{Intent: td.Intent{
		Key: "s", Kind: td.ModelStep, Name: "m", Effect: td.Pure, Wants: []td.Want{{Resource: "build", Shared: true}},
		Reserve: &td.Reserve{Amount: 1, Cause: "turn", Day: "2030-01-01"},
	}}}); err != nil {
		return err
	}
	m, err := td.Cancel(t, "old", old)
	if err != nil {
		return err
	}
	big := td.Event{At: old, Body: td.Said{Text: strings.Repeat("old ", blobOver)}}
	note := td.Event{At: old, Body: td.IterationEnded{Iteration: 1, Ending: td.EndedFailed, Notes: "old"}}
	if _, err := s.Append(ctx, c, t.Head, append([]td.Event{big, note}, m.Events...)...); err != nil {
		return err
	}
	for _, audit := range []time.Duration{2000 * time.Hour, 500 * time.Hour} {
		last, err := s.Last(ctx)
		if err != nil {
			return err
		}
		if _, err := s.Trim(ctx, store.Retention{
			Now: time.Now(), Completed: 500 * time.Hour, Failed: 500 * time.Hour,
			Audit: audit, Mirrored: last,
		}); err != nil {
			return err
		}
	}
	return nil
}

// until runs the child until it has reported so many acknowledgements, then calls end, and returns all
// that it reported until it was dead.
func (c child) until(t testing.TB, n int, end func(*os.Process)) []ack {
	t.Helper()
	got := 0
	acks, err := c.run(t, func(a *ack, p *os.Process) {
		a.Late = got >= n
		if got++; got == n {
			end(p)
		}
	})
	if len(acks) < n {
		t.Fatalf("the writer died after %d acknowledgements: %v", len(acks), err)
	}
	return acks
}

// run runs the child to its end and returns what it reported; each sees an acknowledgement as it comes.
func (c child) run(t testing.TB, each func(*ack, *os.Process)) ([]ack, error) {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(raw), "TASKDAEMON_FAILPOINT="+c.Failpoint)
	stderr := &strings.Builder{}
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var acks []ack
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			break // a line cut off by the kill was not acknowledged to anybody
		}
		var a ack
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if each != nil {
			each(&a, cmd.Process)
		}
		acks = append(acks, a)
	}
	err = cmd.Wait()
	if stderr.Len() > 0 {
		t.Logf("the child said: %s", stderr)
	}
	return acks, err
}
