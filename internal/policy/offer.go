package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Offer is a rule that an answer may store: "always" as an allow, "never" as a deny.
type Offer struct {
	Rule  string // "Bash(go test *)"
	Words string // "any go test command"
	// With are further rules that must be stored together with this one, when the action has several
	// parts.
	With []string
}

// never are commands that no stored answer should speak for: what they do is decided by their words.
var never = []string{
	"sh", "bash", "dash", "zsh", "ksh", "fish", "eval", "source", ".", "exec", "env", "xargs", "parallel", "sudo", "doas", "su", "pkexec", "ssh", "rm", "shred", "dd", "curl", "wget", "nc", "ncat", "socat",
	"node", "deno", "bun", "find", "awk", "sed", "tar", "chmod", "chown", "kill", "pkill", "killall", "taskdaemon", "docker", "podman", "mv", "cp", "ln", "tee", "rsync", "scp", "make", "vim", "vi", "nvim", "less",
}

// subcommands are programs whose first word says what they do.
var subcommands = []string{"go", "git", "npm", "pnpm", "yarn", "cargo", "pip", "uv", "poetry", "kubectl", "gh", "bundle", "rake", "mvn", "gradle", "dotnet", "terraform", "apt", "brew", "systemctl", "helm", "bazel", "mix", "rails", "swift", "zig", "deno", "composer"}

// offers are the rules that would have decided this action.
func (p *Policy) offers(a Action, r *report) []Offer {
	switch {
	case r.shell:
		return p.commandOffers(r)
	case strings.HasPrefix(a.Tool, "mcp__"):
		out := []Offer{{Rule: a.Tool, Words: "this tool"}}
		if parts := strings.Split(a.Tool, "__"); len(parts) > 2 && parts[1] != "" {
			out = append(out, Offer{Rule: "mcp__" + parts[1] + "__*", Words: "every tool of " + parts[1]})
		}
		return out
	case len(r.hosts) > 0:
		var out []Offer
		for _, h := range r.hosts {
			out = append(out, Offer{Rule: "WebFetch(" + h + ")", Words: "anything from " + h})
		}
		return together(out)
	case len(r.uses) > 0:
		return p.pathOffers(r)
	case a.Tool != "":
		return []Offer{{Rule: a.Tool, Words: "every call of " + a.Tool}}
	}
	return nil
}

// together makes each offer bring the others along: one alone would not be enough.
func together(offers []Offer) []Offer {
	if len(offers) < 2 {
		return offers
	}
	for i := range offers {
		for j, o := range offers {
			if j != i {
				offers[i].With = append(offers[i].With, o.Rule)
			}
		}
	}
	return offers
}

func (p *Policy) commandOffers(r *report) []Offer {
	var out []Offer
	for i, c := range r.cmds {
		if c.looks {
			for _, u := range r.uses {
				if u.cmd != i || !u.outside {
					continue
				}
				if !certain(u.path) || odd(u.path) {
					return nil
				}
				out = append(out, Offer{Rule: "Read(" + p.shown(u.path) + ")", Words: "reading " + p.shown(u.path)})
			}
			continue
		}
		o, ok := offerFor(c)
		if !ok {
			return nil
		}
		if !slices.ContainsFunc(out, func(x Offer) bool { return x.Rule == o.Rule }) {
			out = append(out, o)
		}
	}
	if slices.ContainsFunc(r.uses, func(u use) bool { return u.redir && u.access == Write && !harmlessSink(u.path) }) {
		return nil // the file it writes is another question
	}
	return together(out)
}

func offerFor(c command) (Offer, bool) {
	name := c.words[0]
	if slices.Contains(never, path.Base(name)) || !certain(c.text()) || c.via == "sudo" || strings.ContainsAny(c.text(), "()") {
		return Offer{}, false
	}
	for prefix := range handlersByPrefix {
		if strings.HasPrefix(path.Base(name), prefix) {
			return Offer{}, false
		}
	}
	head := name
	if slices.Contains(subcommands, name) && len(c.words) > 1 && !strings.HasPrefix(c.words[1], "-") {
		head += " " + c.words[1]
	} else if slices.Contains(subcommands, name) {
		return Offer{Rule: "Bash(" + c.text() + ")", Words: "exactly this command"}, true
	}
	if head == "git push" || head == "git config" || head == "gh api" || head == "go run" {
		return Offer{}, false
	}
	if (head == "npm run" || head == "yarn run" || head == "pnpm run" || head == "cargo run") && len(c.words) > 2 {
		head += " " + c.words[2]
	}
	if strings.ContainsAny(head, "*:") {
		return Offer{}, false
	}
	return Offer{Rule: "Bash(" + head + " *)", Words: fmt.Sprintf("any %s command", head)}, true
}

func (p *Policy) pathOffers(r *report) []Offer {
	tool := "Read"
	if slices.ContainsFunc(r.uses, func(u use) bool { return u.access == Write }) {
		tool = "Write"
	}
	if len(r.uses) != 1 || odd(r.uses[0].path) || !certain(r.uses[0].path) {
		return nil
	}
	file := p.shown(r.uses[0].path)
	out := []Offer{{Rule: tool + "(" + file + ")", Words: "this file"}}
	if dir := path.Dir(file); dir != "." && dir != "/" && dir != "~" {
		out = append(out, Offer{Rule: tool + "(" + dir + "/**)", Words: "everything in " + dir})
	}
	return out
}

// odd reports whether a path has characters that mean something else in a rule.
func odd(path string) bool { return strings.ContainsAny(path, "*?[]{}()\\") }

// shown is a path as a rule names it.
func (p *Policy) shown(file string) string {
	if rest, ok := strings.CutPrefix(file, p.place.Workspace+"/"); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(file, p.place.Home+"/"); ok {
		return "~/" + rest
	}
	return file
}
