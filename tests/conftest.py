"""Fixtures that every suite shares: real servers."""

import gc
import resource
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pymongo
import pytest
from hypothesis import HealthCheck, settings

from judge.etcd.wire import Stubs, connect, rpc
from tests import tiers
from tests.support.servers import etcd_server, mongod_server

FIGURE = "figure"
CPU = "cpu"

_CPU_BEFORE = pytest.StashKey[float]()

# Modules in which minutes go to a few tests, many of which mostly wait: begun first, the others run beside them.
_LONG = (
    "test_importers.py", "test_fuzz_web.py", "test_kill.py", "test_webhooks_killed.py", "test_problem_import.py",
    "test_demo.py",
)  # fmt: skip

# The time of an example says nothing on a machine that others use as well. The examples of a commit are always the same
# ones, so that its tests say the same everywhere; others are looked for with `--hypothesis-profile search`.
settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", max_examples=4000, deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("same")


@pytest.fixture(scope="session")
def shared_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of the etcd of this worker."""
    with etcd_server(tmp_path_factory.mktemp("etcd")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def shared_mongod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`host:port` of the mongod of this worker, primary of replica set `judge`."""
    with mongod_server(tmp_path_factory.mktemp("mongod")) as address:
        yield address


@pytest.fixture(scope="module")
def etcd_endpoint(shared_etcd: str) -> Iterator[str]:
    """`host:port` of a real etcd without keys. A test that stops or configures one starts its own."""
    yield shared_etcd
    with connect(shared_etcd, None) as channel:
        Stubs(channel).kv.DeleteRange(rpc.DeleteRangeRequest(key=b"\0", range_end=b"\0"), timeout=30)


@pytest.fixture(scope="module")
def mongod_address(shared_mongod: str) -> Iterator[str]:
    """`host:port` of a real mongod without databases. A test that stops or configures one starts its own."""
    yield shared_mongod
    host, _, port = shared_mongod.rpartition(":")
    with pymongo.MongoClient(host, int(port), directConnection=True) as client:
        for name in set(client.list_database_names()) - {"admin", "config", "local"}:
            client.drop_database(name)


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Note what a test has measured; the figures are printed when all is over, also of tests that passed."""
    return lambda text: request.node.user_properties.append((FIGURE, text))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--slice COMMIT`: of each long group run the slice that this commit hash chooses (tests/tiers.py)."""
    parser.addoption("--slice", metavar="COMMIT", help="run one slice of each long group, chosen by this commit hash")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Have the garbage collector pass over modules and items, which stay to the end.

    Otherwise it takes half of the time of a collection, and part of the time of every test.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Apply `--slice`, then put the modules of long tests first (`scripts/run-tests` keeps this order)."""
    if commit := config.getoption("--slice"):
        items[:], deselected = tiers.select(items, commit)
        config.hook.pytest_deselected(items=deselected)
    items.sort(key=lambda item: _LONG.index(item.path.name) if item.path.name in _LONG else len(_LONG))


def _cpu_seconds() -> float:
    """CPU time of this process and of its children that have ended and been waited for."""
    usages = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    item.stash[_CPU_BEFORE] = _cpu_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Report the CPU time of a test; servers count for the test after which they are stopped."""
    try:
        return (yield)
    finally:
        item.user_properties.append((CPU, round(_cpu_seconds() - item.stash[_CPU_BEFORE], 2)))


def _properties(reports: list[pytest.TestReport], phase: str, name: str) -> Iterator[tuple[str, str]]:
    for report in reports:
        if report.when == phase:
            yield from ((report.nodeid, str(value)) for key, value in report.user_properties if key == name)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was measured, and the modules that took the most CPU time."""
    every = [report for group in terminalreporter.stats.values() for report in group]
    reports = [report for report in every if isinstance(report, pytest.TestReport)]
    figures = [text for _, text in _properties(reports, "call", FIGURE)]
    if figures:
        terminalreporter.section("measured")
        for text in figures:
            terminalreporter.line(text)
    modules: Counter[str] = Counter()
    for test, seconds in _properties(reports, "teardown", CPU):
        modules[test.partition("::")[0]] += float(seconds)  # type: ignore[assignment]
    if len(modules) > 1:
        terminalreporter.section(f"CPU: {sum(modules.values()):.0f} s, by module")
        for module, total in modules.most_common(25):
            terminalreporter.line(f"{total:6.1f} {module}")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path
