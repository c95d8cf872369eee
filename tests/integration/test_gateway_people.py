"""Accounts, tokens, passwords and rates as people meet them: two gateways, real judicators and database."""

import base64
import csv
import datetime
import io
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from judge.common import clock
from judge.config.allowance import Allowance, Allowances
from judge.gateway import identity
from judge.gateway.api import results
from judge.gateway.auth import FileTokens, of_account, widened
from judge.judicator.people import throttle
from judge.model import results as r
from judge.model.people import SCOPES
from tests.support.gateway import ADMIN, USER, Browser, Person, check, make_config, running_gateway
from tests.support.judicators import World, finished, imported, write
from tests.support.servers import wait_for

PASSWORD = "correct horse battery"
SOURCE = {"language": "c", "source": "int main(){}"}
EVERYTHING = list(SCOPES)


@pytest.fixture(scope="module")
def world(tmp_path_factory, etcd_endpoint, mongod_address):
    world = World(tmp_path_factory.mktemp("world"), etcd_endpoint, mongod_address)
    judge = Allowance(stored_bytes=None, per_minute=3)
    allowances = Allowances(user=Allowance(slot_share=1.0, stored_bytes=None), judge=judge)
    world.judicator(allowances=allowances, executor_expiry=3600.0, executor_forget=7200.0, task_expiry=3600.0)
    yield world
    world.close()


@pytest.fixture
def app(gateways, world):
    world.db.rates.delete_many({})
    return gateways[0]


def add(admin: Person, name: str, **fields: Any) -> Any:
    return check(admin("POST", "/users", json={"name": name, **fields}), 201, "add_user")


def token_of(admin: Person, name: str, *scopes: str, **fields: Any) -> str:
    body = {"user": name, "scopes": list(scopes) or EVERYTHING, **fields}
    token = check(admin("POST", "/tokens", json=body), 201, "make_token")
    assert of_account(token["token"])
    return str(token["token"])


def log_in(app: Any, name: str, password: str = PASSWORD) -> Browser:
    browser = Browser(app.test_client())
    answer = browser.post("/login", "/login", user=name, password=password)
    assert answer.status_code == 303, answer.text
    return browser


# --- many accounts -----------------------------------------------------------------------------------------------


def test_an_admin_uploads_a_table_and_sees_the_passwords(app, admin) -> None:
    browser = Browser(app.test_client(), ADMIN)

    def upload(text: str, name: str = "class.csv") -> Any:
        return browser.post("/users", "/users/import", file=(io.BytesIO(text.encode()), name))

    page = upload("name,user,email\n<i>Zoë</i>,zoe,zoe@example.org\nעדה,ada7,\n")
    assert (
        page.status_code == 200
        and "&lt;i&gt;Zoë&lt;/i&gt;" in page.text
        and "no-store" in page.headers["Cache-Control"]
    )
    data = re.search(r"base64,([^\"]+)", page.text)
    assert data is not None
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(data[1]).decode("utf-8-sig"))))
    assert [row["user"] for row in rows] == ["zoe", "ada7"] and all(row["password"] in page.text for row in rows)
    repeated = upload("name,user,email\n<i>Zoë</i>,zoe,zoe@example.org\nעדה,ada7,\n")
    assert repeated.status_code == 200 and data[1] in repeated.text, "a page that was lost is shown again"
    zoe = log_in(app, "zoe", rows[0]["password"])
    assert "Zoë" in zoe.get("/me").text
    again = upload("user\nzoe\nnew\n")
    assert again.status_code == 409 and "line 2: there is a user &#39;zoe&#39; already" in again.text
    wrong = upload("user,phone\nnew,1", "<class>.csv")
    assert (
        wrong.status_code == 400
        and "The table &lt;class&gt;.csv: line 1: there is no column &#39;phone&#39;" in wrong.text
    )
    assert browser.post("/users", "/users/import").status_code == 400
    assert zoe.post("/submit", "/users/import", file=(io.BytesIO(b"user\nnew"), "a.csv")).status_code == 403
    assert admin("GET", "/users/new").status_code == 404
    # Names are for judges and admins; nobody else finds the address of another.
    check(admin("PUT", "/users/ada7", json={"email": "ada7@example.org"}), 200, "change_user")
    add(admin, "reader", role="judge", password=PASSWORD)
    task = check(admin("POST", "/submissions", json={**SOURCE, "user": "ada7"}), 201, "submit")["id"]
    for judge, shown in ((log_in(app, "reader"), True), (log_in(app, "ada7", rows[1]["password"]), False)):
        for path in ("/submissions", f"/submissions/{task}"):
            text = judge.get(path).text
            assert ("עדה" in text) == shown and "example.org" not in text, path


