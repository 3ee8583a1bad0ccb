package config

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"taskdaemon/internal/td"
)

var update = flag.Bool("update", false, "rewrite generated pages")

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEachLayerWinsOverTheOneBefore(t *testing.T) {
	path := write(t, "timeouts:\n  tool: 10s\n  permission: 20s\n  shutdown: 30s\nlimits: {turns: 3}\n")
	c, err := Load(LoadOptions{
		File:    path,
		Environ: []string{"TASKDAEMON_TIMEOUTS_PERMISSION=21s", "TASKDAEMON_TIMEOUTS_SHUTDOWN=31s", "TASKDAEMON_LOG_LEVEL="},
		Set:     []string{"timeouts.shutdown=32s", "retry.network=[0s, 10ms]"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Timeouts.Tool = 10 * time.Second
	want.Timeouts.Permission = 21 * time.Second
	want.Timeouts.Shutdown = 32 * time.Second
	want.Limits.Turns = 3
	want.Retry.Network = []time.Duration{0, 10 * time.Millisecond}
	if d := cmp.Diff(want, c, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "sources" }, cmp.Ignore())); d != "" {
		t.Error(d)
	}
	sources := map[string]Source{"timeouts.tool": FromFile, "timeouts.permission": FromEnv, "timeouts.shutdown": FromFlag, "log.level": FromDefault}
	for name, from := range sources {
		if k, _ := find(name); c.SourceOf(k) != from {
			t.Errorf("%s comes from %s, want %s", name, c.SourceOf(k), from)
		}
	}
}

func TestErrorsNameThePlaceAndTheNearestKey(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"unknown key", "provider: auto\ntimeouts:\n  tol: 3s\n", `:3:3: unknown key "timeouts.tol"; did you mean timeouts.tool?`},
		{"unknown top key", "provder: auto\n", `:1:1: unknown key "provder"; did you mean provider?`},
		{"right word, wrong place", "permission: 5m\n", `did you mean timeouts.permission?`},
		{"nothing near", "zzzzzzzz: 1\n", `:1:1: unknown key "zzzzzzzz"`},
		{"dotted key", "limits.turns: x\n", `limits.turns: want a number, found the text "x"`},
		{"bad duration", "timeouts: {tool: soon}\n", `:1:18: timeouts.tool: want a time like`},
		{"number for text", "models:\n  small: 12\n", `:2:10: models.small: want text, found the number 12`},
		{"text for number", "limits:\n  turns: \"many\"\n", `:2:10: limits.turns: want a number, found the text "many"`},
		{"list for number", "limits:\n  turns: [1]\n", `limits.turns: want a number, found a list`},
		{"number for list", "retry: {network: 3}\n", `retry.network: want a list of times`},
		{"bad item", "retry:\n  network:\n    - 1s\n    - x\n", `:4:7: retry.network: want a time`},
		{"enum", "provider: opnai\n", `:1:11: provider: want auto or anthropic or openai or rehearsal, not "opnai"`},
		{"word for truth", "notify:\n  bell: \"loud\"\n", `:2:9: notify.bell: want true or false, found the text "loud"`},
		{"section is text", "limits: 3\n", `:1:9: limits: want keys below it, found the number 3`},
		{"no mapping", "- a\n", `want key: value, found a list`},
		{"twice", "provider: auto\nprovider: auto\n", `:2:1`},
		{"syntax", "provider: [\n", `:1:`},
		{"alias", "models: {small: &a x, worker: *a}\n", `an alias or anchor`},
		{"two documents", "provider: auto\n---\nprovider: auto\n", `more than one document`},
		{"negative", "limits: {turns: -1}\n", `limits.turns: must not be negative`},
		{"cross check", "thinking: 20000\n", `thinking: must be less than max_tokens (16384)`},
		{"cassette", "cassette: {mode: record}\n", `cassette.mode: record needs cassette.path`},
		{"key itself", "api_key_env: sk-ant-verysecret\n", `want the name of a variable, not the key itself`},
		{"password", "base_url: https://me:verysecret@host\n", `must not hold a user or password`},
		{"deep", strings.Repeat("[", 500) + "\n", `nested too deep`},
		{"deep list", strings.Repeat("- ", 500) + "\n", `nested too deep`},
		{"large", "# " + strings.Repeat("x", MaxFileSize), `larger than 1MiB`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := write(t, tc.text)
			_, err := Load(LoadOptions{File: path})
			if !td.IsKind(err, td.Invalid) {
				t.Fatalf("error is %v, want one of kind invalid", err)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %q, want it to name %s and say %q", err, path, tc.want)
			}
			if td.HintOf(err) == "" {
				t.Error("no hint")
			}
			if strings.Contains(err.Error(), "verysecret") {
				t.Error("the error repeats the secret")
			}
		})
	}
}

