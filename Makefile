# `make trial` runs the main job, `make test` the tests; both set up what they need on a fresh machine with Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: trial test slow unit lint bench docs clean

trial: $(STAMP)
	$(BIN)/seatrial run

test: $(STAMP) lint
	$(BIN)/python -m pytest -q -n 2 -m unit
	$(BIN)/python -m pytest -q -m "(dist or ray or hosts or registry or browser) and not slow" --durations=10

slow: $(STAMP)
	$(BIN)/python -m pytest -q -m slow --durations=10

unit: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 -m unit

lint: $(STAMP)
	$(BIN)/ruff check src tests benchmarks tools
	$(BIN)/ruff format --check -q src tests benchmarks tools
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/overhead.py

# torch first, alone and by its exact version: nothing else that is installed may choose another build.
$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[train,test]'
	touch $(STAMP)

docs: $(STAMP)
	$(BIN)/seatrial check --rules --format markdown > docs/rules.md

clean:
	rm -rf $(VENV) build dist src/*.egg-info
