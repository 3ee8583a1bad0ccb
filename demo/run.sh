#!/usr/bin/env bash
# The main job on the built-in rehearsal model, with a real kill -9 in the middle of a real tool call.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
bin=$(cd "$here/.." && pwd)/bin/taskdaemon
scratch=$(mktemp -d "${TMPDIR:-/tmp}/taskdaemon-demo.XXXXXX")
repo=$scratch/receipts
export TASKDAEMON_STATE=$scratch/state XDG_CONFIG_HOME=$scratch/config TASKDAEMON_PROVIDER=rehearsal
unset ANTHROPIC_API_KEY || true

attach=""
cleanup() {
	[ -z "$attach" ] || kill "$attach" 2>/dev/null || true
	"$bin" daemon stop >/dev/null 2>&1 || true
	rm -rf "$scratch"
}
trap cleanup EXIT

bold="" plain=""
[ ! -t 1 ] || { bold=$'\033[1m' plain=$'\033[0m'; }
say() { printf '\n%s── %s%s\n' "$bold" "$*" "$plain"; }

say "A scratch repository with a failing test"
mkdir -p "$repo"
cp "$here/program/total.go" "$here/program/check.sh" "$repo/"
cp "$here/program/total_test.go.txt" "$repo/total_test.go"
cd "$repo"
printf 'module receipts\n\ngo 1.21\n' > go.mod
printf 'check.starts\n' > .gitignore
git init -q -b main .
git add -A
git -c user.name=demo -c user.email=demo@localhost commit -qm "receipts, with a bug"
git log --oneline

say "taskdaemon task add \"make the failing test pass\"   (the rehearsal model plays the agent)"
task=$("$bin" task add "make the failing test pass" --dir "$repo" --yes \
	--validate 'go test ./...' --rehearse "$here/script.yaml" --json | sed -n 's/.*"handle": *"\([^"]*\)".*/\1/p' | head -n 1)
echo "added $task"

say "taskdaemon loop attach $task"
"$bin" loop attach "$task" &
attach=$!

# Wait for the slow check to be in the middle of its work, then kill the daemon for real.
for _ in $(seq 200); do
	[ -s "$repo/check.starts" ] && break
	sleep 0.1
done
[ -s "$repo/check.starts" ] || { echo "the check never started" >&2; exit 1; }
sleep 1.2
pid=$("$bin" daemon status --json | sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' | head -n 1)
say "kill -9 $pid   (the daemon, in the middle of ./check.sh)"
kill -9 "$pid"
sleep 0.5
say "The check runs on without a daemon: $(pgrep -fc "$repo/check.sh|\./check.sh" || true) process(es) of it"

say "taskdaemon daemon start"
"$bin" daemon start
say "taskdaemon recover"
"$bin" recover

wait "$attach" || true
attach=""

say "The outcome"
"$bin" task show "$task"
say "go test ./..."
go test ./...
say "git diff"
git --no-pager diff --stat
starts=$(grep -c started check.starts)
say "How often was ./check.sh started? $starts time(s)"
if [ "$starts" = 1 ]; then
	echo "The call that was in flight at the kill was adopted by the new daemon, not run again."
else
	echo "It should have been started once." >&2
	exit 1
fi
say "The conversation is git history: git log $task"
"$bin" checkpoint "$task" >/dev/null
git --no-pager --git-dir "$TASKDAEMON_STATE/conversations.git" log --reverse --format='%h %s' "$task"
say "The cost (a rehearsal is free; on the API this is the price of the tokens)"
"$bin" task show "$task" 2>/dev/null | grep -E '^(cost|tokens)'
