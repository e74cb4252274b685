# make alone lists what there is.

GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOTESTSUM   := gotest.tools/gotestsum@v1.13.0
FUZZTIME    ?= 10s
PACKAGES    := ./...
# What takes longest begins first, so that no processor is idle while the last tests run.
LONGEST     := ./node/store ./node ./node/cmd/pentad
# $(call tests,flags,packages) tests packages. With AGAIN=FILE up to three tests that fail are run
# again, twice at most, and named in FILE: where many clusters share two processors a test may fail
# by chance, which is to be seen and mended, but says nothing of the change that is tested.
tests = $(if $(AGAIN),$(GO) run $(GOTESTSUM) --format standard-quiet --rerun-fails=2 \
	--rerun-fails-max-failures=3 --rerun-fails-report=$(AGAIN).$@ --packages="$(2)" -- \
	$(1),$(GO) test $(1) $(2))
BENCH       := cd bench && # a module of its own: what it compares with is not pentad's

# Runs a command with the files of tests in memory, where there is room. Heaps of most tests are small:
# by default they are collected so often that it takes a fifth of the processor.
IN_MEMORY   := GOGC=400 GOMEMLIMIT=1GiB cluster-test/in-memory.sh

.PHONY: help build demo test test-long race lint check bench bench-quick bench-spread bench-full bench-thesis \
	bench-thesis-full bench-daily bench-underload bench-growth bench-resident bench-cold bench-bars \
	bench-plugins bench-record bench-results bench-neighbours bench-overload bench-small bench-cluster bench-peers bench-micro bench-compare profile fuzz fuzz-long sim crash guests guests-verify guests-verify-c clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

build: ## build bin/pentad
	$(GO) build -trimpath -o bin/pentad ./node/cmd/pentad

demo: build ## build, start a node, load a month of 500 meters, query it, run plugins
	bin/pentad demo --reset --dir $(or $(DEMO_DIR),bin/demo)

# What a machine lacks is left out, and named in the end; PENTAD_REQUIRE=data,clang,network,disks,watch,peers
# or =all makes it an error.
test: ## every test; PENTAD_REQUIRE=all: fail for what this machine cannot test
	@notes=$$(mktemp); export PENTAD_NOT_TESTED=$$notes; \
	$(IN_MEMORY) $(MAKE) -j 2 test-here test-bench; code=$$?; \
	sort -u $$notes; rm -f $$notes; exit $$code

# Nodes of clusters wait most of the time, so more packages than processors are tested at once, and
# more tests of a package. lint vets all, so tests and race do not.
.PHONY: test-here test-bench
test-here:
	$(call tests,-vet=off -p 3 -parallel 4 -timeout 45m,./cluster-test $(LONGEST) $(PACKAGES))
test-bench:
	$(BENCH) $(call tests,-vet=off -p 1 -timeout 45m,$(PACKAGES))

# A package without anything of sync in it or in its tests runs in one goroutine: the detector would
# find nothing. The command line and cluster-test, whose processes it slows down, are in
# race-processes, which make test-long runs.
CONCURRENT = $(GO) list -f '{{.ImportPath}} {{.Imports}} {{.TestImports}} {{.XTestImports}}' \
	$(LONGEST) $(PACKAGES) | awk '/[[ ]sync(\/atomic)?[] ]/ && !/\/cluster-test |\/cmd\/pentad / { print $$1 }'

# rounds.NotUnderRace leaves out tests in which the detector would find nothing.
race: ## the short tests of all that is concurrent under the race detector
	@$(IN_MEMORY) $(MAKE) race-here
.PHONY: race-here
race-here:
	$(call tests,-vet=off -race -short -p 3 -parallel 4 -timeout 45m,$$($(CONCURRENT)))

# What make race leaves out: the command line, and clusters whose nodes are processes. A race in a
# process fails the test that has started it.
.PHONY: race-processes
race-processes: ## all tests of the command line and of processes, all built with the race detector
	$(GO) test -vet=off -race -count 1 -timeout 60m ./node/cmd/pentad ./cluster-test

