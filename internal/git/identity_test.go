package git

import (
	"os"
	account "os/user"
	"strings"
	"testing"
)

// The person is who their own git would say they are.
func TestPersonOf(t *testing.T) {
	lookUp = func() (*account.User, error) { return &account.User{Username: "ada", Name: "& Lovelace "}, nil }
	t.Cleanup(func() { lookUp = account.Current })
	dir := checkout(t)
	home := t.TempDir()
	global := home + "/elsewhere"
	if err := os.WriteFile(global, []byte("[user]\nname = Glob\nemail = g@example.org\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want Person
	}{
		"nobody":               {nil, Person{}},
		"a file that is named": {map[string]string{"GIT_CONFIG_GLOBAL": global}, Person{"Glob", "g@example.org"}},
		"committer variables":  {map[string]string{"GIT_COMMITTER_NAME": "C", "GIT_COMMITTER_EMAIL": "c@example.org"}, Person{"C", "c@example.org"}},
		"EMAIL and a name":     {map[string]string{"GIT_AUTHOR_NAME": "N", "EMAIL": "n@example.org"}, Person{"N", "n@example.org"}},
		"EMAIL alone":          {map[string]string{"EMAIL": "n@example.org"}, Person{"Ada Lovelace", "n@example.org"}},
		"only what is set": {map[string]string{
			"EMAIL": "n@example.org", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.useConfigOnly", "GIT_CONFIG_VALUE_0": "yes",
		}, Person{}},
		"half":                  {map[string]string{"GIT_AUTHOR_NAME": "N"}, Person{}},
		"a line in a name":      {map[string]string{"GIT_AUTHOR_NAME": "N\nM", "EMAIL": "n@example.org"}, Person{}},
		"a name without an end": {map[string]string{"GIT_AUTHOR_NAME": strings.Repeat("n", 1000), "EMAIL": "n@example.org"}, Person{}},
		"settings of a variable": {map[string]string{
			"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.Name", "GIT_CONFIG_VALUE_0": "V", "GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "v@example.org",
		}, Person{"V", "v@example.org"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, unset := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", "EMAIL"} {
				t.Setenv(unset, c.env[unset])
			}
			t.Setenv("HOME", home)
			t.Setenv("XDG_CONFIG_HOME", home)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			if got := PersonOf(t.Context(), dir); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
