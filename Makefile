# The project's verbs. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: .have-python help run test venv lock fmt lint type unit bench bench-queue bench-tlog bench-live bench-artifacts lab-images lab lab-down

PY := .venv/bin/python
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# 0 leaves out the parts of `make test` that need root and the lab
LAB ?= 1

help: ## list the verbs
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

run: .have-python ## the single-node edition, data under ./data, until Ctrl-C
	@python3 tools/venv.py build
	@$(PY) tools/run.py

test: .have-python ## everything: lint, types, tests, real hosts (as root; else LAB=0)
	@python3 tools/packages.py --lab=$(LAB)
	@python3 tools/venv.py dev
	@$(PY) tools/test.py --lab=$(LAB)

venv: .have-python ## .venv with everything for development
	@python3 tools/venv.py dev

lock: venv ## resolve the requirements anew, with hashes
	@$(PY) tools/lock.py

fmt: venv ## format the code
	@ruff format .
	@ruff check --fix --quiet . || true

lint: venv ## every linter, warnings are errors
	@$(PY) tools/test.py lint

type: venv ## strict types
	@$(PY) tools/test.py type

unit: venv ## the quick tests
	@pytest -q tests/unit

bench: venv ## measurements, as ratios against named peers
	@$(PY) -m tests.bench

bench-queue: venv ## the work queue beside named peers, which are fetched once
	@$(PY) -m tests.bench.queue

bench-tlog: venv ## appends to the transparency log, beside a file for each tile
	@$(PY) -m tests.bench.tlog

bench-live: venv ## streams of live pages: memory, and from one process to pixels in another
	@$(PY) -m tests.bench.live

bench-artifacts: venv ## pushes and fetches of artifacts, beside the raw rate of loopback
	@$(PY) -m tests.bench.artifacts

lab-images: .have-python ## the lab's root file systems, built where absent (root)
	@molecule/labctl packages
	@molecule/labctl images

lab: lab-images venv ## a demo cluster of five hosts with the kit applied, left running (root)
	@molecule/labctl demo up

lab-down: ## take the demo away (root)
	@molecule/labctl demo down

.have-python:
	@command -v python3 >/dev/null || { echo "Python is missing. Install it with:  apt install python3-venv"; exit 1; }
