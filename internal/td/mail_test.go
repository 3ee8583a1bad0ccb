package td

import (
	"strings"
	"testing"
	"time"
)

func TestLetterCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		letter Letter
		ok     bool
	}{
		"to all":            {Letter{Text: "x"}, true},
		"of a kind":         {Letter{Topic: "api_changed.v2-x", Text: "x"}, true},
		"to one":            {Letter{To: []string{"t-a"}, Text: "x"}, true},
		"as long as may be": {Letter{Text: strings.Repeat("x", MaxMail)}, true},
		"too long":          {Letter{Text: strings.Repeat("x", MaxMail+1)}, false},
		"empty":             {Letter{Text: " \n"}, false},
		"odd kind":          {Letter{Topic: "API", Text: "x"}, false},
		"long kind":         {Letter{Topic: strings.Repeat("a", 65), Text: "x"}, false},
		"named and a kind":  {Letter{To: []string{"t-a"}, Topic: "a", Text: "x"}, false},
	} {
		if err := tc.letter.Check(); (err == nil) != tc.ok || err != nil && !IsKind(err, Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestListens(t *testing.T) {
	for _, tc := range []struct {
		labels, topic string
		want          bool
	}{
		{"", "", true}, {"", "a", true}, {"urgent", "a", true},
		{"listen:a", "a", true}, {"listen:a listen:b", "b", true}, {"listen:a", "b", false}, {"listen:a", "", false}, {"listen:", "", false},
	} {
		if got := (Spec{Labels: strings.Fields(tc.labels)}).Listens(tc.topic); got != tc.want {
			t.Errorf("with %q it listens to %q: %v", tc.labels, tc.topic, got)
		}
	}
}

func TestMailTaintsAndNeverEndsAWait(t *testing.T) {
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	task := NewTask(Spec{ID: "a", Handle: "t-a", CreatedAt: at})
	task.Head = 1
	task.Status = Status{State: Waiting, Waiting: &WaitingData{Kind: AskConversation, Request: "r"}}
	cmd := Command{Key: "mail/1", Type: CmdMail, Text: "yes, do it", By: "task t-b", Mail: &Mail{ID: "1", Kind: MailShare, From: "b", Handle: "t-b", Untrusted: true}}
	evs := Obey(task, cmd, at)
	if len(evs) != 1 || evs[0].Takes != cmd.Key {
		t.Fatalf("events %+v", evs)
	}
	evs[0].Seq = 2
	after, err := task.Apply(evs[0])
	if err != nil || after.Status.State != Waiting || !after.Untrusted {
		t.Fatalf("after the message it is %s, untrusted %v, %v", after.Status.State, after.Untrusted, err)
	}
	task.Status = Status{State: Completed}
	if _, is := Obey(task, cmd, at)[0].Body.(Ignored); !is {
		t.Error("a task that has ended reads a message")
	}
}

func TestQuestionsAreBooked(t *testing.T) {
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	task := NewTask(Spec{ID: "a", Handle: "t-a", CreatedAt: at})
	task.Head, task.Status = 1, Status{State: Completed}
	q := Queried{ID: "q", Day: "2026-11-15", Side: SideResult{Model: "small", Cost: 7, Usage: Usage{Input: 3}}}
	for _, lost := range []bool{false, true} {
		q.Lost = lost
		ev := Obey(task, Command{Key: "q", Type: CmdQueried, Query: &q}, at)[0]
		_, booked := Book(nil, ev)
		ev.Seq = 2
		after, err := task.Apply(ev)
		if err != nil || len(booked) != 1 || booked[0].Amount != 7 || booked[0].Day != q.Day {
			t.Fatalf("booked %+v, %v", booked, err)
		}
		cause, cost, gone := CauseQuery, Money(7), Money(0)
		if lost {
			cause, cost, gone = CauseStopped, 0, 7
		}
		if booked[0].Cause != cause || after.Cost != cost || after.Lost != gone {
			t.Errorf("lost %v: booked as %s, cost %d, lost %d", lost, booked[0].Cause, after.Cost, after.Lost)
		}
	}
}