def test_the_api_adds_many_accounts_or_none(app, admin) -> None:
    body = {
        "users": [{"name": "b1", "display_name": "Bé", "password": PASSWORD}, {"name": "b2"}],
        "idempotency_key": "b",
    }
    for _ in range(2):
        assert check(admin("POST", "/users/batch", json=body), 201, "add_users") == {"added": 2}
    log_in(app, "b1")
    refused = admin("POST", "/users/batch", json={"users": [{"name": "b3"}, {"name": "B1"}]})
    assert refused.status_code == 409 and "users.1: there is a user 'b1' already" in refused.json["error"]
    for wrong in ([], [{"name": "b4", "password": 7, "display_name": "\u202e"}], [{"password": PASSWORD}]):
        answer = admin("POST", "/users/batch", json={"users": wrong})
        assert answer.status_code == 400 and PASSWORD not in answer.text
    person = Person(app.test_client(), USER)
    assert person("POST", "/users/batch", json={"users": [{"name": "b5"}]}).status_code == 403


# --- results -----------------------------------------------------------------------------------------------------


def test_judges_get_what_each_person_has_reached(app, admin, world, monkeypatch) -> None:
    monkeypatch.setattr(results, "_PAGE", 2)
    imported(world.client("gateway-1"), "sums")
    add(admin, "r1", display_name="Ro Eins", groups=["results"])
    add(admin, "teacher", role="judge", password=PASSWORD)
    long_ago = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
    problem = {"problem": {"name": "sums", "hash": "0" * 64}}
    for user, verdict, day in (("r1", "WA", 0), ("r1", "AC", 1), ("r1", "AC", 2), ("r1", "TLE", 3), ("r2", "WA", 4)):
        since = long_ago + datetime.timedelta(days=day)
        write(world.db, finished(1, user=user, verdict=verdict, since=since, **problem))

    def rows(**query: str) -> list[tuple[Any, ...]]:
        merged = every(admin, **query)
        return [(row["user"], row["verdict"], row["attempts"], (row["solved"] or "")[:10]) for row in merged]

    def every(person: Person, **query: str) -> list[dict[str, Any]]:
        parts, before = [], None
        while True:
            part = check(person("GET", "/results", query_string={**query, "before": before or ""}), 200, "results")
            parts += [r.ProblemResult(**row) for row in part["results"]]
            before = part["next"]
            if before is None:
                return [row.model_dump(mode="json") for row in r.merged(parts)]

    run = next(finished(1, user="teacher", since=long_ago, **problem))
    run["submission"]["cause"] = "verification"
    write(world.db, [run])
    wait_for(lambda: len(admin("GET", "/submissions?problem=sums").json["tasks"]) == 6, what="a majority has them")
    assert rows(problem="sums") == [("r1", "AC", 4, "2026-02-01"), ("r2", "WA", 1, "")]
    assert rows(problem="sums", group="results") == [("r1", "AC", 4, "2026-02-01")]
    assert rows(problem="sums", since="2026-02-02T00:00:00Z") == [("r1", "AC", 2, "2026-02-02"), ("r2", "WA", 1, "")]
    assert rows(problem="sums", until="2026-02-01T12:00:00Z") == [("r1", "WA", 1, "")]
    teacher = log_in(app, "teacher")
    assert "/results.csv?problem=sums" in teacher.get("/submissions?problem=sums").text
    table = teacher.get("/results.csv?problem=sums")
    lines = list(csv.reader(io.StringIO(table.data.decode("utf-8-sig"))))
    assert lines[1] == ["r1", "Ro Eins", "sums", "AC", "", "4", "2026-02-01T12:00:00.000Z"] and len(lines) == 3
    assert teacher.get("/results.csv?since=soon").status_code == 400
    assert teacher.get("/results.csv?until=2106-02-07T06:28:14Z").text.count("sums") == 2
    assert Person(app.test_client(), USER)("GET", "/results").status_code == 403
    assert Browser(app.test_client(), USER).get("/results.csv").status_code == 403


# --- roles and scopes --------------------------------------------------------------------------------------------

FOR_ADMINS = [("GET", "/users"), ("GET", "/audit"), ("POST", "/executors/e1/drain"), ("DELETE", "/problems/none")]
FOR_JUDGES = [("GET", "/rejudgings"), ("POST", "/blobs/missing"), ("GET", "/problems/none/verification")]


def allowed(person: Person, calls: list[tuple[str, str]]) -> set[bool]:
    bodies = {"/blobs/missing": {"blobs": []}}
    return {person(method, path, json=bodies.get(path)).status_code != 403 for method, path in calls}


@pytest.mark.parametrize(
    ("role", "judging", "administering"), [("user", False, False), ("judge", True, False), ("admin", True, True)]
)
def test_each_role_may_make_its_calls_and_no_more(app, admin, role, judging, administering) -> None:
    add(admin, f"role-{role}", role=role)
    person = Person(app.test_client(), token_of(admin, f"role-{role}"))
    assert person("GET", "/whoami").json["role"] == role
    assert allowed(person, FOR_JUDGES) == {judging}
    assert allowed(person, FOR_ADMINS) == {administering}


