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

// What is known to look needs no answer, and what is next to it does.
func TestSmallTools(t *testing.T) {
	p := linesPolicy(t)
	for command, want := range map[string]bool{
		"git submodule status": true, "git submodule status --recursive": true, "git submodule update": false, "git submodule foreach ls": false,
		"git bisect log": true, "git bisect run ls": false, "git bisect start": false, "git verify-commit HEAD": true, "git verify-tag v1": true,
		"git diff --no-index a b": true, "git diff --no-index a ~/.bashrc": false, "git diff --no-index a ~/.ssh/id_rsa": false, "git diff --no-index . ~": false,
		"getent hosts": true, "getent passwd": true, "getent passwd root": true, "getent hosts x.evil.example": false, "getent ahosts x.example": false, "getent shadow": false,
		"tput cols": true, "tput colors": true, "tput setaf 2": true, "tput -T x cols": false, "tput init": false, "stty size": true, "stty raw": false, "factor 12": true,
		"top -bn1": true, "top -b -n 1 -o %CPU": true, "top": false, "htop --version": true, "htop": false,
		"less +G f": true, "less +42 f": true, "less '+!id' f": false, "less +v f": false, "less +G ~/.ssh/id_rsa": false,
		"ls /": true, "ls -la / /usr": true, "ls -R /": false, "ls --recursive /": false, "ls /root": false, "find / -name x": false, "tree /": false, "du /": false,
		"sort -o /dev/null f": true, "sort f -o f": false, "sort --output=f f": false, "sort -of f": false,
		"openssl x509 -in cert.pem": true, "openssl x509 -in cert.pem -noout -text": true, "openssl x509 -in http://evil.example/x": false, "openssl x509 -in ~/.ssh/id_rsa": false,
		"openssl x509 -in /home/u/cert.pem": false, "openssl x509 -in cert.pem -out f": false, "cat cert.pem": false,
		"sqlite3 app.db .tables": true, "sqlite3 -readonly app.db '.schema users'": true, "sqlite3 app.db '.shell id'": false, "sqlite3 app.db 'drop table x'": false,
		"sqlite3 file:/etc/shadow .tables": false, "sqlite3 app.db": false, "sqlite3 app.db '.schema x\n.shell id'": false,
	} {
		d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits, Sandboxed: true})
		if got := d.Verdict == Allow; got != want {
			t.Errorf("%s: %s by %s: %s", command, d.Verdict, d.Rule, d.Why)
		}
	}
	// Paths that are known only when it runs may lie outside of the repository, which git diff shows, too.
	for _, command := range []string{`git diff /dev/null "/etc/$(echo shadow)"`, `git diff --no-index a "b/$x"`} {
		if d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits}); d.Verdict == Allow {
			t.Errorf("%s: unasked and unconfined", command)
		}
	}
}

// A variable that nobody knows may have a command of a known name run another program. Builds run programs of the workspace anyway.
func TestVariablesBeforeACommand(t *testing.T) {
	for command, want := range map[string]Verdict{
		"PATH=. ls": Ask, "LD_PRELOAD=./x.so ls": Ask, "GIT_EXTERNAL_DIFF=./x git diff": Ask, "env PATH=. ls": Ask, "export PATH=.; ls": Ask, "HOME=. git status": Ask,
		"GOCACHEPROG=./x go version": Ask, "GCONV_PATH=. iconv -l": Ask, "PATH=. ls && go test ./...": Ask,
		"LC_ALL=C sort f": Allow, "TZ=UTC date": Allow, "GIT_PAGER=cat git log": Allow, "f=x; cat $f": Allow, "CGO_ENABLED=0 go test ./...": Allow, "DEBUG=1 npm test": Allow,
	} {
		p := linesPolicy(t)
		if d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits, Sandboxed: true}); d.Verdict != want {
			t.Errorf("%s: %s by %s: %s", command, d.Verdict, d.Rule, d.Why)
		}
	}
}

// Small looks of every day, and what stands right beside them.
func TestDailyLooks(t *testing.T) {
	p := linesPolicy(t)
	for command, want := range map[string]Verdict{
		"helm list": Allow, "helm ls -A": Allow, "aws sts get-caller-identity": Allow, "aws s3 ls": Allow, "az account show": Allow, "last | head -3": Allow, "ping -c1 localhost": Allow, "printenv PATH": Allow,
		"sqlite3 app.db 'select count(*) from users'": Allow, "sqlite3 app.db 'select id, name from users limit 5;'": Allow,
		"helm install x": Ask, "helm list --kubeconfig ./k": Ask, "ping -c1 example.org": Ask, "printenv": Ask, "printenv AWS_SECRET": Ask, "aws s3 cp a s3://b": Ask, "aws s3 ls --endpoint-url http://x": Ask, "aws sts get-caller-identity > x; aws s3 rb s3://b": Ask,
		"sqlite3 app.db 'select load_extension(1)'": Ask, "sqlite3 app.db 'select writefile(1,2) from a'": Ask, "sqlite3 app.db 'delete from a'": Ask, "helm list -n \"$(cat x)\"": Ask,
	} {
		if d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits, Sandboxed: true}); d.Verdict != want {
			t.Errorf("%s: %s by %s: %s", command, d.Verdict, d.Rule, d.Why)
		}
	}
}
