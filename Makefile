# SPDX-License-Identifier: Apache-2.0
# What people type. Meson does the building; scripts/ and proof/ do the rest.
.DEFAULT_GOAL := all
.PHONY: all run test bench proof check soak install format setup setup-build clean
.NOTPARALLEL:

PYTHON ?= /usr/bin/python3
BUILD := build/release
PREFIX ?= /usr/local
# Where `make run` keeps its store.
DIR ?= $(or $(ONCE_DIR),build/run-data)
FUZZ_SECONDS ?= 60
export PYTHONDONTWRITEBYTECODE = 1

all: setup-build $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet
	@ln -sf release/src/cli/once build/once

# Installs what this machine lacks; says nothing and does nothing where all is there.
setup:
	@scripts/setup.sh all

setup-build:
	@scripts/setup.sh build

# A folder without build.ninja is what an interrupted set-up left behind.
$(BUILD)/build.ninja: | setup-build
	@rm -rf $(BUILD)
	@mkdir -p build
	@meson setup $(BUILD) --buildtype=release >build/setup.log || { cat build/setup.log; exit 1; }

# Starts the server in a folder of its own; Ctrl-C stops it.
run: all
	@build/once serve --dir "$(DIR)"

test: setup all
	@scripts/test.sh

check: setup
	@scripts/check.sh

proof: setup
	@$(PYTHON) proof/prove.py
	@$(PYTHON) proof/mistakes.py
	@proof/spin/run

bench: setup all
	@$(PYTHON) bench/run.py

soak: setup all
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/soak.sh

install: all
	@meson configure $(BUILD) -Dprefix="$$(realpath -m -- "$(PREFIX)")"
	@meson install -C $(BUILD) --quiet

format:
	@find include src tests bench examples proof -name '*.[ch]' | xargs clang-format -i

clean:
	@rm -rf build
