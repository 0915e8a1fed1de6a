# SPDX-License-Identifier: Apache-2.0
"""Fetches the clients of other languages once, into build/clients, with the versions that are
pinned in tests/e2e/clients. Afterwards nothing goes over the network.

A registry that cannot be reached fails the tests, because what is not tested does not hold;
ONCE_OFFLINE=1 skips them, and says so.
"""
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PINNED = Path(__file__).resolve().parent / "clients"
CACHE = ROOT / "build" / "clients"
FETCH_S = 300


@contextlib.contextmanager
def cache(name, *pins):
    """(folder, is it there already): a folder that is filled once for these pinned versions."""
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in pins)).hexdigest()
    folder = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder / "pinned"
        there = done.exists() and done.read_text() == digest
        if not there:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        yield folder, there
        done.write_text(digest)


def fetch(what, command, **options):
    if os.environ.get("ONCE_OFFLINE") == "1":
        pytest.skip(f"{what}: never fetched, and ONCE_OFFLINE=1")
    try:
        done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=FETCH_S, **options)
        failed, said = done.returncode != 0, done.stdout[-2000:]
    except subprocess.TimeoutExpired:
        failed, said = True, f"nothing came within {FETCH_S} s"
    if failed:
        pytest.fail(f"{what} could not be fetched: is the registry reachable? (ONCE_OFFLINE=1 "
                    f"leaves these tests out)\n$ {' '.join(map(str, command))}\n{said}",
                    pytrace=False)


def need(program, package):
    if shutil.which(program) is None:
        pytest.fail(f"{program} is not installed; `make setup` installs Debian's {package}",
                    pytrace=False)


def node_modules():
    """The folder with node-redis, ioredis and Powertools in node_modules."""
    need("node", "nodejs")
    need("npm", "npm")
    pins = [PINNED / "package.json", PINNED / "package-lock.json"]
    with cache("npm", *pins) as (folder, there):
        if not there:
            for pin in pins:
                shutil.copy(pin, folder)
            fetch("npm packages", ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts",
                                   "--cache", CACHE / "npm-cache"], cwd=folder)
    return folder / "node_modules"


def jars():
    """The folder with Jedis and what it needs."""
    need("mvn", "maven")
    need("java", "default-jdk-headless")
    pom = PINNED / "pom.xml"
    with cache("maven", pom) as (folder, there):
        if not there:
            shutil.copy(pom, folder)
            fetch("Jedis", ["mvn", "-q", "-B", f"-Dmaven.repo.local={CACHE / 'm2'}",
                            "dependency:copy-dependencies", "-DincludeScope=runtime",
                            f"-DoutputDirectory={folder / 'jars'}"], cwd=folder)
    return folder / "jars"


def go_environment():
    """Debian's redigo, without modules and without a network."""
    need("go", "golang-go")
    assert Path("/usr/share/gocode/src/github.com/gomodule/redigo").exists(), (
        "redigo is not installed; `make setup` installs golang-github-gomodule-redigo-dev")
    return dict(os.environ, GOPATH="/usr/share/gocode", GO111MODULE="off", GOFLAGS="",
                GOCACHE=str(CACHE / "go"))
