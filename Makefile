# Hostler's targets. `make help` lists them; docs are in README.md.
SHELL   := /bin/bash -o pipefail
VERSION ?= 0.1.0
COMMIT  := $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)
TOOL    := go tool -modfile=.ci/tools.mod
GO      := CGO_ENABLED=0 go
# go-nvml names functions of a library that most machines lack: they must be bound
# when called, which is not what every distribution's gcc does by itself.
export CGO_LDFLAGS := -O2 -g -Wl,-z,lazy
export CGO_CFLAGS  := -O2 -g -Wno-deprecated-declarations
# Tests are built without the machine's paths too: then all checkouts of a machine share the build cache.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)
PROGRAMS := bin/hostler-broker bin/hostler-agent bin/hostler bin/hostler-verify

.PHONY: help build try demo demo-allocation demo-onboarding demo-reimage demo-update demo-terminal demo-operations test race test-vault test-cosign test-objectstores sim e2e e2e-all lint fuzz fleet bench bench-docs bench-update bench-terminal chaos upgrade maassim package clean setup-build setup-test setup-guest
help:
	@echo 'make build     the four programs in bin/'
	@echo 'make try       a turnover up to its certificate, in a minute: a simulated node, no guest, no root; it stays up until Ctrl-C'
	@echo 'make demo      the main job from nothing: a site, an onboarding of a QEMU guest, a turnover (installs what it needs)'
	@echo 'make demo-allocation  a machine goes from one tenant to the next by their own requests, with proof; in a QEMU guest'
	@echo 'make demo-reimage  a tenant had root: a fresh system on the same node, a disk erased, drift, and the end of a node; in a QEMU guest'
	@echo 'make demo-update  a release of the agent is rolled out, and a bad one puts itself back; in a QEMU guest, from a real registry'
	@echo 'make demo-terminal  a shell on a node that listens on nothing: it outlasts its agent, and is played back; in a QEMU guest'
	@echo 'make demo-operations  a node joins a real Slurm, works, gets a model over a cut connection, and leaves, with proof; in a QEMU guest, as root'
	@echo 'make demo-onboarding  a rack at once: a batch, what goes wrong, the stop button; no guest, no root'
	@echo 'make test      every test that needs no guest, on SQLite and PostgreSQL (installs what it needs)'
	@echo 'make race      the same with the race detector in every package, not only where goroutines are started: 20 minutes'
	@echo 'make e2e       the tests in QEMU guests that CI runs; e2e-all: all of them'
	@echo 'make maassim   a simulated MAAS region on loopback, to play with (ARGS=--help)'
	@echo 'make test-vault  the secrets tests against a real Vault, built from its source (the first time: 600 MB of modules, 17 minutes of CPU)'
	@echo 'make test-cosign  signatures of releases, OCI artifacts and files, with cosign itself, built from its source (the first time: 2 GB of modules, 4 minutes of CPU)'
	@echo 'make test-objectstores  pulls from stand-ins of S3 and Google, built from their source (the first time: 1 minute of CPU)'
	@echo 'make sim N=10000  that many seeds of the simulations of onboardings, turnovers and allocations (FIRST=0), of which make test plays 200 of each'
	@echo 'make fleet N=1000  a broker and so many simulated nodes on loopback, with how they do (ARGS=--help: what goes wrong)'
	@echo 'make chaos     three brokers on a PostgreSQL, 500 nodes, operators and onboardings through ten minutes of faults (FOR=10m), and what held; as root'
	@echo 'make upgrade   three brokers of an earlier release (PREVIOUS=commit) are replaced one by one under 200 onboardings; as root'
	@echo 'make bench     benchmarks, with a table at the end, the same in bench.json, and a plot in bench.svg (BENCH=regexp PKG=./path/... for some of them)'
	@echo 'make bench-docs  the plot of the last make bench becomes the one of docs/explanation/performance.md'
	@echo 'make bench-update  how long a node has no agent that works when a new version crashes, in a QEMU guest (RUNS=5 times)'
	@echo 'make bench-terminal  a terminal against ssh on a link that is slow and loses packets: echo and output, in a QEMU guest (KEYS=600 typed)'
	@echo 'make lint fuzz package clean   as usual'

# Go knows best what is out of date, so the programs are always asked for.
.PHONY: $(PROGRAMS)
build: $(PROGRAMS)
bin/hostler-broker: ; $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./broker/cmd/hostler-broker
# The agent alone is built with cgo, for go-nvml; names and users stay Go's own.
bin/hostler-agent: setup-build
	CGO_ENABLED=1 go build -trimpath -tags netgo,osusergo -ldflags '$(LDFLAGS)' -o $@ ./agent/cmd/hostler-agent
