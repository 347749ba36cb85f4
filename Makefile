# Each target sets up what it needs in .venv and then does its job. Any Python from 3.11 on and a pip
# that reaches a package index are enough. CPU builds of torch are smaller:
#   PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu make test

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV ?= .venv
PY := $(VENV)/bin/python
# The stamp lies in the environment itself: deleting the environment deletes it too.
STAMP := $(VENV)/.unclobber-installed
NATIVE_STAMP := $(VENV)/.unclobber-native-built
DEMO_STAMP := $(VENV)/.unclobber-demo-installed
REALWORLD := .venv-realworld
REALWORLD_STAMP := $(REALWORLD)/.unclobber-installed
# One more than the two cores of a small machine: many tests wait for a process that they have started.
WORKERS ?= 3
PYTEST_ARGS ?=
DOCS_STAMP := $(VENV)/.unclobber-docs-installed

.PHONY: help setup test compat gpu lint ratchets demo bench sweep soak realworld torchtests peers zoo pages docs dist clean

help:  ## Show the targets
	@sed -nE 's/^([a-z]+):.*## (.*)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

# PYTHON says which one .venv is made with: a version (3.12) or a path.
PYTHONS := python3.11 python3.12 python3.13 python3.14 python3
$(STAMP) $(DEMO_STAMP): PYTHONS := $(if $(PYTHON),python$(PYTHON) $(PYTHON),$(PYTHONS))

# Sets `found` in a recipe to the first Python that is new enough and can make environments.
define FIND_PYTHON
for python in $(PYTHONS); do \
  if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
  then found=$$python; break; fi; \
done; \
if [ -z "$${found:-}" ]; then \
  echo "make: no Python 3.11 or newer (with its venv module) on PATH; install one, then run make again" >&2; \
  exit 1; \
fi
endef

setup: $(NATIVE_STAMP)  ## Make .venv with the package and everything for developing it

# Makes the environment in a recipe.
define MAKE_VENV
if ! [ -x $(PY) ]; then \
  $(FIND_PYTHON); \
  echo "Making $(VENV) with $$($$found --version)"; \
  $$found -m venv $(VENV); \
fi
endef

# constraints.txt pins torch. Nothing may resolve torch without it: the newest release is another torch.
# `--group` needs pip 25.1, so pip comes first.
$(STAMP): pyproject.toml constraints.txt
	@$(MAKE_VENV)
	$(PY) -m pip install --quiet --upgrade 'pip>=25.1'
	$(PY) -m pip install --quiet --constraint constraints.txt --group dev --editable .
	@touch $@

