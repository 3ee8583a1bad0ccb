package policy

import (
	"strings"
	"testing"
)

// An operand that may be a program or a file is judged as both.
func TestFirstOperandMayBeAFile(t *testing.T) {
	pl := place()
	pl.Glob = func(pattern string) ([]string, bool) {
		if name, _ := strings.CutPrefix(pattern, "/src/proj/"); name == ".env" || name == "a.yaml" || name == "secret.txt" {
			return []string{pattern}, true
		}
		return nil, true
	}
	p, err := New(pl, []Rule{rule("deny Read(secret.txt)")})
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]Verdict{
		"yq . a.yaml": Allow, "yq a.yaml": Allow, "yq .spec.key a.yaml": Allow, "cat a.yaml | yq .a.pem": Allow, `yq '.a | split("/")' a.yaml`: Allow, "yq -P a.yaml": Allow,
		"yq ~/.ssh/id_rsa": Deny, "yq /etc/shadow": Deny, "yq .env": Ask, "yq ~/.ssh/id_rsa a.yaml": Deny, "yq secret.txt": Deny, "yq ./secret.txt": Deny, "yq x/../.env": Ask,
		"yq x.yq a.yaml": Ask, "yq . ~/.ssh/id_rsa": Deny, "yq keys/id_rsa": Deny,
		"man ls": Allow, "man 5 passwd": Allow, "man ./secret.txt": Ask, "man keys/id_rsa": Deny,
	} {
		if d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits}); d.Verdict != want {
			t.Errorf("%s: %s by %s, want %s", command, d.Verdict, d.Rule, want)
		}
	}
}
