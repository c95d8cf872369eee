"""Logging in with an OpenID Connect provider: a published one as a process of its own, and one that lies."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from flask.testing import FlaskClient
from joserfc.jwk import OKPKey, RSAKey
from werkzeug.test import TestResponse

from judge.gateway import providers
from tests.support.gateway import PEOPLE, Browser, gateway_config, serving_app
from tests.support.judicators import module_world
from tests.support.receivers import IdentityProvider
from tests.support.servers import free_port, wait_for

world = module_world()

PUBLIC = "http://judge.example.org"


@pytest.fixture(scope="module")
def liar() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as liar:
        yield liar


@pytest.fixture
def provider(liar: IdentityProvider) -> IdentityProvider:
    """Honest again, with somebody new."""
    honest = {"subject": f"s-{len(liar.asked)}", "alg": "RS256", "silent": False}
    vars(liar).update(**honest, lies={}, userinfo={}, published=[liar.key])
    liar.claims = {"preferred_username": f"ida{len(liar.asked)}", "groups": ["cs101"]}
    return liar


@pytest.fixture(scope="module")
def make(world, liar, tmp_path_factory):
    """Gateways with two providers, which are one: whoever is sent to `uni` must not come back to `other`."""
    with contextlib.ExitStack() as stack:

        def settings_with(**changes: Any) -> Any:
            directory = tmp_path_factory.mktemp("gw")
            (directory / "secret").write_text(liar.client_secret + "\n")
            provider_fields = {
                "name": "uni", "title": "University", "issuer": liar.issuer, "client_id": liar.client_id,
                "client_secret_file": directory / "secret", "create": True, **changes,
            }  # fmt: skip
            oidc = [provider_fields, {**provider_fields, "name": "other"}]
            settings = gateway_config(world, directory, public_url=PUBLIC, oidc=oidc)
            return stack.enter_context(serving_app(settings))

        yield settings_with


@pytest.fixture(scope="module")
def app(make):
    return make()


def start(client: FlaskClient, name: str = "uni", target: str = "/me") -> str:
    answer = client.get(f"/login/with/{name}?next={target}")
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"]


def back(client: FlaskClient, address: str) -> TestResponse:
    assert address.startswith(f"{PUBLIC}/login/with/")
    return client.get(address.removeprefix(PUBLIC))


def log_in(app: Any, provider: IdentityProvider) -> tuple[FlaskClient, TestResponse]:
    client = app.test_client()
    return client, back(client, provider.log_in(start(client)))


def user_of(client: FlaskClient) -> str | None:
    answer = client.get("/api/v1/whoami")
    return answer.json["user"] if answer.status_code == 200 else None


def test_a_published_provider_vouches_for_people(make, world) -> None:
    """oidc-provider-mock: Authlib's own provider, which signs in anybody by a form."""
    port = free_port()
    issuer = f"http://localhost:{port}"
    command = [sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:

            def up() -> bool:
                with contextlib.suppress(httpx.TransportError):
                    return httpx.get(f"{issuer}/jwks", trust_env=False).status_code == 200
                return False

            wait_for(up, what="the provider")
            claims = {"preferred_username": "grace", "groups": ["navy"]}
            claimed = httpx.put(f"{issuer}/users/grace%40example.org", json=claims, trust_env=False)
            assert claimed.status_code == 204, claimed.text
            app = make(issuer=issuer, groups_claim="groups", only_groups=["navy"])
            client = app.test_client()
            assert b"Log in with University" in client.get("/login").data
            url = start(client)
            answer = httpx.post(url, data={"sub": "grace@example.org"}, trust_env=False)
            assert answer.status_code in {302, 303}, answer.text
            entered = back(client, answer.headers["Location"])
            assert (entered.status_code, entered.headers["Location"]) == (303, "/me")
            assert user_of(client) == "grace"
            stored = world.db.users.find_one({"_id": "grace"})
            assert stored["identity"] == {"issuer": issuer, "subject": "grace@example.org"}
            assert stored["groups"] == ["navy"]
            browser = app.test_client()
            answer = httpx.post(start(browser), data={"sub": "eve@example.org"}, trust_env=False)
            assert back(browser, answer.headers["Location"]).status_code == 403
            assert user_of(browser) is None
        finally:
            process.terminate()


def test_the_same_subject_is_the_same_user_and_logs_out_everywhere(app, provider) -> None:
    first, answer = log_in(app, provider)
    assert answer.status_code == 303
    name = user_of(first)
    assert name == provider.claims["preferred_username"]
    provider.claims["preferred_username"] = "root"
    second, _ = log_in(app, provider)
    assert user_of(second) == name, "a name that is changed there is nobody else's here"
    assert Browser(first).post("/", "/logout", everywhere="yes").status_code == 303
    wait_for(lambda: user_of(second) is None, 9, what="the end of the other session")


def test_nobody_gets_a_name_of_tokens_yml_or_one_that_is_taken(app, provider, world) -> None:
    for name in ("root", "ROOT", PEOPLE[1][0]):
        provider.claims["preferred_username"] = name
        client, answer = log_in(app, provider)
        assert answer.status_code == 403 and user_of(client) is None
    provider.claims["preferred_username"] = "taken-by-one"
    log_in(app, provider)
    provider.subject += "-other"
    client, answer = log_in(app, provider)
    assert answer.status_code == 409 and user_of(client) is None
    assert "There is a user" in answer.text
    for name in ("../../etc", "a b", "", 7, None):
        provider.subject = f"s-odd-{name}"
        provider.claims["preferred_username"] = name
        assert log_in(app, provider)[1].status_code == 403


def test_an_e_mail_address_identifies_no_account(app, provider, world) -> None:
    """Providers let people write any address: an account is found by issuer and subject alone."""
    provider.claims |= {"preferred_username": "mail-owner", "email": "ceo@example.org", "email_verified": True}
    log_in(app, provider)
    provider.subject += "-thief"
    provider.claims["preferred_username"] = "mail-thief"
    client, _ = log_in(app, provider)
    assert user_of(client) == "mail-thief"


@pytest.mark.parametrize(
    "lies",
    [
        {"nonce": "another"}, {"nonce": None}, {"aud": "another-client"}, {"aud": None}, {"iss": "http://evil.example"},
        {"iss": None}, {"exp": 1}, {"exp": None}, {"iat": None}, {"sub": None}, {"sub": ""}, {"sub": 7},
        {"azp": "another"}, {"aud": ["judge", "another"]}, {"at_hash": "wrong"}, {"nbf": 4102444800},
        {"iat": 4102444800}, {"sub": "x" * 256}, {"sub": "a\nuser 'root' added"},
    ],
    ids=str,
)  # fmt: skip
def test_an_id_token_that_proves_nothing_lets_nobody_in(app, provider, lies) -> None:
    provider.lies = lies
    client, answer = log_in(app, provider)
    assert answer.status_code == 401, answer.text
    assert user_of(client) is None


@pytest.mark.parametrize("alg", ["none", "HS256"])
def test_a_signature_without_a_secret_is_refused(app, provider, alg) -> None:
    provider.alg = alg
    client, answer = log_in(app, provider)
    assert answer.status_code == 401 and user_of(client) is None


def test_a_key_of_somebody_else_signs_nothing_and_a_new_one_is_fetched(make, provider, monkeypatch) -> None:
    monkeypatch.setattr(providers, "_LEAST_PAUSE", 0.0)
    app = make()
    provider.published = [RSAKey.generate_key(2048, {"kid": "one"})]
    assert log_in(app, provider)[1].status_code == 401
    provider.published = [provider.key]
    assert log_in(app, provider)[1].status_code == 303


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("alg", ["EdDSA", "Ed25519"])
def test_a_key_of_another_kind_signs_by_either_of_its_names(make, provider, alg, monkeypatch) -> None:
    key = OKPKey.generate_key("Ed25519", {"kid": "small"})
    monkeypatch.setattr(provider, "key", key)
    monkeypatch.setattr(provider, "published", [key])
    provider.alg = alg
    assert log_in(make(), provider)[1].status_code == 303


def test_an_answer_belongs_to_the_browser_that_asked_once(app, provider) -> None:
    client, thief = app.test_client(), app.test_client()
    address = provider.log_in(start(client))
    assert back(thief, address).status_code == 401, "a victim is not logged in as the attacker, nor the other way"
    assert back(client, address).status_code == 303
    for again in (client, app.test_client()):
        assert back(again, address).status_code == 401, "the state is used up"
    state = parse_qs(urlsplit(start(client)).query)["state"][0]
    for path in (
        "?code=x",
        "?code=x&state=",
        f"?code=x&state={state[:-1]}",
        "?state=" + "a" * 43,
        "?code=x&state=%C3%A9",
    ):
        assert client.get(f"/login/with/uni/back{path}").status_code == 401


def test_an_answer_of_one_provider_is_refused_for_another(app, provider) -> None:
    client = app.test_client()
    address = provider.log_in(start(client)).replace("/login/with/uni/", "/login/with/other/")
    assert back(client, address).status_code == 401
    address = provider.log_in(start(client)) + "&iss=http://evil.example"
    assert back(client, address).status_code == 401
    assert client.get("/login/with/nobody").status_code == 404


def test_a_flow_is_over_after_ten_minutes(app, provider, monkeypatch) -> None:
    client = app.test_client()
    address = provider.log_in(start(client))
    monkeypatch.setattr(providers, "_FLOW_SECONDS", -1)
    assert back(client, address).status_code == 401


def test_a_session_that_was_planted_gains_nothing(app, provider) -> None:
    """Fixation: the cookie after the log-in has nothing of the one before."""
    client = app.test_client()
    client.get("/login")
    before = client.get_cookie("judge")
    address = provider.log_in(start(client))
    assert back(client, address).status_code == 303
    after = client.get_cookie("judge")
    assert before and after and before.value != after.value
    planted = app.test_client()
    planted.set_cookie("judge", before.value)
    assert user_of(client) and user_of(planted) is None
    with client.session_transaction() as session:
        assert "oidc" not in session


def test_the_way_back_follows_from_the_config_and_never_from_the_request(app, provider) -> None:
    client = app.test_client()
    answer = client.get("/login/with/uni", headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})
    query = parse_qs(urlsplit(answer.headers["Location"]).query)
    assert query["redirect_uri"] == [f"{PUBLIC}/login/with/uni/back"]
    for target in ("//evil.example", "https://evil.example", "/\\evil.example"):
        browser = app.test_client()
        assert back(browser, provider.log_in(start(browser, target=target))).headers["Location"] == "/"


