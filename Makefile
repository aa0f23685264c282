# Every target is one word; `make` alone lists them. Everything is built into .venv and build/;
# nothing else on the machine is touched, except that a missing system package is installed when you
# are root (when you are not, its name is printed).

# python3, or the system's Python where that is the faster of the two: tools/python.sh says why.
PYTHON ?= $(shell tools/python.sh)
PYTEST_ARGS ?=
# Tests mostly wait for disks, processes and times, so three files run for each processor. The
# longest files come first (tests/support/scheduler.py), so that all workers end at the same time.
WORKERS ?= $(shell n=$$((3 * $$(nproc))); echo $$((n < 8 ? n : 8)))
AT_ONCE ?= -n $(WORKERS) --dist loadfile
# A skipped test fails `make test`, because all that tests need is installed before. RMQ_SKIPS=allow
# lets skipped tests pass. Instructions are compared where the compiler is that of the file they are
# kept in; with RMQ_INSTRUCTIONS=compare, as in CI, it fails that another one compiled.
SKIPS := $(if $(filter allow,$(RMQ_SKIPS)),,--no-skips)
# Bytecode is always kept, whatever the environment says: tests start hundreds of brokers, and each
# test worker reads all test files.
export PYTHONDONTWRITEBYTECODE :=
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
COMPILERS := $(VENV)/.compilers
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/.tools
PIP := $(BIN)/pip install --quiet --disable-pip-version-check
BUILT := build/.built
LOG := build/build.log
SOURCES := setup.py tools/build_pool.py tools/pxd_reader.py $(shell find cext -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -name '*.c')

.PHONY: help build run wheel sdist test test-wheel test-repeat test-compat test-slow test-ha soak races power-cuts bit-rot bench bench-stages bench-topics bench-peers bench-growth bench-replicas bench-client bench-spark bench-tables lint docs debug clean

help:
	@echo 'make build        compiled modules and a working $(BIN)/rmq'
	@echo 'make run          a broker with a name server on 127.0.0.1, store in ./store'
	@echo 'make wheel        a wheel of this Python in dist/, of what make build compiled; make sdist'
	@echo 'make test         all tests but those of test-compat, test-slow, test-ha and test-wheel'
	@echo 'make test-repeat  make test 20 times (RMQ_TEST_ROUNDS), half of them beside a load; a table'
	@echo 'make test-compat  official clients of Java, Go and Node, proxy, mqadmin, store exchange (downloads them)'
	@echo 'make test-slow    long rounds: kill -9 under load, fuzzing without end'
	@echo 'make test-wheel   the wheel in an empty environment without a compiler, the sdist with one'
	@echo 'make test-ha      each fault on brokers and replicas, judged by a checker; 1 to 2 hours (RMQ_HA_ROUNDS=30: 20 minutes)'
	@echo 'make soak         500 rounds of kills and stops on two shards (RMQ_SOAK_ROUNDS), 15 minutes'
	@echo 'make races        500 rounds of topics that change at once (RMQ_RACE_ROUNDS), 3 minutes'
	@echo 'make power-cuts   100 power cuts under load on a loop file system (RMQ_POWER_CUT_ROUNDS; root)'
	@echo 'make bit-rot      200 rounds of damage to each kind of file (RMQ_BIT_ROT_ROUNDS), 25 minutes'
	@echo 'make bench        our broker against a bare C loop, as ratios'
	@echo 'make bench-stages  each stage of the core: ns, and instructions against the file (UPDATE=1)'
	@echo 'make bench-replicas  against an Apache pair; failovers, planned switches, catching up; accounts and TLS; 12 minutes'
	@echo 'make bench-peers  beside Apache RocketMQ, NATS and Kafka (downloads them); 110 minutes; a page'
	@echo 'make bench-growth  what a message costs as queues, connections, backlog .. grow; 30 minutes; a page'
	@echo 'make bench-topics  10,000 topics created and found at a restart; 1,000,000 offsets; 2 minutes'
	@echo 'make bench-spark  our Spark source against Kafka'\''s and Parquet (downloads Kafka)'
	@echo 'make bench-client  the Python client against confluent-kafka on Kafka (downloads both)'
	@echo 'make bench-tables  tables against Spark, Kafka'\''s client and Parquet; console; commands; 15 minutes'
	@echo 'make lint         ruff, mypy, cython-lint'
	@echo 'make docs         these pages as a site in build/docs/html; links are checked'
	@echo 'make debug        AddressSanitizer and UBSan build in build/asan, tests under it'
	@echo 'make clean        removes .venv and build products, never a store'

