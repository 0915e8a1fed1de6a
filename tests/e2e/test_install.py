# SPDX-License-Identifier: Apache-2.0
"""The installed library, used as a stranger would: pkg-config, a compiler, a program of forty lines."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "embedded" / "charge.c"
STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def pkg_config(installed, *arguments):
    env = dict(os.environ, PKG_CONFIG_PATH=str(installed.pkgconfig))
    done = subprocess.run(["pkg-config", *arguments, "once"], env=env, text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def build_shared(installed, compiler, source, program):
    subprocess.run([*compiler, *STRICT, "-o", program, source,
                    *pkg_config(installed, "--cflags", "--libs"),
                    f"-Wl,-rpath,{installed.lib}"], check=True)


def build_static(installed, compiler, source, program):
    """-l:libonce.a takes the archive although the shared library lies beside it."""
    flags = ["-l:libonce.a" if flag == "-lonce" else flag
             for flag in pkg_config(installed, "--cflags", "--libs", "--static")]
    subprocess.run([*compiler, *STRICT, "-o", program, source, *flags], check=True)


def needs_libonce_so(program):
    done = subprocess.run(["ldd", program], text=True, capture_output=True, check=True)
    return "libonce.so" in done.stdout


@pytest.fixture(params=["shared", "static"])
def charge(request, installed, tmp_path):
    program = tmp_path / "charge"
    if request.param == "shared":
        build_shared(installed, ["cc", "-std=c11"], EXAMPLE, program)
    else:
        build_static(installed, ["cc", "-std=c11"], EXAMPLE, program)
    assert needs_libonce_so(program) == (request.param == "shared")
    return program


def run(program, *arguments):
    return subprocess.run([program, *arguments], text=True, capture_output=True, timeout=60)


def test_example_is_forty_lines():
    assert len(EXAMPLE.read_text().splitlines()) <= 40


def test_example_charges_once(charge, tmp_path):
    store = tmp_path / "store"
    first = run(charge, store, "order-8841", "100")
    assert (first.returncode, first.stdout) == (
        0, "EXECUTE: 100 paid, receipt 1, complete: OK\n"), first.stderr
    for _ in range(3):
        again = run(charge, store, "order-8841", "100")
        assert (again.returncode, again.stdout) == (0, "REPLAY: 100 paid, receipt 1\n")
    other = run(charge, store, "order-8841", "900")
    assert (other.returncode, other.stdout) == (0, "MISMATCH: \n")
    second = run(charge, store, "order-8842", "900")
    assert second.stdout.startswith("EXECUTE: 900 paid, receipt ")
    fence = int(re.search(r"receipt (\d+)", second.stdout).group(1))
    assert fence > 1


def test_example_says_what_is_wrong(charge, tmp_path):
    usage = run(charge)
    assert usage.returncode == 1 and usage.stderr.startswith("usage: charge")
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    refused = run(charge, blocked, "o", "1")
    assert refused.returncode == 1 and str(blocked) in refused.stderr
    bad_key = run(charge, tmp_path / "store", "", "1")
    assert bad_key.returncode == 1 and "empty" in bad_key.stderr


HOLDER = r"""
#include <once/once.h>
#include <cstdio>
#include <cstring>