lint: ## gofmt, go vet, staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt would change: $$unformatted"; exit 1; fi
	$(GO) vet $(PACKAGES)
	$(MAKE) -C plugins vet
	$(GO) run $(STATICCHECK) $(PACKAGES)
	$(BENCH) $(GO) vet $(PACKAGES) && $(GO) run $(STATICCHECK) $(PACKAGES)

check: lint race ## what must pass before a commit, beside make test

bench-quick: build ## measure ingest, size, ten queries, a plugin, ratios to Pebble and DuckDB
	$(BENCH) $(GO) run . quick $(BENCH_FLAGS)

bench-spread: build ## two runs of bench-quick, and how far their ratios are apart
	$(BENCH) $(GO) run . quick --fresh $(BENCH_FLAGS) && mv out/quick.json out/quick-first.json
	$(BENCH) $(GO) run . quick --fresh $(BENCH_FLAGS)
	$(BENCH) $(GO) run . spread out/quick-first.json out/quick.json

bench: ## six workloads in pentad and what users would pick instead; bench/out/run.html
	$(BENCH) $(GO) run . run $(if $(REAL),--real $(abspath $(REAL))) $(BENCH_FLAGS)

bench-full: ## the standard workload with a billion records in pentad; some 10 GB of disk
	$(BENCH) $(GO) run . run --workloads meters --rows 1000000000 --systems pentad --name full $(BENCH_FLAGS)

bench-thesis: ## a tenth of the 946 M records of the DynamoDB sensor thesis in pentad
	$(BENCH) $(GO) run . run --workloads thesis --rows 94608000 --systems pentad --name thesis $(BENCH_FLAGS)

bench-thesis-full: ## all 946 M records of it in pentad; an hour and 20 GB of disk
	$(BENCH) $(GO) run . run --workloads thesis --rows 946080000 --systems pentad --name thesis-full $(BENCH_FLAGS)

bench-daily: ## a day of a million smart meters in pentad, Pebble and DuckDB
	$(BENCH) $(GO) run . run --workloads daily --rows 48000000 --systems pentad,pebble,duckdb --name daily $(BENCH_FLAGS)

bench-underload: ## the ten queries of pentad, idle and while records come at half the top acknowledged rate
	$(BENCH) $(GO) run . underload $(BENCH_FLAGS)

bench-growth: ## the ten queries of pentad at 5, 20 and 100 M records: how they slow down
	$(BENCH) $(GO) run . growth $(BENCH_FLAGS)

bench-resident: build ## what an open node of 5 and 20 M records takes: time to open, memory, idle processor
	$(BENCH) $(GO) run . resident $(BENCH_FLAGS)

bench-cold: ## the ten queries of stores just opened, with an empty page cache; as root of the whole machine
	$(BENCH) $(GO) run . cold $(BENCH_FLAGS)

bench-feed: build ## change feeds: records a second, latency to a follower, memory of followers that wait
	$(BENCH) $(GO) run . feed $(BENCH_FLAGS)

bench-record: build ## run everything that bench/RESULTS.md shows, hours: ONLY=feed,cold, REAL=folder, AGAIN=1
	$(BENCH) $(GO) run . record $(if $(ONLY),--only $(ONLY)) $(if $(REAL),--real $(abspath $(REAL))) \
		$(if $(AGAIN),--again) $(BENCH_FLAGS)

bench-results: ## write bench/RESULTS.md and the table of the README from bench/results
	$(BENCH) $(GO) run . report results

bench-bars: ## hold bench/out/run.json, which make bench leaves, against what is promised
	$(BENCH) $(GO) run . bars $(BENCH_FLAGS)

bench-cluster: build ## three replicas on one machine, a cluster beside a node, outages, the simulator
	$(BENCH) $(GO) run . cluster $(BENCH_FLAGS)