func TestEnvAndFlagErrors(t *testing.T) {
	for _, o := range []LoadOptions{
		{Environ: []string{"TASKDAEMON_LIMITS_LOOPS=many"}},
		{Set: []string{"limits.lops=1"}},
		{Set: []string{"nonsense"}},
		{File: filepath.Join(t.TempDir(), "absent.yaml"), Explicit: true},
	} {
		if _, err := Load(o); !td.IsKind(err, td.Invalid) || td.HintOf(err) == "" {
			t.Errorf("%+v: %v, want invalid with a hint", o, err)
		}
	}
	if _, err := Load(LoadOptions{File: filepath.Join(t.TempDir(), "absent.yaml")}); err != nil {
		t.Errorf("an absent file that nobody named is an error: %v", err)
	}
}

// What the reference calls 0 can be written so, in whatever unit the setting is.
func TestZeroIsWrittenAsTheReferenceSays(t *testing.T) {
	tried := 0
	for _, k := range Keys {
		if !strings.Contains(k.Doc, "0 is ") {
			continue
		}
		tried++
		file := filepath.Join(t.TempDir(), "config.yaml")
		section, name, nested := strings.Cut(k.Name, ".")
		text := section + ": 0\n"
		if nested {
			text = section + ":\n  " + name + ": 0\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, o := range []LoadOptions{{Set: []string{k.Name + "=0"}}, {File: file}} {
			if _, err := Load(o); err != nil {
				t.Errorf("%s: %v", k.Name, err)
			}
		}
	}
	if tried < 10 {
		t.Errorf("only %d settings may be 0", tried)
	}
}

func TestRulerInACommentIsNoNesting(t *testing.T) {
	if _, err := Load(LoadOptions{File: write(t, "# "+strings.Repeat("-", 200)+"\nprovider: auto\n")}); err != nil {
		t.Error(err)
	}
}

func TestProviderFollowsTheKey(t *testing.T) {
	c := Default()
	key := func(string) string { return "k" }
	none := func(string) string { return "" }
	if got := c.ProviderIn(key); got != Anthropic {
		t.Errorf("with a key: %s", got)
	}
	if got := c.ProviderIn(none); got != RehearsalProvider {
		t.Errorf("without a key: %s", got)
	}
	c.Provider = Anthropic
	if got := c.ProviderIn(none); got != Anthropic {
		t.Errorf("explicit: %s", got)
	}
}

func TestBaseURLOfTheProviderIsHonoured(t *testing.T) {
	c, err := Load(LoadOptions{Environ: []string{"ANTHROPIC_BASE_URL=http://a:1", "TASKDAEMON_BASE_URL=http://b:2"}})
	if err != nil || c.BaseURL != "http://b:2" {
		t.Errorf("base_url is %q, %v", c.BaseURL, err)
	}
}

func TestPathsStartAtTheConfigFile(t *testing.T) {
	path := write(t, "rehearsal: {script: play.yaml}\n")
	c, err := Load(LoadOptions{File: path})
	if want := filepath.Join(filepath.Dir(path), "play.yaml"); err != nil || c.Rehearsal.Script != want {
		t.Errorf("script is %q, %v; want %q", c.Rehearsal.Script, err, want)
	}
}

// The template, with its comments opened, must read back as the defaults.
func TestTemplateIsTheDefaults(t *testing.T) {
	if c, err := Load(LoadOptions{File: write(t, Template())}); err != nil || len(c.sources) != 0 {
		t.Fatalf("as written: %v, %v", c.sources, err)
	}
	open := regexp.MustCompile(`(?m)^# ((?:  )?[a-z_]+:)`).ReplaceAllString(Template(), "$1")
	c, err := Load(LoadOptions{File: write(t, open)})
	if err != nil {
		t.Fatalf("%v\n%s", err, open)
	}
	def := Default()
	for _, k := range Keys {
		if k.Value(c) != k.Value(def) || c.SourceOf(k) != FromFile {
			t.Errorf("%s reads back as %s from %s", k.Name, k.Value(c), c.SourceOf(k))
		}
	}
}