# Several makes may run here at once. They take turns, by a lock, to compile, to install and to
# collect tests; a later one finds this done. A command that runs under the lock must not make a
# target that takes the lock, because it would wait for itself.
ALONE := mkdir -p build && flock build/making.lock

build:
	@$(ALONE) $(MAKE) -j2 stamped
.PHONY: stamped
stamped: $(BUILT) $(INSTALLED)
	@$(BIN)/python setup.py stamp

$(BIN)/python:
	@PYTHON='$(PYTHON)' tools/need.sh python venv
	$(PYTHON) -m venv $(VENV)

# What is needed to compile a broker.
$(COMPILERS): $(BIN)/python pyproject.toml
	@PYTHON='$(PYTHON)' tools/need.sh gcc headers libssl
	@$(PIP) 'setuptools>=77' 'Cython==3.3.1'
	@touch $@

# What is needed to run a broker, which is downloaded while the compiler works. The package itself
# is installed once; its modules are compiled in place, and only those that have changed.
$(INSTALLED): $(COMPILERS)
	@echo 'installing what a broker needs'
	@RMQ_BUILD=none $(PIP) --no-build-isolation -e '.[tables]'
	@touch $@

# What tests, benches and linters need as well; most of it is Spark. It is downloaded while the
# compiler works. Its bytecode is not made here but when a module is first used.
.PHONY: tools
tools:
	@$(ALONE) $(MAKE) -j2 $(BUILT) $(TOOLS)
$(TOOLS): $(INSTALLED)
	@echo 'installing what tests and linters need (0.8 GB, most of it Spark)'
	@RMQ_BUILD=none $(PIP) --no-compile --no-build-isolation -e '.[dev]'
	@touch $@

$(BUILT): $(COMPILERS) $(SOURCES)
	@$(MAKE) compile
	@touch $@

# Shows one line for each module; the log keeps the commands. Any warning of gcc or Cython fails the
# build.
.PHONY: compile
compile:
	@mkdir -p build
	@echo 'compiling changed modules (log: $(LOG))'
	@RMQ_BUILD=release RMQ_PROGRESS=3 $(BIN)/python setup.py build_ext 3>&1 >$(LOG) 2>&1 \
		|| { tail -n 60 $(LOG); exit 1; }
	@$(BIN)/python tools/check_build_log.py $(LOG)

run: build
	@$(BIN)/rmq standalone --store store

# A wheel of what make build compiled, with the libraries that it needs: OpenSSL's. Wheels for many
# machines are compiled anew by .github/workflows/wheels.yml.
WHEEL_TOOLS := $(VENV)/.wheel-tools
$(WHEEL_TOOLS): $(INSTALLED)
	@echo 'installing what puts libraries into wheels'
	@RMQ_BUILD=none $(PIP) --no-build-isolation -e '.[wheel]'
	@touch $@

