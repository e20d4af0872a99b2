# Everything starts from `make demo`: Python 3.11, make and gcc are enough.

# The first of these that runs and is at least 3.11; `make PYTHON=…` overrides it.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)

# Our own builds: a compiler warning is an error, and where there is a compiler the native core has to
# build. A released package is built without these (setup.py).
export STEPSCOPE_WERROR := 1
ifneq ($(shell command -v cc || command -v gcc || command -v clang),)
export STEPSCOPE_REQUIRE_NATIVE := 1
endif

BIN := .venv/bin
STAMP := .venv/.installed
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: install demo test test-quick test-extended test-native test-public fuzz stress lint format bench accuracy clean
.DEFAULT_GOAL := install

# Bytecode is compiled here because an environment may forbid Python to write it, and a training
# process should not pay for compiling stepscope.
install: $(STAMP)
	@$(BIN)/python -m compileall -q src

$(STAMP): pyproject.toml constraints.txt $(wildcard setup.py native/*.c native/*.h)
	@test -n "$(PYTHON)" || { echo "stepscope needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python" >&2; exit 1; }
	@echo "installing into .venv (a few minutes the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(PIP) setuptools
	@$(PIP) --no-build-isolation --editable '.[torch,gpu,html,dev,frameworks,bench]'
	@touch $@

demo: install
	@echo 'stepscope run examples/slow_input.py'
	@$(BIN)/stepscope run examples/slow_input.py
	@echo "the run is in $$(ls -td runs/*/ | head -1) · show it again: $(BIN)/stepscope report"
	@echo "the page is $$($(BIN)/stepscope report --html)"

# Tests that time real programs one after the other, all others two at a time. Those can fail on a
# machine that others use: what failed is run once more, alone, and has to pass.
test: install
	@$(BIN)/python -m pytest -m 'timed and not extended'; timed=$$?; \
	$(BIN)/python -m pytest -n 2 -m 'not timed and not extended'; others=$$?; \
	test $$timed$$others = 00 || \
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

test-quick: install
	$(BIN)/python -m pytest -m 'not slow and not extended'

# The slower suites: loops of transformers, Lightning and Accelerate, the corpus of faults, stacks and
# sampled steps of whole runs, compiled programs. Some five minutes.
test-extended: install
	$(BIN)/python -m pytest -m extended

# 20,000 damaged inputs for everything that stepscope reads; `make fuzz FUZZ='summary --seed 3'`.
fuzz: install
	$(BIN)/python -m tests.fuzz $(FUZZ)

# Public training programs, bare and under stepscope, from clones on disk in OWNER/NAME folders:
# `make test-public PUBLIC=/path/to/clones`, with PUBLIC_PYTHON for an interpreter that has stepscope
# and what the programs import. See docs/howto/public-programs.md.
PUBLIC ?= public
PUBLIC_PYTHON ?= $(BIN)/python
test-public: install
	$(BIN)/python -m tests.public --clones $(PUBLIC) --python $(PUBLIC_PYTHON)

# The contract tests against a native core built with AddressSanitizer and UndefinedBehaviorSanitizer,
# and those with several threads against one built with ThreadSanitizer. Some three minutes.
test-native: install
	tests/contract/sanitize.sh asan
	tests/contract/sanitize.sh tsan

# Threads, tasks and forks that profile at once, for a minute instead of five seconds.
stress: install
	STEPSCOPE_STRESS_S=60 $(BIN)/python -m pytest tests/integration/test_inside_concurrency.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: install
	$(BIN)/python benchmarks/run_all.py

# 200 generated programs of a seed that development has not used, then docs/accuracy.md. Results are
# kept, so that a second call goes on; RESULTS names more files (the corpus, public programs).
SEED ?= 1000
KEEP ?= $(HOME)/.cache/stepscope/accuracy
accuracy: install
	$(BIN)/python -m tests.faults --generate 200 --seed $(SEED) --keep $(KEEP)
	$(BIN)/python -m tests.faults --accuracy $(KEEP)/results.jsonl $(RESULTS)

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf src/*.egg-info src/stepscope/record/_native*.so
	find src tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
