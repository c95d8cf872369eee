"""Every hostile program gets its verdict, and nothing of it is left or was touched (docs/hostile.md).

`JUDGE_HOSTILE_ROUNDS` rounds (1 by default) of the whole set run at the end, in random order, four at a time;
`JUDGE_HOSTILE_SEED` repeats an order.
"""

import os
import random
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.hostile.cases import BY_NAME, CASES
from tests.hostile.host import MARK, Host, Traces, strays
from tests.hostile.rounds import SECRET, crew, grows, rounds, wait_for_end
from tests.hostile.runner import Judge, Report
from tests.support.sandbox import need_sandbox

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="the full sandbox needs root here: run as root"),
]

ROUNDS = int(os.environ.get("JUDGE_HOSTILE_ROUNDS", "1"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def host(directory: Path) -> Iterator[Host]:
    need_sandbox()
    # Every directory above the bait is open to everybody, or that alone would protect it.
    for parent in directory.parents:
        if parent.stat().st_uid == os.geteuid() and parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    with Host(directory) as host, pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET, host.token)
        yield host


@pytest.fixture(scope="module")
def judge(host: Host, directory: Path) -> Iterator[Judge]:
    judge = Judge("one", directory / "one", host.places)
    judge.run("11_name_none")  # opens and imports what a process needs only once
    yield judge
    judge.close()


@pytest.mark.parametrize("name", [
    pytest.param(case.name, marks=pytest.mark.xfail(reason=case.gap, strict=case.steady)) if case.gap else case.name
    for case in CASES
])  # fmt: skip
def test_verdict(name: str, host: Host, judge: Judge) -> None:
    if BY_NAME[name].unless():
        pytest.skip(BY_NAME[name].unless())
    judge.users.clear()
    before = Traces.now(judge.outputs)
    report = judge.run(name)
    leftovers = Traces.now(judge.outputs).new(before)
    wait_for_end(judge.users)
    assert report.faults(host.token) == []
    assert leftovers == []
    assert host.hits() == []


def test_each_check_sees_its_fault(tmp_path: Path) -> None:
    """Checks that never fail prove nothing: each is given something to find."""
    before = Traces.now(tmp_path)
    with Host(tmp_path / "bait") as bait:
        assert bait.hits() == []
        bait.secret.read_bytes()
        assert "opened" in bait.hits()[0]
        bait.victim.write_text("changed")
        assert len(bait.hits()) == 2
        socket.create_connection((bait.address, int(bait.places["@PORT@"])), 5).close()
        assert any("connected" in hit for hit in bait.hits())
        user = 1_800_000_000 + os.getpid()
        with subprocess.Popen(["sleep", "60"], user=user) as process:
            mark = Path("/tmp") / f"{MARK}-{os.getpid()}"
            mark.touch()
            try:
                leftovers = Traces.now(tmp_path).new(before)
                assert strays({user}) != [] and strays({user + 1}) == []
            finally:
                mark.unlink()
                process.kill()
    for kind in ("descriptors", "children", "files"):
        assert any(text.startswith(kind) for text in leftovers), leftovers
    wrong = Report("15_setsid_c", "WA", "", "", bait.token)
    assert len(wrong.faults(bait.token)) == 2


def test_a_leak_is_seen_and_a_large_round_is_none() -> None:
    steady = [146552, 146692, 146800, 146848, 146988, 149148, 150976, 151020, 151096, 151136]
    assert not grows(steady)
    assert grows([bytes_ + 500 * number for number, bytes_ in enumerate(steady)])


@pytest.mark.timeout(300 + 900 * ROUNDS)  # in user-mode Linux a round takes five minutes
def test_all_in_random_order_four_at_a_time(host: Host, directory: Path) -> None:
    seed = int(os.environ.get("JUDGE_HOSTILE_SEED", random.SystemRandom().randrange(1 << 32)))
    with crew(directory, host.places) as workers:
        faults = rounds(host, workers, ROUNDS, seed, partial(print, flush=True))
    assert not faults, "\n".join(faults)