bench-neighbours: build ## small questions of a tenant beside long ones of another
	$(BENCH) $(GO) run . neighbours $(BENCH_FLAGS)

bench-overload: build ## twice what a node can do, puts and questions, within 2 GiB
	$(BENCH) $(GO) run . overload $(BENCH_FLAGS)

bench-small: build ## 20 M records, questions and lies in a node of 512 MiB
	$(BENCH) $(GO) run . small $(BENCH_FLAGS)

.PHONY: soak
soak: build ## 30 minutes of all that a node does: answers are right, and what it takes levels off; FOR=30m SEED=
	$(BENCH) $(GO) run . soak --for $(or $(FOR),30m) $(if $(SEED),--seed $(SEED)) $(BENCH_FLAGS)

bench-plugins: build ## plugins against the same loops in Go, and what hostile ones cost others
	$(BENCH) $(GO) run . plugins $(BENCH_FLAGS)

.PHONY: bench-tstorage
bench-tstorage: ## rows stored and read through the TStorage gateway, beside the native client
	$(GO) test -run '^$$' -bench Beside -benchtime $(or $(COUNT),5)x ./node/gateway/tstorage

bench-peers: ## install the servers and the C compiler that make bench can use, from Debian; as root
	apt-get install -y --no-install-recommends gcc libc6-dev postgresql clickhouse-server influxdb redis-server

bench-micro: ## the hot paths by themselves: RE=Plan PKG=./index COUNT=10
	$(GO) test -run '^$$' -bench '$(or $(RE),.)' -benchmem -count $(or $(COUNT),1) $(or $(PKG),$(PACKAGES))

bench-compare: ## the hot paths of REF (main) and of what is here, by benchstat: RE=, PKG=, COUNT=10
	GO='$(GO)' RE='$(RE)' PKG='$(PKG)' COUNT='$(COUNT)' bench/compare.sh '$(or $(REF),main)'

profile: ## where the time of a query goes: Q=Q2, or Q=ingest; more in BENCH_FLAGS
	$(BENCH) $(GO) run . profile --query '$(or $(Q),Q1)' $(BENCH_FLAGS)

fuzz: ## every fuzz target for FUZZTIME (10s)
	@set -e; for pkg in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; done

fuzz-long: ## every fuzz target for 10 minutes
	$(MAKE) fuzz FUZZTIME=10m

# PENTAD_LONG: what make test samples, at every place and as often as it pays.
test-long: ## models and simulated clusters for hours, the race detector over processes, kill -9 fifty times, fuzzing for 10 minutes a target
	PENTAD_LONG=1 $(GO) test -count 1 -timeout 60m ./index ./node/... ./plugins
	$(BENCH) PENTAD_LONG=1 $(GO) test -count 1 -timeout 60m -v -run 'TestGrowth$$' .
	PENTAD_WINDOWS_FOR=10m $(GO) test -count 1 -timeout 20m -v -run AgainstTheClock ./node/internal/calendar
	PENTAD_MODEL_FOR=1h $(GO) test -count 1 -timeout 150m -v -run ModelLong ./node/store
	PENTAD_FEED_FOR=1h $(GO) test -count 1 -timeout 90m -v -run FeedLosesNothing ./node/store
	PENTAD_FROZEN_ROWS=1000000 $(GO) test -count 1 -timeout 60m -v -run Frozen ./node/store
	PENTAD_POWER_FOR=20m $(GO) test -count 1 -timeout 60m -v -run 'PowerLoss|EveryOperationFails' ./node/store
	PENTAD_COPY_FOR=20m $(GO) test -count 1 -timeout 40m -v -run CopyLong ./node/store
	$(BENCH) PENTAD_SOAK_FOR=10m $(GO) test -count 1 -timeout 30m -v -run 'TestSoak$$' ./soak
	PENTAD_GATEWAY_FOR=10m $(GO) test -count 1 -timeout 30m -v -run ModelLong ./node/gateway/tstorage
	PENTAD_UPGRADES=30 $(GO) test -count 1 -timeout 120m -v -run IsUpgraded ./cluster-test
	PENTAD_EDGE_RUNS=300 $(GO) test -count 1 -timeout 90m -v -run 'Model|DropOldest|Killed' ./node/edge
	PENTAD_PLANTED=all $(GO) test -count 1 -timeout 60m -v -run TestSimulatedClusterFindsBugs ./node/internal/member
	$(MAKE) sim SEEDS=20000 CLUSTERS=2000
	$(MAKE) race-processes crash fuzz-long

