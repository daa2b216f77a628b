# Each target calls one tool; `make help` explains them. Needs Python 3.11, 3.12 or 3.13 and nothing else.
# PYTHON=python3.12 chooses one. Without it, whatever python3 is starts the set-up, and hands over to one that fits.
ANY := command -v python3 || command -v python3.11 || command -v python3.12 || command -v python3.13 || \
	uv run -q --no-project -p '>=3.11,<3.14' python -c 'import sys; print(sys.executable)' || echo python3
SETUP = "$$($(ANY))" tools/bootstrap.py $(if $(PYTHON),--python "$(PYTHON:~/%=$(HOME)/%)",--find)
BIN := .venv/bin
ARGS ?=
BENCH ?= peers
JARS := $(BIN)/hudilab jars core broker kafka msk s3 s3proxy avro connect
LOCK := uv export --quiet --frozen --format requirements-txt --no-emit-project --no-annotate --no-header

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev run may-open lab check test lesson test-deep slice golden words book bundle bench lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile

setup: ## make .venv from requirements.lock and fetch the core jars (nothing to do: no time)
	@$(SETUP) && $(BIN)/hudilab jars core

setup-dev: ## the same, with the tools that the tests need
	@$(SETUP) --dev && $(JARS)

# The first run skips the archive of classes, which takes longer to build than it saves two lessons.
run: ## write a Hudi table and look into it, headless; ARGS="-p rows 50000" sets parameters
	@$(SETUP) && $(BIN)/hudilab jars core $(if $(wildcard jars/core),,--no-archive)
	@$(BIN)/hudilab run 02_write_hudi_stream 03_inspect_table $(ARGS)

# Jupyter would refuse after minutes of set-up.
may-open:
	@"$$($(ANY))" tools/may_open.py $(ARGS)

lab: may-open setup ## open JupyterLab on copies of the notebooks, in .lab/notebooks; ARGS="--no-browser" is passed on
	@$(BIN)/python tools/lab.py $(ARGS)

check: setup-dev ## what starts no Spark: lint, format, types, unit tests, notebooks' form; a minute
	@$(BIN)/python tools/gates.py --quick

test: setup-dev ## every check, up to the first that fails; GATE="Spark tests" ARGS="-k ledger" one
	@$(BIN)/python tools/gates.py $(if $(GATE),--gate "$(GATE)") $(ARGS)

lesson: setup-dev ## run one notebook and compare its results with those in git: NB=03
	@$(BIN)/python tools/gates.py --lesson "$(NB)"

test-deep: setup-dev ## the tests and lessons that take minutes; ARGS="-m kills" some of the tests
	@$(BIN)/python -m pytest tests -m deep $(ARGS)
	@$(if $(ARGS),,$(BIN)/python tools/gates.py --gate "golden cells of long lessons")

slice: setup-dev ## twenty minutes of test-deep: the part whose turn it is; ARGS=3 that one, ARGS=--list all
	@$(BIN)/python tools/slices.py $(ARGS)

golden: setup-dev ## run the notebooks and rewrite the outputs kept in git; review the diff
	@$(BIN)/python tools/golden.py $(ARGS)

words: setup ## check the words of pages and lessons; needs Vale 3 on the PATH
	@$(BIN)/jupyter nbconvert --log-level ERROR --to markdown --no-input --TemplateExporter.exclude_output=True --output-dir dist/words notebooks/*.ipynb
	@vale --no-global *.md docs book dist/words

book: ## build dist/book, the lessons as a site; ARGS=--as-committed runs no notebook
	@$(SETUP) --dev $(if $(findstring --as-committed,$(ARGS)),,&& $(JARS))
	@$(BIN)/python tools/book.py $(ARGS)

bundle: setup ## build dist/hudilab-bundle.zip, what spark-submit needs elsewhere
	@$(BIN)/hudilab jars core kafka msk avro && $(BIN)/hudilab bundle $(ARGS)

bench: setup ## compare with other sinks, half an hour; BENCH=updates with their MERGE INTO, an hour
	@$(BIN)/python benchmarks/$(BENCH).py $(ARGS)

lock: ## resolve pyproject.toml anew into the three locks; needs uv (pip install uv)
	@uv lock --quiet --fork-strategy fewest && $(LOCK) --extra lab -o requirements.lock && $(LOCK) --extra database -o requirements-database.lock && $(LOCK) --extra lab --extra database --group dev --group book -o requirements-dev.lock && rm uv.lock

clean: ## remove .venv and the caches of tools; tables (.lab) and jars stay
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache build dist *.egg-info packages/*/build packages/*/*.egg-info && find lib packages tests tools -name __pycache__ -prune -exec rm -rf {} +
