# These targets are the whole vocabulary: serve test test-rest test-all check generate docs build package deploy undeploy try bench crash; each sets up what it needs.
.PHONY: serve test test-rest test-all check generate docs build package deploy undeploy try bench crash named
export PYTHONDONTWRITEBYTECODE =
SHELL := /bin/bash

# The newest Python >= 3.11 that really runs (a version manager's shim may exist and refuse), 3.13 first: the cloud runs it.
PYTHON ?= $(shell for python in python3.13 $(HOME)/.pyenv/versions/3.13*/bin/python3 python3.14 python3.12 \
  $(HOME)/.pyenv/versions/3.12*/bin/python3 python3.11 $(HOME)/.pyenv/versions/3.11*/bin/python3 python3; do \
  "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
  && { command -v "$$python"; break; }; done)
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes

AZURITE = tests/protocol/azurite/node_modules/ready
LIGHTHOUSE = bench/lighthouse/node_modules/ready

serve: .venv/serve node_modules/engine page/dist/ready
	exec .venv/bin/mangrove serve

TEST_SET_UP = .venv/test .venv/tools node_modules/engine page/dist/ready $(AZURITE)
# Workers wait for servers and disks: with four, two processors are used by nine tenths. Browsers need them more.
RUN_TESTS = .venv/bin/python -m pytest -rs --dist loadgroup --no-loadscope-reorder

# Installs what it needs and says so, and at the end what it skipped and why. It leaves out what `make test-rest` runs
# (see tests/support/selection.py) and the long tests. ARGS: more options, as ARGS="--durations=50"; with paths, as
# ARGS="tests/unit -x", your own choice of tests without workers.
test: $(TEST_SET_UP)
	$(if $(findstring tests/,$(ARGS)),.venv/bin/python -m pytest -rs $(ARGS),$(RUN_TESTS) -n 4 -m "not long and not rest" $(ARGS))

# All that `make test` leaves out, but for the long tests.
test-rest: $(TEST_SET_UP)
	$(RUN_TESTS) -n 3 -m "(rest or sample) and not long"

test-all: test test-rest crash

check: .venv/test page/node_modules/ready docs
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	PYTHONPATH=. .venv/bin/lint-imports
	.venv/bin/python -m deployment.generate --check
	.venv/bin/python -m deployment.checks
	npm --prefix page run --silent check
	npm --prefix page run --silent test

# Writes the files that are derived from the code; `check` fails when one is not up to date.
generate: .venv/test
	.venv/bin/python -m deployment.generate

# Builds the documentation into site/; a dead link or a page without a place in the menu fails.
docs: export NO_MKDOCS_2_WARNING = 1
docs: .venv-docs/ready
	.venv-docs/bin/mkdocs build --strict

SAM = SAM_CLI_TELEMETRY=0 PATH="$(CURDIR)/.venv-build/bin:$$PATH" .venv-build/bin/sam
# Of the template, as Name=value: `make build` needs the architecture, `make deploy` may have any.
PARAMETERS ?=

# Prints the sizes of the functions and fails when one is too large. PARAMETERS="Architecture=arm64": for the other processors.
build: .venv-build/ready page/dist/ready
	.venv-build/bin/python -m compileall -q shared functions
	$(SAM) validate --lint --region us-east-1
	$(SAM) build --region us-east-1 --parameter-overrides Release=unknown $(PARAMETERS)
	test ! -f page/dist/index.html || { cp -r page/dist .aws-sam/build/SiteFunction/page && rm -f .aws-sam/build/SiteFunction/page/ready; }
	test ! -d .aws-sam/build/SiteFunction/page || find .aws-sam/build/SiteFunction/page -name '*.gz' -delete # browsers accept Brotli over HTTPS; another client gets the file itself
	test ! -f page/dist/index.html || install -D -m 644 page/dist/index.html .aws-sam/build/SharesFunction/page/index.html
	.venv-build/bin/python -m deployment.bundle .aws-sam/build

# Builds the packages of Python into dist/: a source distribution, a wheel, and a wheel for Linux with the records engine.
package: .venv/serve node_modules/engine page/dist/ready
	@test -f page/dist/index.html || { echo "the page is missing: see page/build.log"; exit 1; }
	.venv/bin/python -m deployment.package dist

# Asks nothing; parameters that are not given keep the values they have. STACK: its name; REGION: that of the environment or profile, if not given.
# The last five versions of each function stay. The command is not echoed: a parameter may be a password. A first creation that fails is removed, so that it can be repeated.
deploy: named build
	@parameters=$$(.venv-build/bin/python -m deployment.parameters "$(STACK)" "$(REGION)" $(PARAMETERS)) \
	  && eval "set -- $$parameters" \
	  && $(SAM) deploy $(if $(REGION),--region $(REGION)) --stack-name $(STACK) --s3-prefix $(STACK) --on-failure DELETE --parameter-overrides "$$@" \
	  && .venv-build/bin/python -m deployment.endpoint "$(STACK)" "$(REGION)" \
	  && .venv-build/bin/python -m deployment.versions "$(STACK)" "$(REGION)"

