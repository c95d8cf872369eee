"""The table of docs/playbooks/README.md has every row that tests/cluster writes."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.table import ALL, KILLED, ROWS, VERBS, row_hosts
from tests.cluster.verbs import HEAD, Row, Table
from tests.support.lab import HOSTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/playbooks/README.md"
SHOWN = "| verb | hosts | seconds | longest without a verdict | killed: seconds | killed: longest |"
# The arguments that have the row's name and its hosts, by their places; and the end of the name.
WRITERS = {"measure": (0, 1, ""), "killed": (0, 1, KILLED), "came_back": (1, 5, ""), "Row": (0, 1, "")}
# Behind a default of the signature.
DEFAULTS = {"came_back": "all judicators"}
Measured = tuple[re.Pattern[str], str | None]


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


def text_of(node: ast.expr) -> str | None:
    """A pattern for the text of a constant, or of one with names in it; None for what a function is given."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.escape(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or ".+" for part in node.values)
    return None


def hosts_of(node: ast.expr) -> str | None:
    if ast.unparse(node) in {"HOSTS", "ALL", "self.site.hosts"}:
        return ALL
    try:
        hosts = ast.literal_eval(node)
    except ValueError:
        return None
    return hosts if isinstance(hosts, str) else row_hosts(hosts)


def measured() -> Iterator[Measured]:
    """What the tests measure, by their source: a pattern of the verb, and the hosts where the source says them."""
    for path in sorted((ROOT / "tests/cluster").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            if name not in WRITERS:
                continue
            verb, hosts, end = WRITERS[name]
            pattern = text_of(node.args[verb])
            if pattern is None:
                continue
            named_hosts = hosts_of(node.args[hosts]) if len(node.args) > hosts else DEFAULTS[name]
            yield re.compile(pattern + re.escape(end)), named_hosts


def is_of(row: tuple[str, str], call: Measured) -> bool:
    pattern, hosts = call
    return bool(pattern.fullmatch(row[0])) and hosts in {None, row[1]}


def test_every_row_that_is_written_is_named() -> None:
    calls = list(measured())
    assert len(calls) > 15
    assert [(call[0].pattern, call[1]) for call in calls if not any(is_of(row, call) for row in ROWS)] == []
    assert [row for row, count in Counter(ROWS).items() if count > 1] == []


def test_every_row_that_is_named_is_written() -> None:
    calls, table = list(measured()), {row for verb in VERBS for row in verb.rows()}
    assert [row for row in ROWS if row not in table and not any(is_of(row, call) for call in calls)] == []


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
