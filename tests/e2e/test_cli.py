# SPDX-License-Identifier: Apache-2.0
"""The frame of the command line: help, versions, mistakes, outputs that cannot be written."""
import json
import os
import re
import subprocess


def run(once_bin, *args, **options):
    return subprocess.run([once_bin, *args], text=True, capture_output=True, timeout=60, **options)


def test_help_lists_every_command_and_each_has_help(once_bin):
    done = run(once_bin, "--help")
    assert done.returncode == 0 and "usage: once" in done.stdout
    names = re.findall(r"^  (\w+) ", done.stdout, re.MULTILINE)
    assert {"key", "laws", "sim"} <= set(names)
    for name in names:
        helped = run(once_bin, name, "--help")
        assert helped.returncode == 0 and helped.stdout.startswith(f"usage: once {name}")
        assert not helped.stderr


def test_no_command_and_unknown_command_are_usage_errors(once_bin):
    assert run(once_bin).returncode == 64
    done = run(once_bin, "sevre")
    assert done.returncode == 64 and "sevre" in done.stderr and "--help" in done.stderr


def test_hostile_command_name_is_not_echoed_raw(once_bin):
    done = run(once_bin, "\x1b[31mred")
    assert done.returncode == 64 and "\x1b" not in done.stderr


def test_options_read_the_same_in_every_command(once_bin):
    """--help anywhere, --name=value, and -- before a name that looks like an option."""
    for command, option in (("key", ["uuid7", "-n"]), ("laws", ["MAX", "--seed"])):
        name, *flag = option
        for args in (["--json", "--help"], [name, *flag, "3", "-h"], [name, "--nonsense", "--help"]):
            helped = run(once_bin, command, *args)
            assert helped.returncode == 0 and helped.stdout.startswith(f"usage: once {command}")
        spaced = run(once_bin, command, name, *flag, "2")
        joined = run(once_bin, command, name, f"{flag[0]}=2")
        assert spaced.returncode == joined.returncode == 0
        assert len(spaced.stdout.splitlines()) == len(joined.stdout.splitlines())
        assert f"there is no option '--nonsense' here" in run(
            once_bin, command, name, "--nonsense").stderr
        assert f"{flag[0]} needs a value" in run(once_bin, command, name, *flag).stderr
        assert "--json takes no value" in run(once_bin, command, name, "--json=1").stderr
    assert run(once_bin, "key", "business", "--", "--json").stdout == "--json\n"
    assert "no operation or type '--json'" in run(once_bin, "laws", "--", "--json").stderr


def test_errors_with_json_are_json_and_a_message(once_bin):
    for args in (["key", "uuid7", "--json", "--nonsense"], ["key", "nothing", "--json"],
                 ["key", "uuid7", "-n", "0", "--json"], ["laws", "--seed", "x", "--json"],
                 ["laws", "--json", "NOTHING"], ["laws", "--json", "./nowhere.so"],
                 ["laws", "--json", "/dev/null"], ["laws", "A", "B", "--json"]):
        done = run(once_bin, *args)
        assert done.returncode == 64, args
        assert done.stdout.count("\n") == 1
        error = json.loads(done.stdout)
        assert error["exit_status"] == 64 and error["error"] in done.stderr
        assert not run(once_bin, *[a for a in args if a != "--json"]).stdout


def test_help_names_every_exit_status(once_bin):
    for command, statuses in (("key", "0 64 71"), ("laws", "0 1 64 71"), ("sim", "0 64 71")):
        text = run(once_bin, command, "--help").stdout.lower().split("exit status:")[1]
        for status in statuses.split():
            assert re.search(rf"\b{status}\b", text), (command, status)


def test_version(once_bin):
    done = run(once_bin, "--version")
    assert done.returncode == 0 and done.stdout.startswith("once 0.")


def test_full_disk_behind_stdout_is_an_error(once_bin):
    with open("/dev/full", "w") as full:
        done = subprocess.run([once_bin, "sim", "payment"], stdout=full, stderr=subprocess.PIPE,
                              text=True)
    assert done.returncode == 71 and "cannot write" in done.stderr


def test_story_ends_with_three_debits(once_bin):
    done = run(once_bin, "sim", "payment")
    assert done.returncode == 0 and not done.stderr
    assert "The end: 3 orders, 3 debits, balance 325" in done.stdout
    for word in ("EXECUTE", "REPLAY", "MISMATCH", "BUSY", "DOUBT", "STALE"):
        assert f"-> {word}" in done.stdout


def test_story_names_its_mistakes(once_bin):
    assert run(once_bin, "sim").returncode == 64
    assert run(once_bin, "sim", "shipping").returncode == 64
    assert run(once_bin, "sim", "payment", "extra").returncode == 64
