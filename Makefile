# Everything runs in .venv, which is made when it is first needed and again when pyproject.toml changes.
.DEFAULT_GOAL := help
.SILENT:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The Python that .venv is made of: give one (make setup PYTHON=python3.13), or the first that is new enough is taken.
PYTHON ?= python3 python3.13 python3.12 python3.11 python
# Whatever the environment says: the tests start hundreds of interpreters, which would compile our modules each time.
export PYTHONDONTWRITEBYTECODE :=
# More for pytest: make test ARGS="-k handoff -x"
ARGS ?=

BIN := .venv/bin
RUN := $(BIN)/python -m
UV := $(shell command -v uv 2>/dev/null)
INSTALL := $(if $(UV),$(UV) pip install --quiet --python $(BIN)/python,$(RUN) pip install -qq --disable-pip-version-check)
# One more than there are processors: many tests wait, for processes that start or leases that end.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) + 1)
# SQLite waits for the disk at each commit. Tests kill processes, never the machine, so their files may be in memory,
# where there are 4 GB for them.
MEMORY := $(shell [ "$$(df -Pk /dev/shm 2>/dev/null | awk 'END { print $$4 }')" -gt 4000000 ] 2>/dev/null && echo /dev/shm)
export PYTEST_DEBUG_TEMPROOT ?= $(MEMORY)
# Snapshots are compared but not rewritten when tests run in parallel; saying so spares its notice.
# Native tracebacks: CPython 3.11 can crash while pytest parses source to format its own.
PYTEST := $(RUN) pytest -q --tb=native -n $(WORKERS) --dist worksteal --inline-snapshot=disable

# Thousands of deaths that need nothing but time, so they go side by side; processes that are killed have leases to keep.
STORIES := tests/crash/test_stories.py

.PHONY: help demo serve test setup check format docs stress bench screens cover clean

help: ## this list
	awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/.runtime ## a support desk of five agents at work, in the terminal; runtime dependencies only
	$(BIN)/changeover demo

serve: .venv/.server ## the support desk over HTTP, with some conversations: http://127.0.0.1:8765 (ARGS="--port 9000")
	$(BIN)/changeover serve --demo $(ARGS)

test: .venv/.dev ## all tests, stresses at small size (ARGS="-k name" for some)
	$(PYTEST) $(ARGS)

setup: .venv/.dev ## the development environment, in .venv

check: .venv/.dev ## ruff, mypy and import-linter: what a change has to pass
	$(RUN) ruff check --quiet .
	$(RUN) ruff format --check --quiet . || { echo "not formatted: run make format" >&2; exit 1; }
	$(RUN) mypy --no-error-summary src tests $(wildcard bench examples)
	report=$$($(BIN)/lint-imports 2>&1) || { echo "$$report" >&2; exit 1; }

format: .venv/.dev ## put the code in shape
	$(RUN) ruff check --quiet --fix-only .
	$(RUN) ruff format --quiet .

docs: .venv/.docs ## the docs site, in site/; a warning fails it
	$(BIN)/zensical build --clean --strict

stress: .venv/.dev ## the stresses at full size; the models on the oldest pydantic-ai
	$(if $(ARGS),,CHANGEOVER_STRESS=1 $(PYTEST) -m stress --timeout=900 $(STORIES))
	CHANGEOVER_STRESS=1 $(RUN) pytest -q -m stress --timeout=900 $(if $(ARGS),$(ARGS),--ignore=$(STORIES))
	$(if $(ARGS),,$(RUN) tests.models.oldest_release)

bench: .venv/.dev ## what a handoff costs, as ratios to a bare loop
	$(RUN) bench $(ARGS)

screens: .venv/.dev ## pictures of the pages of the web UI, in build/screens
	$(RUN) tests.ui.screens $(ARGS)

cover: .venv/.dev ## all tests, and the lines and branches they leave out
	$(PYTEST) --cov --cov-report=term $(ARGS)

clean: ## remove .venv, caches and build results
	rm -rf .venv build dist site .cache .coverage .coverage.* htmlcov
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .inline-snapshot
	find src tests $(wildcard bench) -name __pycache__ -prune -exec rm -rf {} +

# A .venv whose Python has gone cannot be mended, and its stamps say that all is well.
$(shell [ -x $(BIN)/python ] || rm -rf .venv)

# Candidates are run, not only looked up: a version manager's shim exists also for versions that are switched off.
$(BIN)/python:
	found=; for python in $(PYTHON); do \
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then echo "Python 3.11 or newer is needed; tried: $(PYTHON)" >&2; exit 1; fi; \
	if [ -n "$(UV)" ]; then "$(UV)" venv --quiet --seed --python "$$("$$found" -c 'import sys; print(sys.executable)')" .venv; \
	else "$$found" -m venv .venv; fi

.venv/.runtime: pyproject.toml | $(BIN)/python
	echo "installing changeover into .venv" >&2
	$(INSTALL) --editable .
	touch $@

.venv/.server: pyproject.toml | $(BIN)/python
	echo "installing changeover and its server into .venv" >&2
	$(INSTALL) --editable '.[server]'
	touch .venv/.runtime $@

.venv/.docs: pyproject.toml | $(BIN)/python
	echo "installing changeover and the tools of its docs into .venv" >&2
	$(INSTALL) --editable '.[docs]'
	touch .venv/.runtime $@

.venv/.dev: pyproject.toml | $(BIN)/python
	echo "installing changeover and its development tools into .venv" >&2
	$(INSTALL) --editable '.[dev]'
	touch .venv/.runtime .venv/.server .venv/.docs $@
