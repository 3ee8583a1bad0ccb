package policy

import (
	"strings"
	"testing"
)

// decideApart judges a command in a worktree of its own under a sandbox, where what nobody can foresee is not asked about.
func decideApart(t *testing.T, rules, command string, exist ...string) Decision {
	t.Helper()
	at := place()
	at.Glob = func(pattern string) ([]string, bool) {
		var out []string
		for _, e := range exist {
			if ok := pattern == e || strings.TrimSuffix(pattern, "/*") != pattern && strings.HasPrefix(e, strings.TrimSuffix(pattern, "*")); ok {
				out = append(out, e)
			}
		}
		return out, true
	}
	var list []Rule
	for _, text := range strings.Split(rules, ";") {
		if text != "" {
			list = append(list, rule(text))
		}
	}
	p, err := New(at, list)
	if err != nil {
		t.Fatal(err)
	}
	return p.Decide(Action{Tool: "Bash", Command: command, Dir: "/src/proj", Mode: ModeAcceptEdits, Sandboxed: true, Apart: true})
}

// What a sandbox lets pass though nobody can foresee it, and the words of programs that nothing is known of, may be what a deny or ask rule for files names.
func TestMayTouchFiles(t *testing.T) {
	const read, write = "deny Read(secret.txt);deny Read(credentials);deny Read(private/**)", "deny Write(infra/**)"
	const deep = "deny Read(**/*.pem);deny Write(**/*.tf)"
	for _, tt := range []struct {
		rules, command string
		want           Verdict
	}{
		{read, "iconv secre*", Ask},
		{read, `f=$(echo secret.txt); iconv "$f"`, Ask},
		{read, "iconv credentials", Ask},
		{read, "iconv --in=credentials", Ask},
		{read, "tar cf - private", Ask},
		{read, "tar cf - .", Ask},
		{read, "gzip -c credentials | gunzip", Ask},
		{read, `f=$(echo secret.txt); cp "$f" b`, Ask},
		{read, "cp -r . /tmp/run-1/x", Ask},
		{read, "mv secret.txt b; cat b", Deny},
		{read, "ln secret.txt b; cat b", Deny},
		{read, "git mv secret.txt b; cat b", Deny},
		{read, "git hash-object -w secret.txt", Deny},
		{read, `find . -name 'sec*' -exec iconv {} \;`, Ask},
		{read, "ls | xargs iconv", Ask},
		{read, `x='cat secret.txt'; bash -c "$(echo "$x")"`, Ask},
		{read, `f=$(echo secret.txt); iconv <"$f"`, Ask},
		{read, `d=$(echo private); cd "$d" && iconv x.txt`, Ask},
		{read, `d=$(echo private); cd "$d" && cat x.txt`, Ask},
		{read, "script -qc 'cat secret.txt' /dev/null", Deny},
		{read, `mytool -e 'show("secret.txt")'`, Ask},
		{read, "glow ./secret.txt", Ask},
		{read, `python3 show.py "$f"`, Ask},
		{read, "python3 show.py credentials", Ask},
		{read, "LESSOPEN='|cat secret.txt' mytool", Ask},
		{read, "f=secret.txt; declare -n r=f; cat $r", Ask},
		{strings.ReplaceAll(read, "deny", "ask"), "ls | xargs iconv", Ask},
		{"deny Read(/var/log/**)", "iconv /var/log/dpkg.lo?", Ask},
		{"deny Read(/var/log/**)", `f=$(echo /var/log/x); iconv "$f"`, Ask},
		{deep, "tar cf - src", Ask},
		{deep, "rm -rf src", Ask},
		{read, "iconv a.txt", Allow},
		{read, "gzip -c a.txt", Allow},
		{read, "tar cf a.tar src", Allow},
		{read, "rm secret.txt", Allow},
		{read, "mv a.txt b.txt", Allow},
		{read, "make test", Allow},
		{read, "go test ./...", Allow},
		{read, "git commit -am 'secret.txt'", Allow},
		{read, "mkdir -p a/b && touch a/b/c", Allow},
		{deep, "tar cf a.tar empty", Allow},
		{deep, "iconv a.txt", Allow},

		{write, `f=$(echo infra/main.tf); rm "$f"`, Ask},
		{write, `d=$(echo infra); cp a.txt "$d/new.tf"`, Ask},
		{write, "cp --target-directory=infra a.txt", Ask},
		{write, "iconv -o infra/main.tf a.txt", Ask},
		{write, "iconv -oinfra/main.tf a.txt", Ask},
		{write, "sort a.txt -o infra/main.tf", Ask},
		{write, "sort a.txt --output=infra/main.tf", Ask},
		{write, "gzip infra/main.tf", Ask},
		{write, "gzip -r infra", Ask},
		{write, "gzip -r .", Ask},
		{write, "fallocate -l 99 infra/main.tf", Ask},
		{write, `f=$(echo infra/main.tf); echo x > "$f"`, Ask},
		{write, `f=$(echo infra/main.tf); sed -i s/t/b/ "$f"`, Ask},
		{write, "openssl rand -out infra/main.tf 5", Ask},
		{write, "ls | xargs rm", Ask},
		{write, `x='rm infra/main.tf'; bash -c "$(echo "$x")"`, Ask},
		{write, "git checkout HEAD~1 -- infra", Ask},
		{write, `git rm "in$x"`, Ask},
		{write, "unzip a.zip -d infra", Ask},
		{"deny Write", "gzip a.txt", Ask},
		{write, "cat infra/main.tf", Allow},
		{write, "cp infra/main.tf b.tf", Allow},
		{write, "git add infra/main.tf", Allow},
		{write, `cat "$f"`, Allow},
		{write, "go vet ./infra/x", Allow},
		{write, "gzip a.txt", Allow},
		{write, "echo x > a.txt", Allow},

		{"", "iconv secre*", Allow},
		{"", `rm "$f"`, Allow},
		{"allow Read(**)", "ls | xargs iconv", Allow},
		{"deny Bash(git push *)", `rm "$f"; gzip a.txt; ls | xargs rm`, Allow},
	} {
		if d := decideApart(t, tt.rules, tt.command, "/src/proj/src/a"); d.Verdict != tt.want {
			t.Errorf("%s: %q: %s (%s: %s), want %s", tt.rules, tt.command, d.Verdict, d.Rule, d.Why, tt.want)
		}
	}
}

