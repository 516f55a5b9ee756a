# The project's chores; each is a script in scripts/ or a cargo command. `make` lists them.
.PHONY: help run install test test-long test-fast test-engines test-clients check bench bench-quick bench-admin bench-idle bench-soak bench-lifecycle bench-packages demo-usage image fuzz package test-package ui ui-screenshots ui-report ui-report-large ui-tasks

help: ## this list
	@sed -n 's/^\([a-z-]*\): ## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

run: ## build, start with a real engine and model (ARGS=--simulator: a simulated one), print where it is
	@scripts/run.sh $(ARGS)

install: ## build it for use, and put it among Cargo's programs
	@cargo install --locked --profile dist --path crates/server

package: ## the Debian package and the container image, for machines without Rust
	@scripts/package.sh

test-package: ## the same, tried on a fresh Debian of its own
	@scripts/test-package.sh

ui: ## checks and builds the web UI; needs Node, which nothing else does
	@scripts/ui.sh

ui-screenshots: ## pictures of every page of the web UI, in both themes and two widths
	@scripts/ui.sh --screenshots

ui-report: ## measure the web UI in Chromium
	@scripts/ui.sh --report

ui-report-large: ## measure it with 400,000 keys and ten million usage rows
	@scripts/ui.sh --report-large

ui-tasks: ## a gateway with five tasks for somebody who has never seen the web UI
	@scripts/ui.sh --tasks

test: ## everything that can run here; lists what was skipped and why
	@scripts/test.sh

test-long: ## the tests of endurance, with more rounds; Schemathesis at length
	@scripts/test-long.sh

test-fast: ## the Rust tests on SQLite, without Docker or any other service
	@env -u DOCKER_HOST -u TEST_POSTGRES_URL -u TEST_REDIS_URL cargo nextest run --workspace

test-engines: ## only the tests against real engines (ENGINES=vllm adds vLLM)
	@scripts/test-engines.sh

test-clients: ## only the tests with other people's programs: client libraries, Schemathesis
	@scripts/test-clients.sh

fuzz: ## fuzz the readers of model files for ten minutes each (FUZZ_SECONDS)
	@scripts/fuzz.sh

check: ## format, lints, generated files, the project's rules, licences
	@scripts/check.sh

bench: ## measure the gateway
	@scripts/bench.sh

bench-quick: ## measure it shortly
	@scripts/bench.sh --quick

bench-admin: ## measure the usage endpoints on ten million rows
	@scripts/bench-admin.sh

bench-idle: ## measure what a gateway without work costs, and a sample of the machine
	@scripts/bench-idle.sh

demo-usage: ## two million generated requests, and who used most of them
	@scripts/demo-usage.sh

bench-soak: ## an hour of mixed load: does memory stay flat?
	@scripts/bench-soak.sh

bench-lifecycle: ## measure what looking after 50 models costs
	@scripts/bench-lifecycle.sh

bench-packages: ## measure exports, their verification, and dumps against the usual tools
	@scripts/bench-packages.sh

image: ## load the engine simulators' images into Docker
	@scripts/image.sh
