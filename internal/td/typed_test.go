package td

import "testing"

func TestTyped(t *testing.T) {
	type name string
	for _, c := range []struct {
		got, want string
	}{
		{Typed("taskdaemon task show %s", "t-1"), "taskdaemon task show t-1"},
		{Typed("rm %s", "a;reboot"), "rm 'a;reboot'"},
		{Typed("cd %s", name("it's $(x)")), `cd 'it'\''s $(x)'`},
		{Typed("git reset %.12s, %d", "0123456789abcdef", 3), "git reset 0123456789ab, 3"},
		{Typed("%s", Words("taskdaemon task add 'a b'")), "taskdaemon task add 'a b'"},
		{Typed("a %s", ""), "a ''"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if hint := Errorf(Invalid, "x").WithHint("rm %s", "a b|c").Hint; hint != "rm 'a b|c'" {
		t.Error(hint)
	}
}