bin/hostler:        ; $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./broker/cmd/hostler
bin/hostler-verify: ; $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./broker/cmd/hostler-verify

setup-build: ; @command -v gcc >/dev/null || .ci/setup build
setup-test:  ; @.ci/setup test
setup-guest: ; @.ci/setup guest

try: build
	@$(GO) build -o bin/try ./test/try
	@bin/try
demo: setup-guest build package
	@go run ./test/demo/node
demo-allocation: setup-guest build package
	@go run ./test/demo/allocation
demo-reimage: setup-guest build package
	@go run ./test/demo/reimage
demo-update: setup-guest setup-test build package
	@go run ./test/demo/update
demo-terminal: setup-guest build package
	@go run ./test/demo/terminal
demo-operations: setup-guest setup-test build package
	@go run ./test/demo/operations
demo-onboarding: build
	@go run ./test/demo/onboarding

# cgo is on for the race detector, and for the agent's GPU bindings. .ci/packages says which
# packages the detector watches, and why; `make race` gives it all of them. It looks at our
# code and at what that calls, but not into SQLite, which is translated from C, nor into the
# arithmetic of cryptography: neither has goroutines, and both together were more than half
# of the time. `make lint` has vetted the tests. The time limit is for what hangs: broker/store
# took thirteen minutes on a busy machine.
# A watched program would wait a second before it ends, and tests start hundreds of them.
export GORACE := atexit_sleep_ms=0
RACE := -race -gcflags='modernc.org/...=-race=false' -gcflags='crypto/internal/...=-race=false' -timeout 25m
# The tests of adminapi's requests that wait or stream, of terminals, and of whole runs.
LASTING := Stream|Follower|Walk|Socket|Session|Terminal|GoesOnWhere|FromItsBMC|Batch|Waits|Followed|AnOperatorWho|UnderOneKey
# The scripts of the CLI start a process for each command, most of them for one request; watched, they
# took more than a quarter of an hour. The CLI's other tests follow, wait and have terminals: those are.
SCRIPTS := ^TestScripts
INMEMORY := -exec $(CURDIR)/.ci/inmemory
# All parts run, so that one red package does not hide what comes after it. As many packages run at once
# as there are processors. On two processors, five packages at once took longer than two at once.
# Tests of adminapi that the detector has watched do not run again without it.
AT_ONCE := $(shell nproc)
# The garbage collector runs less often: at its usual pace it was a third of the time of a simulation.
test race: export GOGC := 400
test race: export GOMEMLIMIT := 2GiB
test: setup-test
	@raced=$$(.ci/packages raced) && plain=$$(.ci/packages plain) || exit 1; failed=0; export CGO_ENABLED=1; \
	go test -p $(AT_ONCE) -vet=off $(INMEMORY) $(RACE) -skip '$(SCRIPTS)' $$raced || failed=1; \
	{ lasting=0; go test -vet=off $(INMEMORY) $(RACE) -run '$(LASTING)' ./broker/adminapi || lasting=1; \
	go test -vet=off $(INMEMORY) -timeout 25m -skip '$(LASTING)' ./broker/adminapi && exit $$lasting; } & adminapi=$$!; \
	go test -vet=off $(INMEMORY) -timeout 25m -run '$(SCRIPTS)' ./broker/cmd/hostler || failed=1; wait $$adminapi || failed=1; \
	go test -p $(AT_ONCE) -vet=off $(INMEMORY) -timeout 25m $$(grep -v /broker/adminapi$$ <<<"$$plain") || failed=1; exit $$failed
race: setup-test
	CGO_ENABLED=1 go test $(INMEMORY) $(RACE) ./...

# The simulations are built without the race detector: they have one goroutine. 500
# onboardings at once are a matter of time and memory.
N     ?= 10000
FIRST ?= 0
sim:
	$(GO) test -count=1 -timeout 0 -v -run '^TestSimulation$$' ./broker/onboarding -sim.n $(N) -sim.first $(FIRST)
	$(GO) test -count=1 -timeout 0 -v -run '^TestSimulation$$' ./broker/turnover -sim.n $(N) -sim.first $(FIRST)
	$(GO) test -count=1 -timeout 0 $(INMEMORY) -v -run '^TestSimulation$$' ./broker/allocation/records -sim.n $(N) -sim.first $(FIRST)

# Vault is built from a module of its own: nothing of it becomes a dependency of ours.
test-vault:
	cd test/vault && $(GO) build -o ../../bin/vault .
	HOSTLER_VAULT=$(CURDIR)/bin/vault $(GO) test -count=1 -v -run '^TestARealVaultKeepsItsRules$$' ./broker/secrets

