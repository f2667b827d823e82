# whyslow: the two commands are `make run` and `make test`.

PREFIX ?= /usr/local
DESTDIR ?=
BIN := target/release/whyslow
LAB := target/release/whyslow-lab
# Where the VM lab keeps its images, and the Debian suites whose kernels it boots: 5.10, 6.1, 6.12 and the newest.
WHYSLOW_LAB_VM ?= target/lab-vm
SUITES ?= bullseye bookworm bookworm-backports trixie-backports

# The tests of captures, of documents and of what is written.
FIXTURES := calibration formats intervals logs pasted schemas screens since_boot stack together verdict wording written

# The S3 gateway of the demonstration, which is built where there is Go.
GATEWAY := target/versitygw/versitygw

# The toolchain is pinned in rust-toolchain.toml. Where it is installed under the name `stable`, that one is used and
# nothing is downloaded.
PINNED := $(shell sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
STABLE := $(word 2,$(shell rustup run stable rustc --version 2>/dev/null))
ifeq ($(STABLE),$(PINNED))
export RUSTUP_TOOLCHAIN := stable
endif

.DEFAULT_GOAL := run
.PHONY: run test test-fast lab lab-blind lab-vm lab-vm-quick bench-sense bench-explain bench-page bench-disk bench-net bench-import bench-record bench-fleet fleet-demo lint format build build-lab build-fleet practice practice-vm install uninstall dist test-packages manual musl need-build need-dist need-musl need-test-packages need-manual need-test need-lab need-lab-vm need-programs need-bench clean

run: build ## build, then say why this machine is slow
	$(BIN)

test: need-test ## every test; the lab's quick subset needs root
	scripts/run-tests
# The lab is that of the tests, which have built it: a release build would take half as long again as they do.
	@if [ "$$(id -u)" = 0 ]; then \
	  $(MAKE) --no-print-directory need-lab && target/debug/whyslow-lab --quick --whyslow target/debug/whyslow; \
	elif [ "$$CI" = true ]; then \
	  echo 'make test: the lab needs root, and under CI=true it must run' >&2; exit 1; \
	else \
	  echo 'lab: skipped, it needs root (1 suite skipped)'; \
	fi

test-fast: need-build ## the units and the fixtures, in some four minutes: no browser, no load on this machine, no fleet
	cargo test --workspace --exclude whyslow-fleet --exclude whyslow-bench-fleet --lib --no-fail-fast $(FIXTURES:%=--test %)

lab: need-programs build build-lab ## every fault and every healthy control, as root
	$(LAB) --whyslow $(BIN) $(LAB_ARGS)

lab-blind: need-programs build build-lab ## the same without PSI, BPF, root, and cgroups, in turn; as root, some two hours
	$(LAB) --whyslow $(BIN) --without psi --without bpf --without root --without cgroup-v1 --without cgroup-v2 $(LAB_ARGS)

lab-vm: need-lab-vm build build-lab ## faults that only virtual machines can have, on the kernels of SUITES; slow, as the CPUs are emulated
	$(LAB) $(SUITES:%=--vm %) --images $(WHYSLOW_LAB_VM) --recordings --whyslow $(BIN) $(LAB_ARGS)

lab-vm-quick: SUITES = bookworm
lab-vm-quick: need-lab-vm ## three of them on the kernel of Debian 12, with the programs of the tests; some five minutes
	cargo build --quiet --workspace --bin whyslow --bin whyslow-lab
	target/debug/whyslow-lab $(SUITES:%=--vm %) --images $(WHYSLOW_LAB_VM) --only multipath.failed --only md.degraded --only unit.cpu_quota --whyslow target/debug/whyslow

# What is measured is what packages have.
bench-sense bench-record bench-explain bench-page bench-disk bench-net bench-fleet bench-import: export CARGO_PROFILE_RELEASE_OPT_LEVEL = 3

bench-sense: need-bench build ## what observing costs, and how much it slows loads down; as root, some twenty minutes
	cargo build --release --package whyslow-bench-sense
	target/release/bench-sense $(BENCH)

bench-record: need-bench build ## what recording costs beside sadc, atop and pmlogger; as root, some forty minutes
	cargo build --release --package whyslow-bench-record
	target/release/bench-record $(BENCH)

bench-explain: need-lab build build-lab ## how fast and rightly a day with twelve faults is explained; as root, on a quiet machine, some half an hour
	cargo build --release --package whyslow-bench-explain
	target/release/bench-explain $(BENCH)

bench-page: build ## how fast a day of this machine is drawn; some ten minutes
	cargo build --release --package whyslow-bench-explain
	target/release/bench-explain --page $(BENCH)

bench-disk: need-bench build ## load beside that of fio, dd and bonnie++; as root, some thirty-five minutes
	cargo build --release --package whyslow-bench-disk
	target/release/bench-disk $(BENCH)

bench-net: need-bench build ## TCP streams beside iperf3's; as root, some fifteen minutes
	cargo build --release --package whyslow-bench-net
	target/release/bench-net $(BENCH)

bench-fleet: need-build ## whether the cause planted in simulated fleets is named; half a minute
	cargo build --release --package whyslow-bench-fleet
	target/release/bench-fleet $(or $(BENCH),causes)

fleet-demo: need-build ## a store, 20 simulated hosts, the compactor and the page of a fleet, until Ctrl-C; DEMO="--hosts 100"
	cargo build --release --package whyslow --package whyslow-fleet --package whyslow-bench-fleet
	@if [ ! -x $(GATEWAY) ] && command -v go >/dev/null 2>&1; then \
	  GOBIN='$(CURDIR)/target/versitygw' go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 || \
	    echo 'fleet-demo: the S3 gateway cannot be built; the store is a folder' >&2; \
	fi
	@if [ -x $(GATEWAY) ]; then set -- --versitygw $(GATEWAY); fi; exec target/release/bench-fleet demo "$$@" $(DEMO)

bench-import: build ## how fast a kernel log of a gigabyte is read, and in how much memory
	cargo build --release --package whyslow-bench-import
	target/release/bench-import $(BENCH)

lint: need-build format ## formatting and clippy, warnings are errors
	cargo clippy --workspace --all-targets -- -D warnings

format: ## formatting alone
	cargo fmt --all --check

# Packages hold static programs. A target that cannot be had here is said, and is no failure.
musl: need-musl ## whether the program compiles for musl, so that `make dist` does not break unnoticed; some three minutes
	@if rustup target add x86_64-unknown-linux-musl; then \
	  CC_x86_64_unknown_linux_musl=musl-gcc cargo check --quiet --target x86_64-unknown-linux-musl --package whyslow; \
	else \
	  echo 'musl: skipped, its target cannot be installed here (1 step skipped)'; \
	fi

build: need-build
	cargo build --release --package whyslow

build-lab: need-build
	cargo build --release --package whyslow-lab

build-fleet: need-build ## the program that asks a fleet: target/release/whyslow-fleet
	cargo build --release --package whyslow-fleet

PROGRAMS ?= whyslow whyslow-fleet

install: need-build ## the programs, their manual pages, completions, services and dashboards, under PREFIX
	cargo build --release $(PROGRAMS:%=--package %)
	set -e; for program in $(PROGRAMS); do \
	  packaging/stage.sh $$program target/release/$$program target/release/$$program '$(PREFIX)' '$(DESTDIR)'; \
	done

uninstall:
	set -e; for program in $(PROGRAMS); do packaging/uninstall.sh $$program '$(PREFIX)' '$(DESTDIR)'; done

dist: need-dist ## packages (deb, rpm), static programs, checksums: target/dist; DataFusion is built three times for whyslow-fleet
	packaging/dist.sh $(PROGRAMS)

test-packages: need-test-packages ## what dist made, in a throw-away Debian root and an empty rpm root; as root, some five minutes
	packaging/test.sh target/dist

manual: need-manual ## the manual as HTML: target/manual/html/index.html
	cargo run --quiet --package whyslow-book -- target/manual
	mdbook build target/manual

practice: build build-lab ## a fault of the lab to find, until Ctrl-C, as root; FAULT=disk.saturated
	$(LAB) hold $(or $(FAULT),disk.saturated)

practice-vm: SUITES = bookworm
practice-vm: need-lab-vm build build-lab ## the same in a virtual machine, which needs no root: its shell is on this terminal until 'exit'
	$(LAB) hold $(or $(FAULT),disk.saturated) --vm $(SUITES) --images $(WHYSLOW_LAB_VM) --whyslow $(BIN)

need-build:
	@scripts/install-missing.sh build

# What tests need that run as root only is installed for root only.
need-test: need-build
	@scripts/install-missing.sh runner
	@[ "$$(id -u)" != 0 ] || scripts/install-missing.sh test

need-bench:
	@scripts/install-missing.sh build bench

need-lab:
	@scripts/install-missing.sh build lab

need-lab-vm:
	@scripts/install-missing.sh build lab-vm
	@lab/vm/build-images.sh $(WHYSLOW_LAB_VM) $(SUITES)

need-dist:
	@scripts/install-missing.sh build dist

need-musl:
	@scripts/install-missing.sh build musl

need-test-packages:
	@scripts/install-missing.sh packages

need-manual:
	@scripts/install-missing.sh build manual

need-programs:
	@scripts/install-missing.sh build lab programs

clean:
	cargo clean
