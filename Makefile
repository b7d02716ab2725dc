# `make demo` shows Tidegate, `make test` runs all that CI runs. The rest is for those who work on it.

CARGO ?= cargo
TARGET = $(or $(CARGO_TARGET_DIR),target)
PAGE_PORT ?= 28480

.PHONY: test-power structure help demo build minimal package install install-debug deb http-cache test test-install test-model test-restart test-consistency test-redis-groups test-valkey compiler tools check format lint unit docs deny page reference reference-check bench configurations test-clients test-clients-tls test-store-tls acme h2spec h3-interop grpc vtc vtc-varnish test-redis test-redis-cluster redis-quick clean

help:
	@echo 'make demo       build a binary for a first look and try it: two web sites, a load balancer, a store'
	@echo 'make minimal    build tidegate-min, which serves files and is small, and say how small'
	@echo 'make test       everything that CI runs; installs what it needs (Debian, root)'
	@echo 'make test-model random commands on the store and on redis-server, for long (SEED=1 MINUTES=10)'
	@echo 'make test-restart  whether a store has after each start what it had before, for long, and the simulation of a shard (SEED=1 MINUTES=60 COUNT=300)'
	@echo 'make test-power  whether a store has what it must have after the power is cut, with a disk of its own in a loop device (root; SEEDS="1 2 3" ROUNDS=6)'
	@echo 'make test-consistency  whether a cluster in which things die is one store to its clients, for long (SEED=1 MINUTES=60)'
	@echo 'make test-cluster  slots that move while somebody dies, is stopped, or takes nothing more'
	@echo 'make test-redis-groups  groups of real Redis servers whose masters die and whose proxies are stopped, for long'
	@echo 'make test-valkey the same with real Valkey servers (downloads Debian 13 packages into target/valkey)'
	@echo 'make test-hosts  three hosts of a cluster and what happens to them, over and over, and their simulation for long (ROUNDS=10 SEEDS=5000)'
	@echo 'make build      the release binary, target/release/tidegate'
	@echo 'make package    the same laid out by profiles of itself under load, for those who package it: target/packaged/tidegate'
	@echo 'make install    put the release binary, units, manual pages and completions in place (PREFIX=/usr/local DESTDIR=)'
	@echo 'make install-debug  put its debugging information where debuggers look for it (PREFIX=/usr)'
	@echo 'make deb        Debian packages in target/debian (BINARY=target/packaged/tidegate for what make package has built)'
	@echo 'make test-install  try package and container image in a Debian of their own (root, debootstrap, cargo-deb)'
	@echo 'make check      format, lints and tests, with what is installed'
	@echo 'make reference  write docs/reference out of the tables of keywords'
	@echo 'make bench      compare the packaged binary, or else the release binary, with haproxy and nginx (CASES="..." for some cases)'
	@echo 'make configurations  play real configurations with tidegate and haproxy and compare (NAMES="..." for some)'
	@echo 'make test-clients  have real clients of Redis and job queues work with a store (NAMES="..." for some)'
	@echo 'make test-clients-tls  the same over TLS; make test-store-tls  all scenarios of it'
	@echo "make test-redis  run Redis' own test suite against the store (UNITS=\"unit/type/list ...\" for some of it)"
	@echo 'make acme       get certificates from a real test authority with all of its whims (NAMES="..." for some tests)'
	@echo 'make h2spec     check HTTP/2 by h2spec (ARGUMENTS="http2/6.5" for some of it)'
	@echo "make h3-interop  have aioquic and quic-go use HTTP/3 (Python from PyPI, Go)"
	@echo "make grpc       have gRPC's client call its server through the edge"
	@echo "make vtc        run HAProxy's own regression scripts (HAPROXY_REGTESTS=folder)"
	@echo "make vtc-varnish  run Varnish's own scripts (VARNISH_TESTS=folder)"
	@echo "make test-redis-cluster  run Redis' own cluster suite against clusters of ours (UNITS=\"...\" for some of it; make redis-quick fetches it)"
	@echo 'make http-cache  run the public tests of HTTP caches (HTTP_CACHE_TESTS=folder, or from npm)'

