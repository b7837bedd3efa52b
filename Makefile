# Everything starts from a Python 3.10 or newer; each target makes the environment that it needs.
#   make demo      the main job on real input, without a GPU
#   make check     lint, types, and the tests that a change concerns most: the minute between two edits
#   make gate      is this tree slower than the last release? AGAINST=v0.1.0 names another one
#   make test      what CI runs: lint, types, import contracts, tests (make lint and make suite, beside each other)
#   make test-long everything that make test takes a sample of: all mutants of the memory model's suite (minutes)
#   make test-gpu  on a CUDA device: hardware against simulator, every instruction and variant
#   make test-editors  pyright reads kernels as editors do, by the stub of `T`
#   make test-pages  the pages of recorded runs, driven in Chromium (apt-get install chromium chromium-driver)
#   make mistakes  seeded mistakes of pipelines on a Hopper GPU, each in a process of its own
#   make sanitize  the examples under compute-sanitizer; rewrites their table of benchmarks/RESULTS.md
#   make bench     ratios against other projects, in an environment of their own; rewrites those tables
#   make bench-gpu speed on a Hopper GPU; rewrites the tables of benchmarks/RESULTS.md
#   make tune      what the estimate of time would choose for the kernels, beside their tables; takes no GPU
#   make docs      the reference pages and the stub of Tx, then the site into site/; make docs-serve shows it at a local address
#   make size      code lines per room
PYTHON ?= python3

VENV  := .venv/bin
BENCH := .venv-bench/bin
PIP   := -m pip install -qq --disable-pip-version-check

# The Python of the targets for a GPU; with torch, CuPy and Triton, of any environment: make bench-gpu GPU_PYTHON=python3
GPU_PYTHON ?= $(VENV)/python
GPU_READY  := $(if $(filter $(VENV)/%,$(GPU_PYTHON)),venv)

.PHONY: venv demo check gate test suite lint test-long test-gpu test-editors test-pages mistakes sanitize bench bench-gpu tune docs docs-serve size clean

demo: venv
	$(VENV)/tilewright demo

check: venv
	$(VENV)/python -m tools.inner

gate: venv
	$(VENV)/python -m benchmarks.gate $(AGAINST)

test: venv
	$(MAKE) --no-print-directory --jobs=2 lint suite

# Where bytecode is switched off, each process that a test starts compiles the package anew.
suite test-long: export PYTHONDONTWRITEBYTECODE =

suite: venv
	$(VENV)/pytest --quiet

lint: venv
	$(VENV)/ruff check
	$(VENV)/ruff format --check
	$(VENV)/mypy
	$(VENV)/lint-imports --no-cache --no-logo

test-long: venv
	$(VENV)/pytest --quiet -m long tests
	$(VENV)/pytest --quiet -m sampled --hypothesis-profile=whole tests

test-gpu: $(GPU_READY)
	$(GPU_PYTHON) -m pytest tests/gpu -m gpu -n 8 -p no:benchmark --gpu-report benchmarks/results/gpu_conformance.json

test-editors: venv
	$(VENV)/python $(PIP) --constraint constraints.txt --editable '.[editors]'
	$(VENV)/basedpyright

test-pages: venv
	@command -v chromedriver > /dev/null || { echo 'needs Chromium: apt-get install chromium chromium-driver'; exit 1; }
	$(VENV)/python $(PIP) --constraint constraints.txt --editable '.[pages]'
	$(VENV)/pytest --quiet -n0 -m pages tests/pages

mistakes: $(GPU_READY)
	$(GPU_PYTHON) -m tests.gpu.mistakes benchmarks/results/gpu_mistakes.json

sanitize: $(GPU_READY)
	$(GPU_PYTHON) -m tests.gpu.sanitize

bench-gpu: $(GPU_READY)
	$(GPU_PYTHON) -m benchmarks.gpu

bench: .venv-bench/ready
	$(BENCH)/python -m benchmarks

tune: venv
	$(VENV)/python -m tools.tune

docs: .venv/docs
	$(VENV)/python -m tools.docs
	$(VENV)/mkdocs build --strict --quiet

docs-serve: .venv/docs
	$(VENV)/mkdocs serve

size: venv
	$(VENV)/python -m tools.size

clean:
	rm -rf .venv .venv-bench site build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# The environments: made again when what they hold changes.
venv: .venv/ready

.venv/docs: .venv/ready
	$(VENV)/python $(PIP) --constraint constraints.txt --editable '.[docs]'
	@touch $@

.venv/ready: pyproject.toml constraints.txt
	@echo "making .venv (a minute or two)"
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 10) or sys.exit("tilewright needs Python 3.10 or newer: make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(VENV)/python $(PIP) --constraint constraints.txt --editable '.[cuda,test,dev]'
	@touch $@

.venv-bench/ready: pyproject.toml constraints.txt benchmarks/peers.txt
	@echo "making .venv-bench, with the peers to measure against (several minutes)"
	$(PYTHON) -m venv .venv-bench
	$(BENCH)/python $(PIP) --constraint constraints.txt --editable '.[cuda]'
	$(BENCH)/python $(PIP) --requirement benchmarks/peers.txt
	@touch $@
