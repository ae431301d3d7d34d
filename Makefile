# make demo: an engine-in-the-loop session; make test: all tests; make docs: the site, in build/docs. Each sets up .venv first.

PYTHON ?= python3
DURATION ?= 30
WORKERS ?= 2
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-socketcan coverage lint docs linkcheck clean

demo: $(VENV)/.ready
	$(BIN)/hilrt run bench_configs/engine_in_the_loop.toml --duration $(DURATION)

test: $(VENV)/.ready-dev
	$(BIN)/python -m pytest -n $(WORKERS) --max-worker-restart 2 -m "not real_time"
	$(BIN)/python -m pytest -m real_time

test-socketcan: $(VENV)/.ready-dev
	tools/test_socketcan.sh

coverage: $(VENV)/.ready-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check coverage
	$(BIN)/python -m tools.qualification.branch_coverage

lint: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.ready-dev
	$(BIN)/python -m sphinx -W --keep-going -n -q -E -j auto -b html -d build/doctrees docs build/docs

linkcheck: $(VENV)/.ready-dev
	$(BIN)/python -m sphinx --keep-going -q -E -j auto -b linkcheck -D plot_gallery=0 -d build/links/doctrees docs build/links

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	sync    # else the system writes all that to disk while the first session runs
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build runs .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