# The same for cosign: what it signs, and what is signed here.
test-cosign: setup-test
	cd test/cosign && $(GO) build -o ../../bin/cosign .
	HOSTLER_COSIGN=$(CURDIR)/bin/cosign $(GO) test -count=1 -v -run '^Test(WhatCosign|CosignBelieves|WhatWasAltered)' ./test/registry

# And for stand-ins of object stores: what a node pulls from servers that others have written.
test-objectstores:
	$(GO) build -modfile=test/objectstores/stores.mod -o bin/objectstores test/objectstores/serve.go
	HOSTLER_OBJECT_STORES=$(CURDIR)/bin/objectstores $(GO) test -count=1 -v -run '^TestAFileComesFromTheStandIns' ./agent/steps

e2e: setup-guest setup-test build package
	$(GO) test -tags e2e -count=1 -timeout 70m -p 1 -v ./test/qemu ./packaging ./test/e2e
e2e-all: setup-guest setup-test build package
	$(GO) test -tags e2e,e2e_all -count=1 -timeout 120m -p 1 -v ./test/qemu ./packaging ./test/e2e

# With these tags every file is seen: no file has a constraint against one of them. Without them staticcheck
# finds what only the tagged tests use.
TAGS := e2e,e2e_all,chaos
lint:
	@bad=$$($(TOOL) gofumpt -l .); if [ -n "$$bad" ]; then echo "not gofumpt-ed:"; echo "$$bad"; exit 1; fi
	go vet -tags $(TAGS) ./...
	$(TOOL) staticcheck -tags $(TAGS) ./...
	$(TOOL) staticcheck ./test/... ./packaging/...
	@.ci/rules
	@$(GO) run ./.ci/language | tail -1

# Each fuzz target for FUZZTIME; the committed corpus runs in every `make test`.
FUZZTIME ?= 30s
fuzz: ; @.ci/fuzz $(FUZZTIME)

# One part of it: make bench BENCH=Onboardings PKG=./test/fleet/hall
BENCH ?= .
PKG   ?= ./...
bench: build
	@go run ./test/bench -bench '$(BENCH)' $(PKG)
# What docs/explanation/performance.md shows is what was measured last, on purpose.
bench-docs: ; cp bench.svg docs/explanation/performance.svg
RUNS ?= 5
bench-update: setup-guest build package
	$(GO) test -tags e2e,e2e_all -timeout 60m -v -run '^$$' -bench FromACrashToTheOldVersion -benchtime $(RUNS)x ./test/e2e
KEYS ?= 600
bench-terminal: export KEYS := $(KEYS)
bench-terminal: setup-guest build package
	$(GO) test -tags e2e -timeout 60m -v -run '^$$' -bench TerminalAgainstSSH -benchtime 1x ./test/link

# N is that of the simulations where nobody says another.
fleet: build
	@go build -o bin/fleet ./test/fleet/cmd/fleet
	@bin/fleet -n $(if $(filter command line environment,$(origin N)),$(N),1000) $(ARGS)
# Needs root: it makes network namespaces of its own.
FOR ?= 10m
chaos: export CHAOS_FOR := $(FOR)
chaos: setup-test
	go test -tags chaos -count=1 -timeout 90m -v -run Faults ./test/chaos

# The brokers of the earlier release are built from its source, in the history.
PREVIOUS ?= 038cd5e
upgrade: export CHAOS_PREVIOUS := $(CURDIR)/bin/previous/hostler-broker
upgrade: setup-test
	rm -rf bin/previous && mkdir -p bin/previous/source && git archive $(PREVIOUS) | tar -x -C bin/previous/source
	cd bin/previous/source && $(GO) build -o $(CURDIR)/bin/previous/hostler-broker ./broker/cmd/hostler-broker
	go test -tags chaos -count=1 -timeout 60m -v -run ARollingUpgrade ./test/chaos

maassim: ; @$(GO) run ./test/maassim/cmd/maassim $(ARGS)

# The .debs, and the agent as an OCI artifact for self-updates. The same commit, built
# twice with the same Go and gcc, gives the same artifact wherever it is built: -trimpath
# leaves no path of the machine in the program, nothing of it is the clock's, and the time
# in its statement is the commit's.
package: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1)
package: build
	@mkdir -p dist
	@VERSION=$(VERSION) $(TOOL) nfpm package -f packaging/deb/agent.yaml -p deb -t dist/
	@VERSION=$(VERSION) $(TOOL) nfpm package -f packaging/deb/broker.yaml -p deb -t dist/
	@bin/hostler agent-release pack bin/hostler-agent --out dist/hostler-agent-$(VERSION).oci

clean:
	rm -rf bin dist bench.json bench.svg
