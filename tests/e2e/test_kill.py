# SPDX-License-Identifier: Apache-2.0
"""Does the kill test see anything? The 500 rounds themselves run with `meson test --suite kill`."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KILL = Path(os.environ.get("ONCE_BIN", ROOT / "build" / "once")).resolve().parents[2] / "tests/kill"
ALWAYS, INTERVAL = "0", "1"


def kills(rounds, durability, tmp_path, seed):
    env = dict(os.environ, TMPDIR=str(tmp_path), ONCE_SEED=str(seed))
    return subprocess.run([KILL / "kill_test", KILL / "kill_load", str(rounds), durability],
                          env=env, text=True, capture_output=True, timeout=300)


def test_nothing_is_lost_by_a_kill(tmp_path):
    done = kills(20, ALWAYS, tmp_path, 7)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 kills" in done.stdout
    assert list(tmp_path.iterdir()) == [], "a test that went well leaves nothing behind"


def test_a_store_that_tells_too_early_is_caught(tmp_path):
    """Durability `interval` says what it loses: the last interval. The test has to notice."""
    for seed in range(1, 6):
        done = kills(20, INTERVAL, tmp_path, seed)
        if done.returncode != 0:
            break
    assert done.returncode != 0, "twenty kills lost nothing although nothing was durable"
    assert any(word in done.stderr for word in ("lost", "twice", "in doubt", "again", "fence",
                                                "busy", "started")), done.stderr


@pytest.mark.parametrize("damage", ["effect", "fence"])
def test_a_double_effect_is_caught(tmp_path, damage):
    """The ledger of effects is read by the test itself, not by the store."""
    rounds = tmp_path / "rounds"
    rounds.mkdir()
    done = subprocess.run([KILL / "kill_test", "--ledger", rounds], text=True, capture_output=True)
    assert done.returncode != 0 and "nothing was ever done" in done.stderr
    key = (3).to_bytes(4, "little") + (1).to_bytes(4, "little") + (9).to_bytes(4, "little")
    begun, effect = (1).to_bytes(4, "little"), (2).to_bytes(4, "little")
    time = bytes(8)

    def entry(kind, fence, operation=key):
        return kind + operation + fence.to_bytes(8, "little") + time

    (rounds / "journal.0").write_bytes(entry(begun, 5) + entry(effect, 5))
    good = subprocess.run([KILL / "kill_test", "--ledger", rounds], text=True, capture_output=True)
    assert good.returncode == 0, good.stderr
    if damage == "effect":
        (rounds / "journal.1").write_bytes(entry(begun, 6) + entry(effect, 6))
        wanted = "ran twice"
    else:
        (rounds / "journal.1").write_bytes(entry(begun, 4, bytes(12)))
        wanted = "was given fence 4 after 5"
    bad = subprocess.run([KILL / "kill_test", "--ledger", rounds], text=True, capture_output=True)
    assert bad.returncode != 0 and wanted in bad.stderr
