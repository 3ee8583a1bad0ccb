package td

import "testing"

func TestObstacleLine(t *testing.T) {
	for want, o := range map[string]Obstacle{
		"main was deleted":                 {Reason: "main was deleted"},
		"main was rewritten; git switch -": {Reason: "main was rewritten", Hint: "git switch -"},
		"no room; make some":               ObstacleOf(Errorf(Storage, "no room").WithHint("make some")),
	} {
		if got := o.Line(); got != want {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}