def test_a_token_does_no_more_than_its_scopes_whoever_has_it(app, admin) -> None:
    add(admin, "scoped", role="admin")
    own = Person(app.test_client(), USER)("POST", "/submissions", json=SOURCE).json["id"]
    reader, submitter, judge = (
        Person(app.test_client(), token_of(admin, "scoped", scope)) for scope in ("read", "submit", "judge")
    )
    assert [caller("GET", "/whoami").json["role"] for caller in (reader, submitter, judge)] == ["user", "user", "judge"]
    assert [caller("POST", "/submissions", json=SOURCE).status_code for caller in (reader, submitter)] == [403, 201]
    assert [user("GET", f"/submissions/{own}").status_code for user in (reader, submitter, judge)] == [404, 404, 200]
    assert judge("POST", f"/submissions/{own}/cancel").status_code == 403, "a judge looks, and cancels nothing"
    assert allowed(reader, FOR_JUDGES) == allowed(judge, FOR_ADMINS) == {False}
    for person in (reader, submitter, judge):
        for method, path in (("GET", "/tokens"), ("POST", "/tokens"), ("PUT", "/password"), ("DELETE", "/sessions")):
            answer = person(method, path, json={"old": "", "password": "", "scopes": ["read"]})
            assert answer.status_code == 403, (method, path)
    account = Person(app.test_client(), token_of(admin, "scoped", "account"))
    assert account("GET", "/tokens").status_code == 200 and account("GET", "/whoami").status_code == 403


def test_a_scope_includes_those_below_it() -> None:
    assert widened(["judge"]) == {"read", "submit", "judge"}
    assert widened(["account"]) == {"account"}
    assert widened([]) == widened(["nonsense"]) - {"nonsense"} == frozenset()


def test_a_token_has_no_more_scopes_than_its_maker(app, admin) -> None:
    add(admin, "climber", role="admin")
    person = Person(app.test_client(), token_of(admin, "climber", "account", "read"))
    for scope in ("submit", "judge", "admin"):
        answer = person("POST", "/tokens", json={"scopes": [scope]})
        assert answer.status_code == 403 and "the token of this request does not have" in answer.json["error"]
    assert person("POST", "/tokens", json={"scopes": ["read"], "user": "somebody"}).status_code == 403
    assert person("GET", "/tokens?user=root").status_code == 403
    token = check(person("POST", "/tokens", json={"scopes": ["read"], "days": 1}), 201, "make_token")
    listed = check(person("GET", "/tokens"), 200, "tokens")["tokens"]
    assert token["id"] in [token_info["id"] for token_info in listed] and token["token"] not in str(listed)
    neighbour = add(admin, "climbers-neighbour") and token_of(admin, "climbers-neighbour")
    foreign = Person(app.test_client(), neighbour)
    assert foreign("DELETE", f"/tokens/{token['id']}").status_code == 404, "as if it did not exist"
    assert person("DELETE", f"/tokens/{token['id']}").status_code == 200
    assert Person(app.test_client(), token["token"])("GET", "/whoami").status_code == 401


def test_a_token_has_no_scope_beyond_its_users_role(app, admin) -> None:
    add(admin, "rising", password=PASSWORD)
    person = Person(app.test_client(), token_of(admin, "rising"))
    answer = person("POST", "/tokens", json={"scopes": ["read", "judge"]})
    assert answer.status_code == 403 and "requires an account of role judge" in answer.json["error"]


def test_a_token_has_one_end_that_is_to_come(app, admin) -> None:
    add(admin, "lasting")
    for fields, field in (
        ({"days": 3661}, "days"), ({"days": 0}, "days"), ({"expires": "2020-01-01T00:00:00Z"}, "expires"),
        ({"days": 1, "expires": "2100-01-01T00:00:00Z"}, "days"),
    ):  # fmt: skip
        answer = admin("POST", "/tokens", json={"user": "lasting", **fields})
        assert (answer.status_code, answer.json["field"]) == (400, field), fields
    check(admin("POST", "/tokens", json={"user": "lasting", "days": 3660}), 201, "make_token")
    (token,) = admin("GET", "/tokens?user=lasting").json["tokens"]
    assert 3659 < (datetime.datetime.fromisoformat(token["expires"]) - clock.wall()).days + 1 <= 3660


