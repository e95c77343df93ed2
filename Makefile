# The commands of the project. `make demo` and `make test` need only Python 3.11 or newer. `make help` lists all commands.

PYTHON ?= python3
STUDY ?= config.yaml
BIN := .venv/bin
PROFILE ?= profiles/local
MOSES ?= $(CURDIR)/.moses
PEERS := opennmt eole joeynmt
VERSIONS_OF_PYTHON := 3.11 3.12 3.13
VERSIONS_OF_TORCH := 2.11.0 2.12.0 2.13.0
# The constraints for another build of torch, which may need another setuptools (torch 2.11: below 82).
with_torch = sed "s/^torch==[^ ]*/torch==$(1)/; /^setuptools==/d" constraints.txt
# One process for each core, which takes half a GB. A process that has finished takes over tests from the others.
SIDE_BY_SIDE := -n logical --maxprocesses 8 --dist worksteal
SCHEMA := workflow/schemas/study.schema.json
PRINT_SCHEMA = $(BIN)/python -c "from phrasemt.study.reading import study_schema; print(study_schema(), end='')"

# Make itself accepts any variable: `make study study=...` would run config.yaml.
VARIABLES := PYTHON STUDY PAPER PROFILE OPTIONS MOSES MODEL TORCH
GIVEN := $(foreach name,$(.VARIABLES),$(if $(findstring command,$(origin $(name))),$(name)))
$(foreach name,$(filter-out $(VARIABLES),$(GIVEN)),$(error no such variable: $(name). Next: use one of $(VARIABLES)))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: another-torch help install demo study paper fetch test test-all test-cluster test-versions check format budget bench-peers schema rulegraph tables site comet moses clean

help:  ## list these commands
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: .venv/installed  ## install everything into .venv

demo: .venv/installed  ## run the demo study, up to the table and the report
	@$(MAKE) --no-print-directory study STUDY=config.yaml

study: .venv/installed  ## run a study: make study STUDY=studies/multi30k.yaml; add PROFILE=slurm on a cluster
	@$(BIN)/phrasemt run '$(STUDY)' --profile '$(PROFILE)' --snakemake $(OPTIONS)

paper: .venv/installed  ## plan and run all studies of a paper, and print its tables: make paper PAPER=xu2020
	@test -n "$(PAPER)" || { echo "which paper? Next: make paper PAPER=xu2020, or nguyen2020, or zhou2017"; exit 1; }
	@found=$$($(BIN)/phrasemt papers $(PAPER) --studies) || exit 1; studies=; for study in $$found; do \
	    if $(BIN)/phrasemt check "$$study"; then studies="$$studies $$study"; else echo "$$study: skipped"; fi; \
	    $(BIN)/phrasemt plan "$$study" || exit 1; done; test -n "$$studies" && \
	for study in $$studies; do $(MAKE) --no-print-directory study STUDY="$$study" || exit 1; done && \
	$(BIN)/phrasemt papers $(PAPER) --format markdown --study $$studies

fetch: .venv/installed  ## download all that a study needs, for a run without network: make fetch STUDY=studies/multi30k.yaml
	@$(BIN)/phrasemt check '$(STUDY)'
	@$(BIN)/snakemake --profile profiles/local --configfile '$(STUDY)' --until fetch_corpus fetch_stanza_file

test: .venv/installed  ## run all tests, except slow ones and those of the house (make check)
	$(BIN)/pytest -m "not slow" --ignore=tests/house $(SIDE_BY_SIDE)

test-all: .venv/site .comet/installed  ## run all tests, slow ones too
	$(BIN)/pytest $(SIDE_BY_SIDE)

test-cluster: .venv/cluster  ## run studies and faults on a Slurm of four nodes on this machine (needs root)
	$(BIN)/pytest -m "not slow" tests/cluster

test-versions:  ## run all tests, except slow ones, with several versions of Python and of torch, each pair in an environment of 4 GB
	@for python in $(VERSIONS_OF_PYTHON); do \
		python$$python -c "" 2> /dev/null || { echo "skipped: no python$$python here"; continue; }; \
		for torch in $(VERSIONS_OF_TORCH); do \
			folder=.versions/$$python-$$torch; \
			echo "== Python $$python, torch $$torch"; \
			{ test -x $$folder/bin/python || python$$python -m venv $$folder; } && \
			$(call with_torch,$$torch) > $$folder/constraints.txt && \
			$$folder/bin/python -m pip install --quiet --disable-pip-version-check --constraint $$folder/constraints.txt --editable '.[dev]' && \
			$$folder/bin/pytest -m "not slow" --ignore=tests/house $(SIDE_BY_SIDE) || exit 1; \
		done; \
	done

