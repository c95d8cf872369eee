"""Accounts, tokens, passwords and rates at the judicators: over the wire, real database, two judicators."""

import asyncio
import concurrent.futures
import datetime
import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from argon2 import PasswordHasher

from judge.common import clock
from judge.common.errors import (
    ConflictError,
    FieldError,
    ForbiddenError,
    JudgeError,
    LimitError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
    UsageError,
)
from judge.config.allowance import Allowance, Allowances, Quota
from judge.judicator import audit
from judge.judicator.people import entry, rates, throttle, tokens
from judge.model import messages as m
from judge.model import people as p
from judge.model.audit import AuditQuery, AuditReply, By
from judge.model.overview import UsageReply, UsageRequest
from judge.model.people import SessionBegin, SessionEnd
from judge.rpc.client import RpcClient
from judge.rpc.methods import METHODS
from tests.support.judicators import World, accepted, source
from tests.support.servers import wait_for

PASSWORD = "correct horse battery"
ROOT = By(actor="root", role="admin", origin="192.0.2.1")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address)
    allowances = Allowances(user=Allowance(slot_share=1.0, stored_bytes=None, per_minute=5))
    for name in ("j1", "j2"):
        world.judicator(name, allowances=allowances, executor_expiry=3600.0, executor_forget=7200.0, task_expiry=3600.0)
    yield world
    world.close()


@pytest.fixture
def people(world: World) -> RpcClient:
    world.db.rates.delete_many({})
    return world.client(timeout=20.0)


def call(people: RpcClient, method: str, **fields: Any) -> Any:
    row = METHODS[method]
    return people.call(method, row.request(**fields), row.reply, by=ROOT)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def login(people: RpcClient, name: str, password: str = PASSWORD, origin: str = "192.0.2.7") -> p.Person:
    person: p.Person = call(people, "login", name=name, password=password, origin=origin)
    return person


# --- accounts ----------------------------------------------------------------------------------------------------


def test_an_account_is_added_found_changed_and_deleted(people: RpcClient) -> None:
    user = call(people, "user_add", name="ada", role="judge", groups=["cs101", "cs101"], quota=Quota(waiting=3))
    assert (user.role, user.groups, user.password, user.quota.waiting) == ("judge", ["cs101"], False, 3)
    assert call(people, "user", name="ada") == user
    renamed = call(people, "user_change", name="ada", display_name="Ada L.", email="ada@example.org")
    assert (renamed.display_name, renamed.email) == ("Ada L.", "ada@example.org")
    assert call(people, "user_change", name="ada", display_name="", email="") == user
    changed = call(people, "user_change", name="ada", role="user", groups=["cs102"], quota=Quota(per_minute=0))
    assert (changed.role, changed.groups, changed.quota) == ("user", ["cs102"], Quota(per_minute=0))
    assert call(people, "user_change", name="ada") == changed, "nothing to change"
    call(people, "user_delete", name="ada")
    for method in ("user", "user_change", "user_delete"):
        with pytest.raises(NotFoundError, match="no user 'ada'"):
            call(people, method, name="ada")


def test_names_that_differ_in_case_only_are_refused(people: RpcClient) -> None:
    call(people, "user_add", name="Grace")
    with pytest.raises(ConflictError, match="there is a user 'Grace' already"):
        call(people, "user_add", name="grace")


def test_adding_again_after_a_lost_answer_is_the_same_account(people: RpcClient) -> None:
    by = ROOT.model_copy(update={"call": "one-call"})
    first, again = (people.call("user_add", p.UserAdd(name="repeated"), p.User, by=by) for _ in range(2))
    assert first == again


def newcomers(*names: str, **fields: Any) -> list[p.Newcomer]:
    return [p.Newcomer(name=name, password=PASSWORD, **fields) for name in names]


def test_many_accounts_are_added_by_one_call_or_none(people: RpcClient, world: World) -> None:
    users = [p.Newcomer(name="m1", display_name="Ma Eins", email="m1@example.org", groups=["many"]), *newcomers("m2")]
    assert call(people, "users_add", users=users).added == 2
    account = call(people, "user", name="m1")
    assert (account.display_name, account.email, account.groups, account.role) == (
        "Ma Eins", "m1@example.org", ["many"], "user",
    )  # fmt: skip
    assert login(people, "m2").user == "m2"
    refused = [
        p.Newcomer(name="M2", line=7), *newcomers("m3", line=8), p.Newcomer(name="m3", line=9),
        p.Newcomer(name="m4", password="short", line=10),
    ]  # fmt: skip
    with pytest.raises(ConflictError) as caught:
        call(people, "users_add", users=refused)
    assert str(caught.value) == (
        "no account is added; line 7: there is a user 'm2' already; line 9: 'm3' is in line 8 already; "
        "line 10: password: has 5 characters; take at least 10"
    )
    assert world.db.users.count_documents({"_id": {"$in": ["M2", "m3", "m4"]}}) == 0
    with pytest.raises(UsageError, match=r"no account is added; users\.0: password: "):
        call(people, "users_add", users=[p.Newcomer(name="m5", password="m5m5m5m5m5")])
    assert call(people, "names", users=["m1", "m2", "nobody"]).names == {"m1": "Ma Eins"}
    entry = call(people, "audit", action="user.import").entries[-1]
    assert entry.details["from 1"] == ["m1", "m2"] and PASSWORD not in str(entry)
    assert "example.org" not in str(call(people, "audit", limit=500).entries), "a purge must find all that is personal"


