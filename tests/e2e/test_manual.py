# SPDX-License-Identifier: Apache-2.0
"""Help texts, manual pages and completions, which are all made from one source: that they agree, that
man and mandoc like the pages, and that real shells complete."""
import json
import os
import pty
import re
import shutil
import subprocess
import time

import pytest

from conftest import ROOT
from serving import once_binary

TOKEN = re.compile(r"[A-Za-z0-9_$~/-]+(?:[.:|][A-Za-z0-9_$~/-]+)*")


def once(*args, **options):
    return subprocess.run([once_binary(), *args], text=True, capture_output=True, timeout=60,
                          **options)


def table():
    done = once("help", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["commands"]


COMMANDS = table()
NAMES = [command["name"] for command in COMMANDS]
each_command = pytest.mark.parametrize("command", COMMANDS, ids=NAMES)


def item_lines(text):
    """The first line of each item that is an option: "  --ttl TIME, --for TIME  text"."""
    return [line for line in text.splitlines() if re.match(r"^ {2,4}-", line)]


def tags(text):
    """{option: whether it takes a value}, as the help text has it."""
    found = {}
    for line in item_lines(text):
        tag = re.split(r"  ", line.strip())[0]
        for option in re.split(r"(?:,| \|) (?=-)", tag):
            name, _, value = option.partition(" ")
            found.setdefault(name, set()).add(bool(value))
    return found


# ---- Help texts ----


@each_command
def test_help_and_table_have_the_same_options(command):
    """An option that people cannot read about, or that is not there, is a defect."""
    documented = tags(command["help"])
    for name in ("--", "--help", "-h"):
        documented.pop(name, None)
    in_table = {option["name"]: option["value"] is not None for option in command["options"]}
    assert set(documented) == set(in_table)
    for name, has_value in in_table.items():
        assert has_value in documented[name], f"{name}: a value in one, none in the other"
    for option in command["options"]:
        assert option["brief"], f"nothing says what {option['name']} does"


@each_command
def test_help_names_only_options_that_are_there(command):
    known = {option["name"] for option in command["options"]} | {"--help"}
    for own in COMMANDS:  # `once other --option` may be named too
        known |= {o["name"] for o in own["options"] if f"once {own['name']} " in command["help"]}
    for name in set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", command["help"])):
        assert name in known, f"--help names {name}, which the table does not have"


@each_command
def test_every_option_of_the_table_is_understood(command):
    """The table is what the command itself reads: none of its options is unknown to it."""
    actions = [[]] if command["name"] != "key" else [[word] for word in command["words"]]
    for option in command["options"]:
        value = ["="] if option["value"] else []
        errors = [once(command["name"], *action, option["name"], *value, "--nonsense-option",
                       stdin=subprocess.DEVNULL).stderr for action in actions]
        assert any(f"'{option['name']}'" not in error and f"'{option['name']}=" not in error
                   for error in errors), errors


@each_command
def test_shape_of_help(command):
    text = command["help"]
    assert text.isascii() and text.endswith("\n")
    assert text.startswith(f"usage: once {command['name']}")
    assert max(map(len, text.splitlines())) <= 100
    assert command["summary"] and command["summary"][-1] not in ".\n"
    blocks = text.strip("\n").split("\n\n")
    assert blocks[-1].lower().startswith("exit status:"), "the last block"
    assert re.search(r"\b0\b|that of the command", blocks[-1]) and re.search(r"\b64\b", blocks[-1])
    for line in item_lines(text):
        tag = re.split(r"  ", line.strip())[0]
        assert len(tag) < 60, f"two blanks stand between an option and its text: {line}"
    for word in command["words"]:
        assert word in text
    assert once(command["name"], "--help").stdout == text
    assert once(command["name"], "-h").stdout == text
    assert once("help", command["name"]).stdout == text
    assert json.loads(once("help", "--json", command["name"]).stdout) == command


def test_overview_has_every_command_once_in_its_group():
    text = once("--help").stdout
    assert text == once("help").stdout == once("-h").stdout
    for command in COMMANDS:
        assert text.count(f"\n  {command['name']} ") == 1
        assert text.index(f"\n{command['group']}:\n") < text.index(f"\n  {command['name']} ")
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("typed, meant", [
    (["sevre"], "'serve'"), (["aply"], "'apply'"), (["namespac"], "'namespace'"),
    (["chekc"], "'check'"), (["help", "backpu"], "'backup'"), (["man", "srve"], "'serve'"),
    (["check", "--reapir"], "--repair"), (["check", "--jsno"], "--json"),
    (["serve", "--durabilty", "always"], "--durability"), (["apply", "--finger=x"], "--fingerprint"),
])
def test_did_you_mean(typed, meant):
    done = once(*typed)
    assert done.returncode == 64 and f"did you mean {meant}?" in done.stderr, done.stderr


@pytest.mark.parametrize("typed", [["x"], ["frobnicate"], ["check", "--frobnicate"], ["check", "-z"],
                                   ["--frobnicate"], ["s" * 5000], ["check", "--" + "s" * 5000]])
def test_no_guess_where_nothing_is_near(typed):
    done = once(*typed)
    assert done.returncode == 64 and "did you mean" not in done.stderr


# ---- Manual pages ----


def page_of(name):
    done = once("man", *([name] if name else []))
    assert done.returncode == 0 and not done.stderr
    return done.stdout


def render(page):
    done = subprocess.run(["groff", "-man", "-Tascii", "-P-c", "-P-b", "-P-u", "-P-o", "-rLL=100n"],
                          input=page, text=True, capture_output=True, check=True)
    return done.stdout


@pytest.mark.parametrize("name", ["", *NAMES])
def test_pages_are_clean(name):
    page = page_of(name)
    lint = subprocess.run(["groff", "-man", "-ww", "-z", "-Tascii"], input=page, text=True,
                          capture_output=True)
    assert (lint.returncode, lint.stderr) == (0, "")
    lint = subprocess.run(["mandoc", "-T", "lint", "-W", "warning"], input=page, text=True,
                          capture_output=True)
    # A page has no date: the same source gives the same bytes on every day.
    complaints = [line for line in lint.stdout.splitlines() if "missing date" not in line]
    assert not complaints, complaints
    assert page.isascii() and page.startswith(".\\\"")
    headings = re.findall(r"^\.SH (.*)$", page, re.MULTILINE)
    order = ["NAME", "SYNOPSIS", "DESCRIPTION", "COMMANDS", "OPTIONS", "EXIT STATUS", "ENVIRONMENT",
             "FILES", "EXAMPLES", "SEE ALSO"]
    assert headings == [heading for heading in order if heading in headings]
    assert {"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"} <= set(headings)


@each_command
def test_page_says_all_that_help_says(command):
    shown = render(page_of(command["name"]))
    for word in set(TOKEN.findall(command["help"])) - {"usage", "exit", "Exit", "status"}:
        assert word in shown, f"{word} is lost on the way to the page"
    for variable in set(re.findall(r"\$(ONCE_[A-Z_]+|NO_COLOR|XDG_[A-Z_]+)", command["help"])):
        assert re.search(rf"^ +{variable}\b", shown.split("\nENVIRONMENT\n")[1], re.MULTILINE), (
            f"${variable} has no row in src/cli/manual.c")
    for page in re.findall(r"once-(\w+)\(1\)", shown):
        assert page in NAMES


def test_page_of_once_names_all():
    shown = render(page_of(""))
    for command in COMMANDS:
        assert f"once-{command['name']}(1)" in shown
    for status in (0, 1, 64, 65, 66, 69, 70, 71, 75, 76, 77, 78):
        assert re.search(rf"^ +{status} ", shown.split("\nEXIT STATUS\n")[1], re.MULTILINE)


def test_man_for_machines_and_mistakes():
    page = json.loads(once("man", "--json", "key").stdout)
    assert page == {"name": "once-key", "section": 1, "page": page_of("key")}
    for args in (["man", "nothing"], ["man", "key", "laws"], ["man", "--nothing"],
                 ["completion"], ["completion", "tcsh"], ["completion", "bash", "zsh"]):
        done = once(*args)
        assert done.returncode == 64 and not done.stdout and "--help" in done.stderr
    script = json.loads(once("completion", "fish", "--json").stdout)
    assert script == {"shell": "fish", "script": once("completion", "fish").stdout}


def test_man_on_a_terminal_shows_the_page(tmp_path):
    """Through man where there is one, else the help text; never roff."""
    for path, expected in ((os.environ["PATH"], "ONCE-KEY(1)"), (str(tmp_path), "usage: once key")):
        main, terminal = pty.openpty()
        env = dict(os.environ, PATH=path, MANPAGER="cat", PAGER="cat", TERM="dumb")
        done = subprocess.run([once_binary(), "man", "key"], stdin=terminal, stdout=terminal,
                              stderr=subprocess.PIPE, env=env, timeout=60)
        os.close(terminal)
        shown = b""
        try:
            while chunk := os.read(main, 65536):
                shown += chunk
        except OSError:
            pass  # the end, on Linux
        os.close(main)
        assert done.returncode == 0 and expected in shown.decode()
        assert ".SH" not in shown.decode()


# ---- Completions ----

# What is typed before the key TAB, and the line afterwards.
TYPED = [
    ("once re", "once resolve "),
    ("once ls --st", "once ls --state "),
    ("once ls --state dou", "once ls --state doubt "),
    ("once serve --durability inter", "once serve --durability interval "),
    ("once serve --check-c", "once serve --check-config "),
    ("once key fing", "once key fingerprint "),
    ("once help back", "once help backup "),
    ("once inspect a_fi", "once inspect a_file "),
    ("once apply --dir a_fo", "once apply --dir a_folder/"),
    ("once run k -- a_comm", "once run k -- a_command_of_mine "),
]


class Terminal:
    """A shell at a terminal of its own. Two strokes of Ctrl-X write the line that is being typed
    into a file, so that nothing depends on how the shell paints it."""

    def __init__(self, words, start, folder):
        self.main, terminal = pty.openpty()
        self.line = folder / "line"
        env = dict(os.environ, PATH=f"{folder}/.bin:{os.environ['PATH']}", TERM="xterm",
                   HOME=str(folder), LINE_FILE=str(self.line), LC_ALL="C.UTF-8")
        self.process = subprocess.Popen(words, stdin=terminal, stdout=terminal, stderr=terminal,
                                        cwd=folder, env=env, start_new_session=True)
        os.close(terminal)
        os.set_blocking(self.main, False)
        self.send(f"source {start}; : >{self.line}.ready\n")
        self.wait_for(folder / "line.ready")

    def send(self, text):
        os.write(self.main, text.encode())

    def wait_for(self, path):
        end = time.monotonic() + 60
        while not (path.exists() and (path.stat().st_size > 0 or path.suffix == ".ready")):
            assert time.monotonic() < end, f"{path.name} did not come: {self.drain()}"
            self.drain()
            time.sleep(0.01)
        return path.read_text()

    def drain(self):
        try:
            return os.read(self.main, 65536)
        except BlockingIOError:
            return b""

    def complete(self, typed):
        self.line.unlink(missing_ok=True)
        self.send(typed + "\t" + "\x18\x18")
        try:
            return self.wait_for(self.line).rstrip("\n")
        finally:
            self.send("\x15")  # the line is emptied

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.main)