def test_tokens_and_sessions_made_with_a_token_end_with_it(app, admin) -> None:
    """Else whoever has a token for a minute has one for ever."""
    add(admin, "leaked")
    stolen = token_of(admin, "leaked", "read", "account", days=1)
    person, browser = Person(app.test_client(), stolen), Browser(app.test_client(), stolen)
    token = check(person("POST", "/tokens", json={"scopes": ["read", "account"]}), 201, "make_token")
    browser.post("/me", "/me/tokens", scopes="read")
    again = Person(app.test_client(), token["token"])
    check(again("POST", "/tokens", json={"scopes": ["read"], "days": 3000}), 201, "make_token")
    listed = admin("GET", "/tokens?user=leaked").json["tokens"]
    assert len(listed) == 4 and len({token_info["expires"] for token_info in listed}) == 1
    admin("DELETE", f"/tokens/{listed[-1]['id']}")
    assert admin("GET", "/tokens?user=leaked").json["tokens"] == []
    wait_for(lambda: again("GET", "/whoami").status_code == 401, 9, what="the end of what was made with it")
    wait_for(lambda: browser.get("/api/v1/whoami").status_code == 401, 9, what="the end of the session")


def test_an_admin_makes_tokens_for_others_that_last(app, admin) -> None:
    add(admin, "chief", role="admin")
    add(admin, "robot")
    person = Person(app.test_client(), token_of(admin, "chief", "admin", "account", days=1))
    lasting = token_of(person, "robot", "read", days=300)
    (token,) = admin("GET", "/tokens?user=chief").json["tokens"]
    admin("DELETE", f"/tokens/{token['id']}")
    assert Person(app.test_client(), lasting)("GET", "/whoami").status_code == 200


def test_an_admin_does_not_shut_themselves_out(app, admin) -> None:
    add(admin, "last", role="admin")
    person = Person(app.test_client(), token_of(admin, "last"))
    for body in ({"disabled": True}, {"role": "user"}):
        assert person("PUT", "/users/last", json=body).status_code == 403
    for path in ("/users/last", "/users/last/data"):
        assert person("DELETE", path).status_code == 403
    assert person("PUT", "/users/last", json={"role": "admin", "groups": ["g"]}).status_code == 200


def test_a_user_of_tokens_yml_alone_is_told_how_to_get_a_token(admin) -> None:
    answer = admin("POST", "/tokens", json={})
    assert answer.status_code == 404 and "judgectl user add root" in answer.json["error"]


def test_a_password_is_in_no_answer(admin) -> None:
    answer = admin("POST", "/users", json={"name": "long", "password": "x" * 300})
    assert answer.status_code == 400 and answer.json["field"] == "password" and "xxx" not in answer.text
    answer = admin("PUT", "/password", json={"old": "zzz" * 100, "password": "y"})
    assert answer.status_code == 400 and "zzz" not in answer.text


# --- being shut out ----------------------------------------------------------------------------------------------


def test_a_user_who_is_disabled_is_refused_everywhere_within_seconds(gateways, app, admin) -> None:
    add(admin, "shut", password=PASSWORD)
    token = token_of(admin, "shut")
    people = [Person(gateway.test_client(), token) for gateway in gateways]
    browsers = [log_in(gateway, "shut") for gateway in gateways]

    def out() -> bool:
        statuses = [person("GET", "/whoami").status_code for person in people]
        statuses += [browser.get("/api/v1/whoami").status_code for browser in browsers]
        assert set(statuses) <= {200, 401}
        return set(statuses) == {401}

    assert not out()
    admin("PUT", "/users/shut", json={"disabled": True})
    began = clock.monotonic()
    wait_for(out, identity.LIFETIME + 3, what="a user who is out")
    assert clock.monotonic() - began < identity.LIFETIME + 1
    browser = Browser(app.test_client())
    assert browser.post("/login", "/login", user="shut", password=PASSWORD).status_code == 401
    assert browser.post("/login", "/login", token=token).status_code == 401
    admin("PUT", "/users/shut", json={"disabled": False})
    assert people[0]("GET", "/whoami").status_code == 200, "at once"


def test_a_judge_who_is_none_any_more_gets_no_answer_that_was_held(app, admin) -> None:
    add(admin, "demoted", role="judge")
    person = Person(app.test_client(), token_of(admin, "demoted"))
    task = check(admin("POST", "/submissions", json=SOURCE), 201, "submit")
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(person, "GET", f"/submissions/{task['id']}?wait=4&version={task['version'] + 50}")
        admin("PUT", "/users/demoted", json={"role": "user"})
        assert held.result().status_code in {403, 404}


def test_a_token_of_tokens_yml_is_refused_when_an_account_of_its_name_is_disabled(gateways, app, admin) -> None:
    person = Person(gateways[1].test_client(), USER)
    assert person("GET", "/whoami").status_code == 200
    add(admin, "ada")
    admin("PUT", "/users/ada", json={"disabled": True})
    wait_for(lambda: person("GET", "/whoami").status_code == 401, identity.LIFETIME + 3, what="a name that is out")
    admin("PUT", "/users/ada", json={"disabled": False})
    assert person("GET", "/whoami").status_code == 200


