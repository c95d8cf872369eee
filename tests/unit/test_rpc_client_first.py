"""Which judicator a client asks first, and for how long it stays with one."""

from pathlib import Path

import pytest

from judge.common import clock
from judge.rpc import pki
from judge.rpc.client import RpcClient

ADDRESSES = ["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"]


def test_a_client_changes_its_judicator_after_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pki.make_ca(tmp_path)
    now = 1000.0
    monkeypatch.setattr(clock, "monotonic", lambda: now)
    client = RpcClient(lambda: ADDRESSES, pki.issue(tmp_path, "gw", "gateway", ["127.0.0.1"]), 1.0)
    firsts = set()
    client.order(refresh=False, patience=0.0)
    for _ in range(100):
        client.first = ADDRESSES[0]
        for _ in range(10):
            assert client.order(refresh=False, patience=0.0)[0] == ADDRESSES[0]
            now += 10.0
        now += 300.0
        firsts.add(client.order(refresh=False, patience=0.0)[0])
    client.close()
    assert firsts == set(ADDRESSES)
