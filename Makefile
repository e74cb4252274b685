# make without a target lists the targets.

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOTESTSUM   := gotest.tools/gotestsum@v1.13.0
FUZZTIME    ?= 10s
PACKAGES    := ./...
# The slowest packages begin first, so that no processor is idle at the end.
SLOWEST     := ./node/store ./node ./node/cmd/pentad
# $(call tests,flags,packages) tests packages. With AGAIN=FILE, up to three failed tests run again,
# at most twice, and FILE names them: where many clusters share two processors, a test may fail by
# chance. Such a test must be fixed, but it says nothing about the change that is tested.
tests = $(if $(AGAIN),$(GO) run $(GOTESTSUM) --format standard-quiet --rerun-fails=2 \
	--rerun-fails-max-failures=3 --rerun-fails-report=$(AGAIN).$@ --packages="$(2)" -- \
	$(1),$(GO) test $(1) $(2))
IN_BENCH    := cd bench && # a module of its own, so that pentad does not depend on its peers

# Heaps of most tests and of go vet are small: by default they are collected so often that it takes
# a fifth of the processor time.
LARGE_HEAPS := GOGC=400 GOMEMLIMIT=1GiB
# Runs a command with the files of tests in memory if there is room.
IN_MEMORY   := $(LARGE_HEAPS) cluster-test/in-memory.sh

.PHONY: help build demo test test-long race lint check bench bench-quick bench-spread \
	bench-full bench-thesis bench-thesis-full bench-daily bench-underload bench-growth \
	bench-resident bench-cold bench-bars bench-plugins bench-record bench-results \
	bench-neighbours bench-overload bench-small bench-stalled bench-cluster bench-peers bench-micro \
	bench-compare profile fuzz fuzz-long sim crash guests guests-verify guests-verify-c clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 19

build: ## build bin/pentad
	$(GO) build -trimpath -o bin/pentad ./node/cmd/pentad

# What make release builds, as GOOS/GOARCH, and its version. In linux/arm there are no plugins, on
# Windows only commands that ask a node elsewhere.
PLATFORMS := linux/amd64 linux/arm64 linux/arm darwin/amd64 darwin/arm64 windows/amd64
VERSION   = $(shell sed -n 's/^const Number = "\(.*\)"/\1/p' node/internal/release/release.go)
RELEASE   := bin/release
PACKAGING := node/cmd/pentad/packaging