def test_many_accounts_are_added_once_however_often_the_call_is_tried(people: RpcClient) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        tries = [
            pool.submit(call, people, "users_add", users=newcomers("k1", "k2"), idempotency_key="k") for _ in range(4)
        ]
        assert [future.result().added for future in tries] == [2] * 4
    with pytest.raises(ConflictError, match="there is a user 'k1' already"):
        call(people, "users_add", users=newcomers("k1", "k2"), idempotency_key="other")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        rivals = [
            pool.submit(call, people, "users_add", users=newcomers(*names), idempotency_key=key)
            for key, names in (("a", ("r1", "r2")), ("b", ("r2", "r3")))
        ]
        errors = [future.exception() for future in rivals]
    assert sorted(error is None for error in errors) == [False, True]
    assert len(call(people, "users", prefix="r").users) >= 2
    assert {"r1", "r3"} - {user.name for user in call(people, "users", prefix="r").users} != set()


def test_accounts_are_listed_in_pages_and_by_what_they_are(people: RpcClient) -> None:
    for number in range(7):
        call(people, "user_add", name=f"list{number}", groups=["listed"], role="judge" if number % 2 else "user")
    call(people, "user_change", name="list3", disabled=True)

    def names(**query: Any) -> list[str]:
        return [user.name for user in call(people, "users", group="listed", **query).users]

    first = call(people, "users", group="listed", limit=4)
    remainder = call(people, "users", group="listed", limit=4, after=first.next)
    assert [user.name for user in (*first.users, *remainder.users)] == [f"list{number}" for number in range(7)]
    assert remainder.next is None
    assert names(role="judge") == ["list1", "list3", "list5"]
    assert names(role="judge", disabled=True) == ["list3"]
    assert names(prefix="list6") == ["list6"]
    assert names(prefix="LIST.") == [], "a text, no pattern"


def test_an_account_with_submissions_is_not_forgotten(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="owner")
    people.call("add", source(user="owner"), m.AddReply)
    with pytest.raises(ConflictError, match="judgectl purge --user owner"):
        call(people, "user_delete", name="owner")
    assert call(people, "user", name="owner").name == "owner"


def test_a_purge_takes_the_account_with_all_that_is_of_it(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="gone", password=PASSWORD, groups=["cs101"])
    token(people, "gone", "gone's")
    people.call("session_begin", SessionBegin(id="8" * 64, user="gone", account=True), m.Empty)
    people.call("add", source(user="gone"), m.AddReply)
    view = call(people, "delete_preview", user="gone")
    assert any("the account" in text for text in view.goes) and not any("user delete" in text for text in view.stays)
    assert call(people, "purge", user="gone").left == 0
    for name in world.db.list_collection_names():
        if name != "audit":
            assert "gone" not in str(list(world.db[name].find())), name
    with pytest.raises(NotFoundError):
        call(people, "delete_preview", user="gone")
    with pytest.raises(UnauthorizedError):
        login(people, "gone")


def test_a_purge_leaves_a_newer_account_of_the_same_name(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="twice")
    until = call(people, "purge", user="twice").until
    call(people, "user_add", name="twice", password=PASSWORD)
    long_ago = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
    world.db.users.update_one({"_id": "twice"}, {"$set": {"created": long_ago}})
    call(people, "purge", user="twice", until=until)
    assert login(people, "twice").user == "twice"
    fresh = people.call("add", source(user="twice"), m.AddReply)
    call(people, "purge", user="twice", until=until)
    assert people.call("get", m.GetRequest(id=fresh.task.id), m.Task).status == "pending"


def test_a_name_whose_data_came_in_at_the_last_moment_stays_taken(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="last", password=PASSWORD)
    until = call(people, "purge", user="nobody-at-all").until
    people.call("add", source(user="last"), m.AddReply)
    assert call(people, "purge", user="last", until=until).left == 0
    assert call(people, "user", name="last").disabled
    with pytest.raises(ConflictError):
        call(people, "user_add", name="last")
    call(people, "purge", user="last")
    call(people, "user_add", name="last")


# --- passwords ---------------------------------------------------------------------------------------------------


def test_a_password_is_stored_as_a_digest_only_and_lets_in(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="pia", password=PASSWORD, groups=["g"])
    stored = world.db.users.find_one({"_id": "pia"})["password"]
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$") and PASSWORD not in stored
    person = login(people, "PIA")
    assert (person.user, person.role, person.groups, person.token) == ("pia", "user", ["g"], None)
    assert call(people, "user", name="pia").password
    for name, password in (("pia", PASSWORD + "x"), ("pia", ""), ("nobody", PASSWORD)):
        with pytest.raises(UnauthorizedError, match=r"^the name or the password is wrong; check both$"):
            login(people, name, password)


