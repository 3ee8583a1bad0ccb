package apitest

import (
	"strings"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

func testTell(t *testing.T, s suite) {
	a, b := s.asking(t), s.asking(t)
	in := api.Tell{Key: string(td.NewRequestID()), To: []string{a.Handle}, Text: "the API moved", By: "ann"}
	for range 2 { // the same key: once
		told, err := s.svc.Tell(s.ctx, in)
		if err != nil || len(told.To) != 1 || told.To[0] != a.Handle {
			t.Fatalf("Tell = %+v, %v", told, err)
		}
	}
	told, err := s.svc.Tell(s.ctx, api.Tell{Key: string(td.NewRequestID()), Dir: a.Dir, Type: "api_changed", Text: "to all", By: "ann"})
	if err != nil || len(told.To) != 2 {
		t.Fatalf("Tell all = %+v, %v", told, err)
	}
	if got := s.received(t, a.ID, 2); got != "the API moved|to all" {
		t.Errorf("%s received %q", a.Handle, got)
	}
	if got := s.received(t, b.ID, 1); got != "to all" {
		t.Errorf("%s received %q", b.Handle, got)
	}
	for what, in := range map[string]api.Tell{
		"nothing":      {To: []string{a.Handle}, Text: " "},
		"too much":     {To: []string{a.Handle}, Text: strings.Repeat("x", td.MaxMail+1)},
		"an odd type":  {Dir: a.Dir, Type: "API changed", Text: "x"},
		"type and ref": {To: []string{a.Handle}, Type: "x", Text: "x"},
	} {
		_, err := s.svc.Tell(s.ctx, in)
		wantKind(t, "Tell "+what, err, td.Invalid)
	}
	_, err = s.svc.Tell(s.ctx, api.Tell{To: []string{"t-iiiiiiii"}, Text: "x"})
	wantKind(t, "Tell nobody", err, td.NotFound)
	if _, err := s.svc.Command(s.ctx, a.Handle, api.Command{Type: td.CmdCancel}); err != nil {
		t.Fatal(err)
	}
	s.until(t, a.ID, td.Cancelled)
	_, err = s.svc.Tell(s.ctx, api.Tell{To: []string{a.Handle, b.Handle}, Text: "x"})
	wantKind(t, "Tell one that has ended", err, td.Conflict)
}

// received waits for so many messages, and returns their words.
func (s suite) received(t *testing.T, id td.TaskID, n int) string {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for {
		h, err := s.svc.History(s.ctx, string(id))
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, ev := range h.Events {
			if r, is := ev.Body.(td.Received); is {
				words = append(words, r.Text)
			}
		}
		if len(words) >= n {
			return strings.Join(words, "|")
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s received %q", id, words)
		}
	}
}

func testQuery(t *testing.T, s suite) {
	a := s.asking(t)
	got, err := s.svc.Query(s.ctx, a.Handle, api.Query{Question: "what is your status?", By: "ann"})
	if err != nil || got.Task != a.Handle || got.Kind != "state" || !strings.Contains(got.Text, "waiting") {
		t.Errorf("Query = %+v, %v", got, err)
	}
	_, err = s.svc.Query(s.ctx, a.Handle, api.Query{Question: " "})
	wantKind(t, "Query nothing", err, td.Invalid)
	_, err = s.svc.Query(s.ctx, "t-iiiiiiii", api.Query{Question: "status"})
	wantKind(t, "Query nobody", err, td.NotFound)
}
