# Runnel's commands; a bare `make` lists them.

PYTHON ?= python3
BIN    := .venv/bin
# Two processes even on large machines: each may hold a Spark session of 3 GiB.
PARALLEL ?= -n 2 --dist loadgroup
OUT    ?= docs/benchmarks
PURE   := $(wildcard runnel/environment.py runnel/errors.py runnel/settings.py runnel/versions.py runnel/algebra runnel/bind runnel/canonicalize runnel/differentiate runnel/observe runnel/project runnel/schedule)

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-slow soak check format bench bench-full tpch nexmark docs wheel clean

help: ## list these targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready ## install everything into .venv; later runs do nothing

demo: setup ## watch a stream table follow its sources
	@$(BIN)/runnel demo

test: test-fast ## run the tests, fast tiers first
	@echo "tests with Spark"
	@$(BIN)/python -m pytest $(PARALLEL) -m "spark and not slow"

test-fast: setup ## run only the tests that start no Spark
	@echo "tests without Spark"
	@$(BIN)/python -m pytest $(PARALLEL) -m "not spark and not slow" --doctest-modules tests benchmarks $(PURE)

soak: setup ## run the daemon for ten minutes, then generated queries until one fails, or SECONDS=n each
	@$(BIN)/python -m tests.support.soak $(or $(SECONDS),600)
	@$(BIN)/python -m tests.support.seeds $(SECONDS)

test-slow: setup ## run the long tests that `make test` leaves out
	@$(BIN)/python -m pytest $(PARALLEL) -m slow

check: setup ## check lint, format, types and layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: setup ## format the code and sort the imports
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

bench: setup ## measure refresh against recompute, in about ten minutes
	@$(BIN)/python -m benchmarks all --quick --out $(OUT)

bench-full: setup ## the same at every size and rate, which takes hours
	@$(BIN)/python -m benchmarks all --full --out $(OUT)

tpch: setup ## follow the 22 queries of TPC-H and check each
	@$(BIN)/python -m benchmarks.tpch --scale 0.1 --rounds 5
	@$(BIN)/python -m benchmarks.tpch --scale 1 --rounds 5

nexmark: setup ## follow the queries of Nexmark and check each
	@$(BIN)/python -m pytest tests/test_nexmark.py

docs: setup ## regenerate the pages that come from code
	@$(BIN)/python -m runnel.observe.docs

wheel: setup ## build the wheel into dist/
	@$(BIN)/python -m build --no-isolation --wheel

clean: ## remove .venv, caches and build results
	@rm -rf .venv dist build .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache artifacts spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two stamps, so that a missing Java does not cost a second installation.
.venv/.ready: .venv/.packages runnel/versions.py
	@$(BIN)/python -m runnel.environment
	@touch $@

.venv/.packages: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Runnel needs Python 3.11 or newer: install it, or name it as in: make PYTHON=/path/to/python3.11 setup"; exit 1; }
	@command -v "$${JAVA_HOME:+$$JAVA_HOME/bin/}java" >/dev/null \
	  || { echo "Runnel needs Java 17 or newer: install a JDK (Debian and Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"; exit 1; }
	@echo "creating .venv"
	@$(PYTHON) -m venv .venv >.venv.log 2>&1 && rm -f .venv.log \
	  || { cat .venv.log; rm -f .venv.log; echo "Python cannot create a virtual environment: install its venv module (Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "installing packages (first time, about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
