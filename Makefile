# Everything a developer or CI calls. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Lock and metadata decide whether the environment is fresh; sources do not (the install is editable).
INPUTS := requirements.lock pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help setup demo test check chaos bench docs lock clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv from requirements.lock (idempotent)

$(STAMP): $(INPUTS) tools/setup.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" bash tools/setup.sh
	@touch $@

demo: setup ## load a real data set, reindex it, kill the worker half-way, show the recovery
	@$(BIN)/tenure demo

test: setup ## checks and all tests but the long chaos runs
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile

check: setup ## ruff, mypy strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

chaos: setup ## the long runs: full counts of what make test runs short
	@TENURE_TEST_SCALE=full $(BIN)/python -m pytest -q tests/system tests/runtime

bench: setup ## measured beside comparators in the same run
	@$(BIN)/python -m bench

docs: setup ## redraw the pages that come from the code
	@$(BIN)/python -m tenure.model.drawing docs/state-machines.md
	@$(BIN)/python tools/settings_page.py docs/settings.md

lock: setup ## resolve again, newest versions that fit together
	@$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
		--no-header --all-extras --upgrade pyproject.toml -o requirements.lock

clean: ## remove the environment and embedded state
	rm -rf $(VENV) .tenure
