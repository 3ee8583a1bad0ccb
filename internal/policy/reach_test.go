package policy

import (
	"strings"
	"testing"
)

// What reaches a service is unasked only with words that are known before it runs: nothing of the workspace goes out.
func TestReachIsGivenOnlyWhatIsKnown(t *testing.T) {
	p := linesPolicy(t)
	for command, want := range map[string]bool{
		"gh pr list": true, "gh issue list -S bug": true, "gh pr list --label bug | head -5": true, "gh pr view 12 --json title,body": true,
		"x=12; gh pr view $x": true, "for n in 1 2 3; do gh pr view $n; done": true, "gh pr list < /dev/null": true,
		"gh pr view 1 | grep -q x && echo yes": true, "gh pr list || true": true, "gh auth status && gh pr list": true, "echo prs; gh pr list": true,
		"kubectl get pods -n web": true, "docker ps --filter name=web": true, "docker logs --since 5m web 2>&1 | tail -20": true,
		"timeout 9 gh pr list && gh run list": true, "docker top web": true,

		`gh issue list -S "$(grep -rh API .)"`:                         false,
		`gh label list -S "$(cat README.md)"`:                          false,
		`gh pr list --search "$(cat README.md)"`:                       false,
		`gh pr list --search $(cat README.md)`:                         false,
		`x=$(cat README.md); gh pr list --label "$x"`:                  false,
		`while read l; do gh pr list --label "$l"; done < README.md`:   false,
		`cat README.md | while read l; do gh issue list -S "$l"; done`: false,
		`cat README.md | xargs -I{} gh issue list -S {}`:               false,
		`cat README.md | xargs gh issue list -S`:                       false,
		`kubectl get pods -n "$(grep -r API . | cut -c1-60)"`:          false,
		`kubectl logs web -l "$(cat README.md)"`:                       false,
		`docker ps --filter "$(cat README.md)"`:                        false,
		`docker logs --since "$(cat README.md)" web`:                   false,
		`gh pr list -S *`:             false,
		`gh pr list --label "$((x))"`: false,
		`f() { gh pr list --label "$1"; }; f "$(cat README.md)"`:            false,
		`x=$(cat README.md); printf %d "$x" && gh pr list --label a`:        false,
		`x=$(cat README.md); date -d "$x" || gh pr list --label a`:          false,
		`x=$(grep a README.md); : "${x:?}"; gh pr list --label a`:           false,
		`f() { for x; do gh pr list --label a; done; }; f $(cat README.md)`: false,
		`cat README.md | gh pr list`:                                        false,
		`gh pr list < README.md`:                                            false,
		"gh pr list <<E\ntext\nE":                                           false,
		`cat README.md | (gh pr list)`:                                      false,
		`cat README.md | timeout 5 gh pr list`:                              false,
		`cat README.md | bash -c 'gh pr list'`:                              false,
		`grep -q a README.md && gh pr list --label a`:                       false,
		`grep -q a README.md || exit; gh pr list --label a`:                 false,
		`set -e; grep -q a README.md; gh pr list --label a`:                 false,
		`if grep -q a README.md; then gh pr list --label a; fi`:             false,
		`x=$(cat README.md); case $x in a*) gh pr list --label a;; esac`:    false,
		`x=$(cat README.md); [[ $x == a* ]] && gh pr list --label a`:        false,
		`for w in $(cat README.md); do gh pr list --label a; done`:          false,
		`x=$(cat README.md); for ((i=0; i<${#x}; i++)); do gh status; done`: false,

		`gh pr list --json title --jq '.[].title'`:                             true,
		`gh pr list --json number,title -q '.[] | "\(.number) \(.title)"'`:     true,
		`gh pr list --json number,title --jq '.[] | {number, title}'`:          true,
		`gh pr list --json number --jq 'map(select(.number > 5)) | length'`:    true,
		`gh pr list --json number,title --jq '.[] | [.number, .title] | @tsv'`: true,
		`gh pr list --json title --jq '.[0].env'`:                              true,
		`gh pr list --jq 'env.GH_TOKEN'`:                                       false,
		`gh pr list --jq env`:                                                  false,
		`gh pr list --jq '$ENV'`:                                               false,
		`gh pr list --jq '$ ENV'`:                                              false,
		`gh pr list --jq '"\(env)"'`:                                           false,
		`gh pr list --jq '[.a, env, .b]'`:                                      false,
		`gh pr list --jq '{a, (env.X): 1}'`:                                    false,
		`gh pr list --jq 'input_filename'`:                                     false,
		`gh pr list --jq 'import "x" as x; .'`:                                 false,
		`gh pr list -q env`:                                                    false,
		`gh pr view --template '{{env "X"}}'`:                                  false,
		`jq '$ ENV' f`:                                                         false,
		"jq '$#\nENV' f":                                                       false,
		`docker compose ps`:                                                    false, `docker compose logs`: false, `docker compose images`: false, `docker compose top`: false,
		`docker-compose ps`: false, `docker-compose logs web`: false, `docker top web axe`: false,
	} {
		for _, sandboxed := range []bool{false, true} {
			for _, mode := range []Mode{ModeAsk, ModeAcceptEdits, ModePlan} {
				d := p.Decide(Action{Tool: "Bash", Command: command, Mode: mode, Sandboxed: sandboxed})
				if open := d.Verdict == Allow && d.Confined == Unconfined; open && !want {
					t.Errorf("mode %s, sandbox %v: %s: unasked, with a network", mode, sandboxed, command)
				} else if d.Verdict != Allow && want {
					t.Errorf("mode %s, sandbox %v: %s: %s by %s: %s", mode, sandboxed, command, d.Verdict, d.Rule, d.Why)
				}
			}
		}
	}
}

