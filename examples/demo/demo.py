# SPDX-License-Identifier: Apache-2.0
"""`make demo`: payments over a lossy network, without Once and with it, and the proof that with it
each charge happened once. docs/guides/payments.md tells the story with pictures.

Needs Python 3 and build/once, nothing else. Everything happens in a temporary folder and on ports
of this machine that are free.
"""
import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.dont_write_bytecode = True

from plan import Plan  # noqa: E402
from report import (Books, Screen, euros, prove, show_books, show_doubles,  # noqa: E402
                    show_once)
from world import MODES, Broken, World  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CHARGES, CHARGES_QUICK = 200, 40
CHARGES_MIN, CHARGES_MAX = 20, 2000
HOLDS, FAILS, LUCKY, USAGE, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 64, 69, 130

EPILOG = """\
--break plays the run with Once only, without one piece of the protection: the proof must fail.
  key    customers make a new key for every attempt
  look   the reconciler says "not done" without looking into the ledger
  fence  the ledger does not check fences

environment: ONCE_BIN is the binary (default: build/once), TMPDIR where the folder is made

exit status: 0 the proof holds, and without Once charges went wrong; 1 the proof fails; 2 it
holds, but nothing went wrong without Once (or with --break) either: a lucky seed; 64 usage; 69
something does not start or does not end; 130 interrupted"""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"demo: {message}\n")


def options_of(arguments):
    parser = Parser(prog="demo.py", description=__doc__.split("\n\n")[0], epilog=EPILOG,
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="the faults of that seed (default: a new one)")
    parser.add_argument("--charges", type=int, help=f"how many (default: {CHARGES})")
    parser.add_argument("--quick", action="store_true", help=f"{CHARGES_QUICK} charges, seconds")
    parser.add_argument("--keep", action="store_true",
                        help="leave ledgers, store and logs, and say where")
    parser.add_argument("--open", action="store_true",
                        help="leave Once running at the end, to look around, until Ctrl-C")
    parser.add_argument("--break", dest="broken", choices=("key", "look", "fence"),
                        help="take one piece away (below)")
    options = parser.parse_args(arguments)
    options.charges = options.charges or (CHARGES_QUICK if options.quick else CHARGES)
    if not CHARGES_MIN <= options.charges <= CHARGES_MAX:
        parser.error(f"--charges: from {CHARGES_MIN} to {CHARGES_MAX}")
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1, 10**6)
    options.binary = Path(os.environ.get("ONCE_BIN") or ROOT / "build" / "once").absolute()
    if not options.binary.exists():
        parser.exit(UNAVAILABLE, f"demo: {options.binary} is not there; `make` builds it\n")
    return options


def opening(screen, options, plan):
    screen.say(screen.strong("Payments over a lossy network"))
    screen.say()
    screen.say(f"  {len(plan.charges)} orders, {euros(plan.total())} EUR in all, seed {plan.seed}. "
               "The network loses requests and")
    screen.say("  answers, delivers twice and late; the service is killed at work; writers are")
    screen.say("  paused, and wake up when their time is over. "
               + (f"With --break {options.broken} the proof has to fail:" if options.broken
                  else "The same faults three times:"))
    screen.say()


def play(screen, options, folder):
    plan = Plan(options.seed, options.charges)
    opening(screen, options, plan)
    all_books = []
    with ExitStack() as stack:
        for mode in ["once"] if options.broken else MODES:
            began_s = time.monotonic()
            world = World(options, plan, mode, folder / mode.replace(" ", "-"))
            if mode == "once":
                stack.enter_context(world)  # it is asked again for the proof
                world.run(screen.progress)
            else:
                with world:
                    world.run(screen.progress)
            all_books.append(Books(world))
            screen.say(f"  {MODES[mode]:<22} {len(plan.charges)} orders, "
                       f"{time.monotonic() - began_s:.1f} s")
        screen.say()
        show_books(screen, plan, all_books)
        for books in all_books:
            if books.mode != "one try":  # there the network alone doubles
                show_doubles(screen, books)
        show_once(screen, world)
        holds = prove(screen, world, all_books[-1])
        status = conclude(screen, options, holds, all_books)
        if options.open:
            look_around(screen, world)
    return status


def conclude(screen, options, holds, all_books):
    screen.say()
    if not holds:
        screen.say(screen.bad("The proof FAILS."))
        status = FAILS
    elif options.broken or all_books[1].right():
        without = f"with --break {options.broken}" if options.broken else "without Once"
        screen.say(f"The proof holds, but nothing went wrong {without} either: a lucky seed.")
        status = LUCKY
    else:
        screen.say(screen.good("The proof holds: each charge happened once."))
        status = HOLDS
    again = f"--seed {options.seed}" + (f" --charges {options.charges}" if options.charges != CHARGES
                                        else "")
    again += f" --break {options.broken}" if options.broken else ""
    screen.say(f"The same faults again: make demo DEMO='{again}'")
    return status


def look_around(screen, world):
    screen.say()
    screen.say(f"Look around: {world.server.url()}")
    screen.say(f"  or: {world.options.binary} ls --dir {world.folder / 'store'} payments")
    screen.say("Ctrl-C ends it.")
    try:
        while world.server.process.poll() is None:
            time.sleep(0.2)
    except KeyboardInterrupt:
        screen.say()


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt(*_):
    """The first one ends the demo; further ones do not disturb it when it clears up."""
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)
    raise KeyboardInterrupt


def main():
    options = options_of(sys.argv[1:])
    screen = Screen()
    for name in SIGNALS:
        signal.signal(name, interrupt)
    folder = Path(tempfile.mkdtemp(prefix="once-demo-"))
    try:
        return play(screen, options, folder)
    except Broken as error:
        screen.clear()
        print(f"demo: {error}", file=sys.stderr)
        return UNAVAILABLE
    except KeyboardInterrupt:
        screen.clear()
        print("demo: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # nobody reads any more
        sys.stdout = open(os.devnull, "w")
        return UNAVAILABLE
    finally:
        if options.keep:
            print(f"demo: kept {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