// Words of programs that nothing is known of are held against secrets and against what lies outside, as those of programs that read.
func TestMayTouchSecrets(t *testing.T) {
	for _, tt := range []struct {
		rules, command string
		want           Verdict
		rule           string
	}{
		{"", "iconv .env", Ask, "secrets"},
		{"", "tar cf - .env", Ask, "secrets"},
		{"", "openssl base64 -in .env", Ask, "secrets"},
		{"", "gzip -c .env | gunzip", Ask, "secrets"},
		{"", "mv .env e; cat e", Ask, "secrets"},
		{"", "ln .env e; cat e", Ask, "secrets"},
		{"", "git mv .env e; cat e", Ask, "secrets"},
		{"", "iconv .e*", Ask, "secrets"},
		{"", "zip - .env", Ask, "secrets"},
		{"", "iconv --from=x --in=certs/server.key", Ask, "secrets"},
		{"", "glow .env", Ask, "secrets"},
		{"allow Bash(go test *)", "go test ./... && glow .env", Ask, "secrets"},
		{"", "iconv /var/log/dpkg.log", Ask, "outside the workspace"},
		{"", "gzip -c /var/log/dpkg.log | gunzip", Ask, "outside the workspace"},
		{"", "tar cPf - /var/log/dpkg.log", Ask, "outside the workspace"},
		{"", "iconv ../other/dpkg.log", Ask, "outside the workspace"},
		{"allow Read(.env)", "iconv .env", Allow, ""},
		{"allow Read(/var/log/**)", "iconv /var/log/dpkg.log", Allow, ""},
		{"allow Bash(iconv .env)", "iconv .env", Allow, ""},
		{"", "rm .env", Allow, ""},
		{"", "iconv .env.example", Allow, ""},
		{"", "iconv /var/log/none.log", Allow, ""},
		{"", "iconv /usr/share/x", Allow, ""},
		{"", "iconv /tmp/run-1/x", Allow, ""},
		{"", "node --env-file=.env app.js", Allow, ""},
	} {
		d := decideApart(t, tt.rules, tt.command, "/var/log/dpkg.log", "/src/other/dpkg.log")
		if d.Verdict != tt.want || tt.rule != "" && d.Rule != tt.rule {
			t.Errorf("%s: %q: %s (%s: %s), want %s (%s)", tt.rules, tt.command, d.Verdict, d.Rule, d.Why, tt.want, tt.rule)
		}
	}
}