def test_no_secret_is_in_the_database_or_the_trail(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="sec", password="a-first-secret-word")
    call(people, "user_password", name="sec", password="a-second-secret-word")
    with pytest.raises(UnauthorizedError):
        login(people, "sec", "a-third-secret-word")
    text = str([list(world.db[name].find()) for name in world.db.list_collection_names()])
    assert "secret-word" not in text


@pytest.mark.parametrize("password", ["short", "aaaaaaaaaaaa", "pw-person1"])
def test_a_password_that_is_guessed_at_once_is_refused(people: RpcClient, password: str) -> None:
    with pytest.raises(FieldError, match="password: "):
        call(people, "user_add", name="pw-person", password=password)


def test_a_person_changes_their_own_password_by_the_old_one_and_other_sessions_end(people: RpcClient) -> None:
    call(people, "user_add", name="own", password=PASSWORD)
    device_a, device_b = "a" * 64, "b" * 64
    for device in (device_a, device_b):
        call(people, "session_begin", id=device, user="own", account=True)
    with pytest.raises(UnauthorizedError, match="old: is not the present password"):
        call(people, "user_password", name="own", password="another phrase", old="wrong", own=True, keep=device_a)
    change = {"name": "own", "password": "another phrase", "old": PASSWORD, "own": True, "keep": device_a}
    call(people, "user_password", **change)
    call(people, "user_password", **change)  # again, as the answer was lost
    assert live(people, device_a, "own") and not live(people, device_b, "own")
    login(people, "own", "another phrase")
    with pytest.raises(UnauthorizedError):
        login(people, "own")


def test_without_a_password_none_is_set_by_knowing_none(people: RpcClient) -> None:
    call(people, "user_add", name="tokens-only")
    for old in (None, "", "a password that nobody has"):
        with pytest.raises(UnauthorizedError):
            call(people, "user_password", name="tokens-only", password="another phrase", old=old, own=True)


def test_a_digest_of_earlier_parameters_is_made_anew_at_a_log_in(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="old-digest", password=PASSWORD)
    weak = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    world.db.users.update_one({"_id": "old-digest"}, {"$set": {"password": weak}})
    login(people, "old-digest")
    assert "m=19456" in world.db.users.find_one({"_id": "old-digest"})["password"]
    login(people, "old-digest")


def test_a_refused_log_in_takes_as_long_for_every_name(people: RpcClient) -> None:
    """The quickest of interleaved tries each; what Argon2 takes is by far the most of it."""
    call(people, "user_add", name="timed", password=PASSWORD)
    call(people, "user_add", name="timed-out", password=PASSWORD)
    call(people, "user_change", name="timed-out", disabled=True)
    call(people, "user_add", name="timed-tokens")
    names = ("timed", "timed-out", "timed-tokens", "timed-nobody")
    took: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(9):
        for name in names:
            began = clock.monotonic()
            with pytest.raises(UnauthorizedError):
                login(people, name, "wrong password", origin=f"192.0.2.{turn}")
            took[name].append(clock.monotonic() - began)
    fastest = {name: min(values) for name, values in took.items()}
    assert min(fastest.values()) > 0.35 * max(fastest.values()), fastest
    assert min(fastest.values()) > 0.008, "no digest was looked at"


# --- the throttle ------------------------------------------------------------------------------------------------


def refused(people: RpcClient, name: str, origin: str, password: str = "wrong") -> LimitError | None:
    try:
        login(people, name, password, origin)
    except UnauthorizedError:
        return None
    except LimitError as exc:
        return exc
    return None


def test_guesses_are_throttled_by_user_and_address_at_all_judicators_together(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="goal", password=PASSWORD)
    clients = [world.client(timeout=20.0, at=judicator) for judicator in world.judicators]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        tries = list(pool.map(lambda n: refused(clients[n % 2], "goal", "192.0.2.7"), range(3 * throttle.EACH)))
    assert sum(error_ is None for error_ in tries) == throttle.EACH, "exact, however many come at once"
    error = next(error_ for error_ in tries if error_ is not None)
    assert error.rate is not None and 0 < error.rate[2] <= throttle.WINDOW
    with pytest.raises(LimitError, match="too many wrong passwords"):
        login(people, "goal", origin="192.0.2.7")
    login(people, "goal", origin="192.0.2.8")


def test_all_browsers_of_a_person_have_a_bound_together(people: RpcClient) -> None:
    """Whoever has known the password has any number of cookies; an account made anew has the name of the one before."""
    call(people, "user_add", name="resold", password=PASSWORD)

    def guess(device: str, password: str) -> JudgeError | None:
        try:
            call(people, "login", name="resold", password=password, origin="192.0.2.77", device=device)
        except UnauthorizedError:
            return None
        except JudgeError as exc:
            return exc
        return None

    browsers = throttle.OF_USER // throttle.EACH + 2
    tries = [guess(f"browser {n % browsers}", f"guess {n}") for n in range(browsers * throttle.EACH)]
    assert sum(error_ is None for error_ in tries) == throttle.OF_USER
    assert login(people, "resold", origin="192.0.2.78").user == "resold", "others do not notice"