// C++: holds the store open, with a charge begun, until it is killed.
int main(int argc, char **argv)
{
    once_store *store = nullptr;
    once_message message;
    once_reply reply;
    once_begin_options options = {};
    once_op op = {};
    once_options how = {};

    if (argc != 2 || once_open(argv[1], &how, &store, &message) != ONCE_OK)
        return 1;
    options.lease_ms = 1;
    options.fingerprint = once_bytes_of("100");
    if (once_begin(store, once_name_of("charges", "order-1"), &options, &reply) != ONCE_OK)
        return 2;
    std::printf("%s %llu\n", once_word_name(reply.word), (unsigned long long)reply.fence);
    once_reply_release(&reply);
    op.call = ONCE_CALL_GET;
    op.ns = once_bytes_of("charges");
    op.key = once_bytes_of("order-1");
    if (once_call(store, &op, 1) != ONCE_OK || op.reply.word != ONCE_DONE)
        return 3;
    once_reply_release(&op.reply);
    std::fflush(stdout);
    return std::getchar() == EOF ? once_close(store) : 4;
}
"""


def test_cpp_program_and_one_owner(charge, installed, tmp_path):
    """C++ uses the same header; while it owns the store nobody else does, and a kill frees it."""
    source, holder, store = tmp_path / "holder.cpp", tmp_path / "holder", tmp_path / "store"
    source.write_text(HOLDER)
    build_shared(installed, ["c++", "-std=c++11"], source, holder)
    with subprocess.Popen([holder, store], text=True, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as running:
        assert running.stdout.readline() == "EXECUTE 1\n"
        second = run(charge, store, "order-2", "1")
        assert second.returncode == 1
        assert str(running.pid) in second.stderr, "the refusal names the owner"
        running.send_signal(signal.SIGKILL)
        running.wait()
    # What was told before the kill is still true: somebody began, vanished, and nobody runs it.
    deadline = time.monotonic() + 60
    doubt = run(charge, store, "order-1", "100")
    while doubt.stdout == "BUSY: \n" and time.monotonic() < deadline:
        doubt = run(charge, store, "order-1", "100")
    assert doubt.stdout == "DOUBT: \n", doubt.stderr


def test_cpp_program_closes(installed, tmp_path):
    source, holder = tmp_path / "holder.cpp", tmp_path / "holder"
    source.write_text(HOLDER)
    for build in (build_shared, build_static):
        build(installed, ["c++", "-std=c++17"], source, holder)
        done = subprocess.run([holder, tmp_path / build.__name__], text=True, input="",
                              capture_output=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "EXECUTE 1\n")


def test_headers_are_clean_in_every_language(installed, tmp_path):
    """Each header alone, twice, in the oldest and newest standards that compilers here know."""
    flags = pkg_config(installed, "--cflags")
    headers = sorted((installed.prefix / "include" / "once").glob("*.h"))
    assert {"once.h", "store.h"} <= {header.name for header in headers}
    for header in headers:
        source = f"#include <once/{header.name}>\n" * 2 + "extern int not_empty;\n"
        for compiler, language, standard in (("cc", "c", "c11"), ("cc", "c", "c2x"),
                                             ("c++", "c++", "c++11"), ("c++", "c++", "c++20")):
            done = subprocess.run([compiler, "-x", language, f"-std={standard}", *STRICT,
                                   "-Wconversion", *flags, "-fsyntax-only", "-"],
                                  input=source, text=True, capture_output=True, cwd=tmp_path)
            assert done.returncode == 0, f"{header.name} as {standard}:\n{done.stderr}"


def test_pages_and_completions_are_installed(installed, once_bin):
    """A page for each command and one for all, and each shell's script where that shell looks."""
    def printed(*arguments):
        return subprocess.run([once_bin, *arguments], text=True, capture_output=True,
                              check=True).stdout

    share = installed.prefix / "share"
    names = [command["name"] for command in json.loads(printed("help", "--json"))["commands"]]
    pages = {page.name: page.read_text() for page in (share / "man" / "man1").iterdir()}
    assert set(pages) == {"once.1", *(f"once-{name}.1" for name in names)}
    assert pages["once.1"] == printed("man")
    for name in names:
        assert pages[f"once-{name}.1"] == printed("man", name)
    for shell, place in (("bash", "bash-completion/completions/once.bash"),
                         ("zsh", "zsh/site-functions/_once"),
                         ("fish", "fish/vendor_completions.d/once.fish")):
        assert (share / place).read_text() == printed("completion", shell)
    shown = subprocess.run(["man", "-M", share / "man", "once-key"], text=True, capture_output=True,
                           env=dict(os.environ, MANPAGER="cat"))
    assert "fingerprint" in shown.stdout, shown.stderr
