# forewarm: every everyday command. `make` alone lists them.
#
# Needs Go (version in go.mod), make and bash. The tools are `tool` directives in go.mod, so their versions are pinned and
# nothing is downloaded except through the Go module proxy. The Prometheus tests run when Debian's `prometheus` package is
# installed and say so when they skip.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# How long fuzz-short spends on each fuzz function.
FUZZTIME ?= 10s
# Extra flags for `go test`, for example: make test TESTFLAGS='-v -count=1'
TESTFLAGS ?=
# Flags of bench-peers; -budget 2h lets it run that much of what is not cached.
PEERSFLAGS ?= -budget 2h

# gofmt walks folders, not packages; hidden folders such as a local cache are not ours to format.
SOURCES := $(wildcard *.go) $(filter-out data/ bin/ dist/ coverage/,$(wildcard */))

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: ## Run the daemon over its own simulated cluster, in the foreground
	go run ./cmd/forewarmd --demo

.PHONY: test
test: ## Run all tests
	go tool gotestsum --format pkgname-and-test-fails -- $(TESTFLAGS) ./...

.PHONY: race
race: ## Run all tests with the race detector, in random order
	go test -race -shuffle=on -timeout 30m $(TESTFLAGS) ./...

# -count=1: the cases start processes, which the test cache cannot see. The timeout covers a build from cold caches (about
# half an hour on two cores); the cases themselves take minutes.
.PHONY: e2e
e2e: ## Run the end-to-end tests against a real control plane (builds it once; Linux)
	go test -count=1 -tags e2e -timeout 60m -v $(TESTFLAGS) ./scaler/e2e

# --keep-going runs every check although one has failed, so that one run shows all findings; the exit status is still a
# failure if any check failed.
.PHONY: check
check: ## Run every check: rules, format, vet, staticcheck, tidy
	@$(MAKE) --keep-going --no-print-directory rules fmt vet staticcheck tidy \
		|| { echo 'check: findings above' >&2; exit 1; }
	@echo 'check: clean'

.PHONY: lint
lint: ## Run only gofmt, go vet and staticcheck
	@$(MAKE) --keep-going --no-print-directory fmt vet staticcheck \
		|| { echo 'lint: findings above' >&2; exit 1; }
	@echo 'lint: clean'

# -count=1: the rules ask `go list`, which the test cache cannot see.
.PHONY: rules
rules: ## Check imports, clock and randomness, names, file sizes, pinned tools
	go test -count=1 -run '^TestRules' ./configs

.PHONY: fmt
fmt: ## List files that gofmt would change
	@echo 'gofmt -l'
	@files=$$(gofmt -l $(SOURCES)); \
	if [[ -n $$files ]]; then sed 's/$$/: not formatted: run gofmt -w on it/' <<<"$$files"; exit 1; fi

.PHONY: vet
vet: ## Run go vet
	go vet ./...
	go vet -tags e2e ./scaler/e2e
	go vet -tags peers ./forecast/benchmark

.PHONY: staticcheck
staticcheck: ## Run staticcheck, at the version pinned in go.mod
	go tool staticcheck ./...
	go tool staticcheck -tags e2e ./scaler/e2e
	go tool staticcheck -tags peers ./forecast/benchmark

.PHONY: tidy
tidy: ## Show what go mod tidy would change
	go mod tidy -diff

