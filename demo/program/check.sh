#!/bin/sh
# A slow check, so that there is time to kill the daemon in the middle of it. It leaves a mark each time
# it is started: the demo counts them at the end.
echo started >> "$1"
for step in dependencies formatting vet tests; do
	echo "checking $step …"
	sleep 1
done
go vet ./... && go test -count=1 ./...
