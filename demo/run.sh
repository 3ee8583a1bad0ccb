#!/usr/bin/env bash
# The main job on the built-in rehearsal model: a feature becomes five tasks, three loops work on them side by side in
# worktrees, the daemon is really killed in the middle of a tool call, and everything ends verified and merged on main.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$here/.." && pwd)/bin/taskdaemon
scratch=$(mktemp -d "${TMPDIR:-/tmp}/taskdaemon-demo.XXXXXX")
repo=$scratch/receipts
marks=$scratch/marks
export TASKDAEMON_STATE=$scratch/state XDG_CONFIG_HOME=$scratch/config TASKDAEMON_PROVIDER=rehearsal TASKDAEMON_SANDBOX_WRITE=$marks
export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@localhost GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@localhost
unset ANTHROPIC_API_KEY || true

limit=90 # seconds; it takes half of that on a busy machine
run="" watch=""
cleanup() {
	[ -z "$watch" ] || kill "$watch" 2>/dev/null || true
	[ -z "$run" ] || kill "$run" 2>/dev/null || true
	"$bin" daemon stop >/dev/null 2>&1 || true
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'echo "the demo did not end within $limit s" >&2; exit 1' TERM
(
	trap 'kill "$pause" 2>/dev/null; exit' TERM
	sleep "$limit" &
	pause=$!
	wait "$pause" && kill -TERM $$
) &
watch=$!

bold="" plain=""
[ ! -t 1 ] || { bold=$'\033[1m' plain=$'\033[0m'; }
say() { printf '\n%s── %s%s\n' "$bold" "$*" "$plain"; }

say "A scratch repository with a failing test"
mkdir -p "$repo" "$marks"
cp "$here/program/total.go" "$here/program/check.sh" "$here/program/NOTES.md" "$repo/"
cp "$here/program/total_test.go.txt" "$repo/total_test.go"
sed "s#MARKS#$marks#g" "$here/receipts.yaml" > "$scratch/receipts.yaml"
cd "$repo"
printf 'module receipts\n\ngo 1.21\n' > go.mod
git init -q -b main .
git add -A
git commit -qm "receipts, with a bug"
git log --oneline
"$bin" init

say "taskdaemon prd create Receipts --spec spec.md --plan plan.md   (the rehearsal model plays every agent)"
"$bin" prd create Receipts --spec "$here/spec.md" --plan "$here/plan.md" --yes --rehearse "$here/decompose.yaml"
say "taskdaemon graph"
"$bin" graph

say "taskdaemon run receipts --parallel 3 --verify"
"$bin" run receipts --parallel 3 --verify --yes --rehearse "$scratch/receipts.yaml" &
run=$!

# Wait for the slow check to be in the middle of its work.
for _ in $(seq 300); do
	[ -s "$marks/check" ] && break
	sleep 0.1
done
[ -s "$marks/check" ] || { echo "the check never started" >&2; exit 1; }
say "Meanwhile a person commits to main: the loops that are behind are rebased"
echo "Do with it what you like." > LICENSE
git add LICENSE
git commit -qm "a licence"
sleep 1.2
pid=$("$bin" daemon status --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1)
say "kill -9 $pid   (the daemon, in the middle of ./check.sh, with three loops at work)"
kill -9 "$pid"

# The branch of "Sum every price" cannot be brought onto what was merged meanwhile: both changed NOTES.md. A person is asked, and lets the
# agent resolve it. Whatever else is asked is agreed to.
asked=" "
while kill -0 "$run" 2>/dev/null; do
	for question in $("$bin" status 2>/dev/null | grep -o 'q-[a-z0-9]*' | sort -u || true); do
		case $asked in *" $question "*) continue ;; esac
		if "$bin" task answer "$question" agent 2>/dev/null; then
			say "taskdaemon task answer $question agent   (a person lets the agent resolve the conflict)"
		elif "$bin" task answer "$question" yes; then
			say "taskdaemon task answer $question yes"
		else
			continue # it is gone by now, or the daemon is: the next look tells
		fi
		asked="$asked$question "
	done
	sleep 0.1
done
[ "$asked" != " " ] || { echo "nobody was asked about the conflict" >&2; exit 1; }
wait "$run" || { echo "the run did not end well" >&2; exit 1; }
run=""
say "taskdaemon recover   (what the new daemon found)"
"$bin" recover

say "The graph"
"$bin" task tree receipts
say "main has each task once: git log --graph main"
git --no-pager log --graph --format='%h %s' main
say "go test ./...   (in the person's own checkout, on main)"
go test ./...
cat NOTES.md
starts=$(grep -c started "$marks/check")
say "How often was ./check.sh started? $starts time(s)"
if [ "$starts" = 1 ]; then
	echo "The call that was in flight at the kill was adopted by the new daemon, not run again."
else
	echo "It should have been started once." >&2
	exit 1
fi
for title in "Sum every price" "Format cents as money" "Add the tax" "Print the receipt" "Describe it in the README"; do
	n=$(git log --format=%s main | grep -cxE "(Work in progress: )?$title" || true)
	[ "$n" = 1 ] || { echo "main has \"$title\" $n times" >&2; exit 1; }
done
say "The cost (a rehearsal is free; on the API this is the price of the tokens)"
"$bin" cost --by task
