"""What tests/cluster/verbs.py makes of runs that are killed, or that are not: it never counts one that was not."""

from pathlib import Path
from typing import cast

import pytest

from tests.cluster.table import PLANNED
from tests.cluster.verbs import Table, Verbs
from tests.support.lab import Run, Site


def run(code: int, tasks: int) -> Run:
    return Run(code, "", 0.0, [f"task {number}" for number in range(1, tasks + 1)], set(), set())


class Playbook:
    """Has so many tasks; after `repeats` runs to its end it is refused."""

    def __init__(self, tasks: int, repeats: int = 99) -> None:
        self.tasks, self.repeats, self.kills, self.ends = tasks, repeats, 0, 0

    def play(self, kill_at: int) -> Run:
        if self.ends > self.repeats:
            return run(2, 1)
        if 0 < kill_at <= self.tasks:
            self.kills += 1
            return run(-9, kill_at)
        self.ends += 1
        return run(0, self.tasks)


@pytest.fixture
def verbs(tmp_path: Path) -> Verbs:
    return Verbs(cast("Site", None), 1, Table(tmp_path / "verbs.md"))


@pytest.mark.parametrize("expected", [30, 300])
@pytest.mark.parametrize("name", ["upgrade", "rotate", "renew", "backup", "restore"])
def test_a_verb_is_killed_as_often_as_planned(verbs: Verbs, name: str, expected: int) -> None:
    playbook = Playbook(30)
    assert len(verbs.cut_off(name, expected, playbook.play)) == playbook.kills == 3
    assert playbook.ends >= 1, "and then it ran to its end"


def test_a_run_that_failed_by_itself_was_not_killed(verbs: Verbs) -> None:
    with pytest.raises(AssertionError, match="ended with 2 before it was killed"):
        verbs.cut_off("recover", 300, Playbook(5, repeats=0).play)
    with pytest.raises(AssertionError, match="was killed 0 times instead of 3"):
        verbs.cut_off("nothing", 30, lambda _: run(0, 30))


def test_a_planned_verb_has_a_bound_of_its_own() -> None:
    """Not one on top of what a playbook costs that changes nothing."""
    assert PLANNED == 5.0
    for name in ("test_verbs", "test_releases_and_secrets", "test_data"):
        text = (Path(__file__).parents[1] / f"cluster/{name}.py").read_text(encoding="utf-8")
        assert "control.verdicts" not in text
        for verb in ("rotate", "upgrade", "rollback", "renew", "backup"):
            for line in text.splitlines():
                assert f'verbs.measure("{verb}' not in line or "planned=True" in line, line


def test_a_late_verb_fails_its_test_and_no_other(verbs: Verbs) -> None:
    verbs.in_time()
    verbs.late.append("| add | j4 | 421 | 13.6 s |")
    with pytest.raises(AssertionError, match=r"more than 5 s:\n\| add \| j4"):
        verbs.in_time()
    verbs.in_time()
