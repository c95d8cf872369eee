"""What several modules of tests share: judicators on real servers, and people who use a gateway's API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.support.gateway import ADMIN, OTHER, USER, Person
from tests.support.judicators import World
from tests.support.receivers import Receiver, receiving


@pytest.fixture
def world(tmp_path: Path, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    """No judicator yet."""
    made = World(tmp_path, etcd_endpoint, mongod_address)
    yield made
    made.close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture
def admin(app: Flask) -> Person:
    return Person(app.test_client(), ADMIN)


@pytest.fixture
def ada(app: Flask) -> Person:
    return Person(app.test_client(), USER)


@pytest.fixture
def bob(app: Flask) -> Person:
    return Person(app.test_client(), OTHER)


@pytest.fixture
def nobody(app: Flask) -> Person:
    return Person(app.test_client(), None)
