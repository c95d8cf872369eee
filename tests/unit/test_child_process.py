"""How a daemon ends its child: by asking, once or again and again, and by force when its time is over."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.daemon.process import ChildProcess
from tests.support.servers import wait_for

# Ends when it has been told so often.
_TOLD = 'left=$1; trap "left=\\$((left - 1))" TERM; echo ready; while [ $left -gt 0 ]; do sleep 0.01; done; exit 7'


@pytest.fixture
def told(tmp_path: Path) -> Iterator[list[ChildProcess]]:
    """The children of a test, killed at its end."""
    children: list[ChildProcess] = []
    yield children
    for child in children:
        child.kill()
        child.join()


def start(told: list[ChildProcess], times: int) -> ChildProcess:
    """A child that ends when it has been told so often."""
    child = ChildProcess("told", ["/bin/sh", "-c", _TOLD, "sh", str(times)])
    told.append(child)
    wait_for(lambda: child.last_line == "ready", what="the child's trap")
    return child


@pytest.mark.parametrize(("times", "again"), [(1, None), (1, 0.05), (3, 0.05)])
def test_a_child_is_asked_until_it_ends(told: list[ChildProcess], times: int, again: float | None) -> None:
    assert start(told, times).stop(60, again=again) == 7


@pytest.mark.parametrize(("times", "again"), [(2, None), (1000, 0.05)])
def test_one_that_does_not_end_in_time_is_killed(told: list[ChildProcess], times: int, again: float | None) -> None:
    assert start(told, times).stop(0.3, again=again) == -signal.SIGKILL