// kubectl takes the kinds of resources in any spelling: only those count that are known to hold no secrets.
func TestKubeKinds(t *testing.T) {
	p := linesPolicy(t)
	for command, want := range map[string]bool{
		"kubectl get pods": true, "kubectl get Pods -n web": true, "kubectl get pods,svc -o wide": true, "kubectl get deploy/web -oyaml": true, "kubectl get deployments.apps": true,
		"kubectl get pod web-1 -o jsonpath={.status.phase}": true, "kubectl describe pod web-1": true, "kubectl get all -A": true, "kubectl top pods": true,
		"kubectl rollout status deploy/web": true, "kubectl logs deploy/web": true, "kubectl logs secret-service-1": true, "kubectl get pods secret-service": true,
		"kubectl auth can-i get secrets": true, "kubectl cluster-info": true, "kubectl get po/web svc/web": true,
		"kubectl get secrets": false, "kubectl get SECRETS -oyaml": false, "kubectl get Secret x -oyaml": false, "kubectl get secrets.v1. -oyaml": false, "kubectl get secret/x": false,
		"kubectl get Secret/x": false, "kubectl get pods,Secret": false, "kubectl get pods/a SECRETS/b": false, "kubectl describe SECRET x": false, "kubectl get vaultstaticsecrets": false,
		"kubectl get foos.example.com": false, "kubectl get pods -o GO-TEMPLATE-FILE=x": false, "kubectl logs Secret/x": false, "kubectl cluster-info dump": false,
	} {
		d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits, Sandboxed: true})
		if got := d.Verdict == Allow; got != want {
			t.Errorf("%s: %s by %s: %s", command, d.Verdict, d.Rule, d.Why)
		}
	}
	p = policyWith(t, rule("allow Bash(kubectl get *)"))
	for _, command := range []string{"kubectl get SECRETS", "kubectl get secret/x", "kubectl get pods,Secrets.v1. -oyaml"} {
		if d := p.Decide(Action{Tool: "Bash", Command: command}); d.Verdict != Ask || !d.Fixed {
			t.Errorf("%s, with a rule for kubectl get: %s by %s", command, d.Verdict, d.Rule)
		}
	}
}

// What could print the environment of a program is not among what only reads, and letters that look like ours are spelled out.
func TestContainersAndHosts(t *testing.T) {
	p := policyWith(t)
	for command, allowed := range map[string]bool{
		"docker history web": true, "docker image history -q web": true, "docker history --no-trunc web": false, "podman history --no-trunc web": false,
		"docker top web": true, "docker container top web": true, "docker container top web e": false, "podman top web environ": false,
	} {
		if d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits, Sandboxed: true}); (d.Verdict == Allow) != allowed {
			t.Errorf("%s: %s by %s: %s", command, d.Verdict, d.Rule, d.Why)
		}
	}
	for _, command := range []string{"curl https://\u0430pple.com/", "git clone https://\u0430pple.com/x"} {
		if d := p.Decide(Action{Tool: "Bash", Command: command, Mode: ModeAcceptEdits, Sandboxed: true}); d.Verdict == Allow || !strings.Contains(d.Why, "xn--pple-43d.com") {
			t.Errorf("%s: %s: %s", command, d.Verdict, d.Why)
		}
	}
}
