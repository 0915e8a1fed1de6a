# SPDX-License-Identifier: Apache-2.0
"""examples/payment: the story ends well, and what it left on disk says the same."""
import json
import subprocess

import pytest


@pytest.fixture(scope="module")
def story(once_bin, tmp_path_factory):
    program = once_bin.resolve().parents[2] / "examples" / "payment" / "payment"
    assert program.exists(), f"{program} is not built; run `make`"
    folder = tmp_path_factory.mktemp("payment") / "stories"
    done = subprocess.run([program, folder], text=True, capture_output=True, timeout=300)
    assert done.returncode == 0 and not done.stderr, done.stdout + done.stderr
    return program, folder, done.stdout


def test_the_story_says_what_happened(story):
    text = story[2]
    chapters = ["1. Charge 100 with token 42", "-> APPLIED [900,42,\"paid\",1]",
                "2. The customer presses", "-> REPLAY [900,42,\"paid\",1]",
                "3. The key is reused", "-> MISMATCH", "4. A terminal", "-> REJECTED", "STALE",
                "5. What is true now", "6. A new store", "12. A new store", "13. One store",
                "The end: in every story one debit, one message, and the order is paid."]
    at = 0
    for chapter in chapters:
        assert chapter in text[at:], chapter
        at = text.index(chapter, at)
    assert "NOT AS IT MUST BE" not in text
    assert text.count("killed ") == 14


def test_every_store_of_the_story_has_one_debit(once_bin, story):
    stores = sorted(path.name for path in story[1].iterdir())
    assert stores == sorted(["requests", "deaths", *(f"death-{step}" for step in range(1, 8))])
    for name in stores:
        def shown(*args):
            done = subprocess.run([once_bin, "object", "--dir", story[1] / name, "--json", *args],
                                  text=True, capture_output=True, timeout=60)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)
        assert shown("acct:42")["value"] == 900
        assert shown("order:7")["state"] == "paid"
        items = shown("charges", "--after", "0")["items"]
        assert [json.loads(item["payload"])["amount"] for item in items] == [100]
        assert items[0]["group"] == "acct:42"
        check = subprocess.run([once_bin, "check", "--dir", story[1] / name], capture_output=True,
                               timeout=60)
        assert check.returncode == 0


def test_a_folder_that_is_there_is_refused(story, tmp_path):
    done = subprocess.run([story[0], tmp_path], text=True, capture_output=True, timeout=60)
    assert done.returncode == 2 and "not there yet" in done.stderr
    assert subprocess.run([story[0]], capture_output=True, timeout=60).returncode == 2