check: .venv/installed  ## check style, format, types, layers, rules, the schema, documents, sizes and published tables
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakefmt --check workflow rules
	$(BIN)/snakemake --lint
	$(PRINT_SCHEMA) | diff $(SCHEMA) - || { echo "$(SCHEMA) is out of date. Next: make schema"; exit 1; }
	OMP_NUM_THREADS=1 $(BIN)/pytest -m "not slow" tests/house
	OMP_NUM_THREADS=1 $(BIN)/pytest $(SIDE_BY_SIDE) tests/house/test_published_results.py

format: .venv/installed  ## format Python files and rules
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/snakefmt workflow rules

budget: .venv/installed  ## write the present sizes of the package to tests/house/budget.yaml
	$(BIN)/python tests/house/budget.py

bench-peers: .venv/installed $(PEERS:%=.peers/%/installed)  ## compare the training speed with other toolkits
	@$(BIN)/python -m tests.benchmarks.peers.peers $(OPTIONS)

schema: .venv/installed  ## write the JSON schema of studies from phrasemt/study/schema.py
	$(PRINT_SCHEMA) > $(SCHEMA)

rulegraph: .venv/installed  ## draw docs/rulegraph.svg, the picture of the rules (needs graphviz)
	@which dot tred > /dev/null || { echo "make rulegraph needs graphviz. Next: apt-get install graphviz"; exit 1; }
	@graph=$$($(BIN)/snakemake --rulegraph --quiet --configfile docs/rulegraph.yaml) && echo "$$graph" | tred | dot -Granksep=0.25 -Tsvg | sed '/Generated by/,/-->/d' > docs/rulegraph.svg

tables: .venv/installed  ## write the tables of trainings into the documents, and draw the figures, from docs/results/
	OMP_NUM_THREADS=1 $(BIN)/python docs/results/tables.py

site: .venv/site  ## build the documents as a site, with the generated reference: build/site/html/index.html
	$(BIN)/python docs/site/make_site.py

comet: .comet/installed  ## make the environment of the metric COMET, and fetch a model: make comet MODEL=Unbabel/wmt22-comet-da
	@test -z '$(MODEL)' || .comet/bin/python envs/comet_score.py fetch '$(MODEL)'

moses:  ## build Moses: make moses MOSES=FOLDER (25 minutes of one core; docs/howto/moses.md)
	@phrasemt/moses/build.sh "$(MOSES)"

clean:  ## remove caches and virtual environments; keep results, resources and logs
	rm -rf .venv .comet .versions .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

# A stamp: make installs again only when versions or dependencies change, or for another build of torch (TORCH=2.13.0+cu126).
.venv/installed: constraints.txt pyproject.toml $(if $(TORCH),another-torch)
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "phrasemt needs Python 3.11 or newer, $(PYTHON) is %d.%d. Next: make PYTHON=python3.12 ..." % v[:2])'
	@test ! -L .venv || { echo "install: .venv is a link to $$(readlink -f .venv), whose installation would change. Next: rm .venv, then make install"; exit 1; }
	@test -x $(BIN)/python || { echo "Making .venv ..."; $(PYTHON) -m venv .venv; }
	@$(if $(TORCH),$(call with_torch,$(TORCH)),cat constraints.txt) > .venv/constraints.txt
	@echo "Installing the versions of constraints.txt into .venv (a few minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint .venv/constraints.txt --editable '.[dev]'
	@touch $@

.comet/installed: envs/comet.txt
	@test -x .comet/bin/python || { echo "Making .comet ..."; $(PYTHON) -m venv .comet; }
	@.comet/bin/python -m pip install --quiet --disable-pip-version-check --requirement envs/comet.txt
	@touch $@

.venv/site: .venv/installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt zensical
	@touch $@

another-torch: ;

.venv/cluster: .venv/installed
	@test "$$(id -u)" = 0 && which apt-get > /dev/null || { echo "make test-cluster starts the daemons of a cluster; that needs root, and Debian for its packages. Next: a container or a virtual machine"; exit 1; }
	@which slurmctld slurmd munged > /dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends slurm-wlm munge; } || { echo "make test-cluster needs a Slurm, and apt-get could not install it; its own message is above. Next: repair that (network, sources of packages), then run again"; exit 1; }
	@touch $@

.peers/%/installed: tests/benchmarks/peers/%.txt
	@echo "Making $(@D) ..."
	@$(PYTHON) -m venv --clear $(@D)
	@if $(@D)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --requirement $<; then touch $@; \
	else rm -rf $(@D); echo "$* cannot be installed here, so the comparison leaves it out; the message of pip is above"; fi
