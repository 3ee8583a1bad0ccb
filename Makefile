# taskdaemon. `make help` lists the targets.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X taskdaemon/internal/cli.version=$(VERSION)
LINT    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.14.0

export CGO_ENABLED ?= 0

.PHONY: help build demo test test-all race crash soak fuzz bench lint generate clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

build: ## build bin/taskdaemon
	$(GO) build -buildvcs=false -ldflags '$(LDFLAGS)' -o bin/taskdaemon ./cmd/taskdaemon

demo: build ## a feature of five tasks, in parallel, killed in the middle, merged to main (rehearsal model, under 60 s)
	./demo/run.sh

test: ## units, sessions, simulation, and a twelfth of the crashes: what each commit has to pass
	./.ci/test

test-all: test race crash ## all of it, before an issue is called resolved: without -short, all crashes, all mutants, the race detector
	$(GO) test -count=1 -p 1 -timeout 90m ./cmd/... ./internal/... ./test/sim ./test/mutants

race: ## the unit tests and the simulation under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 20m ./internal/... ./test/sim

crash: ## the crash suite, whole
	$(GO) test -count=1 -timeout 90m ./test/crash

soak: ## the long version of everything that kills and cuts (hours)
	TASKDAEMON_SOAK=1 $(GO) test -count=1 -p 1 -timeout 12h ./...

fuzz: ## every fuzz target, FUZZTIME each (default 10s)
	./.ci/fuzz $(or $(FUZZTIME),10s)

bench: build ## the figures of docs/benchmarks.md, ratios first
	$(GO) test -count=1 -timeout 30m -run '^$$' -bench . -benchtime 1x ./test/bench
	$(GO) test -count=1 -timeout 30m -run '^$$' -bench 'Context|Assemble|Command|Fire|Search50k' ./internal/window ./internal/llm/anthropic ./internal/hook ./internal/memory

lint: ## gofmt, go vet and golangci-lint
	@test -z "$$(gofmt -l cmd demo internal test)" || { gofmt -l cmd demo internal test; exit 1; }
	$(GO) vet ./... && $(GO) vet -tags failpoint ./...
	$(GO) run $(LINT) run ./...

generate: ## docs made from code: states, commands, config, API
	$(GO) generate ./...
	$(GO) test ./internal/cli ./internal/config ./internal/server -run IsUpToDate -update

clean: ## remove what was built
	rm -rf bin
