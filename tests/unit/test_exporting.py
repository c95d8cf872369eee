"""`judgectl sources export`: the folders that JPlag, Dolos and MOSS read, and nothing outside of them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from judge.common.errors import UsageError
from judge.ctl import exporting
from judge.ctl.show import OutputFormat
from judge.model import messages as m
from judge.model import results as r


def task(number: int, user: str, verdict: str = "AC", **fields: Any) -> m.Task:
    sub = m.Submission(**{"user": user, "language": "cpp", "problem": "sums", "source": f"int n{number};", **fields})
    return m.Task(
        id=f"{number:024x}", submission=sub, status=m.Status.SUCCESS, verdict=m.Verdict[verdict], done=True,
        created=f"2026-01-31T12:00:{number:02}Z",
    )  # fmt: skip


class FakeApi:
    """An API with these submissions, newest first, two on a page."""

    def __init__(self, tasks: list[m.Task]) -> None:
        self.tasks = sorted(tasks, key=lambda task: task.id, reverse=True)

    def __enter__(self) -> FakeApi:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def search(self, before: str | None = None, **_: Any) -> m.SearchReply:
        older = [task for task in self.tasks if before is None or task.id < before]
        return m.SearchReply(tasks=older[:2], next=older[1].id if len(older) > 2 else None)

    def get(self, task_id: str) -> m.Task:
        return next(task for task in self.tasks if task.id == task_id)

    def call(self, reply: Any, method: str, path: str, params: dict[str, Any]) -> Any:
        assert (method, path, params["group"]) == ("GET", "/results", "g")
        rows = [r.of_task(task) for task in self.tasks if task.submission.user == "ann"]
        return r.ResultsReply(results=[row for row in rows if row])


def export(monkeypatch: pytest.MonkeyPatch, tasks: list[m.Task], directory: Path, **options: Any) -> dict[str, str]:
    monkeypatch.setattr(exporting, "connect", lambda: FakeApi(tasks))
    exporting.export(directory, "sums", output=OutputFormat.JSON, **options)
    return {str(file.relative_to(directory)): file.read_text() for file in directory.rglob("*") if file.is_file()}


TASKS = [
    task(1, "ann", "WA"), task(2, "ann"), task(3, "ann", "TLE"), task(4, "bob", "WA", filename="my prog.cpp"),
    task(5, "eve", source=None, language=None, command="true"), task(6, "ann", source=None, language=None, command="x"),
]  # fmt: skip


@pytest.mark.parametrize("layout", ["jplag", "moss"])
def test_the_best_of_each_person_lies_in_their_folder(monkeypatch, tmp_path, layout):
    files = export(monkeypatch, TASKS, tmp_path / "out", layout=layout)
    assert files == {"ann/main.cpp": "int n2;", "bob/my prog.cpp": "int n4;"}


def test_all_of_the_members_of_a_group(monkeypatch, tmp_path):
    files = export(monkeypatch, TASKS, tmp_path / "out", best=False, group="g")
    assert sorted(files.values()) == ["int n1;", "int n2;", "int n3;"]
    assert f"ann/{TASKS[0].id}/main.cpp" in files


def test_dolos_gets_a_table_of_the_files(monkeypatch, tmp_path):
    files = export(monkeypatch, TASKS, tmp_path / "out", layout="dolos")
    rows = list(csv.DictReader(files.pop("info.csv").splitlines()))
    assert sorted(row["filename"] for row in rows) == sorted(files)
    assert {row["labels"]: row["created_at"] for row in rows} == {
        "ann": TASKS[1].created,
        "bob": TASKS[3].created,
    }


def test_what_is_there_stays_and_nothing_leads_outside(monkeypatch, tmp_path):
    with pytest.raises(UsageError, match="is there already"):
        export(monkeypatch, TASKS, tmp_path)
    with pytest.raises(UsageError, match="no judged submission"):
        export(monkeypatch, [], tmp_path / "out")
    for user in ("..", "a/../b", "-x", ".", "a\nb"):
        with pytest.raises(UsageError, match="leave this person out"):
            export(monkeypatch, [task(1, user)], tmp_path / "out")
    bad = task(1, "ann", source=None)
    bad.submission.files = [m.SourceFile.model_construct(name="../../main.cpp", text="x")]
    with pytest.raises(UsageError, match="empty part"):
        export(monkeypatch, [bad], tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_failed_export_leaves_nothing(monkeypatch, tmp_path):
    tasks = [task(1, "ann"), task(2, "bob"), task(3, "..")]
    monkeypatch.setattr(FakeApi, "search", lambda *_, **__: m.SearchReply(tasks=tasks))
    with pytest.raises(UsageError, match="leave this person out"):
        export(monkeypatch, tasks, tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../../main.cpp", "a:b.cpp", "a\r\nb", "-x", " "])
def test_no_name_of_a_source_hinders_the_export(monkeypatch, tmp_path, name):
    tasks = [task(1, "ann", filename=name), task(2, "bob", filename=name, language="own")]
    assert export(monkeypatch, tasks, tmp_path / "out") == {"ann/main.cpp": "int n1;", "bob/source": "int n2;"}
