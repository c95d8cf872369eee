# `make demo` judges the examples on a whole cluster, `make test` runs every check. Both install what they need.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
VENV := .venv
# Bare hosts to a cluster, and what happens to its machines; skipped with a reason where no lab can be.
MACHINES := tests/cluster/test_machines.py
CLUSTER_TESTS := tests/cluster/test_site.py \
  '$(MACHINES)::test_power_off_of_any_judicator_loses_and_doubles_nothing[0]' \
  '$(MACHINES)::test_a_wiped_host_comes_back_while_submissions_flow[judicator]'
# Pure functions that decide what happens to members, daemons and verdicts.
DECISIONS := 'judge/*/planner.py,judge/boot/plan.py,judge/executor/verdict.py'
DECISION_TESTS := $(patsubst %,tests/unit/test_%.py,boot_plan etcd_parts etcd_planner executor_verdict mongodb_planner systemd_show up)
BIN := $(VENV)/bin
# Compiled files are kept: otherwise each of pytest's workers compiles every test module anew, and each daemon its modules.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/pip --quiet --disable-pip-version-check
# The system's interpreter, not one under somebody's home: daemons that drop root must be able to reach it.
PYTHON ?= /usr/bin/python3
SHELL_SCRIPTS := scripts/drill scripts/install-packages scripts/demo scripts/run-tests scripts/lab-demo scripts/test-ansible-versions .ci/run \
  lab/lab lab/lab-host lab/lab-init scripts/test-cgroup2 scripts/test-hostile-host molecule/shared/connect molecule/shared/files/listing.sh

.PHONY: help setup setup-deploy setup-test demo up lab lab-down check test test-all decisions test-languages test-hosts test-cluster test-ansible-versions test-webhooks test-kills test-cgroup2 coverage molecule molecule-single docs man clients release pictures lint types unit bench seeded clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(VENV)/.run  ## what running needs: packages of the system and of Python
setup-deploy: $(VENV)/.deploy  ## what a controller needs: Ansible and judgectl; nothing by apt
setup-test: $(VENV)/.client  ## what testing needs, too

$(VENV)/.run: pyproject.toml constraints.txt setup.py judge/sandbox/agent.c judge/sandbox/agent.h judge/sandbox/calls.c judge/sandbox/launcher.c judge/sandbox/network.c judge/sandbox/walls.c scripts/install-packages
	@scripts/install-packages run
	@echo "installing the Python packages into $(VENV)"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(PIP) install -c constraints.txt -e '.[embedded]' 2> >(grep -v '^WARNING' >&2)
	@touch $@

# Without the sandbox's agent, which would need a compiler.
$(VENV)/.deploy: pyproject.toml constraints.txt setup.py
	@echo "installing the Python packages into $(VENV)"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@JUDGE_WITHOUT_AGENT=1 $(PIP) install -c constraints.txt -e . ansible-core 2> >(grep -v '^WARNING' >&2)
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@scripts/install-packages test lab
	@$(PIP) install -c constraints.txt -e '.[embedded,dev,otel]' 2> >(grep -v '^WARNING' >&2)
	@# alone: what is wanted is axe.min.js in it, not the 165 MB of the browser driver that it asks for
	@$(PIP) install -c constraints.txt --no-deps axe-playwright-python 2> >(grep -v '^WARNING' >&2)
	@touch $@

