# The commands of the project. `make demo` and `make test` need nothing but Python 3.11 or newer; `make help` lists the rest.

PYTHON ?= python3
STUDY ?= config.yaml
BIN := .venv/bin
PROFILE ?= profiles/local
SNAKEMAKE := $(BIN)/snakemake --profile $(PROFILE)
PEERS := opennmt eole joeynmt
SCHEMA := workflow/schemas/study.schema.json

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo study plan test test-all test-cluster check format bench bench-peers schema clean

help:  ## list the commands
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/installed  ## the demo study on this machine, to the table and the report
	@$(MAKE) --no-print-directory study STUDY=config.yaml

study: .venv/installed  ## any study: make study STUDY=studies/multi30k.yaml, on a cluster with PROFILE=slurm
	@$(BIN)/phrasemt check $(STUDY)
	@$(BIN)/phrasemt unlock
	@$(SNAKEMAKE) --configfile $(STUDY)
	@$(BIN)/phrasemt show $(STUDY)

plan: .venv/installed  ## what would run, why, and what it costs: make plan STUDY=studies/multi30k.yaml
	@$(BIN)/phrasemt plan $(STUDY)

test: .venv/installed  ## all tests that take seconds
	$(BIN)/pytest -m "not slow"

test-all: .venv/installed  ## the slow tests too: minutes
	$(BIN)/pytest

test-cluster: .venv/cluster  ## a Slurm of four nodes on this machine, and what goes wrong there: about 15 minutes
	$(BIN)/pytest tests/cluster

check: .venv/installed  ## lint, format, types, layers, schema
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check workflow rules
	$(BIN)/snakemake --lint
	$(BIN)/phrasemt schema | diff $(SCHEMA) - || { echo "$(SCHEMA) is out of date. Next: make schema"; exit 1; }

format: .venv/installed  ## let ruff and snakefmt rewrite the files
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/snakefmt workflow rules

bench: .venv/installed  ## speed and memory on this machine
	@for script in tests/benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

bench-peers: .venv/installed $(PEERS:%=.peers/%/installed)  ## training speed beside other toolkits
	@$(BIN)/python -m tests.benchmarks.peers.peers $(OPTIONS)

schema: .venv/installed  ## write the JSON schema of a study from phrasemt/config.py
	$(BIN)/phrasemt schema > $(SCHEMA)

clean:  ## remove caches and the virtual environments; results, resources and logs stay
	rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

# Stamp: nothing is installed again while the versions stay.
.venv/installed: constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "phrasemt needs Python 3.11 or newer, $(PYTHON) is %d.%d. Next: make PYTHON=python3.12 ..." % v[:2])'
	@test -x $(BIN)/python || { echo "Making .venv ..."; $(PYTHON) -m venv .venv; }
	@echo "Installing the versions of constraints.txt into .venv (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

.venv/cluster: .venv/installed
	@test "$$(id -u)" = 0 && which apt-get > /dev/null || { echo "make test-cluster starts the daemons of a cluster; that needs root, and Debian for its packages. Next: a container or a virtual machine"; exit 1; }
	@which slurmctld slurmd munged > /dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends slurm-wlm munge; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[slurm]'
	@touch $@

.peers/%/installed: tests/benchmarks/peers/%.txt
	@echo "Making $(@D) ..."
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	@touch $@
