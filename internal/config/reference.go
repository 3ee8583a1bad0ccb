package config

import (
	"fmt"
	"strings"
)

// Template is a config file with every default in it, commented out.
func Template() string {
	var b strings.Builder
	b.WriteString("# taskdaemon's settings. Every line shows a default; remove the # to change one.\n" +
		"# After an edit: taskdaemon config check, then restart the daemon.\n")
	section := ""
	def := Default()
	for _, k := range Keys {
		name, indent := k.Name, ""
		if s, rest, ok := strings.Cut(k.Name, "."); ok {
			if s != section {
				fmt.Fprintf(&b, "\n# %s:\n", s)
			}
			section, name, indent = s, rest, "  "
		} else {
			b.WriteString("\n")
			section = ""
		}
		fmt.Fprintf(&b, "# %s# %s\n# %s%s: %s\n", indent, k.Doc, indent, name, k.Value(def))
	}
	return b.String()
}

// Reference is the page of the documentation that lists every setting.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Settings

taskdaemon works without a config file. Settings come from four places, each over the one before:
defaults, the config file, the environment, flags.

- The file is ` + "`$XDG_CONFIG_HOME/taskdaemon/config.yaml`" + ` (` + "`~/.config/taskdaemon/config.yaml`" + `), or
  the one named by ` + "`--config`" + ` or ` + "`TASKDAEMON_CONFIG`" + `. ` + "`taskdaemon init`" + ` writes one with every
  default commented out. An unknown key, a wrong type or a duplicate is an error that names file, line,
  column and the nearest known key. Files over 1 MiB, anchors, aliases and tags are refused.
- Each setting has a variable: ` + "`TASKDAEMON_`" + ` and its name in capitals, with ` + "`_`" + ` for ` + "`.`" + `. An empty
  variable counts as not set.
- ` + "`taskdaemon daemon start --set key=value`" + ` sets anything for one daemon.

` + "`taskdaemon config show`" + ` prints every value and where it came from; ` + "`config check`" + ` only checks. The API
key is never a setting: ` + "`api_key_env`" + ` names the variable that holds it, and nothing prints its value.

Times are written like ` + "`30s`, `5m`, `1h30m` or `7d`, sizes like `10MiB` or `0`." + ` Relative paths start at the config
file's folder.

| key | default | kind | meaning |
|---|---|---|---|
`)
	def := Default()
	for _, k := range Keys {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", k.Name, k.Value(def), k.Kind(), k.Doc)
	}
	b.WriteString(`
Some settings can be different for one project, in the file only. An entry of ` + "`projects:`" + ` has the path of its repository, or of a folder
with several in it, and any of ` + projectKeys() + `:

` + "```yaml" + `
projects:
  - path: ~/src/shop
    worktree:
      setup: npm ci
      copy: .env, config/local.yaml
  - path: ~/work
    worktree: {trunk: ask}
    limits: {loops_per_project: 3}
` + "```" + `

What is said of the nearest folder wins; a variable or a flag wins over the file, here as well. ` + "`taskdaemon config show`" + ` in a project shows what
holds there.

The state folder, where the journal and everything else lives, is not in the file: it is
` + "`$XDG_STATE_HOME/taskdaemon`" + ` (` + "`~/.local/state/taskdaemon`" + `), or ` + "`TASKDAEMON_STATE`, or `--state DIR`" + `. Each
state folder has its own daemon.
`)
	return b.String()
}
