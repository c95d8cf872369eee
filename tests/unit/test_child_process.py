"""How a daemon ends its child: by asking, once or again and again, and by force when its time is over."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.daemon.process import ChildProcess
from tests.support.servers import wait_for

# Ends when it has been told so often.
_TOLD = 'left=$1; trap "left=\\$((left - 1))" TERM; echo ready; while [ $left -gt 0 ]; do sleep 0.01; done; exit 7'


@pytest.fixture
def children(tmp_path: Path) -> Iterator[list[ChildProcess]]:
    """The children of a test, killed at its end."""
    processes: list[ChildProcess] = []
    yield processes
    for child in processes:
        child.kill()
        child.join()


def start(children: list[ChildProcess], times: int) -> ChildProcess:
    """A child that ends when it has been told so often."""
    child = ChildProcess("told", ["/bin/sh", "-c", _TOLD, "sh", str(times)])
    children.append(child)
    wait_for(lambda: child.last_line == "ready", what="the child's trap")
    return child


@pytest.mark.parametrize(
    ("times", "again", "seconds", "code"),
    [
        (1, None, 60, 7),
        (1, 0.05, 60, 7),
        (3, 0.05, 60, 7),
        (2, None, 0.3, -signal.SIGKILL),
        (1000, 0.05, 0.3, -signal.SIGKILL),
    ],
)
def test_a_child_is_asked_until_it_ends_or_its_time_is_over(children, times, again, seconds, code) -> None:
    assert start(children, times).stop(seconds, again=again) == code
