# The project's commands: `make help` lists them. Everything lands in .venv, .cache and dist.

PYTHON ?= python3
DEMO_FILE ?=
RUN_LISTEN ?= 127.0.0.1:9000
RUN_STORE ?= .cache/store

BIN := .venv/bin
CLIENTS := .cache/clients
VM_LIMIT_S := 1500
TEST_PROCESSES ?= 2 # that share the Python tests
FIND_DEMO_FILE = file=$$($(BIN)/python tests/rig/demo_file.py $(DEMO_FILE))
C_SOURCES := $(wildcard dataplane_c/*.py dataplane_c/include/*.h dataplane_c/src/*.[ch])
C_FORMATTED := $(wildcard dataplane_c/include/*.h dataplane_c/src/*.[ch] tests/c/*.[ch])

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ First
.PHONY: demo
demo: build ## A real file in and out by RDMA and by boto3; needs nothing set up before
	@$(FIND_DEMO_FILE) && $(BIN)/python tests/rig/demo.py "$$file"

.PHONY: demo-rdma
demo-rdma: build ## The demo on an RDMA device: this host's, else a virtual machine's
	@$(FIND_DEMO_FILE) && \
	tests/rig/with-rdma -- $(BIN)/python tests/rig/demo.py "$$file" verbs

.PHONY: test
test: test-python test-c test-rdma ## Every test: on this host, then on an RDMA device (or in a VM)

.PHONY: run
run: build ## Leave a gateway running here, and say how to point a client at it
	@$(BIN)/python tests/rig/run.py --listen $(RUN_LISTEN) --store $(RUN_STORE)

##@ Build
.PHONY: setup
setup: .venv/.setup ## Host packages, virtual environment, development tools

.PHONY: build
build: .venv/.build ## The package and its C core, installed into .venv

.PHONY: setup-clients
setup-clients: $(CLIENTS)/.setup ## boto3, aws-cli, rclone, restic and the other real S3 clients, for tests

.PHONY: rig
rig: ## The virtual machine with RDMA devices: its packages and its kernel
	tests/rig/rdma-vm --install

.PHONY: wheel
wheel: .venv/.setup ## A wheel in dist/
	$(BIN)/pip wheel -q --no-build-isolation --no-deps -w dist .

.venv/.setup: pyproject.toml tests/rig/host-packages
	tests/rig/host-packages build $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install -q 'pip>=25.1' 'setuptools>=77' 'cffi>=2.0'
	$(BIN)/pip install -q --no-compile --group dev
	@touch $@

.venv/.build: .venv/.setup setup.py $(C_SOURCES)
	PYTHONWARNINGS='ignore:Editable installation' $(BIN)/pip install -q --no-build-isolation -e .
	@touch $@

$(CLIENTS)/.setup: .venv/.setup tests/integration/clients/package.json
	tests/rig/host-packages clients
	tests/rig/host-packages observe
	test -x $(CLIENTS)/bin/python || $(PYTHON) -m venv $(CLIENTS)
	$(BIN)/pip --python $(CLIENTS)/bin/python install -q --no-compile --group clients
	cp tests/integration/clients/package.json $(CLIENTS)/
	PATH="$(CURDIR)/$(CLIENTS)/bin:$$PATH" \
	  npm install --prefix $(CLIENTS) --silent --no-audit --no-fund --no-package-lock
	@touch $@

##@ Check
.PHONY: check
check: fmt-check lint types layers strict-c test ## All that must hold before a change is merged

.PHONY: fmt
fmt: .venv/.setup ## Format Python and C
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_FORMATTED)

.PHONY: fmt-check
fmt-check: .venv/.setup
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(C_FORMATTED)

.PHONY: lint
lint: .venv/.setup ## ruff
	$(BIN)/ruff check .

.PHONY: types
types: build ## mypy --strict
	$(BIN)/mypy
	MYPYPATH=tests/rig:tests/support:benchmarks $(BIN)/mypy --explicit-package-bases tests/rig benchmarks

.PHONY: layers
layers: build ## Who may import whom (import-linter)
	$(BIN)/lint-imports --no-logo

.PHONY: strict-c
strict-c: ## The C core under the compiler's strictest warnings
	$(MAKE) -s -C tests/c strict

.PHONY: test-python
test-python: build setup-clients ## Unit, contract and integration tests, real clients among them
	$(BIN)/python -m pytest -q -n $(TEST_PROCESSES) --dist loadfile

.PHONY: test-c
test-c: ## The C core's own tests, under AddressSanitizer and UBSan
	$(MAKE) -s -C tests/c test

.PHONY: test-rdma
test-rdma: build ## Tests on an RDMA device, or in a VM; RDMA=no leaves them out
ifeq ($(RDMA),no)
	@echo '*** RDMA=no: NO TEST RAN ON AN RDMA DEVICE ***' >&2
else
	tests/rig/with-rdma --optional --limit $(VM_LIMIT_S) -- \
	  $(BIN)/python -m pytest tests/rdma tests/contract/fabric tests/contract/rc \
	  tests/contract/workers -q -p no:cacheprovider
endif

.PHONY: test-shipping
test-shipping: build ## The wheel and the container image (buildah, podman; as root), built and tried
	tests/rig/host-packages container $(PYTHON)
	$(BIN)/python -m pytest tests/shipping -q -p no:cacheprovider

.PHONY: asan
asan: test-c ## The C core's tests under every sanitizer, and its packet parser fuzzed for a moment
	$(MAKE) -s -C tests/c tsan
	tests/rig/host-packages fuzz $(PYTHON)
	$(MAKE) -s -C tests/c libfuzzer FUZZ_S=15

.PHONY: fuzz
fuzz: build ## The parsers, for a few minutes
	$(BIN)/python -m pytest tests/fuzz -q --timeout 600 --hypothesis-profile long
	tests/rig/host-packages fuzz $(PYTHON)
	$(MAKE) -C tests/c fuzz libfuzzer

.PHONY: bench
bench: build ## RDMA and HTTP beside perftest's ib_write_bw, on the same device
	tests/rig/with-rdma --limit $(VM_LIMIT_S) -- env PYTHONPATH=tests/rig:tests/support $(BIN)/python benchmarks/rdma.py

.PHONY: bench-soft
bench-soft: build ## The same on this host, carried by the soft fabric
	PYTHONPATH=tests/rig:tests/support $(BIN)/python benchmarks/rdma.py --soft

.PHONY: bench-storage
bench-storage: build ## Each storage beside plain files; a million objects beside ten thousand
	PYTHONPATH=tests/rig:tests/support $(BIN)/python benchmarks/storage.py
	$(BIN)/python benchmarks/scale.py

.PHONY: linearizability
linearizability: build ## A hundred thousand mixed operations of 32 clients, and each key's history
	PYTHONPATH=tests/rig:tests/support $(BIN)/python tests/rig/linearizability.py

##@ Else
.PHONY: docs
docs: build ## The documentation, into .cache/docs; dead links end it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

.PHONY: clean
clean: ## Remove what make made, the environment included; `make run`'s store stays
	rm -rf .venv $(CLIENTS) .cache/docs build dist gateway/_dataplane.* ./*.egg-info .*_cache .hypothesis .coverage
	-$(MAKE) -s -C tests/c clean

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^##@/ {print "\n" substr($$0, 5)} \
	  /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
