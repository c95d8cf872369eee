"""Messages that are made to cost: millions of values, or of faults."""

import json
from collections.abc import Iterator
from typing import Annotated, Any, get_args

import annotated_types
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ValidationError

from judge.common.errors import PackageError, TooLargeError, all_errors
from judge.gateway.api.handlers import ROUTES
from judge.gateway.api.routes import field_error
from judge.model.base import Message, first_fault
from judge.model.messages import ReportRequest, Submission
from judge.rpc import faults
from judge.rpc.faults import bad_request, check_values
from judge.rpc.methods import METHODS

_TEXTS = st.text(alphabet=',[]{}"\\:a\n', max_size=200)
_JSON = st.recursive(
    st.none() | st.integers() | _TEXTS,
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(_TEXTS, inner, max_size=8),
    max_leaves=60,
)


def values(value: Any) -> int:
    if isinstance(value, list):
        return 1 + sum(map(values, value))
    return 1 + sum(map(values, value.values())) if isinstance(value, dict) else 1


@pytest.mark.parametrize("piece", [1, 7, 1024 * 1024])
@given(value=_JSON, ascii_only=st.booleans())
def test_values_are_counted_with_any_texts(piece: int, value: Any, ascii_only: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(faults, "_PIECE", piece)
        _count(value, json.dumps(value, ensure_ascii=ascii_only).encode())


def _count(value: Any, body: bytes) -> None:
    check_values(body, 2 * values(value), "it")
    if isinstance(value, list | dict) and len(value) > 1:
        with pytest.raises(TooLargeError, match="it has more than 1 values"):
            check_values(body, 1, "it")


@given(st.binary(max_size=300))
def test_anything_may_be_counted(body: bytes) -> None:
    check_values(body, 301, "it")
    check_values(b'"' + body.replace(b'"', b""), 0, "it")


def lists(model: type[BaseModel], visited: set[type[BaseModel]]) -> Iterator[tuple[str, bool]]:
    """Every list of a message and of what it holds, and whether its length has a bound."""
    if model in visited:
        return
    visited.add(model)
    for name, field in model.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        if any(getattr(kind, "__origin__", None) is list for kind in kinds):
            yield f"{model.__name__}.{name}", any(isinstance(item, annotated_types.MaxLen) for item in field.metadata)
        for kind in [inner for item in kinds for inner in (item, *get_args(item))]:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from lists(kind, visited)


def test_every_list_of_a_request_has_a_bound() -> None:
    visited: set[type[BaseModel]] = set()
    bodies = [call.request for call in METHODS.values()] + [call.body for call in ROUTES if call.body is not None]
    bounds = dict(entry for body in bodies for entry in lists(body, visited))
    assert {"Submission.tests", "ReportRequest.complete", "Result.tests"} <= set(bounds)
    assert [name for name, bounded in bounds.items() if not bounded] == []


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (Submission, b'{"tests": [%s]}' % b",".join([b"{}"] * 20_000)),
        (ReportRequest, b'{"executor": "e", "incarnation": "i", "sequence": 1, "vacant": 0, "executing": [%s]}'
         % b",".join([b"0"] * 20_000)),
    ],
)  # fmt: skip
def test_the_faults_of_a_long_list_are_not_collected(model: type[BaseModel], body: bytes) -> None:
    with pytest.raises(ValidationError) as caught:
        model.model_validate_json(body)
    assert caught.value.error_count() == 1


def test_many_faults_are_not_listed() -> None:
    with pytest.raises(ValidationError) as caught:
        Submission.model_validate({f"no{number}": 1 for number in range(5000)})
    for refusal in (bad_request(caught.value), field_error(caught.value, "the body")):
        assert str(refusal) == "the body has 5000 errors, too many to list"


def refuse(_: str) -> str:
    raise ValueError("must not be so")


class Inner(Message):
    name: Annotated[str, AfterValidator(refuse)]


class Outer(Message):
    parts: list[Inner]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"parts": [{"name": "y" * 9}]}, "parts.0.name: must not be so"),
        ({"parts": [{}]}, "parts.0.name: is missing"),
        ({"parts": [], "x" * 5000: 1}, f"{'x' * 100}: Extra inputs are not permitted"),
        ([], "expected an object with fields"),
    ],
)
def test_a_fault_is_one_sentence(body: Any, sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(body)
    fault = first_fault(caught.value)
    assert str(fault) == sentence and fault.given is None


@pytest.mark.parametrize(
    "claim",
    [
        {"vacant": 10**9},
        {"vacant": 1, "ahead": 10**9},
        {"vacant": 1, "info": {"slots": 10**9}},
        {"vacant": 1, "info": {"slots": -(10**9)}},
    ],
)
def test_an_executor_has_no_more_slots_than_a_host_can(claim: dict[str, Any]) -> None:
    """By its word it would else empty the queue, or move everybody's share."""
    report = {"executor": "e1", "incarnation": "i", "sequence": 1}
    assert ReportRequest.received(json.dumps({**report, "vacant": 8, "info": {"slots": 8}}).encode()).vacant == 8
    with pytest.raises(ValidationError):
        ReportRequest.received(json.dumps({**report, **claim}).encode())


def test_a_class_that_shares_a_code_does_not_stand_for_it() -> None:
    """It may need more than a sentence, and whoever gets an answer has nothing else."""

    class MineError(PackageError):
        def __init__(self, message: str, extra: int) -> None:
            super().__init__(f"{message}{extra}")

    assert MineError.code == "package"
    assert all_errors()["package"] is PackageError
    assert MineError not in all_errors().values()