# Built again when the API or the client changes.
$(VENV)/.client: $(VENV)/.test scripts/make-clients $(wildcard clients/*/*.* clients/*/*/*.py judge/*.py judge/model/*.py judge/gateway/api/*.py)
	@$(BIN)/python scripts/make-clients
	@touch $@

demo: setup  ## start a cluster, judge examples/, show a table, stop
	@scripts/demo

up: setup  ## start a cluster and leave it running (Ctrl-C stops it)
	@$(BIN)/judge up

$(VENV)/.lab: $(VENV)/.run
	@scripts/install-packages lab
	@$(PIP) install -c constraints.txt -e '.[embedded]' ansible-core 2> >(grep -v '^WARNING' >&2)
	@touch $@

lab: $(VENV)/.lab  ## bare systemd hosts on this machine, deployed by site.yml, judge examples/ (root)
	@scripts/lab-demo

lab-down: $(VENV)/.lab  ## take them away
	@$(BIN)/python -m lab down --name "$${JUDGE_LAB_NAME:-lab}"

lint: setup-test  ## format, style, roles, shell
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache | sed -n '/^Contracts/,$$p'
	$(BIN)/yamllint --strict .
	PATH="$$PWD/$(BIN):$$PATH" $(BIN)/ansible-lint --offline
	shellcheck $(SHELL_SCRIPTS)
	$(BIN)/python scripts/role-tables --check

docs: setup-test  ## the documentation as a site in out/site; a warning is an error
	@$(BIN)/python scripts/make-docs out/site

man: setup-test  ## man pages of judgectl, judge and judge-cli in out/man
	@$(BIN)/python scripts/make-man out/man

clients: $(VENV)/.test  ## the clients, in out/clients: wheels of judge-client and judge-cli, judge-cli.pyz, the Postman collection
	$(BIN)/python scripts/make-clients
	@touch $(VENV)/.client

# Heavy toolchains come here only: five minutes and 6 GB.
test-languages: setup-test  ## all languages of the table: install what Debian has, and judge in each of them (root)
	@scripts/install-packages $$($(BIN)/python -m judge.languages | sed 's/[^ ]*/package:&/g')
	JUDGE_TEST_ALL_LANGUAGES=1 $(BIN)/pytest tests/integration/test_languages.py tests/integration/test_languages_files.py

# The parts of a release belong to one commit: later upgrades start from them, so keep them.
release: $(VENV)/.client  ## wheels, collection and the offline bundle of this version, in out/release (root)
	@mkdir -p out/release
	$(BIN)/ansible-playbook -i inventory/example playbooks/bundle.yml -e judge_bundle=$$PWD/out/release/bundle
	cp out/release/bundle/wheels/judge-[0-9]*.whl out/clients/*.* out/release/
	$(BIN)/ansible-galaxy collection build --force --output-path out/release .

types: setup-test  ## mypy: strict, and of the tests the names and calls
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini

check: setup-test  ## lint, types and the tests that need no server, of each long group a slice: before each commit
	@$(MAKE) --no-print-directory -j 2 -O lint types
	@scripts/run-tests --slice tests/unit

# Once: the lab's image and the bundle are brought up to date by the tests that use them.
$(VENV)/.hosts: $(VENV)/.client
	@$(BIN)/python -c 'from tests.support.lab import prepare; prepare()'
	@touch $@

test: $(VENV)/.hosts  ## lint, types, all unit tests, and a slice of all others that the commit chooses
	@$(MAKE) --no-print-directory -j 2 -O lint types
	@# The modules of tests/unit are short: at the end, they keep all workers busy.
	@scripts/run-tests --slice tests/browser tests/integration tests/hostile tests/unit
	@$(MAKE) --no-print-directory decisions
	@scripts/run-tests --slice --alone $(CLUSTER_TESTS)

test-all: setup-test  ## every test there is, part by part; a second run continues (hours, root)
	@$(BIN)/python scripts/test-all

decisions: setup-test  ## the tests of pure decisions reach every branch of them
	@scripts/run-tests --covered $(DECISION_TESTS)
	$(BIN)/coverage report --include=$(DECISIONS) --fail-under=100

coverage: setup-test  ## all tests without hosts, counted: what of the code they reach (an hour, root)
	@scripts/run-tests --covered tests/unit tests/integration tests/hostile tests/browser
	$(BIN)/coverage report --skip-covered --include='judge/*' --fail-under=90
	$(BIN)/coverage report --skip-covered --include='plugins/*' # the rest of them runs on lab hosts only, uncounted
	$(BIN)/coverage report --include=$(DECISIONS) --fail-under=100

unit: setup-test  ## the tests that need no server and no root
	$(BIN)/pytest -q tests/unit

test-hosts: setup-test  ## the lab's hosts, and the units on a real systemd (root)
	$(BIN)/pytest tests/lab tests/hosts

# All that is done to deployed clusters, also what takes too long for `make test`.
test-cluster: setup-test  ## all that is done to deployed clusters: five hours on two cores (root)
	@scripts/install-packages uml
	$(BIN)/pytest tests/cluster

test-ansible-versions: setup-test  ## playbooks, plug-ins and their tests with each accepted version of Ansible
	@scripts/test-ansible-versions

# `make test` has a part of it.
test-webhooks: setup-test  ## a thousand webhooks while judicators, gateways and mongods are killed: none is lost
	JUDGE_TEST_WEBHOOKS=1000 $(BIN)/pytest tests/integration/test_webhooks_killed.py

test-kills: setup-test  ## each kind of process and each pair of kinds killed under a stream of submissions (root)
	JUDGE_TEST_KILLS=all $(BIN)/pytest -n 2 --dist loadscope tests/integration/test_kill.py

test-cgroup2: setup-test  ## the sandbox's tests and the hostile programs on cgroups of version 2, in user-mode Linux (root)
	@scripts/install-packages uml
	@scripts/test-cgroup2

pictures: setup-test  ## the pictures of docs/pictures, from a real cluster: a quarter of an hour (root)
	@$(BIN)/python scripts/make-pictures

seeded: setup-test  ## seed one bug at a time: the tests must notice each of them (a quarter of an hour, root)
	@$(BIN)/python -m tests.seeded.run

bench: setup-test  ## measure, as ratios within one run
	$(BIN)/python -m tests.bench

clean:  ## remove what was installed and built here
	rm -rf $(VENV) build *.egg-info .coverage* .mypy_cache .ruff_cache .pytest_cache

# In a collection molecule looks for scenarios in extensions/ first, and warns where they are not.
molecule molecule-single: export MOLECULE_GLOB := molecule/*/molecule.yml

molecule: setup-test  ## the deployment from bare hosts to nothing left, step by step (root)
	PATH="$$PWD/$(BIN):$$PATH" $(BIN)/molecule --base-config .config/molecule/config.yml test --scenario-name default

molecule-single: setup-test  ## the same on one host
	PATH="$$PWD/$(BIN):$$PATH" $(BIN)/molecule --base-config .config/molecule/config.yml test --scenario-name single-host
