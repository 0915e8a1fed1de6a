# SPDX-License-Identifier: Apache-2.0
# What people type. Meson does the building; scripts/ and proof/ do the rest.
.DEFAULT_GOAL := all
.PHONY: all run test bench proof check soak install format setup clean

PYTHON ?= /usr/bin/python3
BUILD := build/release
SANITIZED := build/sanitized
FUZZ := build/fuzz
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 60
export PYTHONDONTWRITEBYTECODE = 1

all: setup $(BUILD)/build.ninja
	@ninja -C $(BUILD) --quiet
	@ln -sf release/src/cli/once build/once

# Installs what this machine lacks; says nothing and does nothing where all is there.
setup:
	@scripts/setup.sh

$(BUILD)/build.ninja:
	@meson setup $(BUILD) --buildtype=release -Dprefix=$(abspath $(PREFIX)) >/dev/null

$(SANITIZED)/build.ninja:
	@meson setup $(SANITIZED) -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

$(FUZZ)/build.ninja:
	@CC=clang meson setup $(FUZZ) -Dfuzzers=true -Db_sanitize=address,undefined -Db_lundef=false \
		>/dev/null

# Until the server exists: the payment story.
run: all
	@build/once sim payment

test: all
	@scripts/test.sh

check: setup $(SANITIZED)/build.ninja
	@scripts/check.sh

proof: setup
	@$(PYTHON) proof/prove.py
	@$(PYTHON) proof/mistakes.py
	@proof/spin/run

bench: all
	@$(PYTHON) bench/run.py

soak: all $(FUZZ)/build.ninja
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/soak.sh

install: all
	@meson configure $(BUILD) -Dprefix=$(abspath $(PREFIX)) >/dev/null
	@meson install -C $(BUILD) --quiet

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf build
