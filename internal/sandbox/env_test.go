package sandbox

import (
	"slices"
	"strings"
	"testing"
)

func TestScrub(t *testing.T) {
	base := []string{
		"PATH=/bin", "HOME=/h", "LC_ALL=C", "GOPROXY=direct", "GOFLAGS=-mod=mod", "TERM=xterm",
		"ANTHROPIC_API_KEY=s3cret", "OPENAI_API_KEY=s3cret", "AWS_PROFILE=s3cret", "GITHUB_TOKEN=s3cret", "MY_SECRET=s3cret",
		"SSH_AUTH_SOCK=s3cret", "RANDOM_THING=s3cret", "LC_TOKEN=s3cret", "CGO_KEY=s3cret", "BASH_ENV=s3cret", "LD_PRELOAD=s3cret", "=s3cret", "nonsense-s3cret",
		"HTTPS_PROXY=http://me:s3cret@proxy", "HTTP_PROXY=http://proxy:3128", "TASKDAEMON_FAILPOINT=s3cret", "TASKDAEMON_TASK=s3cret",
	}
	got := scrub(base, []string{"HOME=/other", "A=b", "X_TOKEN=s3cret", "INPUT_PAGE_TOKEN=x", "TASKDAEMON_SPOOL=s3cret", "bad-s3cret"})
	for _, want := range []string{"PATH=/bin", "LC_ALL=C", "GOPROXY=direct", "GOFLAGS=-mod=mod", "TERM=dumb", "HOME=/other", "A=b", "INPUT_PAGE_TOKEN=x", "HTTP_PROXY=http://proxy:3128", "GIT_CONFIG_KEY_0=safe.bareRepository"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, kv := range got {
		if strings.Contains(kv, "s3cret") || kv == "HOME=/h" || kv == "TERM=xterm" {
			t.Errorf("%s got through", kv)
		}
	}
	if env := shimEnv(base); !slices.Contains(env, "TASKDAEMON_FAILPOINT=s3cret") || slices.Contains(env, "ANTHROPIC_API_KEY=s3cret") {
		t.Errorf("the shim's: %q", env)
	}
}

// TestEnvironmentOfShimAndCommand looks at what a command can see of itself and of its parent.
func TestEnvironmentOfShimAndCommand(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "sk-s3cret")
	s := open(t)
	cmd := command(t, "env; tr '\\0' '\\n' < /proc/$PPID/environ")
	res := wait(t, start(t, s, "cmd", cmd))
	out := string(res.Head)
	for _, kv := range []string{"TASKDAEMON_SPOOL=" + s.Dir, "TASKDAEMON_TASK=" + string(cmd.Task), "TASKDAEMON_RUN=" + string(cmd.Run), "TASKDAEMON_STEP=" + string(cmd.Step)} {
		if !strings.Contains(out, kv+"\n") {
			t.Errorf("%s is missing", kv)
		}
	}
	if strings.Contains(out, "s3cret") {
		t.Errorf("a secret can be seen: %s", out)
	}
}
