"""What several modules of tests share: judicators on real servers, and people who use a gateway's API."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask

from judge.config import GatewayConfig
from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import load_table
from judge.sandbox import SandboxPool
from tests.support.gateway import ADMIN, OTHER, USER, Person, Prepared, gateway_config, make_config, serving_app
from tests.support.judicators import Executor, World
from tests.support.mongodb import Cluster, mongodb_cluster
from tests.support.receivers import Receiver, receiving
from tests.support.sandbox import language_pool


@pytest.fixture
def world(tmp_path: Path, etcd_endpoint: str, mongod_address: str) -> Iterator[World]:
    """No judicator yet."""
    world = World(tmp_path, etcd_endpoint, mongod_address)
    yield world
    world.close()


@pytest.fixture(scope="module")
def gateways(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Flask, Flask]]:
    """Two apps with the same session key, as two hosts have; for modules whose `world` is the module's."""
    first, second = (
        make_config(tmp_path_factory.mktemp("gw"), world.etcd_config, world.tls(f"gateway-{number}", "gateway"))
        for number in (1, 2)
    )
    with serving_app(first) as app, serving_app(second) as other:
        yield app, other


@pytest.fixture(scope="module")
def settings(world: World, tmp_path_factory: pytest.TempPathFactory) -> GatewayConfig:
    """Of the gateway of a module whose `world` is the module's."""
    return gateway_config(world, tmp_path_factory.mktemp("gw"), rpc_timeout=20.0)


@pytest.fixture(scope="module")
def app(settings: GatewayConfig) -> Iterator[Flask]:
    with serving_app(settings) as app:
        yield app


@pytest.fixture(scope="module")
def executor(world: World) -> Executor:
    """Of a module whose `world` is the module's; it has reported once."""
    executor = world.executor(slots=50)
    executor.report(vacant=0)
    return executor


@pytest.fixture(scope="module")
def pool(request: pytest.FixtureRequest) -> Iterator[SandboxPool]:
    """Sandboxes in which all languages of this machine run."""
    name = request.module.__name__.rpartition(".test_")[2].replace("_", "-")
    with language_pool(name) as sandboxes:
        yield sandboxes


@pytest.fixture
def pipeline(pool: SandboxPool, work: Path) -> Pipeline:
    """What judges one submission in a slot."""
    return Pipeline(take=pool.take, tell=lambda _: None, table=load_table(), outputs=work)


@pytest.fixture
def mongods(tmp_path: Path, etcd_endpoint: str) -> Iterator[Cluster]:
    """A replica set of three voting members."""
    with mongodb_cluster(tmp_path / "mongodb", etcd_endpoint) as cluster:
        cluster.start(3)
        cluster.wait_votes([1, 1, 1], timeout=120)
        yield cluster


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def prepared(tmp_path: Path, etcd_endpoint: str) -> Iterator[Prepared]:
    """Of each test its own: one is registered for a minute."""
    with Prepared(tmp_path / "judicator", etcd_endpoint).serving() as prepared:
        yield prepared


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
