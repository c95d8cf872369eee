"""The cause of a run, and who is sent its verdict."""

import datetime
from typing import Any

import pytest
from bson import Timestamp

from judge.common.errors import ForbiddenError
from judge.config import SubmissionLimits
from judge.gateway.auth import Principal
from judge.gateway.submit import admit
from judge.judicator.events import streaming
from judge.judicator.events.outbox import concerns, payload_data
from judge.judicator.tasks import forms, intake
from judge.model.messages import Submission

NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
PAST = [{"rejudging": 7}]


@pytest.mark.parametrize(
    ("fields", "past", "cause", "system"),
    [
        ({}, [], "person", False),
        ({}, PAST, "rejudging", False),
        ({"cause": "import"}, [], "import", True),
        ({"cause": "verification"}, [], "verification", False),
        ({"cause": "statement"}, [], "statement", True),
        ({"problem": "p", "check": "statements"}, [], "statement", True),
        ({"problem": "p", "check": "inputs", "cause": "import"}, [], "import", True),
    ],
)
def test_a_run_has_a_cause(fields: dict[str, Any], past: list[Any], cause: str, *, system: bool) -> None:
    submission = Submission(user="ada", role="judge", language="c", source="x", **fields)
    doc = {**forms.new(submission, None, "", NOW), "version": 1, "past": past}
    assert payload_data(doc).cause == cause
    hook: Any = {"_id": "h", "user": None, "problem": None}
    assert (concerns(hook, doc), concerns(hook | {"system": True}, doc)) == (not system, True)
    event = {"documentKey": {"_id": doc["_id"]}, "clusterTime": Timestamp(1, 1), "fullDocument": doc}
    change = streaming.change(event, (1, 1, 0))
    assert change is not None and change.cause == cause


def test_users_set_no_cause() -> None:
    submission = Submission(user="ada", language="c", source="x", cause="verification")
    with pytest.raises(ForbiddenError, match="cause: takes a token of role judge"):
        intake.check_trial(submission)
    with pytest.raises(ForbiddenError, match="cause: takes a token of role judge"):
        admit(submission, Principal("ada", "user", ""), SubmissionLimits(), None)
    judged = admit(submission, Principal("eve", "admin", ""), SubmissionLimits(), None)
    intake.check_trial(judged)
    assert judged.cause == "verification"