named:
	@test -n "$(STACK)" || { echo 'which stack? STACK=name [REGION=…] [PARAMETERS="DomainName=… …"]'; exit 1; }

# Removes the stack without a question. What people own stays: the files bucket, the tables and the keys.
undeploy: named .venv-build/ready
	$(SAM) delete $(if $(REGION),--region $(REGION)) --stack-name $(STACK) --no-prompts

# Deploys a stack that does not exist yet, uses it over HTTPS, prints the bill of the requests, and removes all of it.
try: named .venv/test
	@.venv/bin/python -m deployment.trial "$(STACK)" "$(REGION)" $(PARAMETERS)

# PEER: the binary of another service of the family, measured beside ours.
bench: export PEER ?=
bench: .venv/test node_modules/engine $(LIGHTHOUSE)
	.venv/bin/python -m bench $(ARGS)

LONG_TESTS = .venv/bin/python -m pytest --timeout 3600

# SEEDS: how many (4 of them are in `test`); SEED: one that broke, again. SOAK_SECONDS: of mixed work (5 in `test`).
# KILLS: of processes of one service (6 in `test`).
crash: export SOAK_SECONDS ?= 20
crash: export KILLS ?= 200
crash: .venv/test .venv/long-tools node_modules/engine $(AZURITE)
	$(LONG_TESTS) -s tests/crash tests/soak $(ARGS)
	$(LONG_TESTS) -m long tests/unit tests/contract tests/protocol tests/e2e
	$(MAKE) build
	$(LONG_TESTS) -rs tests/lambda

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

# Programs that tests talk to; where they cannot be installed, those tests are skipped by name.
TOOLS = aria2 qbittorrent-nox openssh-server openssh-client samba smbclient vsftpd apache2 nginx libnginx-mod-http-dav-ext slapd
PROGRAMS = aria2c qbittorrent-nox sshd sftp smbd smbclient vsftpd apache2 nginx slapd
LONG_TOOLS = litmus cadaver davfs2 sshfs
LONG_PROGRAMS = litmus cadaver mount.davfs sshfs
.venv/tools .venv/long-tools: export DEBIAN_FRONTEND = noninteractive
.venv/tools .venv/long-tools: export PATH := $(PATH):/usr/sbin
# Of Debian, where the programs of the first list are not all here: the packages of the second.
define install
@type $(1) >/dev/null 2>&1 \
  || { test "$$(id -u)" = 0 && echo "installing for the tests: $(2)" >&3 && apt-get update -qq && apt-get install -y -qq --no-install-recommends $(2); } \
  3>&1 >/dev/null 2>&1 </dev/null || echo "not all of $(1) are here: their tests are skipped"
@touch $@
endef

.venv/tools: Makefile | .venv/bin/python
	$(call install,$(PROGRAMS),$(TOOLS))
	$(call install,chromium,chromium)

.venv/long-tools: .venv/tools
	$(call install,$(LONG_PROGRAMS),$(LONG_TOOLS))

.venv-build/ready: requirements/build.txt
	"$(PYTHON)" -m venv .venv-build
	.venv-build/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/build.txt
	@touch $@

.venv-docs/ready: requirements/docs.txt
	"$(PYTHON)" -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/docs.txt
	@touch $@

node_modules/engine: package-lock.json
	npm ci --silent --no-fund --no-audit
	@touch $@

page/node_modules/ready: page/package-lock.json
	cd page && npm ci --silent --no-fund --no-audit
	@touch $@

NODE_CHECK = const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major < 20 || (major === 20 && minor < 19) ? 1 : 0)
# The page for people; where npm cannot make it, the service runs without and says so.
page/dist/ready: page/package-lock.json page/index.html page/vite.config.ts openapi.json $(shell find page/src page/public -type f -not -name schema.d.ts)
	@node -e '$(NODE_CHECK)' 2>/dev/null || echo "the page needs Node.js 20.19 or newer: there is $$(node --version 2>/dev/null || echo none)"
	@{ $(MAKE) --no-print-directory page/node_modules/ready && npm --prefix page run --silent build && touch $@; } >page/build.log 2>&1 \
	  || echo "the page is not built, page/build.log says why: there is the API alone"

# Microsoft's emulator of its blob storage; where npm cannot install it, its tests are skipped by name.
$(AZURITE): tests/protocol/azurite/package-lock.json
	@cd $(<D) && npm ci --silent --ignore-scripts --no-fund --no-audit || echo "azurite is not here: its tests are skipped"
	@mkdir -p $(@D) && touch $@

# Lighthouse measures the page in Chromium; where npm cannot install it, its rows are missing.
$(LIGHTHOUSE): bench/lighthouse/package-lock.json
	@cd $(<D) && npm ci --silent --ignore-scripts --no-fund --no-audit || echo "lighthouse is not here: its rows are missing"
	@mkdir -p $(@D) && touch $@