def test_a_token_that_is_revoked_is_refused_everywhere_within_seconds(gateways, admin) -> None:
    add(admin, "revoked")
    token = token_of(admin, "revoked")
    people = [Person(gateway.test_client(), token) for gateway in gateways]
    assert {person("GET", "/whoami").status_code for person in people} == {200}
    (listed,) = admin("GET", "/tokens?user=revoked").json["tokens"]
    assert listed["used"] and listed["used_from"] == "127.0.0.1"
    assert admin("DELETE", f"/tokens/{listed['id']}").status_code == 200
    wait_for(
        lambda: {person("GET", "/whoami").status_code for person in people} == {401},
        identity.LIFETIME + 3,
        what="a token that is out",
    )


def test_without_judicators_an_identity_counts_for_its_lifetime_and_tokens_yml_on(admin, app, monkeypatch) -> None:
    add(admin, "steady")
    token = token_of(admin, "steady")
    services = app.extensions["judge"]
    # Of its own, since its clock goes back after this.
    identities = identity.Identities(FileTokens(services.config.tokens), services.cluster)
    assert identities.by_token(token).user == "steady"

    def silent(*_: Any, **__: Any) -> None:
        raise identity.UnavailableError("nobody answers")

    monkeypatch.setattr(services.cluster, "call", silent)
    now = clock.monotonic()
    monkeypatch.setattr(identity.clock, "monotonic", lambda: now + identity.LIFETIME * 0.9)
    assert identities.by_token(token).user == "steady"
    assert identities.by_token(ADMIN).user == "root"
    monkeypatch.setattr(identity.clock, "monotonic", lambda: now + identity.LIFETIME + 1)
    with pytest.raises(identity.UnavailableError):
        identities.by_token(token)
    assert identities.by_token(ADMIN).user == "root", "the file says so"


# --- coming in ---------------------------------------------------------------------------------------------------


def test_a_person_logs_in_by_name_and_password_and_changes_it(gateways, app, admin) -> None:
    add(admin, "pat", password=PASSWORD)
    first, second = log_in(app, "pat"), log_in(gateways[1], "PAT")
    assert first.get("/api/v1/whoami").json["user"] == "pat"
    wrong = first.post("/me", "/me/password", old="wrong", password="another phrase", again="another phrase")
    assert wrong.status_code == 401 and "present password" in wrong.text
    differ = first.post("/me", "/me/password", old=PASSWORD, password="another phrase", again="another word")
    assert differ.status_code == 400
    answer = first.post("/me", "/me/password", old=PASSWORD, password="another phrase", again="another phrase")
    assert answer.status_code == 303, answer.text
    assert first.get("/api/v1/whoami").status_code == 200, "this session stays"
    wait_for(lambda: second.get("/api/v1/whoami").status_code == 401, 9, what="the end of the other session")
    again = Browser(app.test_client())
    assert again.post("/login", "/login", user="pat", password=PASSWORD).status_code == 401
    log_in(app, "pat", "another phrase")


def test_a_refusal_says_the_same_of_every_name(app, admin) -> None:
    add(admin, "exists", password=PASSWORD)
    pages = set()
    for name in ("exists", "exists-not"):
        browser = Browser(app.test_client())
        answer = browser.post("/login", "/login", user=name, password="wrong password")
        pages.add((answer.status_code, re.sub(r'value="[^"]*"', "", answer.text)))
    assert len(pages) == 1


def test_guesses_are_stopped_at_all_gateways_with_when_to_come_back(gateways, app, admin) -> None:
    add(admin, "guessed", password=PASSWORD)
    browsers = [Browser(gateway.test_client()) for gateway in gateways]
    answers = [
        browsers[number % 2].post("/login", "/login", user="guessed", password=f"guess {number}")
        for number in range(throttle.EACH + 1)
    ]
    assert [answer.status_code for answer in answers] == [401] * throttle.EACH + [429]
    assert 0 < int(answers[-1].headers["Retry-After"]) <= throttle.WINDOW
    assert browsers[0].post("/login", "/login", user="guessed", password=PASSWORD).status_code == 429
    person = Person(app.test_client(), token_of(admin, "guessed"))
    guesses = {
        person("PUT", "/password", json={"old": f"g{n}", "password": "another phrase"}).status_code for n in "ab"
    }
    assert guesses == {429}, "the same throttle for the present password"


