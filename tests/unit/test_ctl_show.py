"""What judgectl shows is text that others wrote: none of it is obeyed, and none of it pushes a name away."""

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
from judge.ctl.problem.showing import print_problem, problems_table
from judge.ctl.rejudge import changes_table
from judge.model import messages as m
from judge.model import people as p
from judge.model import webhooks as w
from judge.model.audit import AuditEntry
from judge.model.overview import ExecutorState, Whoami
from judge.model.problem import ProblemInfo, ProblemManifest, ProblemTest, TestGroup
from judge.model.rejudging import Outcome, RejudgeChange, RejudgeFilter, RejudgeState, Rejudging
from judge.problems.examples import Example
from judge.problems.expectations import CURRENT, Candidate
from tests.support.gateway import executor_state, healthy, make_task
from tests.support.packages import SHA


def screen(width: int = 80) -> show.Screen:
    """A terminal without colours, whose text is kept."""
    return show.Screen(file=io.StringIO(), force_terminal=True, color_system=None, width=width)


def text_of(terminal: show.Screen) -> str:
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


@given(st.text(max_size=60))
@example("\x1b[2J\x1b]0;title\x07 \x9b31m \u202e \r\b")
def test_no_character_steers_the_terminal(text: str) -> None:
    terminal = screen()
    terminal.say(text)
    terminal.verbatim(text, "red")
    table = show.grid("name", "said¶", "cut…", title=text)
    table.add_row(text, text, text)
    terminal.print(table)
    assert text_of(terminal).replace("\n", "").isprintable()


@pytest.mark.parametrize("text", ["[/b] open", "[red]x[/red]", ":smile: [bold", "\\[x]"])
def test_nothing_is_markup(text: str) -> None:
    terminal = screen(width=160)
    terminal.say(text)
    task = m.Task(
        id="1" * 24, submission=m.Submission(command=text), status="pending", done=False, created="2026-01-01T00:00:00"
    )
    terminal.print(show.tasks_table([task]))
    assert text_of(terminal).count(text) == 2


@pytest.mark.parametrize("width", [72, 90, 160])
def test_a_long_sentence_folds_beside_the_names(width: int) -> None:
    message = "the answer is 17 and 42 was expected " * 12
    result = m.Result(tests=[m.TestResult(name="secret/group1/03", verdict="WA", message=message)])
    terminal = screen(width)
    terminal.print(show._tests_table(result))
    lines = text_of(terminal).splitlines()
    assert lines[0].split()[:2] == ["test", "verdict"] and lines[0].split()[-1] == "message"
    assert lines[1].startswith("secret/group1/03  WA ")
    assert " ".join(text_of(terminal).split()).count("expected") == 12
    assert max(map(len, lines)) <= width


ID = "0123456789abcdef01234567"


def listings() -> dict[str, show.Grid]:
    """Every list of judgectl by the first cell of its row, with ids and names as long as on clusters that are used."""
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
        "languages": show.languages_table(
            [{"name": "python3", "title": "Python 3 " * 9, "suffixes": [".py"] * 9, "version": "Python 3.11.2 " * 5}]
        ),
        "judicators": show.judicators_table(
            [{"name": host, "address": f"{host}:7400", "leader": True, "epoch": 12345}]
        ),
        "services": show.services_table([{"name": "etcd-proxy", "state": "RUNNING", "pid": 7, "reason": "x " * 90}]),
    }


VERDICTS = [verdict.value for verdict in m.Verdict]


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", [*listings(), *other_tables()])
def test_every_table_fits_and_every_list_keeps_its_ids(name: str, width: int) -> None:
    terminal = screen(width)
    table = (listings() | other_tables())[name]
    terminal.print(table)
    lines = text_of(terminal).splitlines()
    assert max(map(cell_len, lines)) <= width
    titles = [column.title for column in table.columns if column.kind == "whole"]
    assert all(title in lines[0] for title in titles), "what matters is neither left out nor beyond the edge"
    if name in listings():
        assert len(lines) == 2, "one line for each row"
        assert lines[1].startswith(name.strip())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_delivery_keeps_the_id_of_its_submission(width: int) -> None:
    terminal = screen(width)
    terminal.print(listings()[f"{ID}  "])
    assert text_of(terminal).splitlines()[1].startswith(f"{ID}  {ID}  ")


