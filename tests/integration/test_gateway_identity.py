"""The cache of identities: people who come often are asked about together, and one who is out is out."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge.common.errors import UnavailableError
from judge.gateway import identity
from judge.gateway.auth import token_digest
from judge.model.messages import Empty
from judge.model.people import Credentials, CredentialState, CredentialStates
from judge.model.people import Person as Owner
from tests.support.gateway import Person, Prepared, gateway_config, serving_app
from tests.support.servers import wait_for

# Seconds for which a gateway waits for a judicator.
TIMEOUT = 1.0
PEOPLE = [f"u{number}" for number in range(20)]
ACCOUNT = "judge_" + "a" * 43


@pytest.fixture
def gateway(etcd_endpoint: str, tmp_path: Path) -> Any:
    """A gateway whose cluster counts what it is asked about people, and what it says of whom."""
    with Prepared(tmp_path / "world", etcd_endpoint).serving() as prepared:
        settings = gateway_config(prepared, tmp_path / "gw", rpc_timeout=TIMEOUT)
        rows = [{"user": name, "role": "user", "sha256": token_digest(f"token-{name}")} for name in PEOPLE]
        settings.tokens.write_text(yaml.safe_dump({"tokens": rows}))
        with serving_app(settings) as app:
            yield _Asked(prepared, app)


class _Asked:
    def __init__(self, prepared: Prepared, app: Any) -> None:
        self.prepared, self.app = prepared, app
        self.count: Counter[str] = Counter()
        self.largest = 0
        self.out: set[str] = set()
        self.away = False
        prepared.answers |= {
            "credentials": self._credentials,
            "token_used": lambda _: Empty(),
        }

    def _credentials(self, request: Credentials) -> CredentialStates:
        self.count["credentials"] += 1
        self.largest = max(self.largest, len(request.names))
        if self.away:
            raise UnavailableError("away")
        time.sleep(0.02)
        account = CredentialState(user="acc", person=Owner(user="acc", role="user", scopes=["read"], token="0" * 16))
        return CredentialStates(
            tokens=[CredentialState() if "acc" in self.out else account for _ in request.tokens],
            names=[CredentialState(user="" if name in self.out else name) for name in request.names],
        )

    def status(self, token: str) -> int:
        """404 for who is let in, as there is no such submission."""
        return Person(self.app.test_client(), token)("GET", "/submissions/none").status_code


def _all_come(gateway: _Asked, seconds: float) -> Counter[int]:
    """What people are answered who come all the time, each by themselves."""
    statuses: Counter[int] = Counter()
    end = time.monotonic() + seconds

    def come(name: str) -> None:
        while time.monotonic() < end:
            statuses[gateway.status(f"token-{name}")] += 1
            time.sleep(0.01)

    threads = [threading.Thread(target=come, args=(name,)) for name in PEOPLE]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return statuses


def test_frequent_callers_are_looked_up_in_one_call(gateway: _Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "LIFETIME", 0.5)
    result = _all_come(gateway, 3.0)
    assert set(result) == {404}
    # Half of their time is a quarter of a second; at the beginning not all have come by the first question.
    assert gateway.count["credentials"] <= 3.0 / 0.25 + 5, gateway.count
    assert gateway.largest == len(PEOPLE)


def test_new_callers_at_the_same_time_are_looked_up_together(gateway: _Asked) -> None:
    _all_come(gateway, 0.3)
    assert gateway.count["credentials"] <= 5, "the first alone, and those who came during that by the next question"


def test_a_disabled_user_is_refused_in_time_and_other_users_are_not(gateway: _Asked) -> None:
    _all_come(gateway, 0.3)
    gateway.out.add("u3")
    allowed: Counter[str] = Counter()

    def shut_out() -> bool:
        allowed.update(name for name in PEOPLE if name != "u3" and gateway.status(f"token-{name}") != 404)
        return gateway.status("token-u3") == 401

    wait_for(shut_out, timeout=identity.LIFETIME + 1, what="the end of u3")
    assert not allowed
    gateway.out.clear()
    assert gateway.status("token-u3") == 404, "at once"


def test_an_accounts_token_goes_on_and_ends(gateway: _Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "LIFETIME", 0.2)

    def renewed() -> bool:
        assert gateway.status(ACCOUNT) == 404
        return gateway.count["credentials"] >= 3

    wait_for(renewed, what="another look at the account")
    gateway.out.add("acc")
    wait_for(lambda: gateway.status(ACCOUNT) == 401, timeout=9, what="the end of the token")


def test_a_failed_lookup_is_not_repeated_for_each_waiting_caller(
    gateway: _Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that fails is not made again by each of those who waited for it."""
    _all_come(gateway, 0.3)
    monkeypatch.setattr(identity, "LIFETIME", 0.0)
    gateway.away = True
    began = time.monotonic()
    assert set(_all_come(gateway, 0.5)) == {404}
    assert time.monotonic() - began < 4 * TIMEOUT, "twenty people waited for a call or two"
