# SPDX-License-Identifier: Apache-2.0
# What people type. Meson does the building; scripts/ and proof/ do the rest.
.DEFAULT_GOAL := all
.PHONY: all gateway postgres sqlite run demo test bench proof check soak pictures install format setup setup-build setup-gateway clean
.NOTPARALLEL:

PYTHON ?= /usr/bin/python3
BUILD := build/release
PREFIX ?= /usr/local
# Where `make run` keeps its store.
DIR ?= $(or $(ONCE_DIR),build/run-data)
FUZZ_SECONDS ?= 60
export PYTHONDONTWRITEBYTECODE = 1

all: setup-build $(BUILD)/build.ninja
	@[ -e build/once ] || echo "building Once: a few minutes the first time"
	@ninja -C $(BUILD) --quiet
	@ln -sf release/src/cli/once build/once
	@ln -sf release/hosts/sqlite/once_sqlite.so build/once_sqlite.so

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

# The SQLite extension: `all` builds it too.
sqlite: all

# The module for nginx; what `once gateway` and the examples in examples/nginx load.
gateway: setup-gateway all
	@hosts/nginx/build.sh build/ngx_http_once_module.so

setup-gateway:
	@scripts/setup.sh gateway

# The schema for PostgreSQL: build/postgres/once.sql for psql -f, and what CREATE EXTENSION reads.
postgres: all
	@mkdir -p build/postgres
	@cp $(BUILD)/hosts/postgres/once*.sql $(BUILD)/hosts/postgres/once.control build/postgres

# Starts the server in a folder of its own; Ctrl-C stops it.
run: all
	@exec build/once serve --dir "$(DIR)"

# Payments over a lossy network, without Once and with it; DEMO='--help' lists what else it takes.
demo: all
	@$(PYTHON) examples/demo/demo.py $(DEMO)

test: setup all gateway
	@scripts/test.sh

check: setup
	@scripts/check.sh

proof: setup
	@$(PYTHON) proof/prove.py
	@$(PYTHON) proof/mistakes.py
	@proof/spin/run

bench: setup all gateway
	@$(PYTHON) bench/run.py

soak: setup all gateway
	@FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/soak.sh

# Takes the pictures of the dashboard in docs/pictures again, after a change of how it looks.
pictures: setup all
	@$(PYTHON) scripts/pictures.py

install: all
	@meson configure $(BUILD) -Dprefix="$$(realpath -m -- "$(PREFIX)")"
	@meson install -C $(BUILD) --quiet
	@[ ! -f build/ngx_http_once_module.so ] || install -D -m 644 -t \
	    "$(DESTDIR)$$(realpath -m -- "$(PREFIX)")/lib/nginx/modules" build/ngx_http_once_module.so

format:
	@find include src hosts tests bench examples proof -name '*.[ch]' | xargs clang-format -i

clean:
	@rm -rf build
