package daemon

import (
	"context"
	"testing"
	"time"

	"taskdaemon/internal/api"
	"taskdaemon/internal/td"
)

// Whoever writes what it is told, as the server does, must hear when there is nothing more for now: at first, behind events, and
// behind pieces of an answer on their way.
func TestPausesAreTold(t *testing.T) {
	d := bare(t, t.TempDir(), newJournal())
	task := begun(t, d, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	heard := "" // event, live, pause
	for item, err := range d.Events(ctx, api.EventQuery{Refs: []string{string(task.ID)}, Follow: true, Live: true, Pauses: true}) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case item.Event != nil:
			heard += "e"
		case item.Live != nil:
			heard += "l"
		default:
			heard += "p"
		}
		switch heard {
		case "pep":
			d.live.Publish(api.Live{Task: task.ID, Kind: api.LiveText, Text: "a piece"})
		case "peplp":
			cancel()
		}
	}
	if heard != "peplp" {
		t.Errorf("it heard %q", heard)
	}
	for item, err := range d.Events(t.Context(), api.EventQuery{Refs: []string{"nobody"}, Follow: true, Pauses: true}) {
		if !td.IsKind(err, td.NotFound) {
			t.Errorf("a wrong name yields %+v, %v", item, err)
		}
	}
}
