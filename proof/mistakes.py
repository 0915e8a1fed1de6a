# SPDX-License-Identifier: Apache-2.0
"""Shows that the proof can fail: makes one small mistake at a time in a copy of the sources and asks the
prover for the property that must catch it. Refuted means: no longer proved, by either prover.

Each entry names the file, the text before and after, and the property. The same property is first
proved on the copy without a mistake, with the same time for each goal, so that a refusal means the
mistake and not a slow machine.
"""
import argparse
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from wp import ROOT, environment, prove


@dataclass(frozen=True)
class Mistake:
    what: str
    file: str
    before: str
    after: str
    function: str
    prop: str


DECIDE = "src/core/decide.c"
RECORD = "src/core/record.c"
EFFECT = "src/core/effect.c"
SCALAR = "src/lattice/scalar.c"

MISTAKES = [
    Mistake("a lease that is over is forgotten (runs again)", RECORD,
            "return now_ms >= rec->lease_end_ms ? ONCE_STATE_DOUBT : ONCE_STATE_STARTED;",
            "return now_ms >= rec->lease_end_ms ? ONCE_STATE_ABSENT : ONCE_STATE_STARTED;",
            "once__state_at", "inv4_started_is_never_absent"),
    Mistake("a lease lives one millisecond too long", RECORD,
            "return now_ms >= rec->lease_end_ms ? ONCE_STATE_DOUBT",
            "return now_ms > rec->lease_end_ms ? ONCE_STATE_DOUBT",
            "once__state_at", "exact"),
    Mistake("the last byte of a fingerprint is not compared", RECORD,
            "for (int i = 0; i < ONCE_FINGERPRINT_SIZE; i++)",
            "for (int i = 0; i < ONCE_FINGERPRINT_SIZE - 1; i++)",
            "once__fingerprint_equal", "exact"),
    Mistake("a shorter owner equals a longer one", "src/base/bytes.c",
            "if (a.size != b.size)", "if (a.size > b.size)",
            "once__bytes_equal", "exact"),
    Mistake("BUSY is said before MISMATCH", DECIDE,
            "    if (!once__fingerprint_equal(&rec->fingerprint, &req->fingerprint))\n",
            "    if (state != ONCE_STATE_STARTED &&\n"
            "        !once__fingerprint_equal(&rec->fingerprint, &req->fingerprint))\n",
            "once__decide_begin", "inv5_mismatch_before_everything"),
    Mistake("a replay does not look at the fingerprint", DECIDE,
            "    if (!once__fingerprint_equal(&rec->fingerprint, &req->fingerprint))\n",
            "    if (state != ONCE_STATE_COMPLETED &&\n"
            "        !once__fingerprint_equal(&rec->fingerprint, &req->fingerprint))\n",
            "once__decide_begin", "inv5_replay_is_of_the_same_request"),
    Mistake("anyone may take over a live lease", DECIDE,
            "if (owner_asks_again(rec, req))", "if (req->on_doubt == ONCE_ON_DOUBT_RETRY)",
            "once__decide_begin", "inv1_no_execute_under_a_live_lease"),
    Mistake("two anonymous callers are the same", DECIDE,
            "return req->owner.size > 0 && once__bytes_equal", "return once__bytes_equal",
            "owner_asks_again", "exact"),
    Mistake("a doubt is retried without permission", DECIDE,
            "if (req->on_doubt == ONCE_ON_DOUBT_RETRY)", "if (req->owner.size > 0)",
            "once__decide_begin", "inv4_doubt_needs_permission"),
    Mistake("a new attempt keeps the old fence", DECIDE,
            "    decision.next.fence = at.next_fence;\n"
            "    decision.next.lease_end_ms = at.now_ms + req->lease_ms;",
            "    decision.next.lease_end_ms = at.now_ms + req->lease_ms;",
            "execute", "started"),
    Mistake("a stale owner may complete", DECIDE,
            "if (fence != rec->fence)\n        return ONCE_STALE;",
            "if (fence > rec->fence)\n        return ONCE_STALE;",
            "running_under", "exact"),
    Mistake("complete overwrites the first answer", DECIDE,
            "return say(rec, ended_with(rec, answer) ? ONCE_DONE : ONCE_MISMATCH);",
            "return end(rec, ONCE_STATE_COMPLETED, *answer, now_ms);",
            "once__decide_complete", "first_answer_stays"),
    Mistake("another answer is acknowledged", DECIDE,
            "return say(rec, ended_with(rec, answer) ? ONCE_DONE : ONCE_MISMATCH);",
            "return say(rec, ONCE_DONE);",
            "once__decide_complete", "done_means_this_answer"),
    Mistake("retention counts from the key's birth alone", DECIDE,
            "decision.next.expires_ms = later(rec->expires_ms, now_ms + rec->retention_ms);",
            "decision.next.expires_ms = rec->expires_ms;",
            "end", "kept"),
    Mistake("a key from a fast clock expires before it is too old", DECIDE,
            "once_ms expires_ms = later(at.now_ms, req->birth_ms) + req->retention_ms;",
            "once_ms expires_ms = at.now_ms + req->retention_ms;",
            "execute", "retained"),
    Mistake("an old key is accepted for one millisecond", DECIDE,
            "now_ms - req->birth_ms >= req->retention_ms;",
            "now_ms - req->birth_ms > req->retention_ms;",
            "too_old", "exact"),
    Mistake("resolve disturbs a live owner", DECIDE,
            "    if (state == ONCE_STATE_STARTED)\n        return say_busy(rec, at.now_ms);\n"
            "    if (state != ONCE_STATE_DOUBT)",
            "    if (state != ONCE_STATE_DOUBT && state != ONCE_STATE_STARTED)",
            "once__decide_resolve", "live_owner_is_not_disturbed"),
    Mistake("resolve leaves the vanished owner its fence", DECIDE,
            "    decision.next.fence = at.next_fence;\n    return decision;\n}\n\n"
            "struct once_decision once__decide_forget",
            "    return decision;\n}\n\nstruct once_decision once__decide_forget",
            "once__decide_resolve", "only_doubts"),
    Mistake("forget deletes a running operation", DECIDE,
            "    if (fence == 0 && state == ONCE_STATE_STARTED)\n"
            "        return say_busy(rec, now_ms);\n", "",
            "once__decide_forget", "inv4_running_needs_its_fence"),
    Mistake("a doubt can be forgotten by whoever was told of it", DECIDE,
            "    if (state == ONCE_STATE_DOUBT)\n        return doubt(rec, ONCE_DOUBT);\n\n"
            "    struct once_decision decision = {.word = ONCE_DONE",
            "    if (fence == 0 && state == ONCE_STATE_DOUBT)\n        return doubt(rec, ONCE_DOUBT);\n\n"
            "    struct once_decision decision = {.word = ONCE_DONE",
            "once__decide_forget", "inv4_doubt_is_never_forgotten"),
    Mistake("a lease that is over is renewed", DECIDE,
            "    if (once__state_at(rec, now_ms) == ONCE_STATE_DOUBT)\n"
            "        return doubt(rec, ONCE_DOUBT);\n", "",
            "once__decide_renew", "inv4_over_is_over"),
    Mistake("a late renewal shortens the lease", DECIDE,
            "later(rec->lease_end_ms, now_ms + renewal.lease_ms);", "now_ms + renewal.lease_ms;",
            "once__decide_renew", "never_shorter"),
    Mistake("a late checkpoint moves the recovery point back", DECIDE,
            "    if (step->follows && !once__bytes_equal(rec->point, step->after))\n"
            "        return say(rec, ONCE_STALE);\n", "",
            "once__decide_checkpoint", "d3_never_back"),
    Mistake("a resolved answer is not kept", DECIDE,
            "    decision.next.fence = at.next_fence;\n    return decision;\n}\n\n"
            "struct once_decision once__decide_forget",
            "    decision.next.fence = at.next_fence;\n"
            "    decision.next.expires_ms = rec->expires_ms;\n    return decision;\n}\n\n"
            "struct once_decision once__decide_forget",
            "once__decide_resolve", "k4_retention_counts_from_the_end"),
    Mistake("the owner that asks again is told BUSY", DECIDE,
            "if (owner_asks_again(rec, req))", "if (false)",
            "once__decide_begin", "lease_decides"),
    Mistake("attempts overflow", DECIDE,
            "attempts < ONCE_ATTEMPT_MAX ? attempts + 1 : ONCE_ATTEMPT_MAX;", "attempts + 1;",
            "execute", "valid"),
    Mistake("a 500 releases the key by default", "src/core/outcome.c",
            "return status == 503 ? ONCE_OUTCOME_RELEASE : ONCE_OUTCOME_DOUBT;",
            "return status <= 503 ? ONCE_OUTCOME_RELEASE : ONCE_OUTCOME_DOUBT;",
            "outcome_of_5xx", "release"),
    Mistake("max takes the smaller", SCALAR,
            "return a.value < b.value ? b : a;", "return a.value > b.value ? b : a;",
            "once__max_merge", "at_least_b"),
    Mistake("a flag falls again", SCALAR,
            "return a || b;", "return a && b;", "once__flag_merge", "either"),
    Mistake("counts are added, so a repeated merge counts twice", SCALAR,
            "return a < b ? b : a;", "return a + b;", "once__count_merge", "larger"),
    Mistake("two writes at one time by one node have no winner", SCALAR,
            "order = pair.node_order != 0 ? pair.node_order : pair.value_order;",
            "order = pair.node_order;",
            "once__lww_order", "by_value"),
    Mistake("a removed member comes back", SCALAR,
            "(a.alive && !b.seen) || (b.alive && !a.seen)", "a.alive || (b.alive && !a.seen)",
            "once__dot_merge", "rank"),
    Mistake("concurrent states look ordered", SCALAR,
            "return x == ONCE_ORDER_EQUAL ? y : ONCE_ORDER_CONCURRENT;", "return y;",
            "once__order_join", "a_more"),
    Mistake("a counter falls below its minimum", EFFECT,
            "if (sum < range.min)", "if (sum < range.min && n > 0)",
            "once__effect_add", "stays_within"),
    Mistake("the same token passes the guard twice", EFFECT,
            "if (token <= *highest", "if (token < *highest",
            "once__effect_guard", "refuses"),
    Mistake("a zombie's sequence number is taken", EFFECT,
            "if (position.epoch < sequence->epoch)", "if (position.epoch + 1 < sequence->epoch)",
            "once__effect_seq", "fenced"),
    Mistake("a guarded write does not look at the version", EFFECT,
            "    if (expected.given && expected.version != reg->version)\n"
            "        return ONCE__EFFECT_VERSION;\n"
            "    if (reg->version >= ONCE_VERSION_MAX)\n"
            "        return ONCE__EFFECT_OVERFLOW;\n"
            "    reg->version++;\n"
            "    reg->present = true;",
            "    if (reg->version >= ONCE_VERSION_MAX)\n"
            "        return ONCE__EFFECT_OVERFLOW;\n"
            "    reg->version++;\n"
            "    reg->present = true;",
            "once__effect_set", "refuses"),
    Mistake("a lease is given to another before it is over", EFFECT,
            "claim.now_ms < lease->until_ms", "claim.now_ms / 2 < lease->until_ms / 2",
            "once__effect_lease", "one_at_a_time"),
    Mistake("an owner that was paused renews another's lease", EFFECT,
            "renewal.token != lease->token", "renewal.token > lease->token",
            "once__effect_renew", "refuses"),
    Mistake("a token that was released still holds", EFFECT,
            "return lease->owner.size > 0 && token == lease->token",
            "return lease->token > 0 && token == lease->token",
            "once__effect_hold", "refuses"),
    Mistake("a message that is not there yet is called sent", EFFECT,
            "if (receipt.number == 0 || receipt.number > receipt.emitted)",
            "if (receipt.number == 0)",
            "once__effect_sent", "refuses"),
]


