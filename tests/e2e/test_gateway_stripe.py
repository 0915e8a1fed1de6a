# SPDX-License-Identifier: Apache-2.0
"""Stripe's own SDK for Node, unchanged, in front of a service that knows nothing of idempotency: in
the Stripe profile its retries and its classes of errors are those that it has with Stripe.
"""
import json
import subprocess

import pytest
from client_tools import PINNED, node_modules
from gateway_raw import state
from gateway_tools import stack
from lossy import Network
from serving import wait_for

OLD = "01890000-0000-7000-8000-000000000001"     # UUIDv7, of 2023
FUTURE = "11890000-0000-7000-8000-000000000001"  # of a clock that is wrong


class Sdk:
    """Charges that are created at the same time, in a process of their own."""

    def __init__(self, folder, calls):
        self.process = subprocess.Popen(["node", "stripe.mjs", json.dumps(calls)], cwd=folder,
                                        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def results(self, seconds=90):
        said, errors = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0 and said, errors
        return json.loads(said)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stripe")
    (folder / "node_modules").symlink_to(node_modules())
    (folder / "stripe.mjs").write_bytes((PINNED / "stripe.mjs").read_bytes())
    return folder


@pytest.fixture(scope="module")
def s(folder):
    location = "once require; once_profile stripe; once_max_body 8k; once_max_answer 64k;"
    with stack(folder / "stack", {"/": location}) as running:
        with Network(running.gateway.port) as running.network:
            yield running


def create(s, folder, *calls):
    """At the same time; a dict for each."""
    with Sdk(folder, [{"port": s.gateway.port, **call} for call in calls]) as sdk:
        return sdk.results()


def kind(result):
    return result.get("error"), result.get("status"), result.get("type"), result.get("code")


def busy_of(s, key):
    return sum(a["key"] == key and a["verdict"] == "BUSY" for a in s.gateway.accesses())


# ---- Once ----------------------------------------------------------------------------------------

def test_a_charge_and_its_replay(s, folder):
    first, = create(s, folder, dict(key="plain-1", amount=4200))
    again, = create(s, folder, dict(key="plain-1", amount=4200))
    assert first["charge"]["amount"] == 4200 and first["charge"]["status"] == "succeeded"
    assert (first["requests"], first["replayed"]) == (1, False)
    assert again["charge"] == first["charge"]
    assert (again["requests"], again["replayed"]) == (1, True)
    assert s.upstream.effects("plain-1") == 1


def test_answers_are_lost(s, folder):
    """Nobody gave a key: the SDK makes one, and keeps it for its retries."""
    before = sum(s.upstream.counts().values())
    s.network.plan("lose", "half", "refuse")
    result, = create(s, folder, dict(port=s.network.port, retries=3))
    assert result.get("charge"), result
    assert result["key"].startswith("stripe-node-retry-") and result["replayed"]
    assert result["requests"] >= 3
    assert s.upstream.effects(result["key"]) == 1
    assert sum(s.upstream.counts().values()) == before + 1


def test_timeouts_duplicates_and_keys_in_use(s, folder):
    """All at once, because the SDK waits at least half a second before each retry."""
    for key in ("slow", "many"):
        s.upstream.plan("hold=go", key)
    call = dict(key="many", retries=5)
    with Sdk(folder, [{"port": s.gateway.port, **c} for c in (
            dict(key="slow", timeout=2000, retries=5), call, call, call, call, call)]) as sdk:
        s.upstream.wait_effects("many")
        in_use, = create(s, folder, dict(key="many", retries=0))
        assert kind(in_use) == ("StripeAPIError", 409, "idempotency_error",
                                "idempotency_key_in_use")
        wait_for("a retry of the one that was too slow", lambda: busy_of(s, "slow") > 0)
        s.upstream.let_go("go")
        slow, *many = sdk.results()
    assert slow.get("charge") and slow["replayed"] and slow["requests"] >= 2, slow
    assert all(result.get("charge") == many[0]["charge"] for result in many), many
    assert sorted(result["replayed"] for result in many) == [False, True, True, True, True]
    for key in ("slow", "many"):
        assert (s.upstream.effects(key), s.upstream.requests(key)) == (1, 1)


def test_refused_by_the_service_is_retried_and_declined_is_not(s, folder):
    s.upstream.plan("status=503,no_effect|ok", "later-1")
    s.upstream.plan("status=402", "declined-1")
    later, declined = create(s, folder, dict(key="later-1", retries=2),
                             dict(key="declined-1", retries=2))
    assert later["charge"]["metadata"]["attempt"] == "2" and later["requests"] == 2
    assert kind(declined) == ("StripeCardError", 402, "card_error", "card_declined")
    again, = create(s, folder, dict(key="declined-1", retries=2))
    assert again == declined and declined["requests"] == 1
    for key in ("later-1", "declined-1"):
        assert s.upstream.effects(key) == 1


# ---- Refused -------------------------------------------------------------------------------------

def test_the_classes_of_errors(s, folder):
    create(s, folder, dict(key="mismatch-1", amount=100))
    s.upstream.plan("big=100000", "large-1")
    first, = create(s, folder, dict(key="large-1", retries=3))
    assert first["error"] == "StripeAPIError" and first["requests"] == 1, "its answer is no JSON"
    results = create(
        s, folder, dict(key="mismatch-1", amount=200, retries=3), dict(key=OLD, retries=3),
        dict(key=FUTURE, retries=3), dict(key="x" * 256, retries=3),
        dict(key="body-1", metadata={"text": "x" * 9000}, retries=3),
        dict(key="large-1", retries=3))
    assert [result["requests"] for result in results] == [1] * 6, "none is worth a retry"
    assert [kind(result) for result in results] == [
        ("StripeIdempotencyError", 400, "idempotency_error", None),
        ("StripeIdempotencyError", 400, "idempotency_error", "idempotency_key_too_old"),
        ("StripeInvalidRequestError", 400, "invalid_request_error", None),
        ("StripeInvalidRequestError", 400, "invalid_request_error", None),
        ("StripeInvalidRequestError", 400, "invalid_request_error", None),
        ("StripeAPIError", 200, "api_error", "idempotency_answer_not_kept")]
    assert all(result["message"] for result in results)
    assert "clock" in results[2]["message"]
    effects = s.upstream.counts()
    assert [effects[key] for key in ("mismatch-1", OLD, FUTURE, "body-1", "large-1")] == [
        1, 0, 0, 0, 1]


@pytest.mark.parametrize("plan", ["close", "half", "status=500"])
def test_in_doubt_is_never_retried(s, folder, plan):
    key = f"doubt-{plan}"
    s.upstream.plan(plan, key)
    first, = create(s, folder, dict(key=key, retries=4))
    again, = create(s, folder, dict(key=key, retries=4))
    if plan == "status=500":  # what the service said itself
        assert kind(first) == ("StripeAPIError", 500, "card_error", "card_declined")
    else:
        assert kind(first) == ("StripeAPIError", 502, "api_error", "idempotency_in_doubt")
    assert kind(again) == ("StripeAPIError", 409, "idempotency_error", "idempotency_in_doubt")
    assert (first["requests"], again["requests"]) == (1, 1)
    assert (s.upstream.effects(key), state(s.server, key)) == (1, "doubt")


# ---- Away ----------------------------------------------------------------------------------------

def test_the_service_and_the_store_are_away_for_a_while(s, folder):
    s.upstream.stop()
    with Sdk(folder, [dict(port=s.gateway.port, key="away-1", retries=5)]) as sdk:
        wait_for("it was refused", lambda: s.gateway.counts()["released"] > 0
                 and any(a["key"] == "away-1" for a in s.gateway.accesses()))
        s.upstream.start()
        result, = sdk.results()
    assert result.get("charge") and not result["replayed"] and result["requests"] >= 2, result
    assert s.upstream.effects("away-1") == 1
    s.server.stop()
    refused, = create(s, folder, dict(key="away-2", retries=0))
    assert kind(refused) == ("StripeAPIError", 503, "api_error", None)
    with Sdk(folder, [dict(port=s.gateway.port, key="away-2", retries=5)]) as sdk:
        s.server.start()
        result, = sdk.results()
    assert result.get("charge"), result
    assert s.upstream.effects("away-2") == 1
