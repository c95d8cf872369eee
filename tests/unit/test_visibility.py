"""Who sees a problem: every stored visibility, for every kind of caller."""

import datetime

import pytest
from pydantic import ValidationError

from judge.gateway.pages.views import utc_time
from judge.judicator.documents import ProblemDocument
from judge.judicator.problems import Caller, may_change, visible_to
from judge.model.visibility import EVERYONE, Visibility

NOW = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
SECOND = datetime.timedelta(seconds=1)
CALLERS = {
    "user": Caller("ada"),
    "member": Caller("mary", groups=frozenset({"math", "cs101"})),
    "owner": Caller("olga"),
    "judge": Caller("jim", judges=True),
    "nobody": Caller(""),
}
ALWAYS = {"owner", "judge"}


def stored(visibility: Visibility | None) -> ProblemDocument:
    document: ProblemDocument = {"_id": "caves", "owners": ["olga"]}
    return document if visibility is None else {**document, "visibility": visibility.model_dump(mode="json")}


@pytest.mark.parametrize("since", [None, NOW - SECOND, NOW, NOW + SECOND])
@pytest.mark.parametrize(
    ("visibility", "users"),
    [
        (Visibility(), set()),
        (Visibility(groups=["cs102"]), set()),
        (Visibility(groups=["cs101", "cs102"]), {"member"}),
        (Visibility(everyone=True), {"user", "member", "nobody"}),
    ],
)
def test_a_problem_is_visible_from_its_time_on(
    visibility: Visibility, users: set[str], since: datetime.datetime | None
) -> None:
    doc = stored(visibility.model_copy(update={"since": since}))
    begun = since is None or since <= NOW
    assert {name for name, caller in CALLERS.items() if visible_to(doc, caller, NOW)} == ALWAYS | (
        users if begun else set()
    )


def test_a_problem_of_a_release_before_is_seen_by_everyone() -> None:
    assert all(visible_to({"_id": "caves"}, caller, NOW) for caller in CALLERS.values())


def test_owners_and_judges_change_who_sees_a_problem() -> None:
    assert {name for name, caller in CALLERS.items() if may_change(stored(EVERYONE), caller)} == ALWAYS
    assert not may_change({"_id": "caves", "owners": []}, Caller(""))


@pytest.mark.parametrize(
    ("visibility", "words"),
    [
        (Visibility(), "hidden"),
        (Visibility(since=NOW + SECOND), "hidden"),
        (EVERYONE, ""),
        (Visibility(everyone=True, since=NOW), ""),
        (Visibility(everyone=True, since=NOW + SECOND), "from 2026-01-31 12:00 UTC"),
        (Visibility(groups=["a", "b"]), "groups a, b"),
        (Visibility(groups=["a"], since=NOW + 3600 * SECOND), "groups a; from 2026-01-31 13:00 UTC"),
    ],
)
def test_a_mark_says_who_sees_a_problem(visibility: Visibility, words: str) -> None:
    assert visibility.words(NOW) == words


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        Visibility(everyone=True, since=NOW.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("", ""),
        ("2026-01-31", "2026-01-31T00:00Z"),
        ("2026-01-31 09:00", "2026-01-31 09:00Z"),
        ("2026-01-31T09:00", "2026-01-31T09:00Z"),
        ("2026-01-31T09:00Z", "2026-01-31T09:00Z"),
        ("2026-01-31T09:00+02:00", "2026-01-31T09:00+02:00"),
    ],
)
def test_a_typed_time_is_utc_unless_it_says_otherwise(typed: str, read: str) -> None:
    assert utc_time(typed) == read