demo: compiler
	$(CARGO) build --profile demo --locked -p tidegate
	$(TARGET)/demo/tidegate demo $(DEMO)

# As small as it gets; says what it takes, on the disk and in memory while it serves (a load if wrk is there).
minimal: compiler
	$(CARGO) build --profile minimal --locked -p minimal
	bench/minimal $(TARGET)/minimal/tidegate-min

build: compiler
	$(CARGO) build --release --locked -p tidegate

package:
	dist/build

# What these install is built before, by whoever builds: root need not have a compiler.
PLACES = BINARY='$(BINARY)' DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' SYSCONFDIR='$(SYSCONFDIR)' ZSHDIR='$(ZSHDIR)'

install:
	$(PLACES) dist/install program

install-debug:
	$(PLACES) dist/install debug

deb: $(if $(BINARY),,build)
	BINARY='$(BINARY)' DEB_FLAGS='$(DEB_FLAGS)' dist/deb

test-install:
	.ci/tools install
	scenarios/install/run

# One profile for everything, so that each crate is built once for clippy and once for the tests. Clippy and rustdoc run beside the
# tests, which mostly wait.
# Nothing is compiled twice: what cargo keeps for that case would be gigabytes.
test: export CARGO_INCREMENTAL = 0
test: tools structure format deny
	CARGO=$(CARGO) .ci/unit lint docs
	$(MAKE) --no-print-directory reference-check page redis-quick
	@echo 'All checks passed.'

# A failure names the seed of its round.
test-model:
	SEED=$(or $(SEED),1) MINUTES=$(or $(MINUTES),10) $(CARGO) test --locked -p store --test model -- --nocapture random_commands

# A store that is written to and ends, by SIGTERM or kill -9, again and again; then the simulation of a shard with many seeds.
test-restart:
	SEED=$(or $(SEED),1) MINUTES=$(or $(MINUTES),60) $(CARGO) test --locked -p store --test restart -- --nocapture a_store
	SEED=$(or $(SEED),1) COUNT=$(or $(COUNT),300) $(CARGO) test --locked -p store --test simulation -- --nocapture what_a

# A store whose power is cut, again and again (root); a fault keeps the disk's copy.
test-power:
	$(CARGO) build --locked -q -p tidegate
	for seed in $(or $(SEEDS),1 2 3); do for fsync in always everysec; do \
	scenarios/power-cut/run --seed $$seed --rounds $(or $(ROUNDS),6) --fsync $$fsync $(TARGET)/debug/tidegate || exit 1; done; done

# Clients' view of a cluster in which things die, checked for linearizability; a failure names its seed.
test-consistency:
	SEED=$(or $(SEED),1) MINUTES=$(or $(MINUTES),60) $(CARGO) test --locked --workspace --test cluster_consistency -- --nocapture one_store

# Moves of slots in which somebody dies, is stopped, or takes nothing more.
test-cluster:
	$(CARGO) test --locked --workspace --test cluster_moves -- --ignored --test-threads=1
# Groups of real Redis servers: masters that die, proxies that are stopped.
test-redis-groups:
	$(CARGO) test --locked -p tidegate --test cluster_redis -- --nocapture --ignored --test-threads 1

# The same and the quick ones with Debian 13's valkey-server, which is downloaded into target/valkey and not installed.
test-valkey:
	server=$$(.ci/valkey $(TARGET)/valkey) && REDIS_SERVER=$$server $(CARGO) test --locked -p tidegate --test cluster_redis -- --nocapture --include-ignored --test-threads 1

# Network name spaces and a real etcd (root), then the simulation, which names the seed of a failure.
test-hosts:
	ROUNDS=$(or $(ROUNDS),10) $(CARGO) test --locked -p tidegate --test cluster_hosts --test cluster_addresses --test cluster_rescue --test cluster_history -- --ignored --nocapture
	SEEDS=$(or $(SEEDS),5000) $(CARGO) test --release --locked -p cluster --test hosts -- --include-ignored

# Rust comes without a linker; most machines have one.
compiler:
	@command -v cc >/dev/null || .ci/tools compiler

tools:
	.ci/tools

check: structure format lint unit