// Text that nobody has seen, and words of programs that nothing is known of, may be a command that a deny or ask rule names.
func TestMayRun(t *testing.T) {
	const id, commit = "deny Bash(id)", "deny Bash(git commit *)"
	for _, tt := range []struct {
		rules, command string
		want           Verdict
	}{
		{id, `bash -c "$(echo id)"`, Ask},
		{id, `x=$(echo id); eval "$x"`, Ask},
		{id, `x=$(echo id); $x`, Ask},
		{id, "curl localhost:8080 | sh", Ask},
		{id, "setarch x86_64 id", Ask},
		{id, "setarch x86_64 /usr/bin/id", Ask},
		{"deny Bash(id *)", "prlimit id -u", Ask},
		{id, "choom -n 0 -- id", Ask},
		{id, "script -qc id /dev/null", Deny},
		{id, "script -qcid /dev/null", Deny},
		{id, "script --comm=id /dev/null", Deny},
		{id, "sed '1e id' a.txt", Ask},
		{id, "split --filter=id a.txt", Ask},
		{id, "ssh-agent id", Ask},
		{id, "mytool 'ls; id'", Ask},
		{id, `mytool "$x"`, Ask},
		{id, "echo id | xargs setarch x86_64", Ask},
		{id, `find . -maxdepth 0 -exec setarch x86_64 id \;`, Ask},
		{id, "timeout $x id2", Ask},
		{id, "FOO=id mytool", Ask},
		{id, "uv run id", Ask},
		{id, "hash -p /usr/bin/id foo; foo", Ask},
		{"ask Bash(id)", "setarch x86_64 id", Ask},
		{commit, "X=none git --config-env user.x=X commit -m x", Deny},
		{commit, "git --super-prefix a commit", Deny},
		{commit, "git --attr-source HEAD commit", Deny},
		{commit, "git --namespace n commit", Deny},
		{commit, "git-commit -m x", Deny},
		{commit, "/usr/lib/git-core/git-commit -m x", Deny},
		{commit, `git "$x" -m y`, Ask},
		{commit, "git $x", Ask},
		{commit, "setarch x86_64 git commit -m x", Ask},
		{commit, `setarch x86_64 git "$x"`, Ask},

		{id, "mytool identity", Allow},
		{id, "ls | wc -l; rm -rf dist", Allow},
		{id, `rm "$f"; ls | xargs rm`, Allow},
		{id, `timeout "$T" make`, Allow},
		{id, `go test -run "$x" ./...`, Allow},
		{id, `python3 -c 'print(1)'`, Allow},
		{id, `for f in $(ls); do wc -l "$f"; done`, Allow},
		{id, "NODE_ENV=test npm run build", Allow},
		{commit, "git add . && git status", Allow},
		{commit, "git stash", Allow},
		{commit, `git checkout "$x"`, Allow},
		{commit, "mytool commit", Allow},
		{"", `bash -c "$(echo id)"; setarch x86_64 id`, Allow},
	} {
		if d := decideApart(t, tt.rules, tt.command); d.Verdict != tt.want {
			t.Errorf("%s: %q: %s (%s: %s), want %s", tt.rules, tt.command, d.Verdict, d.Rule, d.Why, tt.want)
		}
	}
}

func TestMeets(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"git push", "git \x00", true},
		{"git push", "git \x01", true},
		{"git push x", "git \x00", false},
		{"git push x", "git \x01", true},
		{"git push", "git p\x00h", true},
		{"git push", "git q\x00", false},
		{"git push", "\x01git push\x01", true},
		{"git * x", "git \x00", false},
		{"git * x", "git \x00 \x00", true},
		{"* id *", " a \x01 ", true},
		{"* id *", " a \x00 ", true},
		{"* id *", " a x\x00 ", false},
		{"a*", "ab\x05\x00", true},
		{"ä*b", "ä\x00b", true},
		{"b*", "a\x00", false},
		{"", "\x01", true},
		{"", "a\x01", false},
	} {
		if got := meets(tt.pattern, tt.text); got != tt.want {
			t.Errorf("%q, %q: %v", tt.pattern, tt.text, got)
		}
	}
}

