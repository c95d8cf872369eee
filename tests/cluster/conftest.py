"""One cluster of six lab hosts for all modules that need a deployed one: it takes minutes to make.

Each test finds it whole and leaves it whole. The modules go from the harmless to the violent in the order of
scripts/run-tests; any order works.
"""

import os
import random
from collections.abc import Iterator

import pytest

from tests.cluster.verbs import HEAD, Table, Verbs
from tests.support.lab import Figure, Site, site

SEED = int(os.environ.get("JUDGE_TEST_SEED", random.SystemRandom().randrange(10**6)))
_VERBS: list[Verbs] = []
_TABLE = Table()


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Site]:
    foretell = any(item.name == "test_bare_hosts_become_a_cluster_that_judges" for item in request.session.items)
    with site(tmp_path_factory.mktemp("site"), SEED, foretell=foretell) as deployed_site:
        yield deployed_site


@pytest.fixture(scope="session")
def verbs(deployed: Site) -> Verbs:
    """Runs playbooks under a stream of submissions, and keeps the table."""
    verbs = Verbs(deployed, SEED, _TABLE)
    _VERBS.append(verbs)
    return verbs


@pytest.fixture(scope="session")
def table() -> Table:
    return _TABLE


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """Planned verbs have five seconds, each; a test that took more has left a whole cluster all the same."""
    yield
    for verbs in _VERBS:
        verbs.in_time()


@pytest.fixture
def chance(figure: Figure) -> random.Random:
    """What decides who is hit; JUDGE_TEST_SEED repeats a run."""
    figure(f"JUDGE_TEST_SEED={SEED}")
    return random.Random(SEED)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    rows = [row.line() for row in _TABLE.rows]
    if rows:
        terminalreporter.section(f"verbs under submissions, JUDGE_TEST_SEED={SEED}")
        for line in (*HEAD, *rows):
            terminalreporter.line(line)
