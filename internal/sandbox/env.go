package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// The marks that every process of a tool carries in its environment, for Orphans.
const (
	envSpool = "TASKDAEMON_SPOOL"
	envTask  = "TASKDAEMON_TASK"
	envRun   = "TASKDAEMON_RUN"
	envStep  = "TASKDAEMON_STEP"
)

// passed are the variables that builds and tools need. A list of what may pass, not of what may not:
// a secret under a name nobody thought of stays with the daemon.
var passed = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "LC_*", "TMPDIR", "SHELL", "TZ",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
	"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL", // who commits
	// Go
	"GOROOT", "GOPATH", "GOBIN", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY",
	"GOPRIVATE", "GOINSECURE", "GOFLAGS", "GOTOOLCHAIN", "GOENV", "GOWORK", "GOOS", "GOARCH", "GOEXPERIMENT",
	"GOMAXPROCS", "GOMEMLIMIT", "GOTMPDIR", "CGO_*",
	// C and friends
	"CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "MAKEFLAGS", "PKG_CONFIG_PATH", "LD_LIBRARY_PATH",
	"CPATH", "LIBRARY_PATH", "CCACHE_DIR",
	// Rust, Python, JavaScript, JVM, Ruby
	"CARGO_HOME", "RUSTUP_HOME", "RUSTFLAGS", "RUSTUP_TOOLCHAIN",
	"VIRTUAL_ENV", "PYTHONPATH", "PYENV_ROOT", "PIP_CACHE_DIR", "PIP_INDEX_URL", "UV_CACHE_DIR", "CONDA_PREFIX",
	"NODE_PATH", "NODE_OPTIONS", "NVM_DIR", "npm_config_cache", "npm_config_registry", "PNPM_HOME", "YARN_CACHE_FOLDER",
	"JAVA_HOME", "GRADLE_USER_HOME", "MAVEN_OPTS", "M2_HOME",
	"GEM_HOME", "GEM_PATH", "BUNDLE_PATH", "RBENV_ROOT",
	"NIX_PATH", "NIX_PROFILES", "NIX_SSL_CERT_FILE",
}

// withheld are refused even when the list above or a command asks for them: names that say they hold a
// secret, and what makes a shell run things of its own.
var withheld = []string{
	"ANTHROPIC_*", "OPENAI_*", "AWS_*", "AZURE_*", "GOOGLE_*", "GEMINI_*", "GITHUB_*", "GH_*",
	"*_TOKEN", "*_SECRET", "*_KEY", "*_PASSWORD", "*_PASSWD", "*_CREDENTIALS",
	"BASH_ENV", "ENV", "LD_PRELOAD", "TASKDAEMON_*",
}

// gitTold is what git is told: not to take plain files of a project that look like a bare repository for one, and run
// what the config among them names; and not to clean up on its own in the background, where it would be killed with the
// command that it comes after; and to keep objects one by one, not in packs (see store).
var gitTold = gitConfigured(gitToldSettings)

var gitToldSettings = [][2]string{
	{"safe.bareRepository", "explicit"}, {"gc.auto", "0"}, {"fetch.unpackLimit", "1000000000"}, {"receive.unpackLimit", "1000000000"}, {"core.bigFileThreshold", "16g"},
}

// gitConfigured are the variables that tell git settings, which win over those of any file.
func gitConfigured(settings [][2]string) []string {
	env := []string{fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(settings))}
	for i, s := range settings {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, s[1]))
	}
	return env
}

// scrub is the environment of a command: what may pass of base, then what the command adds.
func scrub(base, added []string) []string {
	env := append([]string{"TERM=dumb"}, gitTold...)
	for _, kv := range base {
		if name, value, ok := strings.Cut(kv, "="); ok && matches(passed, name) && !matches(withheld, name) && !holdsSecret(value) {
			env = append(env, kv)
		}
	}
	for _, kv := range added {
		name, _, ok := strings.Cut(kv, "=")
		// A parameter of a skill's tool may be called as it likes: its value is a model's, not the daemon's.
		if !ok || matches(withheld, name) && !strings.HasPrefix(name, "INPUT_") {
			continue
		}
		env = slices.DeleteFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") })
		env = append(env, kv)
	}
	return env
}

// holdsSecret spots an address with a password in it, as proxies and package indexes are given.
func holdsSecret(value string) bool {
	_, rest, ok := strings.Cut(value, "://")
	if !ok {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	user, _, ok := strings.Cut(authority, "@")
	return ok && strings.Contains(user, ":")
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return err == nil && ok
	})
}

// marks are the variables that tie a process to its step.
func marks(root string, cmd Command) []string {
	return []string{
		envSpool + "=" + root,
		envTask + "=" + string(cmd.Task),
		envRun + "=" + string(cmd.Run),
		envStep + "=" + string(cmd.Step),
	}
}

// shimEnv is the environment of the shim itself: as little as a command gets, for a command can read
// its parent's, and the switches of the crash suite, which a command does not get.
func shimEnv(base []string) []string {
	env := scrub(base, nil)
	for _, kv := range base {
		if strings.HasPrefix(kv, "TASKDAEMON_FAILPOINT") {
			env = append(env, kv)
		}
	}
	return env
}
