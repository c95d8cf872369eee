"""Headless Chromium for tests, and a gateway under its real uWSGI in front of a real judicator."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway import make_config, running_gateway
from tests.support.judicators import World, patient_world
from tests.support.pages import Chrome


@pytest.fixture(scope="session", autouse=True)
def _chromium() -> None:
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs Chromium: apt-get install chromium chromium-driver")


@pytest.fixture(scope="module")
def judicator_settings() -> dict[str, Any]:
    """What a module's judicator has set; a module that wants more has a fixture of this name."""
    return {}


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    etcd_endpoint: str,
    mongod_address: str,
    judicator_settings: dict[str, Any],
) -> Iterator[World]:
    """A real judicator on real servers."""
    directory = tmp_path_factory.mktemp("world")
    with patient_world(directory, etcd_endpoint, mongod_address, **judicator_settings) as one:
        yield one


@pytest.fixture(scope="module")
def gateway_settings() -> dict[str, Any]:
    """The same for its gateway."""
    return {}


@pytest.fixture(scope="module")
def base(world: World, tmp_path_factory: pytest.TempPathFactory, gateway_settings: dict[str, Any]) -> Iterator[str]:
    """The address of a gateway daemon with its real uWSGI."""
    directory = tmp_path_factory.mktemp("gateway")
    settings = make_config(directory, world.etcd_config, world.tls("gateway-1", "gateway"), **gateway_settings)
    with running_gateway(settings, directory) as address:
        yield address


@pytest.fixture
def chrome(base: str, tmp_path: Path) -> Iterator[Callable[..., Chrome]]:
    """Starts browsers: `chrome(width=390, dark=True, javascript=False)`."""
    started: list[Chrome] = []

    def start(**look: Any) -> Chrome:
        started.append(Chrome(base, tmp_path / f"browser-{len(started)}", **look))
        return started[-1]

    yield start
    for one in started:
        one.driver.quit()
