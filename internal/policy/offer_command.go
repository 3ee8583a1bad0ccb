package policy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// starredHeads are the commands whose further words do not change what they do: an answer may hold for any of them. All
// others are offered exactly as they are. What runs its own words, like interpreters and wrappers, has no place here, nor what takes names of further
// things to do, as make, mvn and npm do: an answer to "make test" is none to "make test deploy".
var starredHeads = []string{
	"go build", "go test", "go vet", "go fmt", "go generate", "go mod tidy", "cargo build", "cargo test", "cargo check", "cargo clippy", "cargo fmt",
	"cargo doc", "cargo bench", "bun test", "deno test", "deno lint",
	"git add", "git commit", "bazel build", "bazel test", "dotnet build", "dotnet test", "swift build", "swift test", "mix test", "mix format",
	"mix compile", "bundle exec", "poetry run", "uv run", "npx", "bunx", "pnpm exec", "yarn exec",
	"pytest", "tox", "nox", "ctest", "jest", "vitest", "mocha", "eslint", "tsc", "prettier", "ruff", "mypy", "black", "isort", "flake8", "pylint", "pyright",
	"rspec", "rubocop", "phpunit", "golangci-lint", "staticcheck", "shellcheck",
}

// namedTools are those of them that run what the next word names: it belongs to the rule, and must be one of those above.
var namedTools = []string{"bundle exec", "poetry run", "uv run", "npx", "bunx", "pnpm exec", "yarn exec"}

// modules are those of Python that do one thing, whatever their words are.
var modules = []string{
	"pytest", "unittest", "mypy", "ruff", "black", "isort", "flake8", "pylint", "pyright", "build", "tox", "nox", "compileall", "json.tool", "pyflakes",
}

// plainName is a word that is a name and nothing else.
var plainName = regexp.MustCompile(`^[A-Za-z0-9@._/][A-Za-z0-9@._/+-]*(:[A-Za-z0-9][A-Za-z0-9._-]*)*$`)

func (p *Policy) commandOffers(a Action, r *report) []Offer {
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
		if freely(a) && r.editsBy(i) {
			continue
		}
		o, ok := p.offerFor(c)
		if !ok {
			return nil
		}
		if !slices.ContainsFunc(out, func(x Offer) bool { return x.Rule == o.Rule }) {
			out = append(out, o)
		}
	}
	if slices.ContainsFunc(r.uses, func(u use) bool {
		return u.redir && u.access == Write && !harmlessSink(u.path) && !(freely(a) && u.editable())
	}) {
		return nil // the file it writes is another question
	}
	return together(out)
}

// offerFor is the rule for one simple command, if there is one that a person may give away.
func (p *Policy) offerFor(c command) (Offer, bool) {
	switch {
	case c.via == "sudo", slices.ContainsFunc(c.words, unknown):
		return Offer{}, false
	case module(c.words) != "":
		return starred(strings.Join(c.words[:3], " "))
	case len(c.words) > 1 && c.words[0] == "git" && c.words[1] == "push" && !p.pushesNamed(c.words[2:]):
		return Offer{}, false // where it goes may change
	}
	for n := min(3, len(c.words)); n > 0; n-- {
		head := strings.Join(c.words[:n], " ")
		if !slices.Contains(starredHeads, head) {
			continue
		}
		if !slices.Contains(namedTools, head) {
			return starred(head)
		}
		if len(c.words) == n || !slices.Contains(starredHeads, c.words[n]) {
			break
		}
		return starred(head + " " + c.words[n])
	}
	if c.fed {
		return Offer{}, false // a rule for the words would hold for any input
	}
	return exact(c)
}

// module is the module of Python that a command runs, if it is one of those that may be offered.
func module(words []string) string {
	if len(words) < 3 || !strings.HasPrefix(words[0], "python") || words[1] != "-m" || !slices.Contains(modules, words[2]) {
		return ""
	}
	return words[2]
}

// pushesNamed reports whether a push says where it goes, and that is no protected branch.
func (p *Policy) pushesNamed(args []string) bool {
	pos := positional(args)
	if len(pos) < 2 || !onlyFlags(args, "u", "--set-upstream") {
		return false
	}
	w := walker{p: p}
	return !slices.ContainsFunc(pos[1:], func(ref string) bool {
		return strings.ContainsAny(ref, ":+") || w.protected(strings.TrimPrefix(ref, "refs/heads/")) != no
	})
}

// exact is the offer of the very command, where its words mean the same in a rule.
func exact(c command) (Offer, bool) {
	for _, a := range c.words {
		if a == "" || !certain(a) || strings.ContainsAny(a, "*() \t\n") {
			return Offer{}, false
		}
	}
	return Offer{Rule: "Bash(" + c.text() + ")", Words: "exactly this command"}, true
}

// starred is the offer of all commands that begin like this one.
func starred(head string) (Offer, bool) {
	for _, a := range strings.Split(head, " ") {
		if a != "-m" && !plainName.MatchString(a) {
			return Offer{}, false
		}
	}
	return Offer{Rule: "Bash(" + head + " *)", Words: fmt.Sprintf("any %s command", head)}, true
}