sim: sim-groups sim-cluster ## simulated clusters under faults: SEEDS=20000 of the groups, CLUSTERS=500 of whole members, the first SEED

.PHONY: sim-groups sim-cluster
# The core of the groups with a toy machine: each seed is the same run.
sim-groups:
	@set -e; cores=$$(nproc); first=$(or $(SEED),$$(date +%s%N)); \
	each=$$((($(or $(SEEDS),20000) + cores - 1) / cores)); \
	$(GO) test -c -o bin/replica.test ./node/replica; cd node/replica; \
	for i in $$(seq 0 $$((cores - 1))); do echo $$((first + i * each)); done | \
		PENTAD_SEEDS=$$each xargs -P $$cores -I FIRST env PENTAD_SEED=FIRST \
		../../bin/replica.test -test.v -test.timeout 24h -test.run 'TestSimulation$$'

# Members, stores, planner and clocks as they are: each seed is the same plan of faults.
sim-cluster:
	@set -e; cores=$$(nproc); first=$(or $(SEED),$$(date +%s)); \
	each=$$((($(or $(CLUSTERS),500) + cores - 1) / cores)); \
	$(GO) test -c -o bin/member.test ./node/internal/member; cd node/internal/member; \
	for i in $$(seq 0 $$((cores - 1))); do echo $$((first + i * each)); done | \
		PENTAD_SEEDS=$$each xargs -P $$cores -I FIRST env PENTAD_SEED=FIRST \
		../../../bin/member.test -test.v -test.timeout 24h -test.run 'TestSimulatedCluster$$'

crash: ## kill -9 a node 50 times while it imports
	PENTAD_KILLS=50 $(GO) test -count 1 -timeout 60m -v -run Killed ./cluster-test

# What the faults of test-nightly need.
FAULTY := network,disks
.PHONY: test-nightly
test-nightly: ## 5 minutes of faults on processes, each kind several times; an error for kinds that cannot be made; FOR=5m, as root
	PENTAD_REQUIRE=$(or $(PENTAD_REQUIRE),$(FAULTY)) PENTAD_FAULTS=24 PENTAD_FOR=$(or $(FOR),5m) \
		PENTAD_SEED=$(or $(SEED),$$(date +%s%N)) \
		$(GO) test -count 1 -timeout 2h -v -run 'TestClusterOutlivesFaults|Outage' ./cluster-test

.PHONY: test-cluster
test-cluster: ## a cluster of processes under faults: FAULTS=300, RECORDS=10000000, FOR=1h, SEED=, NODES=3; as root
	PENTAD_FAULTS=$(or $(FAULTS),300) PENTAD_RECORDS=$(or $(RECORDS),10000000) PENTAD_FOR=$(or $(FOR),1h) \
		PENTAD_SEED=$(or $(SEED),$$(date +%s%N)) PENTAD_NODES=$(or $(NODES),3) \
		PENTAD_OUTAGE_BARS=$(or $(BARS),1) $(GO) test -count 1 -timeout 24h -v -run 'Cluster|Outage|Export' ./cluster-test

guests: ## rebuild the modules that are checked in (names the Debian packages that it needs)
	$(MAKE) -C plugins guests

guests-verify: ## check that the checked-in modules are what their sources build
	$(MAKE) -C plugins guests-verify

guests-verify-c: ## the same of those in C alone; needs clang-19 and lld-19
	$(MAKE) -C plugins guests-verify-c

clean: ## remove what was built
	rm -rf bin bench/out