def test_strangers_wrong_passwords_do_not_keep_out_a_browser_that_was_in(gateways, app, admin) -> None:
    """Neither from the same address, nor at another gateway; the cookie alone lets nobody in, and is for one name."""
    add(admin, "victim", password=PASSWORD)
    add(admin, "mallory", password=PASSWORD)
    usual = Browser(gateways[0].test_client())
    assert usual.post("/login", "/login", user="Victim", password=PASSWORD).status_code == 303
    (cookie,) = [cookie_ for cookie_ in usual.client._cookies.values() if cookie_.key.endswith("-device")]
    assert cookie.http_only and cookie.same_site == "Lax" and "victim" not in cookie.value
    usual.client.delete_cookie("judge")

    def guess(client, **fields):
        return Browser(client).post("/login", "/login", user="victim", **fields).status_code

    strangers = [guess(gateways[n % 2].test_client(), password=f"guess {n}") for n in range(throttle.EACH + 1)]
    assert strangers[-1] == 429 and guess(gateways[0].test_client(), password=PASSWORD) == 429
    stranger = gateways[1].test_client()
    for forged in (cookie.value[:-1], cookie.value.split(".")[0], "x", ""):
        stranger.set_cookie(cookie.key, forged)
        assert guess(stranger, password=PASSWORD) == 429
    hers = Browser(gateways[0].test_client())
    assert hers.post("/login", "/login", user="mallory", password=PASSWORD).status_code == 303
    hers.client.delete_cookie("judge")
    assert hers.post("/login", "/login", user="victim", password=PASSWORD).status_code == 429
    stranger.set_cookie(cookie.key, cookie.value)
    assert guess(stranger, password="wrong") == 401, "known at every gateway, and no password"
    assert usual.post("/login", "/login", user="victim", password=PASSWORD).status_code == 303
    tries = [guess(stranger, password=f"guess {n}") for n in range(throttle.EACH + 1)]
    assert tries[-1] == 429, "it has as many tries as others"


@pytest.mark.parametrize("scopes", [["read"], ["admin"], ["account"]], ids=lambda scopes: scopes[0])
def test_a_session_by_token_ends_all_sessions_with_scope_account_alone(app, admin, scopes) -> None:
    """As the API has it; it may always end itself."""
    name = f"ends-{scopes[0]}"
    add(admin, name, role="admin", password=PASSWORD)
    other_browser, browser = log_in(app, name), Browser(app.test_client())
    assert browser.post("/login", "/login", token=token_of(admin, name, *scopes)).status_code == 303
    answer = browser.post("/me", "/logout", everywhere="yes")
    if scopes == ["account"]:
        assert answer.status_code == 303
        wait_for(lambda: other_browser.get("/api/v1/whoami").status_code == 401, 9, what="the end of the other session")
        return
    assert answer.status_code == 403 and "does not have scope &#39;account&#39;" in answer.text
    for client in (browser, other_browser):
        assert client.get("/api/v1/whoami").status_code == 200, "nothing has ended"
    assert browser.post("/me", "/logout").status_code == 303
    assert browser.get("/api/v1/whoami").status_code == 401
    assert other_browser.get("/api/v1/whoami").status_code == 200


def test_a_session_by_token_has_the_tokens_scopes_and_ends_with_it(app, admin) -> None:
    add(admin, "tokened", role="admin")
    browser = Browser(app.test_client(), token_of(admin, "tokened", "read"))
    assert browser.get("/").status_code == 200
    assert browser.get("/users").status_code == 403
    assert browser.post("/", "/submit", language="c", source="int main(){}").status_code == 403
    assert browser.post("/", "/me/tokens", scopes="read").status_code == 403
    (listed,) = admin("GET", "/tokens?user=tokened").json["tokens"]
    admin("DELETE", f"/tokens/{listed['id']}")
    wait_for(lambda: browser.get("/api/v1/whoami").status_code == 401, 9, what="the end of the session")


def test_nothing_of_a_session_before_the_log_in_stays(app, admin) -> None:
    add(admin, "fixed", password=PASSWORD)
    browser = Browser(app.test_client())
    before = browser.csrf("/login")
    planted = browser.client.get_cookie("judge")
    answer = browser.client.post("/login", data={"csrf": before, "user": "fixed", "password": PASSWORD})
    assert answer.status_code == 303 and browser.csrf("/me") != before
    thief = app.test_client()
    thief.set_cookie("judge", planted.value)
    assert thief.get("/api/v1/whoami").status_code == 401


def test_no_form_works_without_its_secret_and_no_cookie_changes_anything_by_the_api(app, admin) -> None:
    add(admin, "csrf", role="admin", password=PASSWORD)
    browser = log_in(app, "csrf")
    forms = ["/users", "/users/csrf", "/users/csrf/tokens", "/me/tokens", "/me/password", "/logout"]
    forms += ["/users/csrf/tokens/0123456789abcdef/revoke", "/me/tokens/0123456789abcdef/revoke"]
    for path in forms:
        for secret in ({}, {"csrf": ""}, {"csrf": "a" * 32}):
            answer = browser.client.post(path, data={**secret, "do": "delete", "name": "x", "role": "admin"})
            assert answer.status_code == 400, path
    stranger = app.test_client().post("/login", data={"user": "csrf", "password": PASSWORD})
    assert stranger.status_code == 400, "nobody is logged in as somebody else by a page elsewhere"
    for method, path in (("POST", "/tokens"), ("PUT", "/password"), ("POST", "/users"), ("DELETE", "/sessions")):
        answer = browser.client.open(f"/api/v1{path}", method=method, json={"scopes": ["read"], "name": "x"})
        assert answer.status_code == 401, path


