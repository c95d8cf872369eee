"""The checker of streams: silent about what went right, and never about what went wrong."""

from __future__ import annotations

import dataclasses

from hypothesis import assume, given
from hypothesis import strategies as st

from judge.model import messages as m
from tests.support.clients import CASES, FinalTask, Ledger, faults, longest_gap, outage

VERDICTS = st.sampled_from(["AC", "WA", "RTE", "CE", "TLE"])


def final(number: int, verdict: str, **other) -> FinalTask:
    values = {"status": "success", "attempt": 1, "judged_by": "e1", "judged": 1, **other}
    return FinalTask(id=f"{number:024x}", key=f"k{number}", verdict=verdict, **values)


@st.composite
def right(draw, least: int = 1) -> Ledger:
    """A stream that went well, with repeated acknowledgements, and verdicts that were not seen when they came."""
    ledger = Ledger()
    for number in range(draw(st.integers(least, 8))):
        one = final(number, draw(VERDICTS), attempt=draw(st.integers(1, 3)))
        ledger.offered[one.key] = one.verdict
        for _ in range(draw(st.integers(1, 3))):
            ledger.acknowledged.append((one.key, one.id, float(number)))
        ledger.ended[one.id] = one
        ledger.listed.append((one.id, one.key))
        if draw(st.booleans()):
            ledger.seen[one.id] = (one, float(number + 1))
    return ledger


def one_of(data, ledger: Ledger) -> FinalTask:
    return data.draw(st.sampled_from(list(ledger.ended.values())))


def said(ledger: Ledger, word: str, *names: str) -> bool:
    return any(fault.startswith(word) and all(name in fault for name in names) for fault in faults(ledger))


@given(right(least=0))
def test_what_went_right_is_no_fault(ledger):
    assert faults(ledger) == []


@given(right(), st.data())
def test_a_lost_submission_is_found(ledger, data):
    one = one_of(data, ledger)
    how = data.draw(st.sampled_from(["listed", "ended", "acknowledged"]))
    if how == "listed":
        ledger.listed.remove((one.id, one.key))
    elif how == "ended":
        del ledger.ended[one.id]
    else:
        ledger.acknowledged = [ack for ack in ledger.acknowledged if ack[0] != one.key]
    assert said(ledger, "lost", one.key if how == "acknowledged" else one.id)


@given(right(), st.data())
def test_a_doubled_submission_is_found(ledger, data):
    one = one_of(data, ledger)
    other = dataclasses.replace(one, id="f" * 24)
    how = data.draw(st.sampled_from(["another answer", "another task", "twice in the list", "another verdict"]))
    if how == "another answer":
        ledger.acknowledged.append((one.key, other.id, 0.0))
    elif how == "another task":
        ledger.listed.append((other.id, data.draw(st.sampled_from([one.key, None]))))
    elif how == "twice in the list":
        ledger.listed.append((one.id, one.key))
    else:
        ledger.ended[one.id] = dataclasses.replace(one, judged=2)
    assert said(ledger, "doubled")


@given(right(least=2), st.data())
def test_two_submissions_in_one_task_are_found(ledger, data):
    one, other = data.draw(st.permutations(list(ledger.ended.values())))[:2]
    ledger.acknowledged.append((one.key, other.id, 0.0))
    assert said(ledger, "lost", "several", one.key, other.key)


@given(right(), st.data(), VERDICTS)
def test_a_wrong_verdict_is_found(ledger, data, verdict):
    one = one_of(data, ledger)
    assume(verdict != one.verdict)
    ledger.ended[one.id] = dataclasses.replace(one, verdict=verdict, reason="because")
    assert said(ledger, "wrong", one.id, "because")


@given(right(), st.data())
def test_a_task_without_a_judgement_is_found(ledger, data):
    one = one_of(data, ledger)
    ledger.ended[one.id] = dataclasses.replace(one, judged=0)
    assert said(ledger, "wrong", one.id, "0 times")


@given(right(), st.data())
def test_a_verdict_that_changes_is_found(ledger, data):
    one = one_of(data, ledger)
    what = data.draw(st.sampled_from([{"judged_by": "e2"}, {"attempt": 9}, {"verdict": "SV"}, {"status": "cancelled"}]))
    ledger.seen[one.id] = (dataclasses.replace(one, **what), 0.0)
    assert said(ledger, "changed", one.id)


@given(st.lists(st.floats(-10, 110)), st.floats(0, 50), st.floats(50, 100))
def test_the_longest_gap_is_one_and_no_longer_one_exists(times, begin, end):
    gap = longest_gap(times, begin, end)
    inside = [time for time in times if begin < time < end]
    assert (end - begin) / (len(inside) + 1) <= gap * (1 + 1e-9) + 1e-9
    assert gap <= end - begin
    assert any(
        not any(start + 1e-9 < time < start + gap - 1e-9 for time in inside) and start + gap <= end + 1e-9
        for start in [begin, *inside]
    )


def test_an_outage_is_measured_from_the_event():
    ledger = Ledger()
    for number, (handed, judged) in enumerate([(1.0, 2.0), (3.0, 9.0), (7.0, 8.5), (7.1, 10.0)]):
        one = final(number, "AC")
        ledger.acknowledged.append((one.key, one.id, handed))
        ledger.seen[one.id] = (one, judged)
    found = outage(ledger, 4.0, 12.0)
    assert (found.acknowledged, found.verdicts, found.flowing) == (4.9, 4.5, 4.5)
    assert outage(ledger, 11.0, 12.0).flowing is None


def test_what_the_api_answers_is_kept():
    task = m.Task(
        id="0" * 24,
        submission=CASES[0].submission("ann", 7),
        status=m.Status.SUCCESS,
        done=True,
        verdict=m.Verdict.AC,
        attempt=2,
        judged_by="e1",
        history=[
            m.Attempt(attempt=1, executor="e2", reason="the executor is dead"),
            m.Attempt(attempt=2, executor="e1", reason="judged: AC"),
        ],
        created="",
    )
    assert FinalTask.of(task) == FinalTask("0" * 24, "ann-7", "success", "AC", 2, "e1", 1)


def test_no_two_submissions_of_a_stream_are_alike():
    made = [case.submission("ann", number) for number in range(3) for case in CASES]
    assert len({one.model_dump_json(exclude={"tests", "idempotency_key"}) for one in made}) == len(made)
