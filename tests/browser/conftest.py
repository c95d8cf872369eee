"""Headless Chromium for tests, and a gateway under its real uWSGI in front of a real judicator."""

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
    with patient_world(directory, etcd_endpoint, mongod_address, **judicator_settings) as world:
        yield world


@pytest.fixture(scope="module")
def gateway_settings() -> dict[str, Any]:
    return {}


@pytest.fixture(scope="module")
def base(world: World, tmp_path_factory: pytest.TempPathFactory, gateway_settings: dict[str, Any]) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("gateway")
    settings = make_config(directory, world.etcd_config, world.tls("gateway-1", "gateway"), **gateway_settings)
    with running_gateway(settings, directory) as address:
        yield address


@pytest.fixture(scope="session")
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[bool, list[Chrome]]]:
    """The browsers that have been started, without and with JavaScript. A start costs seconds of CPU time."""
    started: dict[bool, list[Chrome]] = {False: [], True: []}
    yield started
    for browser in [*started[False], *started[True]]:
        browser.driver.quit()


@pytest.fixture
def chrome(
    base: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, browsers: dict[bool, list[Chrome]]
) -> Callable[..., Chrome]:
    """Returns browsers that know nothing of earlier tests: `chrome(USER, width=390, dark=True, javascript=False)`."""
    used = {False: 0, True: 0}

    def new(token: str = "", *, javascript: bool = True, **look: Any) -> Chrome:
        started = browsers[javascript]
        if used[javascript] == len(started):
            started.append(Chrome(tmp_path_factory.mktemp("browser"), javascript=javascript))
        browser = started[used[javascript]]
        used[javascript] += 1
        browser.begin(base, tmp_path / "screenshots", **look)
        if token:
            browser.login(token)
        return browser

    return new