# --- pages -------------------------------------------------------------------------------------------------------


def test_a_person_makes_and_revokes_tokens_on_their_page(app, admin) -> None:
    add(admin, "self", password=PASSWORD)
    browser = log_in(app, "self")
    page = browser.post("/me", "/me/tokens", label="<laptop>", scopes=["read", "submit"], days="30")
    token = re.search(r'id="token">(judge_[\w-]+)<', page.text)
    assert page.status_code == 200 and token and "&lt;laptop&gt;" in page.text
    assert Person(app.test_client(), token[1])("POST", "/submissions", json=SOURCE).status_code == 201
    assert token[1] not in browser.get("/me").text, "shown once"
    for fields in ({"scopes": []}, {"scopes": "root"}, {"scopes": "read", "days": "x"}, {"scopes": "admin"}):
        answer = browser.post("/me", "/me/tokens", **fields)
        assert answer.status_code == (403 if fields == {"scopes": "admin"} else 400), fields
    assert 'value="admin"' not in browser.get("/me").text, "offers no scope that would wait for a role"
    (first, *_) = admin("GET", "/tokens?user=self").json["tokens"][::-1]
    assert browser.post("/me", f"/me/tokens/{first['id']}/revoke").status_code == 303
    assert browser.post("/me", f"/me/tokens/{first['id']}/revoke").status_code == 404


def test_an_admin_does_all_on_the_pages(app, admin) -> None:
    add(admin, "boss", role="admin", password=PASSWORD)
    browser = log_in(app, "boss")
    reply = browser.post("/users", "/users", name="newbie", role="user", groups="cs101, cs102", password=PASSWORD)
    assert reply.status_code == 303
    assert "newbie" in browser.get("/users?group=cs102&disabled=false").text
    assert "newbie" not in browser.get("/users?group=cs103").text
    again = browser.post("/users", "/users", name="Newbie", role="user", groups="")
    assert again.status_code == 409 and "there is a user" in again.text.lower()
    assert browser.post("/users", "/users", name="a b", role="user", groups="").status_code == 400
    page = "/users/newbie"
    saved = browser.post(page, page, do="save", role="judge", groups="cs103", per_minute="7", slot_share="0.5")
    assert saved.status_code == 303
    user = admin("GET", page).json
    assert (user["role"], user["groups"], user["quota"]["per_minute"], user["quota"]["slot_share"]) == (
        "judge", ["cs103"], 7, 0.5,
    )  # fmt: skip
    assert browser.post(page, page, do="save", role="judge", groups="", per_minute="many").status_code == 400
    assert browser.post(page, page, do="password", password="short").status_code == 400
    assert browser.post(page, page, do="password", password="another phrase").status_code == 303
    log_in(app, "newbie", "another phrase")
    token = browser.post(page, f"{page}/tokens", scopes=["read"], days="1", label="x")
    assert 'id="token">judge_' in token.text
    (listed,) = admin("GET", "/tokens?user=newbie").json["tokens"]
    assert browser.post(page, f"{page}/tokens/{listed['id']}/revoke").status_code == 303
    for verb, state in (("disable", True), ("enable", False)):
        assert browser.post(page, page, do=verb).status_code == 303
        assert admin("GET", page).json["disabled"] is state
    refusal = browser.post(page, page, do="delete", confirm="newbi")
    assert refusal.status_code == 400 and "type its name, newbie, to confirm" in refusal.text
    assert admin("GET", page).status_code == 200
    assert browser.post(page, page, do="delete", confirm="newbie").status_code == 303
    assert browser.get(page).status_code == 404
    for verb in ("disable", "delete", "nonsense"):
        assert browser.post("/users/boss", "/users/boss", do=verb).status_code in {400, 403}
    actions = [row["action"] for row in admin("GET", "/audit?object=newbie").json["entries"] if row["actor"] == "boss"]
    assert {"user.add", "user.change", "user.password", "user.disable", "user.enable", "user.delete"} <= set(actions)


def test_pages_of_admins_are_for_admins(app, admin) -> None:
    add(admin, "notboss", role="judge", password=PASSWORD)
    browser = log_in(app, "notboss")
    assert browser.get("/rejudgings").status_code == 200
    assert "Rejudgings" in browser.get("/").text and "/users" not in browser.get("/").text
    for path in ("/users", "/users/notboss", "/audit"):
        assert browser.get(path).status_code == 403
    for path in ("/users", "/users/notboss", "/users/notboss/tokens"):
        assert browser.post("/me", path, do="save", role="admin", name="x", groups="").status_code == 403
    assert admin("GET", "/users/notboss").json["role"] == "judge"


# --- rates -------------------------------------------------------------------------------------------------------


