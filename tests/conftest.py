"""Fixtures that every suite shares: real servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import etcd_server, mongod_server


@pytest.fixture(scope="module")
def etcd_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a real etcd of this module's own."""
    with etcd_server(tmp_path_factory.mktemp("etcd")) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def mongod_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of a real mongod of this module's own, primary of replica set `judge`."""
    with mongod_server(tmp_path_factory.mktemp("mongod")) as address:
        yield address


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A short-lived directory."""
    return tmp_path