.PHONY: release deb image
release: man ## build bin/release/*.tar.gz for linux, macOS and Windows, and SHA256SUMS
	@rm -rf $(RELEASE) && mkdir -p $(RELEASE)
	@set -e; for p in $(PLATFORMS); do \
		name=pentad_$(VERSION)_$$(echo $$p | tr / _); mkdir $(RELEASE)/$$name; \
		case $$p in windows/*) exe=.exe;; *) exe=;; esac; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} GOARM=7 $(GO) build -buildvcs=true -trimpath -ldflags '-s -w' \
			-o $(RELEASE)/$$name/pentad$$exe ./node/cmd/pentad; \
		cp LICENSE README.md CHANGELOG.md $(RELEASE)/$$name; \
		test "$$exe" || cp -r $(PACKAGING)/pentad.service bin/man $(RELEASE)/$$name; \
		tar -C $(RELEASE) --sort=name --owner=0 --group=0 -czf $(RELEASE)/$$name.tar.gz $$name; \
		rm -r $(RELEASE)/$$name; echo $(RELEASE)/$$name.tar.gz; done
	@cd $(RELEASE) && sha256sum *.tar.gz > SHA256SUMS

.PHONY: platforms
platforms: ## check that the program builds for every platform of a release
	@set -e; for p in $(PLATFORMS); do echo $$p; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} GOARM=7 $(GO) build -o /dev/null ./node/cmd/pentad; done

.PHONY: man
man: build ## write the manual pages to bin/man/man1
	@rm -rf bin/man && bin/pentad man bin/man/man1

DEB_ARCH = $(shell dpkg --print-architecture)
deb: build ## build a Debian package of this machine's architecture in bin
	$(PACKAGING)/deb.sh bin/pentad $(VERSION) $(DEB_ARCH) bin

CONTAINER ?= $(or $(shell command -v podman || command -v buildah),docker)
image: ## build the container image pentad with podman, buildah or docker
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/pentad ./node/cmd/pentad
	$(CONTAINER) build -t pentad:$(VERSION) -f $(PACKAGING)/Containerfile .

demo: build ## start a node, load a month of 500 meters, query it, run plugins
	bin/pentad demo --reset --dir $(or $(DEMO_DIR),bin/demo)

# Tests for which the machine lacks something are skipped and listed at the end. PENTAD_REQUIRE=all,
# or a list of data, clang, network, disks, watch, sealed and peers, makes that an error.
test: ## run every test; PENTAD_REQUIRE=all: fail instead of skipping
	@notes=$$(mktemp); export PENTAD_NOT_TESTED=$$notes; \
	$(IN_MEMORY) $(MAKE) -j 2 test-here test-bench; code=$$?; \
	sort -u $$notes; rm -f $$notes; exit $$code

# Nodes of clusters mostly wait, so more packages, and more tests of a package, run at once than
# there are processors. lint vets everything, so test and race do not.
.PHONY: test-here test-bench
test-here:
	$(call tests,-vet=off -p 3 -parallel 4 -timeout 45m,./cluster-test $(SLOWEST) $(PACKAGES))
test-bench:
	$(IN_BENCH) $(call tests,-vet=off -p 1 -timeout 45m,$(PACKAGES))

# Packages that import sync or sync/atomic, or whose tests do; in others the race detector finds
# nothing. Without the command line and cluster-test, whose processes it slows down: race-processes.
CONCURRENT = $(GO) list -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' \
	$(SLOWEST) $(PACKAGES) | awk '/[[ ]sync(\/atomic)?[] ]/ && !/\/cluster-test |\/cmd\/pentad / { print $$1 }'

# rounds.NotUnderRace leaves out tests in which the detector would find nothing.
race: ## run the short tests of concurrent packages with the race detector
	@$(IN_MEMORY) $(MAKE) race-here
.PHONY: race-here
race-here:
	$(call tests,-vet=off -race -short -p 3 -parallel 4 -timeout 45m,$$($(CONCURRENT)))

# Compiles what race tests, and links nothing. The export data that go list asks for is in the same
# files as the code.
.PHONY: race-compile
race-compile:
	@$(LARGE_HEAPS) $(GO) list -race -export -test -deps $$($(CONCURRENT)) >/dev/null

# The packages that make race leaves out. A race in a process fails the test that started it.
.PHONY: race-processes
race-processes: ## test the command line and processes with the race detector
	$(GO) test -vet=off -race -count 1 -timeout 60m ./node/cmd/pentad ./cluster-test

lint: export GOGC := 400
lint: export GOMEMLIMIT := 2GiB
lint: ## run gofmt, go vet and staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change: $$unformatted"; exit 1; fi
	$(GO) vet $(PACKAGES)
	$(MAKE) -C plugins vet
	$(GO) run $(STATICCHECK) $(PACKAGES)
	$(IN_BENCH) $(GO) vet $(PACKAGES) && $(GO) run $(STATICCHECK) $(PACKAGES)

check: lint race ## run lint and race; required before a commit, as is make test

bench-quick: build ## compare ingest, size and queries with Pebble and DuckDB
	$(IN_BENCH) $(GO) run . quick $(BENCH_FLAGS)

bench-spread: build ## run bench-quick twice and compare the ratios
	$(IN_BENCH) $(GO) run . quick --fresh $(BENCH_FLAGS) && mv out/quick.json out/quick-first.json
	$(IN_BENCH) $(GO) run . quick --fresh $(BENCH_FLAGS)
	$(IN_BENCH) $(GO) run . spread out/quick-first.json out/quick.json

bench: ## run six workloads in pentad and its peers; writes bench/out/run.html
	$(IN_BENCH) $(GO) run . run $(if $(REAL),--real $(abspath $(REAL))) $(BENCH_FLAGS)

bench-full: ## run the standard workload with a billion records; 10 GB of disk
	$(IN_BENCH) $(GO) run . run --workloads meters --rows 1000000000 --systems pentad --name full $(BENCH_FLAGS)

bench-thesis: ## run a tenth of the DynamoDB sensor thesis: 95 million records
	$(IN_BENCH) $(GO) run . run --workloads thesis --rows 94608000 --systems pentad --name thesis $(BENCH_FLAGS)

bench-thesis-full: ## run all 946 million records of it; ten minutes, 10 GB of disk
	$(IN_BENCH) $(GO) run . run --workloads thesis --rows 946080000 --systems pentad --name thesis-full $(BENCH_FLAGS)

bench-daily: ## run a day of a million meters in pentad, Pebble and DuckDB
	$(IN_BENCH) $(GO) run . run --workloads daily --rows 48000000 --systems pentad,pebble,duckdb --name daily $(BENCH_FLAGS)

bench-underload: ## measure queries during ingest at half the maximum rate
	$(IN_BENCH) $(GO) run . underload $(BENCH_FLAGS)

bench-growth: ## measure queries at 5, 20 and 100 million records
	$(IN_BENCH) $(GO) run . growth $(BENCH_FLAGS)

bench-resident: build ## measure start time, memory and idle CPU time of a node
	$(IN_BENCH) $(GO) run . resident $(BENCH_FLAGS)

bench-cold: ## measure queries with an empty page cache; as root, not in a container
	$(IN_BENCH) $(GO) run . cold $(BENCH_FLAGS)

bench-feed: build ## measure change feeds: throughput, latency, memory
	$(IN_BENCH) $(GO) run . feed $(BENCH_FLAGS)

bench-record: build ## run all of bench/RESULTS.md, for hours; ONLY=feed,cold REAL=DIR AGAIN=1
	$(IN_BENCH) $(GO) run . record $(if $(ONLY),--only $(ONLY)) $(if $(REAL),--real $(abspath $(REAL))) \
		$(if $(AGAIN),--again) $(BENCH_FLAGS)

bench-results: ## write bench/RESULTS.md and the README table from bench/results
	$(IN_BENCH) $(GO) run . report results

bench-bars: ## check the result of make bench against the promised ratios
	$(IN_BENCH) $(GO) run . bars $(BENCH_FLAGS)

bench-cluster: build ## compare a cluster with a single node; measure outages
	$(IN_BENCH) $(GO) run . cluster $(BENCH_FLAGS)

bench-neighbours: build ## measure short queries during long ones of another tenant
	$(IN_BENCH) $(GO) run . neighbours $(BENCH_FLAGS)

bench-overload: build ## send a node of 2 GiB twice the load that it can serve
	$(IN_BENCH) $(GO) run . overload $(BENCH_FLAGS)

bench-small: build ## load, query and send malformed requests to a node of 512 MiB
	$(IN_BENCH) $(GO) run . small $(BENCH_FLAGS)

bench-stalled: build ## measure a change feed beside 300 clients that never read, in a node of 256 MiB
	$(IN_BENCH) $(GO) run . stalled $(BENCH_FLAGS)

.PHONY: soak
soak: build ## use a node in every way and check that its memory levels off; FOR=30m SEED=
	$(IN_BENCH) $(GO) run . soak --for $(or $(FOR),30m) $(if $(SEED),--seed $(SEED)) $(BENCH_FLAGS)

bench-plugins: build ## compare plugins with Go; measure the cost of hostile ones
	$(IN_BENCH) $(GO) run . plugins $(BENCH_FLAGS)

.PHONY: bench-tstorage
bench-tstorage: ## compare the TStorage gateway with the native client
	$(GO) test -run '^$$' -bench Beside -benchtime $(or $(COUNT),5)x ./node/gateway/tstorage

.PHONY: bench-sealed
bench-sealed: ## compare sealed payloads with plain ones of their size, and with Paillier
	$(IN_BENCH) $(GO) run . sealed $(BENCH_FLAGS)

.PHONY: bench-shards
bench-shards: ## compare ingest into heads of two shards and of one, in turns
	$(IN_BENCH) $(GO) run . shards --seal-rows 20000000 $(BENCH_FLAGS)

.PHONY: bench-names
bench-names: ## compare questions by descriptions of devices with PostGIS and DuckDB, and conditions with the filter threshold
	$(IN_BENCH) $(GO) run . names $(BENCH_FLAGS)
	$(GO) test -run '^$$' -bench '^Benchmark(Where|Moving)$$' ./node ./node/store

bench-peers: ## install servers and a C compiler for make bench; as root, Debian
	apt-get install -y --no-install-recommends gcc libc6-dev postgresql postgresql-postgis clickhouse-server influxdb redis-server
	GOBIN=/usr/local/bin $(GO) install github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics@v1.150.0

bench-micro: ## run Go benchmarks; RE=Plan PKG=./index COUNT=10
	$(GO) test -run '^$$' -bench '$(or $(RE),.)' -benchmem -count $(or $(COUNT),1) $(or $(PKG),$(PACKAGES))

bench-compare: ## compare Go benchmarks with REF=main by benchstat; RE= PKG= COUNT=10
	GO='$(GO)' RE='$(RE)' PKG='$(PKG)' COUNT='$(COUNT)' bench/compare.sh '$(or $(REF),main)'

profile: ## show where the CPU time of a query or of ingest goes; Q=Q2, Q=ingest
	$(IN_BENCH) $(GO) run . profile --query '$(or $(Q),Q1)' $(BENCH_FLAGS)

.PHONY: api-page
api-page: ## write sdk/docs/http.md from the description of the routes
	$(GO) test -vet=off -count 1 -run 'TestPage$$' ./node/internal/openapi -update

.PHONY: texts
texts: ## print every help and error text of the program, to be read in one go
	@$(GO) test -vet=off -count 1 -v -run 'TestTexts$$' ./node/cmd/pentad -args -texts

fuzz: ## run every fuzz target for FUZZTIME=10s
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; done

fuzz-long: ## run every fuzz target for 10 minutes
	$(MAKE) fuzz FUZZTIME=10m

# PENTAD_LONG=1 tries every place of which make test samples some, and repeats more often.
test-long: ## run models, simulations, race-processes, crash and fuzz-long, for hours
	PENTAD_LONG=1 $(GO) test -count 1 -timeout 60m ./index ./node/... ./plugins
	$(IN_BENCH) PENTAD_LONG=1 $(GO) test -count 1 -timeout 60m -v -run 'TestGrowth$$|TestBurst$$|TestCounts$$' \
		. ./peers/prometheus ./workload/real
	PENTAD_WINDOWS_FOR=10m $(GO) test -count 1 -timeout 20m -v -run AgainstTheClock ./node/internal/calendar
	PENTAD_MODEL_FOR=1h $(GO) test -count 1 -timeout 150m -v -run ModelLong ./node/store
	PENTAD_FEED_FOR=1h $(GO) test -count 1 -timeout 90m -v -run FeedLosesNothing ./node/store
	PENTAD_FROZEN_ROWS=1000000 $(GO) test -count 1 -timeout 60m -v -run Frozen ./node/store
	PENTAD_POWER_FOR=20m $(GO) test -count 1 -timeout 60m -v -run 'PowerLoss|EveryOperationFails' ./node/store
	PENTAD_COPY_FOR=20m $(GO) test -count 1 -timeout 40m -v -run CopyLong ./node/store
	$(IN_BENCH) PENTAD_SOAK_FOR=10m $(GO) test -count 1 -timeout 30m -v -run 'TestSoak$$' ./soak
	PENTAD_GATEWAY_FOR=10m $(GO) test -count 1 -timeout 30m -v -run ModelLong ./node/gateway/tstorage
	PENTAD_UPGRADES=30 $(GO) test -count 1 -timeout 120m -v -run IsUpgraded ./cluster-test
	PENTAD_EDGE_RUNS=300 $(GO) test -count 1 -timeout 90m -v -run 'Model|DropOldest|Killed' ./node/edge
	PENTAD_PLANTED=all $(GO) test -count 1 -timeout 60m -v -run TestSimulatedClusterFindsBugs ./node/internal/member
	$(MAKE) sim SEEDS=20000 CLUSTERS=2000
	$(MAKE) race-processes crash fuzz-long

.PHONY: test-names-full
test-names-full: ## compare copies of a million named devices with 20 million readings (8 min, 3 GB of memory)
	PENTAD_LONG=1 $(GO) test -count 1 -timeout 60m -v -run SelectedAnswersOfCopies ./node/cmd/pentad

sim: sim-groups sim-cluster ## simulate clusters under faults; SEEDS=20000 CLUSTERS=500 SEED=

.PHONY: sim-groups sim-cluster
# The core of Raft groups with a toy machine: a seed always gives the same run.
sim-groups:
	@set -e; cores=$$(nproc); first=$(or $(SEED),$$(date +%s%N)); \
	each=$$((($(or $(SEEDS),20000) + cores - 1) / cores)); \
	$(GO) test -c -o bin/replica.test ./node/replica; cd node/replica; \
	for i in $$(seq 0 $$((cores - 1))); do echo $$((first + i * each)); done | \
		PENTAD_SEEDS=$$each xargs -P $$cores -I FIRST env PENTAD_SEED=FIRST \
		../../bin/replica.test -test.v -test.timeout 24h -test.run 'TestSimulation$$'

# Real members, stores, planner and clocks: a seed always gives the same plan of faults.
sim-cluster:
	@set -e; cores=$$(nproc); first=$(or $(SEED),$$(date +%s)); \
	each=$$((($(or $(CLUSTERS),500) + cores - 1) / cores)); \
	$(GO) test -c -o bin/member.test ./node/internal/member; cd node/internal/member; \
	for i in $$(seq 0 $$((cores - 1))); do echo $$((first + i * each)); done | \
		PENTAD_SEEDS=$$each xargs -P $$cores -I FIRST env PENTAD_SEED=FIRST \
		../../../bin/member.test -test.v -test.timeout 24h -test.run 'TestSimulatedCluster$$'

crash: ## kill -9 a node 50 times during an import
	PENTAD_KILLS=50 $(GO) test -count 1 -timeout 60m -v -run Killed ./cluster-test

# What a machine needs so that test-nightly can inject every kind of fault.
FAULTS_NEED := network,disks
.PHONY: test-nightly
test-nightly: ## inject every kind of fault into a cluster of processes; FOR=5m, as root
	PENTAD_REQUIRE=$(or $(PENTAD_REQUIRE),$(FAULTS_NEED)) PENTAD_FAULTS=24 PENTAD_FOR=$(or $(FOR),5m) \
		PENTAD_SEED=$(or $(SEED),$$(date +%s%N)) \
		$(GO) test -count 1 -timeout 2h -v -run 'TestClusterOutlivesFaults|Outage' ./cluster-test

.PHONY: test-cluster
test-cluster: ## as test-nightly, for long; FAULTS=300 RECORDS=10000000 FOR=1h SEED= NODES=3
	PENTAD_FAULTS=$(or $(FAULTS),300) PENTAD_RECORDS=$(or $(RECORDS),10000000) PENTAD_FOR=$(or $(FOR),1h) \
		PENTAD_SEED=$(or $(SEED),$$(date +%s%N)) PENTAD_NODES=$(or $(NODES),3) \
		PENTAD_OUTAGE_BARS=$(or $(BARS),1) $(GO) test -count 1 -timeout 24h -v -run 'Cluster|Outage|Export' ./cluster-test

guests: ## rebuild the checked-in modules; names missing Debian packages
	$(MAKE) -C plugins guests

guests-verify: ## check that the checked-in modules match their sources
	$(MAKE) -C plugins guests-verify

guests-verify-c: ## check only those in C; needs clang-19 and lld-19
	$(MAKE) -C plugins guests-verify-c

clean: ## remove bin and bench/out
	rm -rf bin bench/out