func TestStateDirAndFile(t *testing.T) {
	env := map[string]string{"HOME": "/h"}
	get := func(k string) string { return env[k] }
	check := func(want string, got string, err error) {
		t.Helper()
		if got != want || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	dir, err := StateDir("", get)
	check("/h/.local/state/taskdaemon", dir, err)
	file, explicit, err := File("", get)
	check("/h/.config/taskdaemon/config.yaml", file, err)
	if explicit {
		t.Error("the default file counts as named")
	}
	env["XDG_STATE_HOME"], env["XDG_CONFIG_HOME"] = "/s", "relative"
	dir, err = StateDir("", get)
	check("/s/taskdaemon", dir, err)
	file, _, err = File("", get)
	check("/h/.config/taskdaemon/config.yaml", file, err)
	env["TASKDAEMON_STATE"] = "/t"
	dir, err = StateDir("", get)
	check("/t", dir, err)
	dir, err = StateDir("/flag", get)
	check("/flag", dir, err)
	clear(env)
	if _, err := StateDir("", get); !td.IsKind(err, td.Invalid) {
		t.Errorf("no HOME: %v", err)
	}
}

func TestReferenceIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "config.md")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != Reference() {
		t.Errorf("docs/config.md is out of date (%v): go test ./internal/config -update", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Template())
	f.Add("provider: rehearsal\ntimeouts: {tool: 3s}\n")
	f.Add("retry:\n  network: [0s, 1s]\n  overloaded:\n  - 1s\n")
	f.Add("models: &a {small: *a}\n")
	f.Add("a: !!binary |\n  x\n? b\n: c\n<<: *d\n")
	f.Add("projects:\n- path: ~/a\n  worktree: {setup: make, copy: .env}\n- {path: b, limits: {loops_per_project: 2}}\n")
	f.Add("log: {max_size: 1GiB}\nretention: {audit: 90d}\ncassette: {mode: off}")
	f.Fuzz(func(t *testing.T, text string) {
		c := Default()
		c.sources = map[string]Source{}
		if err := parse(&c, "config.yaml", []byte(text)); err != nil {
			if !td.IsKind(err, td.Invalid) {
				t.Errorf("error of kind %s: %v", td.KindOf(err), err)
			}
			return
		}
		// What was read can be written and read again.
		var b strings.Builder
		for _, k := range Keys {
			b.WriteString(k.Name + ": " + k.Value(c) + "\n")
		}
		again := Default()
		again.sources = map[string]Source{}
		if err := parse(&again, "config.yaml", []byte(b.String())); err != nil {
			t.Fatalf("%v\n%s", err, b.String())
		}
		for _, k := range Keys {
			if k.Value(c) != k.Value(again) {
				t.Errorf("%s: %s became %s", k.Name, k.Value(c), k.Value(again))
			}
		}
	})
}

