"""What judgectl shows is text that others wrote: none of it is obeyed, and none of it pushes a name away."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from judge.config.allowance import Allowance
from judge.ctl import examples, people, rejudge, show, trail, webhook
from judge.ctl.columns import Column, fit
from judge.ctl.fleet import drift, hosts, units, versions
from judge.ctl.problem.rows import SubmissionRow, table_of
from judge.ctl.problem.showing import problems_table
from judge.ctl.rejudge import changes_table
from judge.model import messages as m
from judge.model import people as p
from judge.model import webhooks as w
from judge.model.audit import AuditEntry
from judge.model.overview import ExecutorState, Whoami
from judge.model.problem import ProblemInfo
from judge.model.rejudging import Outcome, RejudgeChange, RejudgeFilter, RejudgeState, Rejudging
from judge.problems.examples import Example
from judge.problems.expectations import CURRENT, Candidate
from tests.support.gateway import make_task


def screen(width: int = 80) -> show.Screen:
    """A terminal without colours, whose text is kept."""
    return show.Screen(file=io.StringIO(), force_terminal=True, color_system=None, width=width)


def shown(on: show.Screen) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


@given(st.text(max_size=60))
@example("\x1b[2J\x1b]0;title\x07 \x9b31m \u202e \r\b")
def test_no_character_steers_the_terminal(text: str) -> None:
    on = screen()
    on.say(text)
    on.verbatim(text, "red")
    table = show.grid("name", "said¶", "cut…", title=text)
    table.add_row(text, text, text)
    on.print(table)
    assert shown(on).replace("\n", "").isprintable()


@pytest.mark.parametrize("text", ["[/b] open", "[red]x[/red]", ":smile: [bold", "\\[x]"])
def test_nothing_is_markup(text: str) -> None:
    on = screen(width=160)
    on.say(text)
    task = m.Task(
        id="1" * 24, submission=m.Submission(command=text), status="pending", done=False, created="2026-01-01T00:00:00"
    )
    on.print(show.tasks_table([task]))
    assert shown(on).count(text) == 2


@pytest.mark.parametrize("width", [72, 90, 160])
def test_a_long_sentence_folds_beside_the_names(width: int) -> None:
    message = "the answer is 17 and 42 was expected " * 12
    result = m.Result(tests=[m.TestResult(name="secret/group1/03", verdict="WA", message=message)])
    on = screen(width)
    on.print(show._tests_table(result))
    lines = shown(on).splitlines()
    assert lines[0].split()[:2] == ["test", "verdict"] and lines[0].split()[-1] == "message"
    assert lines[1].startswith("secret/group1/03  WA ")
    assert " ".join(shown(on).split()).count("expected") == 12
    assert max(map(len, lines)) <= width


ID = "0123456789abcdef01234567"


def listings() -> dict[str, show.Grid]:
    """Every list of judgectl, with ids and names as long as they are on clusters that are used."""
    long = "a-very-long-name-of-somebody-who-teaches-algorithms"
    sub = m.Submission(user="ada.lovelace@example.edu", problem="shortest-path-in-a-cave", language="python3")
    task = m.Task(
        id=ID, submission=sub, status="success", done=True, verdict="AC", created="2026-01-31T12:00:05Z", latency=1.25,
        result=m.Result(cpu=1.25, memory=12345678), judged_by="executor-1.example.org",
    )  # fmt: skip
    limits = m.Limits()
    info = ProblemInfo(name=sub.problem or "", title="Shortest path " * 9, hash="a" * 64, tests=99, limits=limits)
    change = RejudgeChange(
        id=ID, user=long, problem=long, language="python3", before=Outcome(verdict="WA"), after=Outcome(verdict="AC"),
        rerun=ID[::-1],
    )  # fmt: skip
    delivery = w.Delivery(
        id=ID, webhook="scores-of-our-course", event="submission.finished", submission=ID, version=1,
        created="2026-01-31T12:00:05Z", state="failed", tries=3, text="connection refused " * 9,
    )  # fmt: skip
    token = p.TokenInfo(id="0123456789ab", user=long, label="laptop " * 9, scopes=["read", "submit"], created="2026")
    user = p.User(name="ada.lovelace@example.edu", role="user", groups=["cs101", "x" * 50], created="2026-01-31T12:00")
    return {
        ID: show.tasks_table([task]),
        sub.problem or "": problems_table([info]),
        f"{ID} ": changes_table([change]),
        f"{ID}  ": webhook._deliveries(w.DeliveriesReply(deliveries=[delivery])),
        token.id: people.tokens_table([token]),
        user.name: people.users_table([user]),
    }


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", [*listings()])
def test_every_list_fits_and_keeps_its_ids(name: str, width: int) -> None:
    on = screen(width)
    on.print(listings()[name])
    lines = shown(on).splitlines()
    assert len(lines) == 2, "one line for each row"
    assert max(map(cell_len, lines)) <= width
    assert lines[1].startswith(name.strip())


def other_tables() -> dict[str, show.Grid]:
    """Every table that is no list of things with ids, with long names."""
    host, path = "executor-1.judging.example.org", "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag"
    candidate = Candidate("accepted/shortest-path-with-a-heap.py", b"x", "python3", [CURRENT[0]])
    submission = m.Submission(language="python3", source="x")
    task = make_task(verdict=m.Verdict.AC, result=m.Result(cpu=1.25, memory=12345678, score=87.5))
    row = SubmissionRow(Example("shortest-path", candidate, submission), task, 2.0)
    rejudging = Rejudging(
        id=123, filter=RejudgeFilter(problem=["shortest-path"]), reason="a wrong answer file " * 5, user="ada",
        created="2026-01-01T00:00:00Z", state=RejudgeState.FINISHED, settled=False, total=12345, done=12345,
    )  # fmt: skip
    unit = units.UnitRow(host, "judge-etcd-proxy.service", "restarting", "activating", "auto-restart", 1e6, 99)
    machine = hosts.Machine(
        host, ("executors", "gateways"), "2001:db8::1:2:3", reachable=True, os="Debian", release="1"
    )
    webhook_state = w.Webhook(
        name="scores-of-our-course", url="https://example.org/" + "x" * 90, events=list(w.EVENTS), waiting=1, failed=2,
        dropped=3, created="2026", last="connection refused " * 5,
    )  # fmt: skip
    entry = AuditEntry(
        id=ID, at="2026-01-31T12:00:05Z", actor="ada.lovelace@example.edu", action="submission.behalf",
        object="shortest-path", outcome="done", origin="2001:db8::1", gateway=host, details={"reason": "x" * 80},
        role="admin", trace="t", call="c",
    )  # fmt: skip
    return {
        "units": units.table([unit]),
        "hosts": hosts.table([machine]),
        "versions": versions.table([versions.VersionRow(host, kind, "6.12.1") for kind in versions.COLUMNS]),
        "drift": drift.table([drift.Difference(host, "kernel", path, "never", "always", "/etc/tmpfiles.d/judge.conf")]),
        "submissions": table_of([row]),
        "examples": examples.table([row]),
        "rejudgings": rejudge.table_of([rejudging]),
        "matrix": rejudge.matrix_table({before: dict.fromkeys(VERDICTS, 12345) for before in VERDICTS}),
        "webhooks": webhook._webhooks(w.WebhooksReply(webhooks=[webhook_state])),
        "audit": trail.table([entry]),
        "executors": show.executors_table([ExecutorState(name=host, reported="2026", alive=True, executing=3)]),
        "services": show.services_table([{"name": "etcd-proxy", "state": "RUNNING", "pid": 7, "reason": "x " * 90}]),
    }


VERDICTS = [verdict.value for verdict in m.Verdict]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", [*other_tables()])
def test_every_other_table_fits(name: str, width: int) -> None:
    on = screen(width)
    table = other_tables()[name]
    on.print(table)
    lines = shown(on).splitlines()
    assert max(map(cell_len, lines)) <= width
    whole = [column.title for column in table.columns if column.kind == "whole"]
    assert all(title in lines[0] for title in whole), "what matters is neither left out nor beyond the edge"


@pytest.mark.parametrize("name", [*listings()])
def test_a_pipe_gets_every_cell_whole(name: str) -> None:
    on = show.Screen(file=io.StringIO(), color_system=None)
    table = listings()[name]
    on.print(table)
    lines = shown(on).splitlines()
    assert len(lines) == 2 and "…" not in lines[1]
    assert all(cell.plain.rstrip() in lines[1] for cell in table.rows[0])


def test_what_is_cut_says_so() -> None:
    on = screen(30)
    table = show.grid("id", "title…", "kind")
    table.add_row("0123456789abcdef", "a title that is long", "pass-fail")
    on.print(table)
    assert shown(on).splitlines()[1].rstrip() == "0123456789abcdef  a title tha…"


COLUMNS = st.lists(
    st.tuples(st.sampled_from(["plain", "whole", "text", "sentence"]), st.integers(0, 60)), min_size=1, max_size=9
)


@given(COLUMNS, st.integers(20, 200))
def test_columns_fit_where_whole_ones_do(columns: list[tuple[Any, int]], width: int) -> None:
    kinds = [Column(f"c{at}", kind) for at, (kind, _) in enumerate(columns)]
    natural = [max(2, size) for _, size in columns]
    widths = fit(kinds, natural, width)
    results = list(zip(kinds, widths, natural, strict=True))
    whole = [size for column, _, size in results if column.kind == "whole"]
    if sum(whole) + 2 * (len(whole) - 1) <= width:
        assert all(got == size for column, got, size in results if column.kind == "whole")
    assert all(got in {0, size} for column, got, size in results if column.kind == "plain")
    assert all(got >= min(8, size) for column, got, size in results if column.kind == "whole")
    assert all(got <= size for got, size in zip(widths, natural, strict=True))
    shown = [got for got in widths if got]
    if sum(min(8, size) for size in whole) + 2 * (len(whole) - 1) <= width:
        assert sum(shown) + 2 * (len(shown) - 1) <= width
    if sum(natural) + 2 * (len(natural) - 1) <= width:
        assert widths == natural, "nothing is left out or cut without need"


def test_data_for_spreadsheets(capsys: pytest.CaptureFixture[str]) -> None:
    task = m.Task(
        id=ID, submission=m.Submission(user="ada", source='x,"y"'), status="pending", done=False, created="2026"
    )
    show.tell(show.OutputFormat.CSV, m.SearchReply(tasks=[task, task]), lambda: pytest.fail("no words"))
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["id"], row["submission.user"], row["submission.source"]) for row in rows] == [(ID, "ada", 'x,"y"')] * 2
    show.tell(show.OutputFormat.CSV, task, lambda: None)
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) == 1, "one answer is one row"


def test_lines_of_others_are_not_broken() -> None:
    on = screen()
    on.verbatim("x" * 500 + "\n" + "y" * 300)
    assert shown(on).splitlines() == ["x" * 500, "y" * 300]


def test_what_one_takes_and_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    on = screen()
    monkeypatch.setattr(show, "out", on)
    allowance = Allowance(own_tests=False, repeats=None, waiting=7, stored_bytes=3 * 1024**2)
    show.print_whoami(Whoami(user="ada", role="user", allowance=allowance, waiting=2, running=1, stored_bytes=1024**2))
    lines = [" ".join(line.split()) for line in shown(on).splitlines()]
    assert lines[0] == "ada, role user"
    assert "programs to problems only" in lines[1]
    for line in (
        "submissions that wait 2 7",
        "submissions that are judged 1 75% of the slots",
        "stored submissions and results 1 MiB 3 MiB",
        "all runs of a submission without a problem 300 s",
        "tests that are repeated near a limit no limit",
    ):
        assert line in lines, lines