structure:
	.ci/structure

format:
	$(CARGO) fmt --all --check

lint:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

unit:
	CARGO=$(CARGO) .ci/unit

docs:
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --workspace --no-deps

reference:
	$(CARGO) run --locked -q -p tidegate -- reference

reference-check:
	$(CARGO) run --locked -q -p tidegate -- reference --check

# The database of advisories is not on crates.io, so CI cannot have it.
deny:
	$(CARGO) deny --locked check bans licenses sources

page:
	$(CARGO) build --locked -q -p tidegate
	scenarios/page/run $(TARGET)/debug/tidegate $(PAGE_PORT)
	scenarios/store-page/run $(TARGET)/debug/tidegate
	scenarios/cluster-page/run $(TARGET)/debug/tidegate
	scenarios/files-page/run $(TARGET)/debug/tidegate

bench: build
	$(CARGO) build --release --locked -p runtime --examples
	bench/run.py --ours $(firstword $(wildcard $(TARGET)/packaged/tidegate) $(TARGET)/release/tidegate) --lean $(TARGET)/release/examples/lean --floor $(TARGET)/release/examples/floor $(CASES)

configurations:
	$(CARGO) build --locked -p tidegate
	scenarios/configurations/run -v --tidegate $(TARGET)/debug/tidegate $(NAMES)

# Needs Go, or Debian's pebble.
acme:
	scenarios/acme/run $(NAMES)

# Needs Go.
h2spec:
	$(CARGO) build --locked -p tidegate
	scenarios/h2spec/run $(TARGET)/debug/tidegate $(ARGUMENTS)

h3-interop:
	$(CARGO) build --locked -p tidegate
	scenarios/http3/run $(TARGET)/debug/tidegate

grpc:
	$(CARGO) build --locked -p tidegate
	scenarios/grpc/run $(TARGET)/debug/tidegate

test-clients:
	$(CARGO) build --locked -p store --example store
	$(CARGO) build --locked -p tidegate
	TIDEGATE=$(TARGET)/debug/tidegate scenarios/clients/run $(TARGET)/debug/examples/store $(NAMES)

# The same over TLS, as far as it costs little.
test-clients-tls:
	$(CARGO) build --locked -p store --example store
	REDIS_TLS=1 scenarios/clients/run $(TARGET)/debug/examples/store $(NAMES)

# Scenarios of TLS in the store, those too that take as long as a client may.
test-store-tls:
	$(CARGO) test --locked -p tidegate --test store_tls -- --include-ignored

vtc:
	$(CARGO) build --locked -p tidegate
	TIDEGATE=$(TARGET)/debug/tidegate scenarios/vtc/run $(HAPROXY_REGTESTS)

# Varnish's own scripts, with Debian's varnishtest.
vtc-varnish:
	$(CARGO) build --locked -p tidegate
	TIDEGATE=$(TARGET)/debug/tidegate scenarios/varnish/run $(VARNISH_TESTS)

# The public tests of HTTP caches: their folder in HTTP_CACHE_TESTS, or from npm.
http-cache:
	$(CARGO) build --locked -p tidegate
	TIDEGATE=$(TARGET)/debug/tidegate scenarios/httpcache/run $(HTTP_CACHE_TESTS)

# Redis' own suite, out of Debian's source package. The quick part is what takes seconds.
test-redis:
	$(CARGO) build --locked -q -p tidegate
	TIDEGATE=$(TARGET)/debug/tidegate REDIS_SUITE=$(TARGET)/redis-suite scenarios/redis/run $(UNITS)

# Redis' own cluster suite against clusters of ours (redis-quick fetches it).
test-redis-cluster:
	$(CARGO) build --locked -q -p tidegate
	TIDEGATE=$(TARGET)/debug/tidegate REDIS_SUITE=$(TARGET)/redis-suite scenarios/redis-cluster/run $(UNITS)

redis-quick:
	$(CARGO) build --locked -q -p tidegate
	TIDEGATE=$(TARGET)/debug/tidegate REDIS_SUITE=$(TARGET)/redis-suite scenarios/redis/run --quick

clean:
	$(CARGO) clean