# Built anew when its sources change: without that, a test run would silently be one of the Python core alone.
NATIVE := src/unclobber/observe/native
%/.unclobber-native-built: %/.unclobber-installed $(wildcard $(NATIVE)/sources/*) $(addprefix $(NATIVE)/,build.py place.py)
	@$*/bin/python -m unclobber build-native || echo "make: goes on without the native core"
	@touch $@

# The package and a torch, so that the demo waits for no trainers, type checkers or compilers. Without NumPy, which a
# torch brings no longer, it warns in the midst of the report.
$(DEMO_STAMP): pyproject.toml constraints.txt
	@$(MAKE_VENV)
	$(PY) -m pip install --quiet --constraint constraints.txt --editable '.[torch]' numpy
	@touch $@

# Each worker begins with half of the files, so that what the tests of one file share is made once, and then takes over
# what the other has not come to.
SPREAD := -n $(WORKERS) --dist worksteal

# Both cores: all tests on the native one, where `make setup` could build it, and those next to it in Python.
IN_PYTHON := tests/unit/observe tests/native

test: lint $(NATIVE_STAMP)  ## Lint, then run the tests
	$(PY) -m pytest $(SPREAD) --durations=25 $(PYTEST_ARGS)
	@$(if $(PYTEST_ARGS),:,UNCLOBBER_NATIVE=0 $(PY) -m pytest -q $(SPREAD) $(IN_PYTHON))

# PYTHON is a version (3.12) or a path, ENV an environment that is there. A part (PYTEST_ARGS) is not written down.
compat:  ## Run the tests on another torch, TORCH=2.15.0; writes a row of docs/compatibility.md
	@$(FIND_PYTHON); \
	$$found tools/compat.py "$(TORCH)" $(if $(PYTHON),--python "$(PYTHON)") $(if $(ENV),--env "$(ENV)") \
	  --workers $(WORKERS) --part "$(PYTEST_ARGS)"

# No environment is made: the torch that is installed there is the one that drives the GPU.
gpu:  ## Tests and costs on CUDA, with PYTHON=python3; writes benchmarks/RESULTS-gpu.md
	@$(if $(PYTHON),$(PYTHON),python3) tools/gpu.py

lint: $(STAMP)  ## Check style and types
	$(PY) -m ruff check --no-cache .
	$(PY) -m ruff format --no-cache --check .
	$(PY) -m mypy

ratchets: $(STAMP)  ## Write down what the package's counts are now, where they are better
	$(PY) tests/meta/ratchets.py

demo: $(or $(wildcard $(STAMP)),$(DEMO_STAMP))  ## Watch a training script fail: torch's message, then ours
	$(PY) demo/run_demo.py

bench: $(NATIVE_STAMP) $(REALWORLD)/.unclobber-native-built  ## Measure what watching costs; writes benchmarks/RESULTS.md
	$(PY) benchmarks/bench.py --packages $(REALWORLD)/bin/python

# `check` runs nothing, on no core.
WITHOUT_CORE := tests/check tests/sweeps/test_check_reads_everything.py
PATIENT := -o faulthandler_timeout=4000
sweep: $(NATIVE_STAMP)  ## Run torch's whole databases, random programs, sanitizers, on both cores (long)
	UNCLOBBER_NATIVE=1 $(PY) -m pytest $(SPREAD) -m sweep $(PATIENT) $(PYTEST_ARGS)
	UNCLOBBER_NATIVE=0 $(PY) -m pytest $(SPREAD) -m "sweep or not sweep" $(PATIENT) \
	  $(addprefix --ignore=,$(WITHOUT_CORE)) $(PYTEST_ARGS)
	$(PY) tools/sanitize.py address
	$(PY) tools/sanitize.py thread

soak: $(NATIVE_STAMP)  ## Does a process grow in 100,000 steps, and 100,000 contexts? On both cores
	UNCLOBBER_NATIVE=1 $(PY) tools/soak.py
	UNCLOBBER_NATIVE=0 $(PY) tools/soak.py

realworld: $(REALWORLD_STAMP)  ## Check ten packages from PyPI; writes realworld/RESULTS.md
	$(REALWORLD)/bin/python realworld/run.py

# An environment of its own: what these packages ask for must not decide what we develop with.
$(REALWORLD_STAMP): $(STAMP) realworld/requirements.txt realworld/constraints.txt
	$(PY) -m venv --clear $(REALWORLD)
	$(REALWORLD)/bin/python -m pip install --quiet --constraint realworld/constraints.txt \
	  --requirement realworld/requirements.txt --editable .
	$(REALWORLD)/bin/python -m pip install --quiet --no-deps --constraint realworld/constraints.txt \
	  denoising-diffusion-pytorch
	@touch $@

# TORCH_SRC is a checkout of PyTorch, or of a port of its tests; TOOL_ARGS are the command's (--file, --mode …).
JOBS ?= 1
TOOL_ARGS ?=

torchtests: $(STAMP)  ## PyTorch's own tests, observed, TORCH_SRC=DIR; writes realworld/TORCH.md
	@[ -n "$(TORCH_SRC)" ] || { echo "make torchtests: TORCH_SRC is a checkout of PyTorch, or of a port" >&2; exit 1; }
	$(PY) tools/torch_tests.py "$(TORCH_SRC)" --jobs $(JOBS) $(TOOL_ARGS)

PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.unclobber-installed

peers: $(PEERS_STAMP)  ## Other packages' own tests, observed; writes realworld/PEERS.md
	$(PEERS)/bin/python tools/peers.py --jobs $(JOBS) $(TOOL_ARGS)

# An environment of its own, as for realworld. Some source packages name no build requirements: their tools come first.
$(PEERS_STAMP): $(STAMP) realworld/peers-requirements.txt realworld/peers-constraints.txt
	$(PY) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --constraint realworld/peers-constraints.txt \
	  setuptools wheel hatchling hatch-vcs poetry-core flit-core pdm-backend setuptools-scm torch
	$(PEERS)/bin/python -m pip install --quiet --constraint realworld/peers-constraints.txt \
	  --requirement realworld/peers-requirements.txt --editable .
	@touch $@

ZOO := .venv-zoo
ZOO_STAMP := $(ZOO)/.unclobber-installed

# DIFFUSERS_SRC is a checkout of diffusers, whose tests have the small configurations; without it they are left out.
zoo: $(ZOO_STAMP)  ## Architectures of other packages, trained in small and compared; writes realworld/ZOO.md
	UNCLOBBER_ZOO_DIFFUSERS="$(abspath $(DIFFUSERS_SRC))" $(ZOO)/bin/python tools/zoo.py --jobs $(JOBS) $(TOOL_ARGS)

# An environment of its own, as for realworld.
$(ZOO_STAMP): $(STAMP) realworld/zoo-requirements.txt realworld/zoo-constraints.txt
	$(PY) -m venv --clear $(ZOO)
	$(ZOO)/bin/python -m pip install --quiet --constraint realworld/zoo-constraints.txt \
	  --requirement realworld/zoo-requirements.txt --editable .
	@$(ZOO)/bin/python -m unclobber build-native || echo "make: goes on without the native core"
	@touch $@

# Committed, because a forge shows the pages of a clone as they are. A test tells when this is due.
pages: $(STAMP)  ## Write the generated parts of the documentation: codes, tables, programs, references
	$(PY) docs/_ext/generate.py

docs: pages $(DOCS_STAMP)  ## Build the documentation into docs/_build/html; warnings are errors
	$(PY) -m sphinx --fail-on-warning --keep-going --nitpicky --quiet -b html docs docs/_build/html
	@echo "built: docs/_build/html/index.html"

$(DOCS_STAMP): $(STAMP)
	$(PY) -m pip install --quiet --constraint constraints.txt --group docs
	@touch $@

dist: $(STAMP)  ## Build sdist and wheel, and test the wheel in an environment of its own
	rm -rf dist
	$(PY) -m build --outdir dist
	$(PY) tools/check_dist.py dist

clean:  ## Delete what the other targets made
	rm -rf $(VENV) $(REALWORLD) $(PEERS) $(ZOO) .venv-compat build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