func TestSections(t *testing.T) {
	dir := t.TempDir()
	read := func(text string) (Config, error) {
		path := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(LoadOptions{File: path})
	}
	c, err := read(`
hooks:
  - {point: PreToolUse, matcher: Bash, command: ./check.sh, timeout: 5s, on_error: closed}
  - point: TaskCompleted
    url: http://localhost:1/
mcp:
  - {name: fs, command: npx, args: [a, b], env: {A: b}, trusted: true}
providers:
  - {name: local, kind: openai, base_url: "http://localhost:11434/v1", key_envs: [ONE, TWO]}
fallback:
  - {model: claude-opus-4-5, use: [claude-sonnet-4-5, local/qwen]}
windows:
  - {model: local/qwen, tokens: 32000}
`)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Hooks) != 2 || c.Hooks[0].Timeout != 5*time.Second || !strings.Contains(c.Hooks[1].Where, "config.yaml:4:") {
		t.Errorf("hooks: %+v", c.Hooks)
	}
	if len(c.MCP) != 1 || c.MCP[0].Args[1] != "b" || c.MCP[0].Env["A"] != "b" || !c.MCP[0].Trusted {
		t.Errorf("servers: %+v", c.MCP)
	}
	if len(c.Providers) != 1 || len(c.Providers[0].KeyEnvs) != 2 || len(c.Fallback) != 1 || len(c.Fallback[0].Use) != 2 {
		t.Errorf("%+v, %+v", c.Providers, c.Fallback)
	}
	if len(c.Windows) != 1 || c.Windows[0].Model != "local/qwen" || c.Windows[0].Tokens != 32000 {
		t.Errorf("windows: %+v", c.Windows)
	}
	for _, bad := range []string{"windows:\n  - {model: x}", "windows:\n  - {tokens: 5000}", "hooks: {point: x}", "hooks:\n  - {piont: PreToolUse}", "mcp:\n  - 5", "fallback: yes", "hooks:\n  - {timeout: soon}"} {
		if _, err := read(bad); err == nil || !strings.Contains(err.Error(), "config.yaml:") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// What is wrong with an entry of a list is said by the names that stand in the file.
func TestWrongEntries(t *testing.T) {
	dir := t.TempDir()
	read := func(text string) (Config, error) {
		path := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Load(LoadOptions{File: path})
	}
	for file, want := range map[string]string{
		"hooks: [{point: PreToolUse, command: x, timeout: 3}]": ":1:50: hooks.timeout: want a time like 30s, 5m or 24h",
		"hooks: [{point: PreToolUse, command: [x]}]":           "hooks.command: want text",
		"hooks: {point: x}":              "hooks: want a list (each entry begins with -), found keys",
		"hooks: [5]":                     "hooks: an entry has keys, like name: …; found the number 5",
		"mcp: [{name: a, command: [x]}]": "mcp.command: want text",
		"mcp: [{name: a, args: x}]":      "mcp: want a list, found text",
		"mcp: [{name: a, cmd: x}]":       `mcp: unknown key "cmd"; the keys are name, command, args`,
	} {
		if _, err := read(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", file, err, want)
		}
	}
}

func TestAProviderGetsItsOwnKeyAndAddress(t *testing.T) {
	env := []string{
		"ANTHROPIC_API_KEY=ant-key-1", "OPENAI_API_KEY=oai-key-1", "MY_KEY=my-key-1",
		"ANTHROPIC_BASE_URL=http://ant:1", "OPENAI_BASE_URL=http://oai:1",
	}
	for _, c := range []struct{ file, key, base string }{
		{"", "ANTHROPIC_API_KEY", "http://ant:1"},
		{"provider: anthropic", "ANTHROPIC_API_KEY", "http://ant:1"},
		{"provider: openai", "OPENAI_API_KEY", "http://oai:1"},
		{"{provider: openai, api_key_env: MY_KEY, base_url: 'http://mine:1'}", "MY_KEY", "http://oai:1"},
		{"provider: rehearsal", "", ""},
	} {
		got, err := Load(LoadOptions{File: write(t, c.file), Environ: env})
		if err != nil || got.KeyEnv() != c.key || got.BaseURL != c.base {
			t.Errorf("%q: key in %s, address %q, %v", c.file, got.KeyEnv(), got.BaseURL, err)
		}
	}
	got, err := Load(LoadOptions{Set: []string{"provider=openai"}, Environ: env[:4]})
	if err != nil || got.BaseURL != "" {
		t.Errorf("the other provider's address is used: %q, %v", got.BaseURL, err)
	}
}

func TestProvidersInAnEnvironment(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "oai-key-1", "ONE": "first-key"}
	getenv := func(name string) string { return env[name] }
	for _, c := range []struct{ file, want string }{
		{"", ""},
		{"provider: openai", "openai OPENAI_API_KEY"},
		{"provider: anthropic", "in ANTHROPIC_API_KEY, which is not set"},
		{"{provider: anthropic, base_url: 'http://mine:1'}", "anthropic "},
		{"{provider: openai, base_url: 'http://mine:1', api_key_env: GONE}", "in GONE, which is not set"},
		{"providers: [{name: a, kind: openai, base_url: 'http://mine:1'}]", "a "},
		{"providers: [{name: a, kind: openai}]", "has no key"},
		{"providers: [{name: a, kind: openai, key_envs: [ONE]}]", "a ONE"},
		{"providers: [{name: a, kind: openai, base_url: 'http://mine:1', key_envs: [ONE, GONE]}]", "in GONE, which is not set"},
	} {
		cfg, err := Load(LoadOptions{File: write(t, c.file)})
		if err != nil {
			t.Fatal(c.file, err)
		}
		got := ""
		all, err := cfg.ProvidersIn(getenv)
		for _, p := range all {
			got += p.Name + " " + strings.Join(p.KeyEnvs, " ")
		}
		if err != nil {
			got = err.Error()
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%s: %s, want %s", c.file, got, c.want)
		}
		if keys := strings.Join(cfg.Secrets(getenv), " "); !strings.Contains(keys, "oai-key-1") || strings.Contains(c.file, "[ONE") != strings.Contains(keys, "first-key") {
			t.Errorf("%s: the secrets are %s", c.file, keys)
		}
	}
}

func TestEntriesOfProvidersAreChecked(t *testing.T) {
	for _, bad := range []string{
		"{kind: openai}", "{name: a, kind: opnai}", "{name: a}",
		"{name: a, kind: openai, base_url: 'ftp://x'}", "{name: a, kind: openai, base_url: 'http://u:sk-pasted@x'}",
		"{name: a, kind: openai, key_envs: [sk-pasted-0123]}", "{name: a, kind: openai, key_envs: ['']}",
	} {
		_, err := Load(LoadOptions{File: write(t, "providers:\n  - "+bad+"\n")})
		if err == nil || !strings.Contains(err.Error(), ":2:") || strings.Contains(err.Error(), "sk-pasted") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