def test_a_refusal_of_the_provider_is_quoted_safely(app, provider) -> None:
    client = app.test_client()
    state = parse_qs(urlsplit(start(client)).query)["state"][0]
    answer = client.get(f"/login/with/uni/back?state={state}&error=access_denied<script>alert(1)</script>")
    assert answer.status_code == 401 and "access_denied" in answer.text and "<script>alert" not in answer.text


def test_a_provider_that_does_not_answer_is_said_so(make, provider, monkeypatch) -> None:
    app = make()
    provider.silent = True
    answer = app.test_client().get("/login/with/uni")
    assert answer.status_code == 503 and "University does not answer" in answer.text
    provider.silent, calls = False, len(provider.asked)
    assert app.test_client().get("/login/with/uni").status_code == 503
    assert len(provider.asked) == calls, "each click would hold a thread until it does not answer again"
    monkeypatch.setattr(providers, "_SILENCE", 0.0)
    client = app.test_client()
    address = provider.log_in(start(client))
    provider.silent = True
    assert back(client, address).status_code == 503


def test_the_provider_decides_on_groups_and_roles_where_the_config_says_so(make, provider, world) -> None:
    app = make(groups_claim="groups", roles={"staff": "judge", "root": "admin"})
    provider.claims["groups"] = ["staff", "with space", "cs101"]
    client, _ = log_in(app, provider)
    assert client.get("/api/v1/whoami").json["role"] == "judge"
    assert world.db.users.find_one({"_id": user_of(client)})["groups"] == ["staff", "cs101"]
    provider.claims["groups"] = ["cs101"]
    client, _ = log_in(app, provider)
    assert client.get("/api/v1/whoami").json["role"] == "user", "who is no staff any more is no judge"


def test_missing_claims_are_fetched_for_the_same_subject_only(make, provider, world) -> None:
    app = make(groups_claim="groups")
    name = provider.claims.pop("preferred_username")
    provider.userinfo = {"preferred_username": name, "groups": "cs102,cs103"}
    client, _ = log_in(app, provider)
    assert user_of(client) == name
    provider.subject += "-x"
    provider.claims["groups"] = ["g"]
    provider.userinfo = {"preferred_username": "somebody", "sub": "another"}
    assert log_in(app, provider)[1].status_code == 403


def test_without_leave_to_create_only_linked_people_come_in(make, provider, world) -> None:
    app = make(create=False)
    client, answer = log_in(app, provider)
    assert answer.status_code == 403 and user_of(client) is None
    command = re.search(r"judgectl user add NAME --issuer (\S+) --subject (\S+?)\W", answer.text)
    assert command and provider.issuer in answer.text and provider.subject in answer.text