STARTS = {
    "bash": """
unset HISTFILE
bind 'set bell-style none'
write_line() { printf '%s\\n' "$READLINE_LINE" >$LINE_FILE.new; mv $LINE_FILE.new $LINE_FILE; }
bind -x '"\\C-x\\C-x": write_line'
source <(once completion bash)
""",
    "zsh": """
unset HISTFILE
unsetopt beep
autoload -Uz compinit && compinit -u -D
eval "$(once completion zsh)"
write_line() { print -r -- "$BUFFER" >$LINE_FILE.new; mv $LINE_FILE.new $LINE_FILE }
zle -N write_line
bindkey '^X^X' write_line
bindkey '^U' kill-whole-line
""",
    "zsh from its folder": """
unset HISTFILE
unsetopt beep
mkdir functions && once completion zsh >functions/_once
fpath=($PWD/functions $fpath)
autoload -Uz compinit && compinit -u -D
write_line() { print -r -- "$BUFFER" >$LINE_FILE.new; mv $LINE_FILE.new $LINE_FILE }
zle -N write_line
bindkey '^X^X' write_line
bindkey '^U' kill-whole-line
""",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / ".bin").mkdir()
    (tmp_path / ".bin" / "once").symlink_to(once_binary().resolve())
    command = tmp_path / ".bin" / "a_command_of_mine"
    command.write_text("#!/bin/sh\n")
    command.chmod(0o755)
    (tmp_path / "a_file").write_text("")
    (tmp_path / "a_folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("shell", STARTS)
def test_shell_completes_at_a_terminal(shell, folder):
    start = folder / "start"
    start.write_text(STARTS[shell])
    words = {"bash": ["bash", "--noprofile", "--norc", "-i"], "zsh": ["zsh", "-f", "-i"]}
    terminal = Terminal(words[shell.split()[0]], start, folder)
    try:
        got = {typed: terminal.complete(typed) for typed, _ in TYPED}
    finally:
        terminal.close()
    # zsh writes the equals sign of --state=doubt by itself.
    assert {typed: line.rstrip(" =") for typed, line in got.items()} == {
        typed: line.rstrip() for typed, line in TYPED}


def test_bash_completes_a_value_behind_an_equals_sign(folder):
    start = folder / "start"
    start.write_text(STARTS["bash"])
    terminal = Terminal(["bash", "--noprofile", "--norc", "-i"], start, folder)
    try:
        assert terminal.complete("once ls --state=dou").rstrip() == "once ls --state=doubt"
    finally:
        terminal.close()


def test_fish_completes(folder):
    env = dict(os.environ, PATH=f"{folder}/.bin:{os.environ['PATH']}", HOME=str(folder))
    lines = "\n".join(f"echo '> {typed}'; complete -C '{typed}'" for typed, _ in TYPED)
    done = subprocess.run(["fish", "--no-config", "-c", "once completion fish | source\n" + lines],
                          text=True, capture_output=True, cwd=folder, env=env, timeout=60)
    assert done.returncode == 0 and not done.stderr, done.stderr
    got = {}
    for part in done.stdout.split("> ")[1:]:
        typed, *offers = part.splitlines()
        got[typed] = [offer.split("\t")[0] for offer in offers]
    for typed, line in TYPED:
        assert got[typed] == [line.split()[-1]], typed


def test_fish_tells_what_things_are(folder):
    env = dict(os.environ, PATH=f"{folder}/.bin:{os.environ['PATH']}", HOME=str(folder))
    script = "once completion fish | source; complete -C 'once '; complete -C 'once check --'"
    done = subprocess.run(["fish", "--no-config", "-c", script], text=True, capture_output=True,
                          cwd=folder, env=env, timeout=60)
    offers = dict(line.split("\t") for line in done.stdout.splitlines())
    for command in COMMANDS:
        assert offers[command["name"]] == command["summary"]
    assert offers["--repair"].startswith("say what would be given up")


def test_shells_that_are_tested_are_there():
    for shell in ("bash", "zsh", "fish"):
        assert shutil.which(shell), f"{shell} is not installed: run scripts/setup.sh"


def test_meson_installs_every_page():
    listed = re.search(r"command_names = \[(.*?)\]", (ROOT / "src/cli/meson.build").read_text(),
                       re.DOTALL)[1]
    assert sorted(re.findall(r"'(\w+)'", listed)) == sorted(NAMES)