# `go test -list` prints the names of one package and then its "ok" line; awk joins the two. Finding no fuzz function at
# all is a failure: it would mean that the discovery is broken.
.PHONY: fuzz-short
fuzz-short: ## Run each fuzz function for FUZZTIME (10s)
	@listing=$$(go test -list '^Fuzz' ./...) || { printf '%s\n' "$$listing" >&2; exit 1; }; \
	targets=$$(awk '/^Fuzz/ { names[++n] = $$1 } \
		/^ok/ { for (i = 1; i <= n; i++) print $$2, names[i]; n = 0 }' <<<"$$listing"); \
	[[ -n $$targets ]] || { echo 'fuzz-short: no fuzz function found' >&2; exit 1; }; \
	ran=0; failed=(); \
	while read -r package name <&3; do \
		echo "== $$package $$name"; \
		go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$package" || failed+=("$$package $$name"); \
		ran=$$((ran + 1)); \
	done 3<<<"$$targets"; \
	for target in "$${failed[@]}"; do echo "fuzz-short: failed: $$target" >&2; done; \
	echo "fuzz-short: $$ran fuzz functions for $(FUZZTIME) each, $${#failed[@]} failed"; \
	(( $${#failed[@]} == 0 ))

.PHONY: bench
bench: ## Run all benchmarks
	go test -run '^$$' -bench . -benchmem ./...

# The incident over ten seeds, the profile's error, and a day of each recorded series that lies in ../shared/data/demand (see
# its README for where they come from). Takes about a quarter of an hour on two idle cores.
SERIES := ../shared/data/demand
RECORDED := bin/forewarm simulate -f configs/scenarios/recorded.yaml --set duration=24h \
	--set world.models.0.workload.requests_per_s=20 --policy forewarm,kpa,wva,oracle:99
.PHONY: what-if
what-if: ## Make the README's comparison of policies
	@mkdir -p bin
	go build -o bin/forewarm ./cmd/forewarm
	bin/forewarm simulate -f configs/scenarios/monday-0915.yaml --seeds 10 \
		--policy forewarm,fixed:8,keda-queue,hpa-gpu,cron,kpa,wva,dynamo,oracle,oracle:99
	bin/forewarm simulate -f configs/scenarios/monday-0915.yaml --seeds 5 --policy forewarm,tuned:99.8,oracle:99.8
	bin/forewarm simulate -f configs/scenarios/monday-0915.yaml --seeds 10 --policy forewarm --sweep profile_error=0,0.2,0.4
	@if [[ ! -d $(SERIES) ]]; then echo 'what-if: no $(SERIES), the recorded series are left out' >&2; exit 0; fi; set -x; \
	for name in crane_11 crane_13; do \
		$(RECORDED) --set world.models.0.workload.table.file=$$PWD/$(SERIES)/$${name}_1min.csv; \
	done; \
	for name in m-small m-large; do \
		$(RECORDED) --set world.models.0.workload.table.file=$$PWD/$(SERIES)/servegen_$${name}_10min.csv \
			--set world.models.0.workload.table.column=rps --set world.models.0.workload.table.missing_where=gap=1 \
			--set world.models.0.workload.table.begin=2021-10-09T00:00:00Z; \
	done; \
	$(RECORDED) --set world.start=1998-06-16T00:00:00Z --set world.models.0.workload.table.column=requests \
		--set world.models.0.workload.table.file=$$PWD/$(SERIES)/worldcup98_1min_to_1998-06-20.csv

# Needs the series in ../shared/data/demand, and, for what is not in its cache, Debian's packages:
#   apt-get install --no-install-recommends r-base-core r-cran-forecast python3-statsmodels
# From an empty cache the peers take more than an hour of processor time; after that a run takes a minute or two. For a part:
#   make bench-peers PEERSFLAGS="-series crane -methods 'ets|tbats' -origins 20 -budget 10m"
.PHONY: bench-peers
bench-peers: ## Compare the forecast with R's and Python's on real series (see forecast/benchmark)
	go test -count=1 -tags peers -timeout 0 -v ./forecast/benchmark $(PEERSFLAGS)

.PHONY: ci
ci: ## Run what the continuous integration runs (installs packages)
	.ci/run

.PHONY: clean
clean: ## Remove binaries, measurements and out.csv
	rm -rf bin dist coverage
	rm -f forewarm forewarmd out.csv coverage.out coverage.html *.test
	find . -name .git -prune -o -type f \( -name '*.prof' -o -name '*.pprof' \) -exec rm -f {} +
