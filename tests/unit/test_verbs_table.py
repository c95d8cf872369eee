"""What tests/cluster/verbs.py measures, and the table of docs/playbooks/README.md that has every row of it."""

import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from tests.cluster.table import KILLED, PLANNED, ROWS, row_hosts
from tests.cluster.verbs import HEAD, Row, Table, Verbs
from tests.support.lab import HOSTS, Run, Site

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/playbooks/README.md"
SHOWN = "| verb | hosts | seconds | longest without a verdict | killed: seconds | killed: longest |"


def documented() -> list[tuple[str, str, str, str]]:
    """Verb, hosts, seconds and longest wait of each row; one line of the page has a verb whole and the same killed."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows: list[tuple[str, str, str, str]] = []
    for line in lines[lines.index(SHOWN) + 2 :]:
        if not line.startswith("|"):
            break
        verb, hosts, *figures = (cell.strip() for cell in line.strip("|").split("|"))
        for end, seconds, longest in (("", *figures[:2]), (KILLED, *figures[2:])):
            if seconds:
                rows.append((verb + end, hosts, seconds, longest))
    return rows


def test_the_page_has_every_row_and_no_other() -> None:
    assert [row[:2] for row in documented()] == list(ROWS)


def test_every_row_was_measured() -> None:
    for verb, hosts, seconds, longest in documented():
        assert re.fullmatch(r"\d+", seconds), (verb, hosts)
        assert re.fullmatch(r"\d+\.\d s|-", longest), (verb, hosts)


def test_an_unnamed_row_fails_its_test(tmp_path: Path) -> None:
    table = Table(tmp_path / "out/verbs.md")
    table.keep(Row("reset" + KILLED, row_hosts(HOSTS), 12.3))
    table.keep(Row("add", "g2", 50.0, 1.25, 0.5, 0, 0, 0))
    with pytest.raises(AssertionError, match=r"does not name \| dance \| j1 \|"):
        table.keep(Row("dance", "j1", 1.0))
    assert table.path.read_text().splitlines() == [
        *HEAD,
        "| reset, killed 3 times | all hosts | 12 | - | - | - | - | - |",
        "| add | g2 | 50 | 1.2 s | 0.5 s | 0 | 0 | 0 |",
        "| dance | j1 | 1 | - | - | - | - | - |",
    ]


def test_every_test_of_make_test_cluster_is_found():
    """Together, as there: modules read alone had hidden that one import kept all of another's tests away."""
    program = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "--collect-only", "tests/cluster"]
    process = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    modules = {line.partition("::")[0] for line in process.stdout.splitlines()}
    assert process.returncode == 0, process.stdout[-3000:]
    assert {f"tests/cluster/{path.name}" for path in (ROOT / "tests/cluster").glob("test_*.py")} <= modules


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