def test_a_flood_is_told_when_to_come_back_the_same_at_every_gateway(gateways, app, admin) -> None:
    add(admin, "flood", role="judge")
    token = token_of(admin, "flood")
    people = [Person(gateway.test_client(), token) for gateway in gateways]
    answers = [people[number % 2]("POST", "/submissions", json=SOURCE) for number in range(4)]
    assert [answer.status_code for answer in answers] == [201, 201, 201, 429]
    assert [answer.headers["RateLimit-Remaining"] for answer in answers] == ["2", "1", "0", "0"]
    assert answers[0].headers["RateLimit-Policy"] == '"submissions";q=3;w=60'
    last = answers[-1]
    assert last.headers["RateLimit-Limit"] == "3"
    assert 0 < int(last.headers["Retry-After"]) == int(last.headers["RateLimit-Reset"]) <= 60
    assert last.headers["RateLimit"] == f'"submissions";r=0;t={last.headers["Retry-After"]}'
    assert last.json["rate"] == {"limit": 3, "left": 0, "seconds": int(last.headers["Retry-After"])}
    assert people[0]("GET", "/whoami").json["rate"]["left"] == 0
    assert "RateLimit" not in Person(app.test_client(), USER)("POST", "/submissions", json=SOURCE).headers
    browser = Browser(app.test_client(), token)
    page = browser.post("/submit", "/submit", language="c", source="int main(){}", key="k" * 20)
    assert page.status_code == 429 and "within a minute" in page.text and "int main" in page.text
    assert 0 < int(page.headers["Retry-After"]) <= 60


@pytest.mark.parametrize(
    ("quota", "allowed", "words"),
    [({"waiting": 1}, 1, "no more may wait at once"), ({"stored_bytes": 1}, 0, "bytes")],
)
def test_a_user_at_their_quota_is_told_when_to_try_again(app, admin, quota, allowed, words) -> None:
    """Not when it will do, which nobody knows: some of their own work has to end first, or go."""
    name = f"full-{next(iter(quota)).partition('_')[0]}"
    add(admin, name, quota=quota)
    own = Person(app.test_client(), token_of(admin, name))
    answers = [own("POST", "/submissions", json=SOURCE) for _ in range(allowed + 1)]
    assert [answer.status_code for answer in answers] == [201] * allowed + [429]
    last = answers[-1]
    assert last.headers["Retry-After"] == "10" and "RateLimit" not in last.headers
    assert last.json["code"] == "limit" and words in last.json["error"] and last.json.get("rate") is None
    page = Browser(app.test_client(), token_of(admin, name)).post(
        "/submit", "/submit", language="c", source="int main(){}", key="k" * 20
    )
    assert page.status_code == 429 and page.headers["Retry-After"] == "10" and words in page.text


def test_judge0s_api_knows_accounts_and_what_their_tokens_are_for(app, admin) -> None:
    add(admin, "older")
    reader, submitter = token_of(admin, "older", "read"), token_of(admin, "older", "submit")
    client, body = app.test_client(), {"source_code": "int main(){}", "language_id": 50}

    def status(token: str, path: str = "submissions", **fields: Any) -> Any:
        method = "POST" if fields else "GET"
        answer = client.open(f"/judge0/{path}", method=method, headers={"X-Auth-Token": token}, **fields)
        return answer.status_code

    assert status(reader) == status(reader, "authenticate", json={}) == 200
    assert status(reader, json=body) == 403 and status(submitter, json=body) in {201, 422}
    assert status(reader, "authorize", json={}) == 403
    admin("PUT", "/users/older", json={"disabled": True})
    # One after the other: the first would be taken for a guesser while it waits for the second.
    wait_for(lambda: status(reader) == 401, 9, what="the end of reading at Judge0's API")
    wait_for(lambda: status(submitter, json=body) == 401, 9, what="the end of submitting at Judge0's API")


def test_the_front_checks_a_token_before_it_takes_the_body(world, admin, tmp_path) -> None:
    """A source of 100 KiB is more than a stranger may send; a guess is refused without asking the cluster."""
    add(admin, "bodied")
    token = token_of(admin, "bodied")
    settings = make_config(tmp_path / "daemon", world.etcd_config, world.tls("gateway-9", "gateway"), threads=4)
    body = {"language": "c", "source": "int main(){}//" + "x" * 100_000}
    with running_gateway(settings, tmp_path) as url, httpx.Client(base_url=url, trust_env=False) as http:
        for _ in range(2):
            answer = http.post("/api/v1/submissions", json=body, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 201, answer.text
        body0 = {"source_code": body["source"], "language_id": 50}
        answer = http.post("/judge0/submissions", json=body0, headers={"X-Auth-Token": token})
        assert answer.status_code in {201, 422}, "whichever header it comes in"
        guesses = [
            http.get("/api/v1/whoami", headers={"Authorization": f"Bearer judge_{number:043d}"}).status_code
            for number in range(30)
        ]
        assert guesses[0] == 401 and guesses[-1] == 429
        answer = http.get("/api/v1/whoami", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code == 200, "who came in from here before is not shut out with the guesser"