@pytest.mark.parametrize("width", [60, 80])
def test_every_line_of_other_commands_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = screen(width)
    monkeypatch.setattr(show, "out", terminal)
    host = "executor-1.judging.example.org"
    fault = f"executor '{host}' does not report"
    show.print_status(healthy(executors=[executor_state(host)], faults=[fault], waits=["the next " * 20]), [])
    limits = m.Limits()
    info = ProblemInfo(name="shortest-path-in-a-cave", title="短い道 " * 20, hash="a" * 64, tests=99, limits=limits)
    tests = [ProblemTest(name=f"secret/{number}", input=SHA, answer=SHA) for number in range(3)]
    groups = [TestGroup(name="secret/" + "x" * 60, max_score=40, require_pass=["sample", "secret/1"])]
    print_problem(info, ProblemManifest(name=info.name, tests=tests, groups=groups, limits=limits))
    show.print_whoami(Whoami(user="ada", role="user", allowance=Allowance(), waiting=2, running=1))
    show.print_task(make_task(verdict=m.Verdict.AC, result=m.Result(cpu=1.25, memory=12345678)), full=True)
    lines = text_of(terminal).splitlines()
    assert len(lines) > 30 and max(map(cell_len, lines)) <= width
    assert host in text_of(terminal) and info.name in text_of(terminal)


@pytest.mark.parametrize("name", [*listings()])
def test_a_pipe_gets_every_cell_whole(name: str) -> None:
    terminal = show.Screen(file=io.StringIO(), color_system=None)
    table = listings()[name]
    terminal.print(table)
    lines = text_of(terminal).splitlines()
    assert len(lines) == 2 and "…" not in lines[1]
    assert all(cell.plain.rstrip() in lines[1] for cell in table.rows[0])


def test_a_cut_cell_ends_with_an_ellipsis() -> None:
    terminal = screen(30)
    table = show.grid("id", "title…", "kind")
    table.add_row("0123456789abcdef", "a title that is long", "pass-fail")
    terminal.print(table)
    assert text_of(terminal).splitlines()[1].rstrip() == "0123456789abcdef  a title tha…"


COLUMNS = st.lists(
    st.tuples(st.sampled_from(["plain", "whole", "text", "sentence"]), st.integers(0, 60)), min_size=1, max_size=9
)


@given(COLUMNS, st.integers(20, 200))
def test_columns_fit_the_width(columns: list[tuple[Any, int]], width: int) -> None:
    kinds = [Column(f"c{at}", kind) for at, (kind, _) in enumerate(columns)]
    natural = [max(2, size) for _, size in columns]
    widths = fit(kinds, natural, width)
    results = list(zip(kinds, widths, natural, strict=True))
    wholes = [size for column, _, size in results if column.kind == "whole"]
    if sum(wholes) + 2 * (len(wholes) - 1) <= width:
        assert all(granted == size for column, granted, size in results if column.kind == "whole")
    assert all(granted in {0, size} for column, granted, size in results if column.kind == "plain")
    assert all(granted >= min(8, size) for column, granted, size in results if column.kind == "whole")
    assert all(granted <= size for granted, size in zip(widths, natural, strict=True))
    visible = [granted for granted in widths if granted]
    if sum(min(8, size) for size in wholes) + 2 * (len(wholes) - 1) <= width:
        assert sum(visible) + 2 * (len(visible) - 1) <= width
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


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1", "x;=1", "x\n-1", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(capsys: pytest.CaptureFixture[str], text: str) -> None:
    sub = m.Submission(user="ada", command=text, compile="cc -o a a.c; ./a", limits=m.LimitsOverride(cpu=1))
    task = m.Task(id=ID, submission=sub, status="pending", done=False, created="2026", version=-1)
    show.tell(show.OutputFormat.CSV, task, lambda: None)
    row = next(csv.DictReader(io.StringIO(capsys.readouterr().out, newline="")))
    sign = next(char for char in text if char in "=+-@\uff1d")
    assert row["submission.command"] == text.replace(sign, f"'{sign}", 1)
    assert (row["submission.compile"], row["version"]) == ("cc -o a a.c; ./a", "-1")
    show.tell(show.OutputFormat.CSV, {"password": text}, lambda: None)
    assert next(csv.DictReader(io.StringIO(capsys.readouterr().out, newline="")))["password"] == text


def test_verbatim_lines_are_not_wrapped() -> None:
    terminal = screen()
    terminal.verbatim("x" * 500 + "\n" + "y" * 300)
    assert text_of(terminal).splitlines() == ["x" * 500, "y" * 300]


def test_the_slots_of_a_drained_executor_are_not_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = screen()
    monkeypatch.setattr(show, "out", terminal)
    drained = executor_state("e2", drain=True, vacant=0)
    show.print_status(healthy(executors=[executor_state(), drained, executor_state("e3", alive=False)]), [])
    text = text_of(terminal)
    assert "slots 0/2 busy, 2 drained" in text
    assert [line.split()[-1] for line in text.splitlines() if " executor " in line] == ["up", "drained", "down"]


def test_whoami_shows_usage_and_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = screen()
    monkeypatch.setattr(show, "out", terminal)
    allowance = Allowance(own_tests=False, repeats=None, waiting=7, stored_bytes=3 * 1024**2)
    show.print_whoami(Whoami(user="ada", role="user", allowance=allowance, waiting=2, running=1, stored_bytes=1024**2))
    lines = [" ".join(line.split()) for line in text_of(terminal).splitlines()]
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