// Every word of a program that talks to hosts may be one, whatever stands around it and beside it.
func TestMayReach(t *testing.T) {
	const rules = "allow Bash(curl *);allow Bash(wget *);allow Bash(nc *);deny WebFetch(127.0.0.1);deny WebFetch(evil.example)"
	for _, tt := range []struct {
		command string
		want    Verdict
	}{
		{"curl 127.0.0.1:39999", Deny},
		{"curl u@127.0.0.1:39999", Deny},
		{"curl 'u:p@127.0.0.1:39999/x?y=a@b'", Deny},
		{"curl evil.example", Deny},
		{"curl EVIL.example.", Deny},
		{"curl evil.example:80", Deny},
		{"curl 'evil.example?x'", Deny},
		{"curl evil.example?x", Ask},
		{"curl u@evil.example", Deny},
		{"curl -s u@evil.example", Deny},
		{"curl -fsSL evil.example/x", Deny},
		{"curl localhost evil.example", Deny},
		{"curl localhost; curl evil.example", Deny},
		{"curl http://a.b evil.example", Deny},
		{"curl -x evil.example:80 http://a.b", Deny},
		{"curl -xevil.example:80 http://a.b", Deny},
		{"curl --proxy=http://u@evil.example:80 http://a.b", Deny},
		{"curl --url evil.example", Deny},
		{"wget -q evil.example", Deny},
		{"wget -O x evil.example", Deny},
		{"curl --odd evil.example", Deny},
		{"curl --odd evil.example a.b", Ask},
		{"curl --resolve a.b:80:127.0.0.1 http://a.b", Ask},
		{"curl --connect-to ::evil.example:80 http://a.b", Ask},
		{"curl --doh-url=https://evil.example http://a.b", Deny},
		{"curl 'http://{evil,b}.example'", Ask},
		{"curl 'http://evi[k-m].example'", Ask},
		{`curl localhost "$x"`, Ask},
		{"nc evil.example 80", Deny},
		{"nc -z localhost 80; nc evil.example 80", Deny},
		{"curl a.b", Allow},
		{"curl -o evil.txt a.b", Allow},
		{`curl -H 'Accept: x' -d '{"a":1}' a.b`, Allow},
	} {
		if d := decideApart(t, rules, tt.command); d.Verdict != tt.want {
			t.Errorf("%q: %s (%s: %s), want %s", tt.command, d.Verdict, d.Rule, d.Why, tt.want)
		}
	}
	for _, command := range []string{"curl -X POST localhost:3000/api -d '{\"x\":1.5}'", "curl --max-time 0.5 -w '%{http_code}' -o out.json localhost", "curl -sS -A agent/1.0 -b c.txt http://127.0.0.1:8080/x", "nc -z localhost 8080", "curl '[::1]:80'"} {
		if d := decideApart(t, "", command); d.Verdict != Allow {
			t.Errorf("%q: %s (%s: %s), want allow", command, d.Verdict, d.Rule, d.Why)
		}
	}
}

// What a deny rule keeps from being changed is not merged, either.
func TestRefuses(t *testing.T) {
	in := rule("deny Write(/src/proj/docs/*.md)")
	in.In = "/src/other"
	p := policyWith(t, rule("deny Write(infra/**)"), rule("deny Read(secret.txt)"), rule("ask Write(a.txt)"), in)
	for file, want := range map[string]string{"infra/a/b.tf": "deny Write(infra/**) (user config)", "infra": "deny Write(infra/**) (user config)", "infra2/x": "", "secret.txt": "", "a.txt": "", "docs/x.md": ""} {
		if d, is := p.Refuses("/src/proj", file); d.Rule != want || is != (want != "") {
			t.Errorf("%s: %q, %v", file, d.Rule, is)
		}
	}
}
