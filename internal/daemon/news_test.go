package daemon

import (
	"testing"

	"taskdaemon/internal/td"
)

// People are told of a pause unless one of them made it.
func TestPausesThatAreNews(t *testing.T) {
	for by, want := range map[string]bool{"taskdaemon": true, "hook guard": true, "ada": false, "": false} {
		if got := news(td.Status{State: td.Paused, Paused: &td.PausedData{By: by}}); got != want {
			t.Errorf("paused by %q: %v", by, got)
		}
	}
}