wheel: build
	@$(ALONE) $(MAKE) $(WHEEL_TOOLS)
	@rm -rf build/wheel
	@RMQ_BUILD=compiled $(BIN)/pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
		--wheel-dir build/wheel/plain .
	@PATH="$(abspath $(BIN)):$$PATH" auditwheel repair --wheel-dir dist build/wheel/plain/*.whl \
		>build/wheel/repair.log 2>&1 || { cat build/wheel/repair.log; exit 1; }
	@ls -t dist/*.whl | head -n 1

sdist: build
	@$(BIN)/python setup.py --quiet sdist --dist-dir dist
	@ls -t dist/*.tar.gz | head -n 1

# Every worker reads all test files. pytest rewrites them and keeps the result as bytecode: one process
# does that first, for all workers. All of tests/compat belongs to test-compat: leaving it out saves
# each worker a tenth of the reading.
QUICK := -m 'not compat and not slow' --ignore tests/compat
# Longer than pytest-timeout's limit, which cannot end a test that hangs in C and holds the
# interpreter.
HANGING := -o faulthandler_timeout=1300 -o faulthandler_exit_on_timeout=true
COLLECTED := build/.collected
$(COLLECTED): $(BUILT) $(TOOLS) $(shell find tests -name '*.py')
	@$(BIN)/python -m pytest -qq --collect-only $(QUICK) >build/collected.log || { tail -n 60 build/collected.log; exit 1; }
	@touch $@

# The system's packages are installed while modules are compiled, but after the compiler itself,
# because apt does one thing at a time.
.PHONY: ready system
ready:
	@$(ALONE) $(MAKE) -j3 $(BUILT) $(TOOLS) system
	@$(ALONE) $(MAKE) $(COLLECTED)
system: $(INSTALLED)
	@tools/need.sh java17 openssl mkfs redis etcd aarch64 valgrind iproute systemd chromium

test: ready
	$(BIN)/python -m pytest $(QUICK) $(HANGING) $(SKIPS) $(AT_ONCE) $(PYTEST_ARGS)

# 20 whole runs (RMQ_TEST_ROUNDS), every other one beside a load that eats the machine. With GO_ON=1
# the runs of this commit that are in build/test-rounds already are counted, too.
test-repeat: ready
	$(BIN)/python tools/suite_rounds.py $${RMQ_TEST_ROUNDS:-20} \
		$(if $(GO_ON),--go-on $$(git describe --always --abbrev=40 --dirty)) -- \
		$(BIN)/python -m pytest -q $(QUICK) $(HANGING) $(SKIPS) $(AT_ONCE) $(PYTEST_ARGS)

test-wheel: wheel sdist tools
	$(BIN)/python -m pytest -m slow -s tests/wheel $(PYTEST_ARGS)

test-compat: tools
	@tools/need.sh jdk maven go node
	$(BIN)/python -m pytest -m 'compat' $(PYTEST_ARGS)

test-slow: tools
	$(BIN)/python -m pytest -m 'slow and not compat' --timeout 3600 --deselect tests/fault/test_soak.py --deselect tests/fault/test_power_cuts.py --deselect tests/ha --deselect tests/wheel $(PYTEST_ARGS)
	RMQ_VOLUME=full $(BIN)/python -m pytest -m 'not slow and not compat' \
		$$(grep -rl --include='test_*.py' 'support.volume' tests) $(PYTEST_ARGS)

# Rounds that cut links need root: without it only the others are played, and the test is reported as
# skipped. Each fault of each kind of cluster is played once, or RMQ_HA_ROUNDS of them, in an order that
# the seed makes. The seed is another one each time, and is printed; RMQ_HA_SEED sets it.
# RMQ_HA_CLUSTERS sets the kinds of clusters. RMQ_HA_SETTINGS=weak counts what weaker settings lose;
# RMQ_HA_JAVA=1 adds the official client; RMQ_HA_APACHE=1 adds pairs with Apache's broker.
# With GO_ON=1 the rounds of this commit that are in build/ha already are counted, too.
test-ha: tools
	@$(ALONE) tools/need.sh iproute etcd $(if $(RMQ_HA_JAVA)$(RMQ_HA_APACHE),jdk maven)
	$(if $(GO_ON),RMQ_HA_GO_ON=$$(git describe --always --abbrev=40 --dirty)) \
		$(BIN)/python -m pytest -m slow -s -rs tests/ha $(PYTEST_ARGS)

soak: tools
	$(BIN)/python -m pytest -m slow -s tests/fault/test_soak.py $(PYTEST_ARGS)

races: tools
	RMQ_RACE_ROUNDS=$${RMQ_RACE_ROUNDS:-500} $(BIN)/python -m pytest -s tests/process/test_topic_races.py $(PYTEST_ARGS)

power-cuts: tools
	$(BIN)/python -m pytest -m slow -s -rs tests/fault/test_power_cuts.py $(PYTEST_ARGS)

bit-rot: tools
	RMQ_BIT_ROT_ROUNDS=$${RMQ_BIT_ROT_ROUNDS:-200} $(BIN)/python -m pytest -s tests/fault/test_bit_rot.py \
		tests/fault/test_queue_damage.py $(PYTEST_ARGS)

bench: tools
	$(BIN)/python bench/run.py

# UPDATE=1 writes bench/stages/instructions.json anew, when a growth is intended.
bench-stages: tools
	@tools/need.sh valgrind
	$(BIN)/python -m pytest bench/stages/nanoseconds.py -p no:xdist --benchmark-columns min,median,iqr,rounds \
		--benchmark-json build/bench/nanoseconds.json $(PYTEST_ARGS)
	$(BIN)/python -m bench.stages.instructions $(if $(UPDATE),--update)

bench-replicas: tools
	@tools/need.sh java17 jdk maven etcd iproute
	PYTHONPATH=.:tests $(BIN)/python bench/replicas.py

# PUBLISH=1 puts the page into bench/results and the table into README.md; GO_ON=1 measures only the
# rows that an interrupted run has not measured.
bench-peers: tools
	@tools/need.sh jdk maven go
	@RMQ_BUILD=none $(PIP) --no-build-isolation -e '.[peers]'
	$(BIN)/python bench/peers.py $(if $(PUBLISH),--publish) $(if $(GO_ON),--go-on)

# PUBLISH=1 puts the page into bench/results.
bench-growth: tools
	@RMQ_BUILD=none $(PIP) --no-build-isolation -e '.[peers]'
	$(BIN)/python bench/growth.py $(if $(PUBLISH),--publish)

bench-topics: tools
	$(BIN)/python bench/topics.py

bench-spark: tools
	@tools/need.sh java17 maven
	$(BIN)/python bench/spark.py

bench-client: tools
	@tools/need.sh jdk maven
	@RMQ_BUILD=none $(PIP) --no-build-isolation -e '.[peers]'
	$(BIN)/python bench/client.py

bench-tables: tools
	@tools/need.sh java17 jdk maven chromium
	@RMQ_BUILD=none $(PIP) --no-build-isolation -e '.[peers]'
	PYTHONPATH=.:tests $(BIN)/python bench/tables.py

# All checks are run, even when the first one fails. cython-lint looks for pycodestyle on the PATH.
lint: tools
	@export PATH="$(CURDIR)/$(BIN):$$PATH"; failed=0; \
	for check in 'ruff check --output-format concise .' 'ruff format --check --quiet .' mypy \
			'cython-lint cext'; do \
		echo "$$check"; $$check || failed=1; \
	done; exit $$failed

# Every warning is an error, and so is a link that leads nowhere. Only changed pages are read anew.
DOCS_TOOLS := $(VENV)/.docs-tools
$(DOCS_TOOLS): $(INSTALLED)
	@echo 'installing what builds the pages'
	@RMQ_BUILD=none $(PIP) --no-build-isolation -e '.[docs]'
	@touch $@

docs:
	@$(ALONE) $(MAKE) $(DOCS_TOOLS)
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/docs/doctrees docs build/docs/html
	@echo 'open build/docs/html/index.html'

# This builds in a copy of the tree, so that the modules of the release build stay as they are. pytest
# swallows what a dying process prints, so the sanitizers write their reports to files; any report
# fails the run, whichever process wrote it. tests/source is left out: it reads text and spawns
# compilers, which a sanitizer does not change. AddressSanitizer keeps freed memory back, here at most
# 16 MB a process; with its default of 256 MB six workers took 24 GB, and the kernel ended two.
ASAN := build/asan
REPORTS := $(CURDIR)/$(ASAN)/reports
DEBUG_TESTS ?= tests/unit tests/contract tests/fault tests/process
debug: tools
	@$(BIN)/python tools/mirror_tree.py . $(ASAN)
	@echo 'compiling with AddressSanitizer and UBSan (log: $(ASAN)/build.log)'
	@cd $(ASAN) && RMQ_BUILD=asan $(CURDIR)/$(BIN)/python setup.py build_ext >build.log 2>&1 \
		|| { tail -n 60 build.log; exit 1; }
	@rm -rf $(REPORTS); mkdir -p $(REPORTS)
	cd $(ASAN) && failed=0; \
	PYTHONPATH=$(CURDIR)/$(ASAN) PYTHONMALLOC=malloc RMQ_FUZZ_FRAMES=$${RMQ_FUZZ_FRAMES:-30000} \
		ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16:log_path=$(REPORTS)/asan \
		UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1:log_path=$(REPORTS)/ubsan \
		LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
		$(CURDIR)/$(BIN)/python -m pytest -m 'not compat and not slow' $(DEBUG_TESTS) $(PYTEST_ARGS) \
		|| failed=1; \
	if [ -n "$$(ls $(REPORTS))" ]; then cat $(REPORTS)/*; failed=1; fi; exit $$failed

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find cext -name '*.so' -delete
	rm -f cext/_build.py
	find rmq pyspark_rmq cext shards tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +
