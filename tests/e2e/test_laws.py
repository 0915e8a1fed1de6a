# SPDX-License-Identifier: Apache-2.0
"""`once laws` as a user runs it: the real binary, plugins compiled by the system's compiler."""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

EFFECTS = ("ADD MAX MIN FLAG UNION CLOCK LWW GADD PNADD INSERT REMOVE SET DELETE MACHINE MOVE APPEND "
           "GRANT GUARD LEASE RENEW RELEASE HOLD SEQ BUCKET EMIT SENT").split()
TYPES = "max min flag gset vv lww gcounter pncounter awset mvreg map".split()


@pytest.fixture(scope="module")
def laws(once_bin, plugins):
    def run(*args, cwd=plugins):
        return subprocess.run([once_bin.resolve(), "laws", *args], cwd=cwd, timeout=120, text=True,
                              capture_output=True, check=False)
    return run


@pytest.fixture(scope="module")
def table(laws):
    result = laws("--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


# --- The table ---


def test_table__without_arguments__shows_every_operation_and_type(laws):
    result = laws()
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    rows = result.stdout.split("\nThe smallest counterexamples")[0].splitlines()
    first_words = [row.split()[0] for row in rows if row]
    for name in EFFECTS + TYPES:
        assert name in first_words
    for row in rows:
        if row and row.split()[0] in EFFECTS + TYPES:
            assert re.search(r"(yes|no) +(yes|no) +(yes|no) +(yes|no)$", row), row


def test_table__each_no__has_a_counterexample(laws, table):
    text = laws().stdout
    for row in table["operations"]:
        for law in ("idempotent", "commutative", "associative"):
            assert (law in row["counterexamples"]) == (not row[law]), row
            if not row[law]:
                assert row["counterexamples"][law] in text
        assert ("late_duplicate" in row["counterexamples"]) == row["needs_key"], row
        if row["needs_key"] and row["idempotent"]:
            assert row["counterexamples"]["late_duplicate"] in text
    assert "ADD 1 twice: 1, then 2" in text


def test_table__needs_a_key__is_a3(table):
    needs = {row["variant"]: row["needs_key"] for row in table["operations"]}
    for variant in ("ADD name n", "APPEND name event_id payload", "EMIT topic payload [GROUP g]",
                    "GADD name node n", "GRANT name", "BUCKET name bucket n", "SET name value",
                    "PNADD name node n", "INSERT name node member…", "REMOVE name member…",
                    "LEASE name owner ms"):
        assert needs[variant], variant
    for variant in ("MAX name n", "MIN name n", "FLAG name", "UNION name member…",
                    "CLOCK name node n", "LWW name time node value", "GUARD name token",
                    "SET name value IF version", "DELETE name IF version", "SEQ name epoch n",
                    "RENEW name token ms", "RELEASE name token", "HOLD name token",
                    "SENT topic number…"):
        assert not needs[variant], variant
    assert all(not row["needs_key"] and row["idempotent"] and row["commutative"]
               and row["associative"] for row in table["operations"] if row["kind"] == "type")


def test_table__textbook_rows__are_right(table):
    by_variant = {row["variant"]: row for row in table["operations"]}

    def triple(variant):
        row = by_variant[variant]
        return row["idempotent"], row["commutative"], row["associative"]

    assert triple("ADD name n") == (False, True, True)
    assert triple("ADD name n MIN m MAX m") == (False, False, False)
    assert triple("MAX name n") == (True, True, True)
    assert triple("EMIT topic payload [GROUP g]") == (False, False, True)


def test_table__another_seed__gives_the_same_answers(laws, table):
    other = json.loads(laws("--json", "--seed", "987654321").stdout)
    assert other["seed"] == "987654321"
    for ours, theirs in zip(table["operations"], other["operations"], strict=True):
        for field in ("variant", "idempotent", "commutative", "associative", "needs_key",
                      "counterexamples"):
            assert ours[field] == theirs[field]


def test_name__effect__shows_each_form_in_detail(laws):
    result = laws("SET")
    assert result.returncode == 0
    assert "SET name value\n" in result.stdout
    assert "SET name value IF version\n" in result.stdout
    assert re.search(r"no counterexample in \d+ cases", result.stdout)
    assert "SET a twice: a (version 1), then a (version 2)" in result.stdout


def test_name__case__matters_only_where_it_must(laws):
    assert laws("MAX").stdout.startswith("MAX name n\n")
    assert laws("max").stdout.startswith("max\n")
    assert laws("add").stdout == laws("ADD").stdout
    assert laws("awset").stdout.startswith("awset\n")


def test_name__json__has_only_these_rows(laws):
    rows = json.loads(laws("--json", "DELETE").stdout)["operations"]
    assert [row["variant"] for row in rows] == ["DELETE name", "DELETE name IF version"]


def test_name__unknown__lists_the_names(laws):
    result = laws("FROBNICATE")
    assert result.returncode == 64
    assert result.stdout == ""
    assert "'FROBNICATE'" in result.stderr
    for name in EFFECTS + TYPES:
        assert f" {name}" in result.stderr


@pytest.mark.parametrize("args", [["--seed"], ["--seed", "x"], ["--seed", "-1"], ["--timeout", "0"],
                                  ["--seed", "18446744073709551616"], ["--nonsense"],
                                  ["ADD", "SET"]])
def test_arguments__wrong__are_a_usage_error(laws, args):
    result = laws(*args)
    assert result.returncode == 64
    assert result.stdout == ""
    assert "once laws:" in result.stderr


def test_output__full_disk__is_not_a_success(once_bin):
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run([once_bin, "laws"], stdout=full, stderr=subprocess.PIPE)
    assert result.returncode not in (0, 1)


# --- The sample plugins ---


def test_plugin__lawful_sample__holds(laws):
    result = laws("max_plugin.so")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("holds") == 3
    assert re.search(r"No counterexample in \d+ checks", result.stdout)
    assert "not a proof" in result.stdout


def test_plugin__averaging_sample__fails_with_the_minimal_counterexample(laws, plugins):
    name = "average_plugin.so"
    for name in (name, f"./{name}", plugins.resolve() / name):
        result = laws(name)
        assert result.returncode == 1, result.stderr
        assert ("associative: FAILS  a=0 b=0 c=1  merge(merge(a,b),c)=0.5  "
                "merge(a,merge(b,c))=0.25") in result.stdout
        assert "Regrouping changes the result" in result.stdout
        assert "idempotent: holds" in result.stdout
        assert "commutative: holds" in result.stdout


def test_plugin__json__says_the_same(laws):
    result = laws("--json", "average_plugin.so")
    assert result.returncode == 1
    report = json.loads(result.stdout)
    assert report["plugin"] == "average_plugin.so"
    assert (report["holds"], report["idempotent"], report["associative"]) == (False, True, False)
    assert report["counterexamples"]["associative"].startswith("a=0 b=0 c=1")


# --- Plugins of the test. A state is one int; fragments go into this lawful plugin ---

PLUGIN = r"""
#include <once/laws_plugin.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int get(const void *s) { int n; memcpy(&n, s, sizeof n); return n; }
static size_t put(int n, void *out) { memcpy(out, &n, sizeof n); return sizeof n; }
@TOP@
@GENERATE_NAME@ { (void)capacity; @GENERATE@ return put((int)index, state); }
@MERGE_NAME@
{
    int x = get(a), y = get(b);
    (void)a_size; (void)b_size; (void)capacity;
    @MERGE@
    return put(x > y ? x : y, out);
}
@DESCRIBE_NAME@
{ (void)size; @DESCRIBE@ return (size_t)snprintf(text, capacity, "%d", get(state)); }
"""

NAMES = {
    "GENERATE": "size_t once_laws_generate(uint64_t index, void *state, size_t capacity)",
    "MERGE": ("size_t once_laws_merge(const void *a, size_t a_size, const void *b, size_t b_size, "
              "void *out, size_t capacity)"),
    "DESCRIBE": ("size_t once_laws_describe(const void *state, size_t size, char *text, "
                 "size_t capacity)"),
}


@pytest.fixture
def plugin(laws, tmp_path):
    def build(top="", generate="", merge="", describe="", names=None, compiler="cc",
              suffix="c", flags=()):
        names = {**NAMES, **(names or {})}
        source = PLUGIN.replace("@TOP@", top).replace("@GENERATE@", generate)
        source = source.replace("@MERGE@", merge).replace("@DESCRIBE@", describe)
        for key, name in names.items():
            source = source.replace(f"@{key}_NAME@", name)
        path = tmp_path / f"my_merge.{suffix}"
        path.write_text(source, encoding="utf-8")
        subprocess.run([compiler, "-shared", "-fPIC", *flags, f"-I{ROOT / 'include'}",
                        "-o", tmp_path / "my_merge.so", path], check=True)
        return lambda *args: laws(*args, "my_merge.so", cwd=tmp_path)
    return build


def test_plugin__of_the_test__is_lawful_as_it_stands(plugin):
    assert plugin()().returncode == 0
    assert plugin(flags=["-fvisibility=hidden"])().returncode == 0


def test_plugin__in_cpp__works(plugin):
    result = plugin(compiler="c++", suffix="cpp")()
    assert result.returncode == 0, result.stderr


def test_plugin__each_broken_law__is_named_with_its_meaning(plugin):
    duplicates = plugin(merge="return put(x + y, out);")()
    assert duplicates.returncode == 1
    assert "idempotent: FAILS  a=1  merge(a,a)=2" in duplicates.stdout
    assert "Duplicates change the result" in duplicates.stdout

    reordering = plugin(merge="return put(y, out);")()
    assert reordering.returncode == 1
    assert "commutative: FAILS  a=0 b=1  merge(a,b)=1  merge(b,a)=0" in reordering.stdout
    assert "Reordering changes the result" in reordering.stdout


def test_plugin__wrong_only_at_large_states__is_found_and_shrunk(plugin):
    result = plugin(merge="if (x >= 1000 && x < y) return put(x, out);")()
    assert result.returncode == 1
    assert "commutative: FAILS  a=1000 b=1001" in result.stdout


def test_plugin__few_states__are_all_checked(plugin):
    result = plugin(generate="if (index > 2) return ONCE_LAWS_END;",
                    merge="if (x == 2 && y == 2) return put(1, out);")()
    assert result.returncode == 1
    assert "idempotent: FAILS  a=2  merge(a,a)=1" in result.stdout


def test_plugin__no_states__is_an_error(plugin):
    result = plugin(generate="(void)index; (void)state; return ONCE_LAWS_END;")()
    assert result.returncode == 1
    assert "no state" in result.stderr


@pytest.mark.parametrize("missing", ["generate", "merge", "describe"])
def test_plugin__missing_function__is_named(plugin, missing):
    key = missing.upper()
    other = NAMES[key].replace(f"once_laws_{missing}", f"other_{missing}")
    result = plugin(names={key: other})()
    assert result.returncode == 64
    assert f"does not export once_laws_{missing};" in result.stderr
    assert result.stdout == ""


def test_plugin__no_file__is_named(laws):
    for name in ("nowhere.so", "./nowhere"):
        result = laws(name)
        assert result.returncode == 64
        assert name in result.stderr and "No such file" in result.stderr


def test_plugin__not_a_shared_object__says_so(laws, tmp_path):
    (tmp_path / "text.so").write_text("I am not a library\n", encoding="utf-8")
    (tmp_path / "empty.so").write_text("", encoding="utf-8")
    (tmp_path / "folder.so").mkdir()
    for name in ("text.so", "empty.so", "folder.so"):
        result = laws(name, cwd=tmp_path)
        assert result.returncode == 64, result.stderr
        assert "cannot load the plugin" in result.stderr


def test_plugin__system_library_of_that_name__is_not_taken(laws, tmp_path):
    result = laws("libc.so.6.so", cwd=tmp_path)
    assert result.returncode == 64
    assert "No such file" in result.stderr


def test_plugin__crash__is_reported_with_the_arguments(plugin):
    result = plugin(merge="if (x == 2 && y == 3) raise(SIGSEGV);")()
    assert result.returncode == 1
    assert "the plugin crashed (signal 11) in merge(a=2, b=3)" in result.stderr


def test_plugin__null_pointer__is_a_crash(plugin):
    result = plugin(merge="if (x == 1) *(volatile int *)(size_t)y = 1;")()
    assert result.returncode == 1
    assert "crashed (signal 11) in merge(a=1, b=" in result.stderr


def test_plugin__abort__is_a_crash(plugin):
    result = plugin(generate="if (index == 7) abort();")()
    assert result.returncode == 1
    assert "the plugin crashed (signal 6) in generate(index=7)" in result.stderr


def test_plugin__crash_in_describe__falls_back_to_bytes(plugin):
    result = plugin(merge="return put(x + y, out);", describe="abort();")()
    assert result.returncode == 1
    assert "crashed (signal 6) in describe(bytes 01000000 (4))" in result.stderr
    result = plugin(merge="if (y == 2) abort();", describe="abort();")()
    assert "in merge(a=bytes 02000000 (4), b=bytes 02000000 (4))" in result.stderr


def test_plugin__crash_while_loaded__is_reported(plugin):
    result = plugin(top="__attribute__((constructor)) static void start(void) { abort(); }")()
    assert result.returncode == 1
    assert "crashed (signal 6) while it was loaded" in result.stderr


def test_plugin__hang__is_ended_at_the_time_limit(plugin):
    run = plugin(merge="if (x == 1 && y == 2) for (;;) pause();")
    before = time.monotonic()
    result = run("--timeout", "3")
    assert time.monotonic() - before < 60
    assert result.returncode == 1
    assert "not finished after 3 s in merge(a=1, b=2)" in result.stderr


def test_plugin__exit__is_reported_and_is_no_success(plugin):
    for status in (0, 3):
        result = plugin(merge=f"if (x == 1) exit({status});")()
        assert result.returncode == 1
        assert (f"the plugin ended the process (exit status {status}) in merge(a=1, b=1)"
                in result.stderr)


def test_plugin__size_beyond_capacity__names_the_function(plugin):
    result = plugin(merge="if (x == 1) return capacity + 1;")()
    assert result.returncode == 1
    assert "returned a size of 65537, more than its capacity of 65536 in merge(a=1, b=1)" \
        in result.stderr
    result = plugin(generate="if (index == 3) return capacity + 1;")()
    assert result.returncode == 1
    assert "in generate(index=3)" in result.stderr


def test_plugin__write_beyond_capacity__is_a_crash(plugin):
    result = plugin(merge="memset(out, 0, capacity + 1);")()
    assert result.returncode == 1
    assert "crashed (signal 11) in merge(" in result.stderr


def test_plugin__changes_its_argument__is_reported(plugin):
    result = plugin(merge="if (y == 5) *(int *)(size_t)b = 6;")()
    assert result.returncode == 1
    assert "changed its argument b in merge(a=5, b=5)" in result.stderr


def test_plugin__not_deterministic__is_reported(plugin):
    result = plugin(top="static int calls;", merge="return put(x + calls++ % 2, out);")()
    assert result.returncode == 1
    assert "two different results for the same arguments" in result.stderr


def test_plugin__padding_not_written__is_reported(plugin):
    result = plugin(merge="put(x > y ? x : y, out); return sizeof x + 4;")()
    assert result.returncode == 1
    assert "padding" in result.stderr


def test_plugin__padding_not_generated__is_reported(plugin):
    result = plugin(generate="put((int)index, state); return 8;",
                    merge="memcpy(out, x > y ? a : b, 8); return 8;")()
    assert result.returncode == 1
    assert "two different results for the same arguments" in result.stderr
    assert "in generate(index=" in result.stderr


@pytest.mark.parametrize("offset", [-1, 4, 11])
def test_plugin__reads_beside_its_arguments__gives_two_results(plugin, offset):
    result = plugin(merge=f"return put((x > y ? x : y) + ((const char *)b)[{offset}], out);")()
    assert result.returncode == 1
    assert "two different results for the same arguments" in result.stderr
    assert "read nothing but its arguments" in result.stderr


@pytest.mark.parametrize("argument", ["a", "b"])
def test_plugin__reads_far_behind_an_argument__is_a_crash(plugin, argument):
    result = plugin(merge=f"volatile char c = ((const char *){argument})[16]; (void)c;")()
    assert result.returncode == 1
    assert "crashed (signal 11) in merge(" in result.stderr


@pytest.mark.parametrize("offset", [-1, 4])
def test_plugin__writes_beside_its_argument__is_reported(plugin, offset):
    result = plugin(merge=f"((char *)(size_t)a)[{offset}] = 0;")()
    assert result.returncode == 1
    assert "wrote beside its argument a in merge(a=" in result.stderr


def test_plugin__arguments_of_every_size__are_aligned(plugin):
    result = plugin(generate="if (index > 40) return ONCE_LAWS_END; memset(state, 1, index + 4);"
                             "put((int)index, state); return index + 4;",
                    merge="if ((size_t)a % 16 != 0 || (size_t)b % 16 != 0 || (size_t)out % 16 != 0)"
                          " abort();"
                          "memcpy(out, x > y ? a : b, x > y ? a_size : b_size);"
                          "return x > y ? a_size : b_size;",
                    describe="if ((size_t)state % 16 != 0) abort();")()
    assert result.returncode == 0, result.stderr


def test_plugin__describe_beyond_its_capacity__is_a_crash(plugin):
    result = plugin(merge="return put(x + y, out);", describe="text[capacity] = 0;")()
    assert result.returncode == 1
    assert "crashed (signal 11) in describe(" in result.stderr
    result = plugin(merge="return put(x + y, out);", describe="text[capacity - 1] = 0;")()
    assert "idempotent: FAILS  a=1  merge(a,a)=2" in result.stdout


# --- Plugins that start processes ---


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("session", ["", "setsid();"])
def test_plugin__forks_and_hangs__leaves_no_process(plugin, tmp_path, session):
    run = plugin(merge="static int forked; if (!forked++ && fork() == 0) {" + session +
                       'FILE *f = fopen("part", "w"); fprintf(f, "%d", (int)getpid()); fclose(f);'
                       'rename("part", "pid"); for (;;) pause(); }'
                       'while (access("pid", F_OK) != 0) usleep(1000);')
    # The pipes of this test stay open as long as any process holds them.
    result = run()
    assert result.returncode == 0, result.stderr
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_plugin__forks_and_both_hang__ends_at_the_time_limit(plugin, once_bin, tmp_path):
    plugin(merge="if (x == 1 && y == 2) { fork(); for (;;) pause(); }")
    result = subprocess.run(f"'{once_bin.resolve()}' laws --timeout 3 my_merge.so 2>&1 | tail -n 3",
                            shell=True, cwd=tmp_path, timeout=60, text=True, capture_output=True)
    assert "not finished after 3 s in merge(a=1, b=2)" in result.stdout


def test_plugin__both_processes_return__are_counted_once(plugin):
    for function in ("generate", "merge"):
        expected = json.loads(plugin()("--json").stdout)
        forking = plugin(**{function: "static int calls; if (calls++ % 1000 == 0) fork();"})
        result = forking("--json")
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout) == expected
    failing = plugin(merge="static int calls; if (calls++ < 20) fork(); return put(x + y, out);")("--json")
    assert json.loads(failing.stdout)["counterexamples"]["idempotent"] == "a=1  merge(a,a)=2"


def test_plugin__interrupted__leaves_no_process(plugin, once_bin, tmp_path):
    plugin(merge='if (fork() == 0) { FILE *f = fopen("part", "w"); fprintf(f, "%d", (int)getpid());'
                 'fclose(f); rename("part", "pid"); } for (;;) pause();')
    # Whoever runs the tests in the background ignores the signal, and so would the child.
    running = subprocess.Popen([once_bin.resolve(), "laws", "my_merge.so"], cwd=tmp_path,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    end = time.monotonic() + 30
    while not (tmp_path / "pid").exists() and time.monotonic() < end:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=30)
    assert running.returncode == -signal.SIGINT
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_plugin__prints__does_not_disturb_the_report(plugin):
    run = plugin(merge='if (x == 1 && y == 1) printf("hello\\n");')
    result = run("--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["holds"] is True
    assert "hello" in result.stderr


def test_plugin__error_in_json__is_json_too(plugin):
    result = plugin(merge="abort();")("--json")
    assert result.returncode == 1
    assert json.loads(result.stdout)["error"].startswith("the plugin crashed (signal 6) in merge(")


def test_plugin__name_beyond_ascii_in_json__is_kept_or_escaped(laws, once_bin, plugins, tmp_path):
    source = (plugins / "max_plugin.so").read_bytes()
    (tmp_path / "caf\u00e9.so").write_bytes(source)
    report = json.loads(laws("--json", "caf\u00e9.so", cwd=tmp_path).stdout)
    assert report["plugin"] == "caf\u00e9.so"
    for name, shown in ((b"\xff\xc3.so", "\\xff\\xc3.so"), (b"\xed\xa0\x80.so", "\\xed\\xa0\\x80.so"),
                        (b"\xc0\xaf.so", "\\xc0\\xaf.so"), (b"\xc2\x9b\x1b\x7f\".so", "\x9b\x1b\x7f\".so"),
                        (b"\xf4\x90\x80\x80.so", "\\xf4\\x90\\x80\\x80.so"),
                        ("\u20ac\U0001f600.so".encode(), "\u20ac\U0001f600.so")):
        (tmp_path / os.fsdecode(name)).write_bytes(source)
        done = subprocess.run([once_bin.resolve(), "laws", "--json", name], cwd=tmp_path,
                              capture_output=True, timeout=60, check=False)
        assert json.loads(done.stdout)["plugin"] == shown
        assert b"\x1b" not in done.stdout and b"\x9b" not in done.stdout


def test_plugin__long_or_wild_description__is_cut_and_escaped(plugin):
    result = plugin(merge="return put(x + y, out);",
                    describe='memset(text, 27, capacity); return 100000;')()
    assert result.returncode == 1
    assert "\x1b" not in result.stdout
    assert "\\x1b..." in result.stdout


def test_plugin__seed__replays(plugin):
    run = plugin(merge="if (x >= 30000 && x < y) return put(x, out);")
    assert run("--seed", "5").stdout == run("--seed", "5").stdout
