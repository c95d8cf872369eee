"""A crowd at the gateway of a whole cluster: several languages at a steady rate, while judging processes are killed."""

import os
import signal
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.support.clients import CASES, Stream
from tests.support.cluster import Cluster, processes_of, running
from tests.support.servers import wait_for

pytestmark = [pytest.mark.root, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("stream") / "cluster", "--slots", "2") as cluster:
        yield cluster


def stream(cluster: Cluster) -> Stream:
    return Stream(lambda seconds: cluster.api(timeout=seconds), interval=0.3)


def test_every_kind_gets_its_verdict_once(cluster: Cluster) -> None:
    with stream(cluster) as crowd:
        wait_for(lambda: crowd.judged() >= 2 * len(CASES), 300, "verdicts of every kind")
        ledger = crowd.verify()
    verdicts = Counter(final.verdict for final in ledger.ended.values())
    assert verdicts.keys() == {case.verdict.value for case in CASES}
    assert len(ledger.ended) == len(ledger.offered) >= 2 * len(CASES)


def test_nothing_is_lost_while_judicator_and_executor_die(cluster: Cluster) -> None:
    with stream(cluster) as crowd:
        crowd.flows()
        for kind in ("judge.cli judicator ", "judge.cli executor "):
            (victim,) = (pid for pid, command in processes_of(str(cluster.directory)).items() if kind in command)
            os.kill(victim, signal.SIGKILL)
            crowd.flows()
        crowd.verify()