@pytest.mark.parametrize(
    ("names", "origins", "bound"),
    [
        (["no-such-goal"], ["192.0.2.9"], throttle.EACH),
        (["six"], [f"2001:db8:1:2::{n:x}" for n in range(1, throttle.EACH + 2)], throttle.EACH),
        ([f"name{n}" for n in range(throttle.OF_ADDRESS + 1)], ["192.0.2.10"], throttle.OF_ADDRESS),
        (["popular"], [f"198.51.100.{n}" for n in range(throttle.OF_USER + 1)], throttle.OF_USER),
    ],
    ids=["a name that nobody has", "addresses of a network", "names from an address", "addresses for a name"],
)
def test_wrong_passwords_are_bounded(people: RpcClient, names: list[str], origins: list[str], bound: int) -> None:
    tries = itertools.islice(itertools.cycle(itertools.product(names, origins)), bound + 1)
    assert [refused(people, name, origin) is None for name, origin in tries] == [True] * bound + [False]


def test_who_knows_the_password_is_not_throttled_however_often(people: RpcClient) -> None:
    call(people, "user_add", name="often", password=PASSWORD)
    for _ in range(throttle.EACH + 2):
        login(people, "often")


def test_an_attempt_that_could_not_be_checked_is_not_counted(
    world: World, people: RpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(people, "user_add", name="crowded", password=PASSWORD)
    with monkeypatch.context() as full:
        full.setattr("judge.judicator.people.passwords._WAITING", 0)
        with pytest.raises(UnavailableError):
            login(people, "crowded")
    assert [rate["n"] for rate in world.db.rates.find()] == [0, 0, 0]
    assert login(people, "crowded").user == "crowded"


# --- tokens ------------------------------------------------------------------------------------------------------


def token(people: RpcClient, user: str, text: str, **fields: Any) -> p.TokenInfo:
    values = {"scopes": ["read"], **fields}
    info: p.TokenInfo = call(people, "token_create", digest=digest(text), user=user, **values)
    return info


def check(people: RpcClient, text: str) -> p.Person:
    (state,) = call(people, "credentials", tokens=[digest(text)]).tokens
    if state.person is None:
        raise UnauthorizedError("not valid")
    return state.person


def test_a_token_is_of_its_user_until_it_is_revoked(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="tess", role="judge")
    info = token(people, "tess", "t-one", label="laptop", scopes=["read", "judge", "read"])
    assert info == token(people, "tess", "t-one", label="laptop", scopes=["read", "judge"]), "again after a lost answer"
    checked = check(people, "t-one")
    assert (checked.user, checked.role, checked.token, checked.scopes) == ("tess", "judge", info.id, ["read", "judge"])
    assert "t-one" not in str(list(world.db.tokens.find()))
    call(people, "token_used", id=info.id, origin="192.0.2.3")
    (listed,) = call(people, "tokens", user="tess").tokens
    assert (listed.label, listed.used_from, listed.used is not None) == ("laptop", "192.0.2.3", True)
    assert call(people, "user", name="tess").tokens == 1
    with pytest.raises(NotFoundError):
        call(people, "token_revoke", id=info.id, user="somebody-else")
    call(people, "token_revoke", id=info.id, user="tess")
    with pytest.raises(UnauthorizedError):
        check(people, "t-one")


def test_a_token_ends_with_its_time_and_with_its_user(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="tom")
    with pytest.raises(FieldError, match="expires: is over already"):
        token(people, "tom", "past", expires=clock.wall() - datetime.timedelta(seconds=1))
    info = token(people, "tom", "short", expires=clock.wall() + datetime.timedelta(days=1))
    assert check(people, "short").user == "tom"
    world.db.tokens.update_one({"_id": info.id}, {"$set": {"expires": clock.wall()}})
    with pytest.raises(UnauthorizedError):
        check(people, "short")
    assert call(people, "tokens", user="tom").tokens[0].expired
    token(people, "tom", "kept")
    call(people, "user_change", name="tom", disabled=True)
    with pytest.raises(UnauthorizedError):
        check(people, "kept")
    call(people, "user_change", name="tom", disabled=False)
    assert check(people, "kept").user == "tom"
    call(people, "user_delete", name="tom")
    with pytest.raises(UnauthorizedError):
        check(people, "kept")


def test_a_page_of_tokens_goes_on_where_the_last_was_revoked(people: RpcClient) -> None:
    """Whoever revokes what a page lists has to be able to ask for the next one."""
    call(people, "user_add", name="many-tokens")
    ids = [token(people, "many-tokens", f"of-many-{number}").id for number in range(5)]
    listed, after = [], None
    while True:
        page = call(people, "tokens", user="many-tokens", limit=2, after=after)
        listed += [token.id for token in page.tokens]
        for info in page.tokens:
            call(people, "token_revoke", id=info.id)
        if (after := page.next) is None:
            break
    assert len(listed) == 5 and set(listed) == set(ids)
    for wrong in ("0" * 16, f"{'9' * 15}-{'0' * 16}"):
        with pytest.raises(FieldError, match="after: names no place"):
            call(people, "tokens", after=wrong)


def test_a_token_ends_with_its_makers_token(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="line")
    soon = clock.wall() + datetime.timedelta(hours=1)
    first = token(people, "line", "first", scopes=["account"], expires=soon)
    second = token(people, "line", "second", maker=first.id)
    third = token(people, "line", "third", maker=second.id, expires=soon + datetime.timedelta(days=9))
    assert first.expires == second.expires == third.expires
    people.call("session_begin", SessionBegin(id="9" * 64, user="line", account=True, token=third.id), m.Empty)
    assert live(people, "9" * 64, "line") and check(people, "third").user == "line"
    document = world.db.tokens.find_one_and_delete({"_id": first.id})
    for text in ("second", "third"):  # though they are stored yet, and however the first one has gone
        with pytest.raises(UnauthorizedError):
            check(people, text)
    assert not live(people, "9" * 64, "line")
    with pytest.raises(ForbiddenError, match="not in force any more"):
        token(people, "line", "late", maker=second.id)
    world.db.tokens.insert_one(document)
    call(people, "token_revoke", id=first.id, user="line")
    assert call(people, "tokens", user="line").tokens == [] and world.db.sessions.count_documents({"user": "line"}) == 0
    call(people, "user_add", name="another")
    with pytest.raises(ForbiddenError):
        token(people, "line", "foreign", maker=token(people, "another", "of another").id)


def test_a_token_of_an_account_that_was_deleted_meanwhile_is_none_of_the_new_one(
    people: RpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account is found, deleted and made anew, and then the token is stored."""
    call(people, "user_add", name="reborn")
    token(people, "reborn", "earlier")

    async def replace(_: tokens.Tokens, user: str) -> None:
        await asyncio.to_thread(call, people, "user_delete", name=user)
        await asyncio.to_thread(call, people, "user_add", name=user, role="admin")

    with monkeypatch.context() as patch:
        patch.setattr(tokens, "MOST", 1)
        patch.setattr(tokens.Tokens, "_make_room", replace)
        token(people, "reborn", "of the first")
    assert [token.user for token in call(people, "tokens", user="reborn").tokens] == ["reborn"]
    with pytest.raises(UnauthorizedError):
        check(people, "of the first")
    token(people, "reborn", "of the second")
    assert check(people, "of the second").role == "admin"


def test_nobody_has_tokens_without_an_account_or_without_end(
    world: World, people: RpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFoundError, match="judgectl user add nobody"):
        token(people, "nobody", "x")
    monkeypatch.setattr("judge.judicator.people.tokens.MOST", 3)
    call(people, "user_add", name="many")
    for number in range(3):
        token(people, "many", f"many{number}", expires=clock.wall() + datetime.timedelta(days=1))
    with pytest.raises(ConflictError, match="revoke some"):
        token(people, "many", "many3")
    world.db.tokens.update_one({"digest": digest("many0")}, {"$set": {"expires": clock.wall()}})
    token(people, "many", "many3")


def test_tokens_are_listed_in_pages(people: RpcClient) -> None:
    call(people, "user_add", name="pages")
    ids = [token(people, "pages", f"page{number}").id for number in range(5)]
    first = call(people, "tokens", user="pages", limit=3)
    remainder = call(people, "tokens", user="pages", limit=3, after=first.next)
    assert [info.id for info in (*first.tokens, *remainder.tokens)] == ids[::-1]
    assert {info.id for info in call(people, "tokens").tokens} >= set(ids), "an admin sees all"


# --- sessions ----------------------------------------------------------------------------------------------------


def live(people: RpcClient, session: str, user: str) -> p.CredentialState | None:
    (state,) = call(people, "credentials", sessions=[session]).sessions
    return state if state.user == user else None


def test_a_session_of_an_account_that_was_deleted_meanwhile_is_none_of_the_new_one(people: RpcClient) -> None:
    """The log-in is answered, then the account is deleted and made anew, and then the session begins."""
    call(people, "user_add", name="again", password=PASSWORD)
    token(people, "again", "again's")
    by_password, by_token = login(people, "again"), check(people, "again's")
    assert by_password.arrival == by_token.arrival != ""

    def begin(session: str, person: p.Person) -> bool:
        fields = {"account": True, "token": person.token, "arrival": person.arrival}
        people.call("session_begin", SessionBegin(id=session * 64, user="again", **fields), m.Empty)
        return live(people, session * 64, "again") is not None

    assert begin("1", by_password) and begin("2", by_token)
    call(people, "user_delete", name="again")
    call(people, "user_add", name="again", role="admin", password=PASSWORD)
    assert not begin("3", by_password) and not begin("4", by_token)
    assert begin("5", login(people, "again"))


def test_a_session_has_the_role_of_now_and_ends_with_its_account_or_token(people: RpcClient) -> None:
    call(people, "user_add", name="sess", role="admin")
    info = token(people, "sess", "sess-token", scopes=["read", "judge"])
    plain, by_token = "c" * 64, "d" * 64
    people.call("session_begin", SessionBegin(id=plain, user="sess", account=True), m.Empty)
    people.call("session_begin", SessionBegin(id=by_token, user="sess", account=True, token=info.id), m.Empty)
    full, limited = live(people, plain, "sess"), live(people, by_token, "sess")
    assert full is not None and full.person is not None and limited is not None and limited.person is not None
    assert (full.person.role, full.person.scopes) == ("admin", list(p.SCOPES))
    assert (limited.person.role, limited.person.scopes) == ("admin", ["read", "judge"])
    call(people, "user_change", name="sess", role="user")
    full = live(people, plain, "sess")
    assert full is not None and full.person is not None and full.person.role == "user"
    call(people, "token_revoke", id=info.id)
    assert live(people, plain, "sess") and not live(people, by_token, "sess")
    call(people, "user_change", name="sess", disabled=True)
    assert not live(people, plain, "sess")
    call(people, "user_change", name="sess", disabled=False)
    assert not live(people, plain, "sess"), "it has ended for good"


def test_an_account_that_is_disabled_shuts_its_name_out_of_sessions_by_tokens_yml_too(people: RpcClient) -> None:
    call(people, "session_begin", id="e" * 64, user="filed")
    assert live(people, "e" * 64, "filed")
    call(people, "user_add", name="filed")
    call(people, "session_begin", id="e" * 64, user="filed")
    assert live(people, "e" * 64, "filed") and call(people, "credentials", names=["filed"]).names[0].user
    call(people, "user_change", name="filed", disabled=True)
    call(people, "session_begin", id="f" * 64, user="filed")
    assert not call(people, "credentials", names=["filed"]).names[0].user and not live(people, "f" * 64, "filed")


@pytest.mark.parametrize("own", [False, True], ids=["by password", "by another token"])
def test_sessions_of_one_token_end_no_other_session(
    people: RpcClient, monkeypatch: pytest.MonkeyPatch, own: bool
) -> None:
    monkeypatch.setattr(entry, "MOST_SESSIONS", 3)
    monkeypatch.setattr(entry, "MOST_SESSIONS_OF_TOKEN", 2)
    name = f"crowd{own:d}"
    call(people, "user_add", name=name)
    weak, strong = token(people, name, f"{name} weak", scopes=["submit"]), token(people, name, f"{name} strong")
    own_session = digest(f"{name} mine")
    begin = {"user": name, "account": True}
    call(people, "session_begin", id=own_session, token=strong.id if own else None, **begin)
    flood = [digest(f"{name} {number}") for number in range(5)]
    for session in flood:
        call(people, "session_begin", id=session, token=weak.id, **begin)
    assert live(people, own_session, name)
    assert [bool(live(people, session, name)) for session in flood] == [False, False, False, True, True]


# --- identities --------------------------------------------------------------------------------------------------


def vouched(people: RpcClient, subject: str, **fields: Any) -> p.Person:
    identity = p.Identity(issuer="https://id.example.org", subject=subject)
    person: p.Person = call(people, "identity_login", identity=identity, **fields)
    return person


def test_an_identity_is_who_it_was_by_issuer_and_subject_alone(people: RpcClient) -> None:
    with pytest.raises(ForbiddenError, match="belongs to no account here"):
        vouched(people, "s-1", name="ida")
    assert vouched(people, "s-1", name="ida", create=True, groups=["uni"]).groups == ["uni"]
    again = vouched(people, "s-1", name="another-name", create=True, role="judge")
    assert (again.user, again.role, again.groups) == ("ida", "judge", ["uni"]), "a new name there is the same person"
    with pytest.raises(ConflictError, match="there is a user 'ida' already"):
        vouched(people, "s-2", name="IDA", create=True)
    with pytest.raises(ForbiddenError):
        vouched(people, "s-3", name=None, create=True)
    call(people, "user_change", name="ida", disabled=True)
    with pytest.raises(ForbiddenError, match="is disabled"):
        vouched(people, "s-1", name="ida", create=True)


def test_an_identity_gets_no_name_whose_submissions_are_here(people: RpcClient) -> None:
    people.call("add", source(user="resident"), m.AddReply)
    with pytest.raises(ConflictError, match="has submissions here already"):
        vouched(people, "s-9", name="resident", create=True)


def test_one_identity_at_many_gateways_at_once_is_one_account(world: World, people: RpcClient) -> None:
    clients = [world.client(timeout=20.0, at=judicator) for judicator in world.judicators]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        users = list(pool.map(lambda n: vouched(clients[n % 2], "s-many", name="onlyone", create=True).user, range(16)))
    assert set(users) == {"onlyone"}


def test_an_identity_is_taken_off_an_account(world: World, people: RpcClient) -> None:
    identity_ = {"issuer": "https://id.example", "subject": "unlinked"}
    call(people, "user_add", name="once-linked", identity=identity_)
    assert call(people, "user_change", name="once-linked", unlink=True).identity is None
    with pytest.raises(ForbiddenError):
        call(people, "identity_login", identity=identity_)


def test_an_identity_belongs_to_one_account(people: RpcClient) -> None:
    identity_ = p.Identity(issuer="https://id.example.org", subject="s-linked")
    call(people, "user_add", name="linked", identity=identity_)
    call(people, "user_add", name="unlinked")
    for method in ("user_add", "user_change"):
        with pytest.raises(ConflictError, match="belongs to another user"):
            call(people, method, name="unlinked" if method == "user_change" else "third", identity=identity_)
    assert vouched(people, "s-linked").user == "linked"


# --- rates and quotas --------------------------------------------------------------------------------------------


def test_simultaneous_submissions_are_counted_together_in_order(world: World) -> None:
    judicator = world.judicators[0]
    counts = judicator.judicator.people.rates

    async def take_many(number: int) -> list[int]:
        rates = await asyncio.gather(*(counts.take("many", 5) for _ in range(number)))
        return [rate.left for rate in rates]

    def commands() -> int:
        return int(world.raw.admin.command("serverStatus")["metrics"]["commands"]["findAndModify"]["total"])

    before = commands()
    assert judicator.do(take_many(3)) == [4, 3, 2]
    assert judicator.do(take_many(4)) == [1, 0, -1, -1], "the last are refused"
    assert judicator.do(take_many(1)) == [-1], "and what was refused is not counted"
    assert commands() - before <= 5

    async def failing() -> list[object]:
        return list(
            await asyncio.gather(*(counts.take("x" * 2000, 0, 10**400) for _ in range(20)), return_exceptions=True)
        )

    assert all(isinstance(error, Exception) for error in judicator.do(failing())), (
        "all at once, not one after the other"
    )


def test_submissions_a_minute_are_counted_at_all_judicators_together(world: World, people: RpcClient) -> None:
    clients = [world.client(timeout=20.0, at=judicator) for judicator in world.judicators]

    def hand_in(number: int) -> m.AddReply | JudgeError:
        try:
            return clients[number % 2].call("add", source(user="quick"), m.AddReply)
        except LimitError as exc:
            return exc

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(hand_in, range(20)))
    rates = [reply.rate for reply in replies if isinstance(reply, m.AddReply)]
    assert sorted(rate.left for rate in rates if rate is not None) == [0, 1, 2, 3, 4]
    error = next(reply for reply in replies if isinstance(reply, LimitError))
    assert "user 'quick' has handed in 5 submissions within a minute" in str(error)
    assert error.rate is not None and error.rate[:2] == (5, 0) and 1 <= error.rate[2] <= 60
    used = people.call("usage", UsageRequest(user="quick"), UsageReply).rate
    assert used is not None and (used.limit, used.left) == (5, 0)
    people.call("add", source(user="patient"), m.AddReply)
    world.db.rates.update_one({"_id": "submit quick"}, {"$set": {"until": clock.wall()}})
    again = people.call("add", source(user="quick"), m.AddReply).rate
    assert again is not None and again.left == 4, "the minute is over"


def test_refused_and_repeated_submissions_do_not_count(people: RpcClient) -> None:
    with pytest.raises(FieldError):
        people.call("add", source(user="careful", language="klingon"), m.AddReply)
    with pytest.raises(FieldError, match="not uploaded"):
        people.call("add", source(user="careful", tests=[m.Test(name="1", input_blob="0" * 64)]), m.AddReply)
    for _ in range(8):
        people.call("add", source(user="careful", idempotency_key="k"), m.AddReply)
    rate = people.call("usage", UsageRequest(user="careful"), UsageReply).rate
    assert rate is not None and rate.left == 4


def test_a_user_has_figures_of_their_own(world: World, people: RpcClient) -> None:
    call(people, "user_add", name="free", quota=Quota(per_minute=0, waiting=7, slot_share=0.5, stored_bytes=10**9))
    for _ in range(7):
        assert people.call("add", source(user="free"), m.AddReply).rate is None
    with pytest.raises(LimitError, match="7 submissions of user 'free' wait"):
        people.call("add", source(user="free"), m.AddReply)
    used = people.call("usage", UsageRequest(user="free"), UsageReply)
    assert (used.waiting, used.allowance.waiting, used.allowance.slot_share) == (7, 7, 0.5)
    assert (used.allowance.stored_bytes, used.allowance.per_minute) == (10**9, None)
    call(people, "user_change", name="free", quota=Quota(waiting=8, stored_bytes=1))

    def one_more() -> str:
        try:
            return str(people.call("add", source(user="free"), m.AddReply).created)
        except LimitError as exc:
            return str(exc)

    wait_for(lambda: "the limit is 1" in one_more(), what="the new figures at every judicator")


def test_slots_are_shared_by_a_users_own_part(world: World, people: RpcClient) -> None:
    world.db.tasks.delete_many({})
    call(people, "user_add", name="half", quota=Quota(per_minute=0, slot_share=0.5))
    executor = world.executor("slots", slots=4, languages=("c",))
    executor.report(vacant=0)
    for user in ("half", "whole"):
        for _ in range(4):
            people.call("add", source(user=user), m.AddReply)
    users = [assignment.submission.user for assignment in executor.report(vacant=4).add]
    users += [assignment.submission.user for assignment in executor.report(vacant=2).add]
    assert users.count("half") == 2, users
    executor.report(*[accepted(assignment) for assignment in executor.work.values()], vacant=0)


# --- the trail ---------------------------------------------------------------------------------------------------


def test_each_change_is_in_the_trail_with_who_did_it(people: RpcClient) -> None:
    call(people, "user_add", name="trail", role="judge", password=PASSWORD)
    call(people, "user_change", name="trail", role="admin")
    call(people, "user_change", name="trail", disabled=True)
    call(people, "user_change", name="trail", disabled=False)
    call(people, "user_password", name="trail", password="another phrase")
    info = token(people, "trail", "trail-token", label="ci", scopes=["read"])
    call(people, "token_revoke", id=info.id)
    call(people, "user_delete", name="trail")

    def actions_of(about: str) -> list[str]:
        entries = people.call("audit", AuditQuery(object=about), AuditReply).entries
        assert all((entry.actor, entry.role, entry.origin) == ("root", "admin", "192.0.2.1") for entry in entries)
        return [entry.action for entry in reversed(entries) if entry.outcome == "done"]

    actions = ["user.add", "user.change", "user.disable", "user.enable", "user.password", "user.delete"]
    assert actions_of("trail") == actions
    assert actions_of(info.id) == ["token.create", "token.revoke"]
    entry_ = people.call("audit", AuditQuery(object=info.id, action="token.create"), AuditReply).entries[0]
    assert (entry_.details["user"], entry_.details["scopes"], entry_.details["label"]) == ("trail", ["read"], "ci")
    changed = people.call("audit", AuditQuery(object="trail", action="user.change"), AuditReply).entries[0]
    assert changed.details["role"] == "admin"


def test_nobody_without_rights_can_fill_the_trail(people: RpcClient) -> None:
    """Each act, and each that is refused, took two entries that are kept for ever.

    Whoever has stolen a token cannot keep its owner from revoking it in this way.
    """
    theirs = people.call("add", source(user="else"), m.AddReply).task.id
    by, ref = By(actor="flooder", role="user"), p.TokenEnd(id="0" * 16, user="flooder")

    def revoke() -> None:
        with pytest.raises(NotFoundError):
            people.call("token_revoke", ref, m.Empty, by=by)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for revoked in [pool.submit(revoke) for _ in range(audit.HOURLY)]:
            revoked.result()
    for _ in range(3):
        with pytest.raises(LimitError, match="'flooder' has had 300 things done") as refused:
            people.call("cancel", m.TaskRef(id=theirs), m.Task, by=by)
        revoke()  # calls that take rights away are done all the same, and noted if they are
    assert refused.value.rate == (300, 0, pytest.approx(3600, abs=300))
    page = people.call("audit", AuditQuery(actor="flooder", limit=500), AuditReply)
    assert len(page.entries) == 500 and page.next is not None
    remainder = people.call("audit", AuditQuery(actor="flooder", limit=500, before=page.next), AuditReply)
    assert len(page.entries) + len(remainder.entries) == 2 * audit.HOURLY
    call(people, "user_add", name="flooder", role="user")
    stolen = token(people, "flooder", "stolen")
    people.call("token_revoke", p.TokenEnd(id=stolen.id, user="flooder"), m.Empty, by=by)
    last = people.call("audit", AuditQuery(actor="flooder", limit=1), AuditReply).entries[0]
    assert (last.action, last.object, last.outcome) == ("token.revoke", stolen.id, "done")
    with pytest.raises(NotFoundError):  # admins are trusted, and whoever else acts in between has their own count
        people.call("token_revoke", ref, m.Empty, by=ROOT)
    with pytest.raises(NotFoundError):
        people.call("token_revoke", ref, m.Empty, by=By(actor="other", role="user"))


def test_a_user_beyond_the_audit_limit_still_ends_sessions_and_revokes(world: World, people: RpcClient) -> None:
    """A thief of a token may have done much, and ends all sessions again and again, which costs nothing."""
    call(people, "user_add", name="robbed", role="user")
    stolen = token(people, "robbed", "stolen")
    by = By(actor="robbed", role="user")
    later = clock.wall() + datetime.timedelta(hours=1)

    def beyond(key: str) -> None:
        fields = {"n": audit.HOURLY + 1, "until": later, "now": clock.wall()}
        world.db.rates.update_one({"_id": key}, {"$set": fields}, upsert=True)

    def log_out() -> None:
        end = SessionEnd(id="6" * 64, user="robbed", everywhere=True)
        people.call("session_end", end, m.Empty, by=by)

    beyond(rates.noting("robbed"))
    people.call("session_begin", SessionBegin(id="5" * 64, user="robbed", account=True), m.Empty, by=by)
    log_out()
    assert not live(people, "5" * 64, "robbed")
    last = people.call("audit", AuditQuery(actor="robbed", limit=1), AuditReply).entries[0]
    assert (last.action, last.outcome, last.details) == ("logout", "done", {"everywhere": True})
    beyond(rates.taking("robbed", "logout"))
    with pytest.raises(LimitError):
        log_out()
    people.call("token_revoke", p.TokenEnd(id=stolen.id, user="robbed"), m.Empty, by=by)


def test_only_gateways_may_ask_about_people(world: World, people: RpcClient) -> None:
    for role in ("executor", "judicator"):
        stranger = world.client("x1", role)
        requests: dict[str, m.Message] = {
            "login": p.Login(name="a", password="b"),
            "user_add": p.UserAdd(name="intruder"),
            "users": p.UsersQuery(),
            "tokens": p.TokensQuery(),
            "token_create": p.TokenNew(digest="0" * 64, user="intruder", scopes=["read"]),
            "credentials": p.Credentials(tokens=["0" * 64]),
            "identity_login": p.IdentityLogin(identity=p.Identity(issuer="i", subject="s")),
        }
        for name, request in requests.items():
            with pytest.raises(ForbiddenError):
                stranger.call(name, request, METHODS[name].reply)
