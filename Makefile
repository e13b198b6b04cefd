# Six targets are the whole vocabulary; each sets up what it needs.
.PHONY: serve test check build bench crash
export PYTHONDONTWRITEBYTECODE =
SHELL := /bin/bash

# The newest Python >= 3.11 that really runs (a version manager's shim may exist and refuse), 3.13 first: the cloud runs it.
PYTHON ?= $(shell for python in python3.13 $(HOME)/.pyenv/versions/3.13*/bin/python3 python3.14 python3.12 \
  $(HOME)/.pyenv/versions/3.12*/bin/python3 python3.11 $(HOME)/.pyenv/versions/3.11*/bin/python3 python3; do \
  "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
  && { command -v "$$python"; break; }; done)
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes

serve: .venv/serve node_modules/engine
	exec .venv/bin/mangrove serve

# All tests, on every core up to four; ARGS: some of them, without workers (or with: ARGS="-n 2 --dist loadgroup tests/unit").
test: .venv/test .venv/tools node_modules/engine
	.venv/bin/python -m pytest $(or $(ARGS),-n auto --maxprocesses 4 --dist loadgroup)

check: .venv/test
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	PYTHONPATH=. .venv/bin/lint-imports

build: .venv-build/ready
	.venv-build/bin/python -m compileall -q shared functions
	SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 .venv-build/bin/sam validate --lint
	SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 PATH="$(CURDIR)/.venv-build/bin:$$PATH" .venv-build/bin/sam build
	.venv-build/bin/python -m compileall -q -j0 --invalidation-mode unchecked-hash .aws-sam/build

bench: .venv/test node_modules/engine
	.venv/bin/python -m bench $(ARGS)

# SEEDS: how many (50 of them are in `test`); SEED: one that broke, again.
crash: .venv/test .venv/tools node_modules/engine
	.venv/bin/python -m pytest -s tests/crash $(ARGS)

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "Mangrove needs Python 3.11 or newer"; exit 1; }
	"$(PYTHON)" -m venv .venv

.venv/serve: requirements/serve.txt pyproject.toml | .venv/bin/python
	$(PIP) -r requirements/serve.txt
	.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
	@touch $@

.venv/test: requirements/test.txt .venv/serve
	$(PIP) -r requirements/test.txt
	@touch $@

# aria2 and qBittorrent, which tests talk to; where they cannot be installed, those tests are skipped by name.
.venv/tools: export DEBIAN_FRONTEND = noninteractive
.venv/tools: | .venv/bin/python
	@{ command -v aria2c && command -v qbittorrent-nox; } >/dev/null \
	  || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq --no-install-recommends aria2 qbittorrent-nox; } \
	  >/dev/null 2>&1 </dev/null || echo "aria2c and qbittorrent-nox are not here: their tests are skipped"
	@touch $@

.venv-build/ready: requirements/build.txt
	"$(PYTHON)" -m venv .venv-build
	.venv-build/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/build.txt
	@touch $@

node_modules/engine: package-lock.json
	npm ci --silent --no-fund --no-audit
	@touch $@
