# Each target works in a fresh clone and sets up what is missing: .venv with torch and the tools, and
# the library, built again when a source is newer.
#
# With PYTHON=<interpreter> that interpreter is used, which has torch and what else the target needs;
# nothing is installed, the package is used in place. With BUILD=0 nothing is built either.
#
# ARGS are handed to the program behind bench, test and gpu-check.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
STAMP := torch_reduce/lib/.built
SOURCES := CMakeLists.txt VERSION setup.py pyproject.toml \
  $(shell find csrc cmake -type f 2>/dev/null)

ifdef PYTHON
  PY := $(PYTHON)
  SETUP :=
  # The tools beside the interpreter come first: a system's CMake is often too old for CUDA's C++20.
  TOOLS := $(dir $(shell command -v $(PYTHON)))
  CMAKE ?= $(or $(wildcard $(TOOLS)cmake),cmake)
  CLANG_FORMAT ?= $(or $(wildcard $(TOOLS)clang-format),clang-format)
  GENERATOR := $(if $(wildcard build/CMakeCache.txt),,$(if $(shell command -v ninja),-G Ninja))
  export PYTHONPATH := $(CURDIR)$(if $(PYTHONPATH),:$(PYTHONPATH))
else
  PY := $(CURDIR)/$(VENV)/bin/python
  SETUP := $(VENV)/.ready
  CLANG_FORMAT := $(VENV)/bin/clang-format
endif

ifeq ($(BUILD),0)
  BUILT :=
else
  BUILT := $(STAMP)
endif

.PHONY: help build bench test lint format gpu-check clean

help:
	@echo 'make build      the library and the Python package, in place'
	@echo 'make bench      gpureduce beside torch on this machine   ARGS="--help" lists options'
	@echo 'make test       the tests                                 ARGS="-k sum" as for pytest'
	@echo 'make lint       clang-format, ruff, mypy; make format mends what can be mended'
	@echo 'make gpu-check  tests, sanitizers, C++ app, ladder and benchmark on this GPU'
	@echo 'make clean      removes what was built, keeps .venv'
	@echo
	@echo 'PYTHON=python3  use an interpreter that has torch already, install nothing'
	@echo 'BUILD=0         with PYTHON: the library is there, build nothing'
	@echo 'GPUREDUCE_CUDA=AUTO|ON|OFF, TORCH_CUDA_ARCH_LIST="9.0", MAX_JOBS=2 steer the build'

$(VENV)/.ready: $(wildcard requirements/*.txt)
	python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install $(addprefix -r ,$(wildcard requirements/*.txt))
	touch $@

$(STAMP): $(SOURCES) $(SETUP)
ifdef PYTHON
	$(CMAKE) -S . -B build $(GENERATOR) -DGPUREDUCE_TORCH_DIR= \
	  -DPython3_EXECUTABLE="$$(command -v $(PY))" -DGPUREDUCE_CUDA="$${GPUREDUCE_CUDA:-AUTO}" \
	  -DTORCH_CUDA_ARCH_LIST="$${TORCH_CUDA_ARCH_LIST:-}"
	$(CMAKE) --build build --target gpureduce --parallel "$${MAX_JOBS:-$$(nproc)}"
	$(CMAKE) --install build --prefix torch_reduce
else
	$(PY) -m pip install --verbose --no-build-isolation --no-deps --editable .
endif
	touch $@

build: $(BUILT)
	@$(PY) -c 'import torch_reduce; print(torch_reduce.build_info())'

bench: $(BUILT)
	$(PY) -m benchmarks.bench $(ARGS)

test: $(BUILT)
	$(PY) -m pytest $(ARGS)

gpu-check: $(BUILT)
	PY="$(PY)" tools/gpu_check.sh $(ARGS)

CPP_FILES = $(shell find csrc examples -name '*.h' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu')

lint: $(SETUP)
	$(CLANG_FORMAT) --dry-run -Werror $(CPP_FILES)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(SETUP)
	$(CLANG_FORMAT) -i $(CPP_FILES)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:
	rm -rf build dist torch_reduce/lib torch_reduce/include torch_reduce/share *.egg-info
