"""The checker of streams: silent about what went right, and never about what went wrong."""

import dataclasses
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from judge.model import messages as m
from tests.support.clients import CASES, FinalTask, Ledger, faults, longest_gap, outage
from tests.support.examples import at_least

VERDICTS = st.sampled_from(["AC", "WA", "RTE", "CE", "TLE"])


def final(number: int, verdict: str, **fields) -> FinalTask:
    values = {"status": "success", "attempt": 1, "judged_by": "e1", "judged": 1, **fields}
    return FinalTask(id=f"{number:024x}", key=f"k{number}", verdict=verdict, **values)


@st.composite
def right(draw, minimum: int = 1) -> Ledger:
    """A stream that went well, with repeated acknowledgements, and verdicts that were not seen when they came."""
    ledger = Ledger()
    for number in range(draw(st.integers(minimum, 8))):
        task = final(number, draw(VERDICTS), attempt=draw(st.integers(1, 3)))
        ledger.offered[task.key] = task.verdict
        for _ in range(draw(st.integers(1, 3))):
            ledger.acknowledged.append((task.key, task.id, float(number)))
        ledger.ended[task.id] = task
        ledger.listed.append((task.id, task.key))
        if draw(st.booleans()):
            ledger.seen[task.id] = (task, float(number + 1))
    return ledger


@given(right(minimum=0))
def test_a_stream_that_went_well_has_no_fault(ledger):
    assert faults(ledger) == []


COPY = "f" * 24
# The word with which the fault begins, what it contains, and the damage to a stream that went well.
DAMAGES = [
    ("lost", ["{id}"], lambda ledger, task: ledger.listed.remove((task.id, task.key))),
    ("lost", ["{id}"], lambda ledger, task: ledger.ended.pop(task.id)),
    ("lost", ["{key}"], lambda ledger, task: [ledger.acknowledged.remove(ack) for ack in acknowledged(ledger, task)]),
    ("doubled", [], lambda ledger, task: ledger.acknowledged.append((task.key, COPY, 0.0))),
    ("doubled", [], lambda ledger, task: ledger.listed.append((COPY, task.key))),
    ("doubled", [], lambda ledger, task: ledger.listed.append((COPY, None))),
    ("doubled", [], lambda ledger, task: ledger.listed.append((task.id, task.key))),
    ("doubled", [], lambda ledger, task: change(ledger.ended, task, judged=2)),
    ("wrong", ["{id}", "0 times"], lambda ledger, task: change(ledger.ended, task, judged=0)),
    ("wrong", ["{id}", "because"], lambda ledger, task: change(ledger.ended, task, verdict="MLE", reason="because")),
    ("changed", ["{id}"], lambda ledger, task: see(ledger, task, judged_by="e2")),
    ("changed", ["{id}"], lambda ledger, task: see(ledger, task, attempt=9)),
    ("changed", ["{id}"], lambda ledger, task: see(ledger, task, verdict="SV")),
    ("changed", ["{id}"], lambda ledger, task: see(ledger, task, status="cancelled")),
]


def acknowledged(ledger: Ledger, task: FinalTask) -> list[tuple[str, str, float]]:
    return [ack for ack in ledger.acknowledged if ack[0] == task.key]


def change(tasks: dict[str, FinalTask], task: FinalTask, **fields: Any) -> None:
    tasks[task.id] = dataclasses.replace(task, **fields)


def see(ledger: Ledger, task: FinalTask, **fields: Any) -> None:
    ledger.seen[task.id] = (dataclasses.replace(task, **fields), 0.0)


def reported(ledger: Ledger, word: str, *names: str) -> bool:
    return any(fault.startswith(word) and all(name in fault for name in names) for fault in faults(ledger))


@settings(max_examples=at_least(500))
@given(right(), st.data(), st.sampled_from(DAMAGES))
def test_every_damage_is_reported(ledger, data, row):
    word, names, damage = row
    task = data.draw(st.sampled_from(list(ledger.ended.values())))
    damage(ledger, task)
    assert reported(ledger, word, *(name.format(id=task.id, key=task.key) for name in names))


@given(right(minimum=2), st.data())
def test_two_submissions_in_one_task_are_found(ledger, data):
    task, second = data.draw(st.permutations(list(ledger.ended.values())))[:2]
    ledger.acknowledged.append((task.key, second.id, 0.0))
    assert reported(ledger, "lost", "several", task.key, second.key)


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
        task = final(number, "AC")
        ledger.acknowledged.append((task.key, task.id, handed))
        ledger.seen[task.id] = (task, judged)
    result = outage(ledger, 4.0, 12.0)
    assert (result.acknowledged, result.verdicts, result.flowing) == (4.9, 4.5, 4.5)
    assert outage(ledger, 11.0, 12.0).flowing is None


def test_a_final_task_is_read_from_the_api():
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
    submissions = [case.submission("ann", number) for number in range(3) for case in CASES]
    assert len({submission.model_dump_json(exclude={"tests", "idempotency_key"}) for submission in submissions}) == len(
        submissions
    )
