# SPDX-License-Identifier: Apache-2.0
"""Runs Frama-C WP and reads what it says. Shared by prove.py and mistakes.py."""
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROVERS = "z3,cvc4"


@dataclass
class Outcome:
    proved: int = 0
    total: int = 0
    scheduled: int = 0
    smoke: int = 0  # contracts whose requirements do not contradict each other
    assumed: int = 0  # contracts of functions without a body here, taken on trust
    open: list = field(default_factory=list)  # what the kernel's report says is not settled
    failed: list = field(default_factory=list)
    log: str = ""

    @property
    def proved_what_was_asked(self):
        return self.proved == self.total >= self.scheduled > 0 and not self.failed

    @property
    def complete(self):
        """Everything in the files, not only what was asked for."""
        return self.proved_what_was_asked and not self.open


def environment(folder):
    """A prover configuration of our own: the one in the home folder may be missing or old."""
    for tool in ("frama-c", "why3", "z3", "cvc4"):
        if not shutil.which(tool):
            sys.exit(f"proof: {tool} is not installed; run scripts/setup.sh")
    # A larger minor heap: with OCaml's own, a tenth of Frama-C's time is looking for garbage.
    env = dict(os.environ, WHY3CONFIG=str(Path(folder) / "why3.conf"), OCAMLRUNPARAM="s=4M")
    done = subprocess.run(["why3", "config", "detect"], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0 or "Z3" not in done.stdout or "CVC4" not in done.stdout:
        sys.exit(f"proof: why3 does not find Z3 and CVC4:\n{done.stdout}")
    return env


def prove(files, env, *, root=ROOT, timeout_s=30, jobs=2, only=None, functions=None, smoke=False):
    """Proves the contracts of files; only is a list of property names, functions of functions."""
    command = ["frama-c", "-c11", "-wp", "-wp-rte", "-wp-prover", PROVERS,
               "-wp-timeout", str(timeout_s), "-wp-par", str(jobs),
               "-cpp-extra-args=-Iinclude -Isrc"]
    if only:
        command += ["-wp-prop", ",".join(only)]
    if functions:
        command += ["-wp-fct", ",".join(functions)]
    if smoke:
        # Contradictory requirements would prove anything. Calls of once__assert_fail are dead on
        # purpose, so only the requirements are looked at.
        command += ["-wp-smoke-tests", "-wp-no-smoke-dead-code", "-wp-no-smoke-dead-call",
                    "-wp-no-smoke-dead-loop"]
    command += [str(f) for f in files] + ["-then", "-report"]
    # Frama-C looks for files from $PWD, not from the folder it runs in.
    for _ in range(2):
        done = subprocess.run(command, cwd=root, env=dict(env, PWD=str(root)), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        # A prover's server that died under Frama-C is no result; goals that fail are, and stand.
        if done.returncode >= 0 and "System error" not in done.stdout:
            break
    return read(done.stdout, done.returncode)


def read(log, status):
    result = Outcome(log=log)
    if status != 0 or "User Error" in log:
        result.failed = [f"frama-c stopped with status {status}"]
        return result
    for number in re.findall(r"\[wp\] (\d+) goals? scheduled", log):
        result.scheduled += int(number)
    for proved, total in re.findall(r"\[wp\] Proved goals:\s+(\d+) / (\d+)", log):
        result.proved += int(proved)
        result.total += int(total)
    # WP counts a smoke test that passed among the goals; a goal is only what was to be proved.
    result.smoke = len(re.findall(r"\[wp\] \[Passed\] Smoke-test", log))
    result.proved -= result.smoke
    result.total -= result.smoke
    result.scheduled -= result.smoke
    result.failed = re.findall(r"\[wp\] \[(?!Passed)[A-Z]\w*\] (?:Goal|Smoke-test) (\S+)$", log,
                               re.MULTILINE)
    # The kernel's own count: every property is validated, or the contract of an external function.
    summary = log[log.rfind("Status Report Summary"):]
    for number, what in re.findall(r"^\s+(\d+) (\w[\w ]*)$", summary, re.MULTILINE):
        if what == "Considered valid":
            result.assumed = int(number)
        elif what not in ("Completely validated", "Total"):
            result.open.append(f"{number} {what}")
    if "Total" not in summary:
        result.open.append("no report")
    return result