def check(mistake, env, folder, number, timeout_s):
    """None when the mistake is refuted by the property that should, else what went wrong."""
    copy = Path(folder) / f"mistake-{number}"
    for part in ("include", "src", "proof"):
        shutil.copytree(ROOT / part, copy / part)
    options = dict(root=copy, timeout_s=timeout_s, jobs=1, only=[mistake.prop],
                   functions=[mistake.function])
    right = prove([mistake.file], env, **options)
    if not right.proved_what_was_asked:
        return f"{mistake.prop} is not proved on the right source: {right.failed}\n{right.log}"
    source = copy / mistake.file
    text = source.read_text()
    if text.count(mistake.before) != 1:
        return f"the text to change stands {text.count(mistake.before)} times in {mistake.file}"
    source.write_text(text.replace(mistake.before, mistake.after))
    wrong = prove([mistake.file], env, **options)
    if wrong.total == 0:
        return f"the prover had nothing to prove:\n{wrong.log}"
    if wrong.proved == wrong.total:
        return "still proved"  # only mistake.prop was asked for, so nothing else can have failed
    shutil.rmtree(copy)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timeout", type=int, default=8, help="seconds a goal (default 8)")
    parser.add_argument("--jobs", type=int, default=2, help="mistakes at a time (default 2)")
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="only every Nth of them (default 1: all)")
    options = parser.parse_args()

    mistakes = MISTAKES[::options.every]
    refuted = 0
    with tempfile.TemporaryDirectory(prefix="once-mistakes-") as folder:
        env = environment(folder)
        with ThreadPoolExecutor(options.jobs) as pool:
            found = pool.map(lambda pair: check(pair[1], env, folder, pair[0], options.timeout),
                             enumerate(mistakes))
            for mistake, problem in zip(mistakes, found):
                refuted += problem is None
                word = "refuted" if problem is None else "NOT REFUTED"
                print(f"{word:12} {mistake.what}: {mistake.function}, {mistake.prop}", flush=True)
                if problem:
                    print(f"    {problem}")
    print(f"mistakes: {refuted} of {len(mistakes)} refuted")
    # A part may be fewer; all of them are a dozen at least, whoever shortens the list.
    return 0 if refuted == len(mistakes) and mistakes and len(MISTAKES) >= 12 else 1


if __name__ == "__main__":
    sys.exit(main())
