# `make demo` and `make test` set up the environment if necessary.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Otherwise each kshark that a test starts compiles its modules again, which takes a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test test-quick test-nightly test-live test-broker test-clients test-mutants fuzz lint bench bench-quick bench-spark docs man clean help

help:
	@echo "make demo        a real share-group incident, from the packets to the verdict"
	@echo "make test        ruff, mypy and the tests, with a part of the sweeps over captures: ten minutes"
	@echo "make test-nightly  the same, with all sweeps over captures, cuts and seeds: some hours"
	@echo "make test-live   live capture on network interfaces of its own: some minutes; needs root, iproute2, tcpreplay, tcpdump"
	@echo "make test-mutants  small bugs in analysis and tables that the tests miss: up to an hour; MUTANTS='--sample 50' is shorter"
	@echo "make fuzz        damaged input of all kinds for MINUTES=n (10); failing input is reduced and written to out/fuzz"
	@echo "make test-quick  the tests without Spark, brokers and tshark, with a sample of the sweeps: a minute and a half"
	@echo "make test-broker 10,000 requests of share clients to each of four brokers: forty minutes; needs Java and Maven"
	@echo "make test-clients  Java clients with failing networks, processes and brokers must cause no violation: some minutes; needs Java, Maven, root"
	@echo "make bench       speed compared with tshark on the same files: 15 minutes; writes benchmarks/RESULTS.md"
	@echo "make bench-quick the same on small files, one run: a minute"
	@echo "make bench-spark kshark-spark compared with one process, up to 1 GB: 15 minutes; writes benchmarks/SPARK.md"
	@echo "make docs        the documentation as a site in out/site: half a minute"
	@echo "make man         the man pages, from the commands: man/*.1"
	@echo "make setup       the environment for all other targets (they run it)"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kshark needs Python 3.11 or newer; name one: make setup PYTHON=python3.12" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
		{ echo "this Python cannot create virtual environments; install its venv package (Debian: python3-venv)" >&2; exit 2; }
	@echo "installing kshark and its packages into $(VENV) (Spark is 450 MB)" >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: setup
	@sh captures/demo.sh $(BIN)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow and not live"

test-nightly: lint
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not live and not broker"

test-quick: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile=quick -m "not slow and not live and not spark and not broker and not tshark and not sweep"

test-live: setup
	$(BIN)/python -m pytest -m live

test-broker: setup
	$(BIN)/python -m tests.broker --long

test-clients: setup
	$(BIN)/python -m tests.trouble --seed $(or $(SEED),1)
	$(BIN)/python -m tests.trouble --seed $(or $(SEED),1) --tunnel --network-only

test-mutants: setup $(VENV)/.mutants
	@$(BIN)/python -m tests.mutants $(MUTANTS)

fuzz: setup
	@nice $(BIN)/python -m tests.fuzz --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1)

$(VENV)/.mutants: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[mutants]'
	@touch $@

bench: setup $(VENV)/.bench
	$(BIN)/python -m benchmarks

bench-spark: setup
	$(BIN)/python -m benchmarks.spark

bench-quick: setup $(VENV)/.bench
	$(BIN)/python -m benchmarks --quick

$(VENV)/.bench: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

docs: setup $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open out/site/index.html"

$(VENV)/.docs: $(VENV)/.ready
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

man: setup
	$(BIN)/python -m tools.man

clean:
	rm -rf $(VENV) build dist *.egg-info out
