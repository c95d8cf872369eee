"""Statements are rendered once: by a task that an import brings, whose pages stay beside the manifest."""

import datetime

import pytest

from judge.judicator import statements
from judge.model import messages as m
from judge.model.deleting import Deleted, ProblemName
from judge.model.problem import ProblemImport, ProblemInfo
from judge.model.statements import PagesReply, PagesRequest
from tests.support.judicators import World, accepted, completed, imported, manifest, module_world, upload
from tests.support.pages import statement
from tests.support.servers import wait_for
from tests.support.statements import render_statements

world = module_world()


@pytest.fixture
def executor(world):
    return world.executor("e1")


def import_with_statement(people, name: str) -> ProblemImport:
    text = statement(people.put_blob, "en", "problem.en.md", f"# {name}\n\nHow many $x$?".encode())
    return upload(people, manifest(people, name, statements=[text]))


def pages(people, info: ProblemInfo) -> PagesReply:
    return people.call("problem_statements", PagesRequest(problem=info.name, hash=info.hash), PagesReply)


def assigned(executor) -> m.Assignment:
    def turn() -> bool:
        executor.report()
        return bool(executor.work)

    wait_for(turn, what="a task")
    return next(iter(executor.work.values()))


def test_an_import_has_the_statements_rendered_once(world: World, executor):
    people = world.client()
    expected_info = import_with_statement(people, "once")
    info = people.call("problem_import", expected_info, ProblemInfo)
    assert world.db.tasks.count_documents({"problem.name": "once"}) == 1
    assert pages(people, info) == PagesReply()
    assert world.db.tasks.count_documents({"problem.name": "once"}) == 1
    render_statements(people, executor, info)
    stored_pages = pages(people, info).pages
    assert stored_pages is not None and not executor.work
    assert world.db.tasks.count_documents({"problem.name": "once"}) == 0
    # The same content again, and retention, leave the pages as they are.
    people.call("problem_import", expected_info, ProblemInfo)
    judicator = world.judicators[0]
    assert judicator.do(judicator.judicator.retention.once(lambda: True))
    assert stored_pages in world.db.manifests.find_one({"_id": info.hash})["blobs"]
    assert world.db["fs.files"].find_one({"filename": stored_pages}).get("unused") is None
    assert pages(people, info).pages == stored_pages and world.db.tasks.count_documents({"problem.name": "once"}) == 0


def test_a_change_of_the_renderer_has_them_rendered_again(world: World, executor, monkeypatch):
    people = world.client()
    info = people.call("problem_import", import_with_statement(people, "again"), ProblemInfo)
    render_statements(people, executor, info)
    monkeypatch.setattr(statements, "RENDERING", statements.RENDERING + 1)
    assert pages(people, info) == PagesReply()
    render_statements(people, executor, info)


def test_a_failure_is_told_and_tried_again_later(world: World, executor, monkeypatch):
    people = world.client()
    info = people.call("problem_import", import_with_statement(people, "fails"), ProblemInfo)
    task = assigned(executor)
    executor.report(completed(task, "JE", reason="the sandbox has no Python"), vacant=0)
    assert pages(people, info).why == "the sandbox has no Python"
    assert pages(people, info).why == "the sandbox has no Python"
    monkeypatch.setattr(statements, "AGAIN", datetime.timedelta())
    pages(people, info)
    assert pages(people, info) == PagesReply()
    render_statements(people, executor, info)
    assert pages(people, info).pages is not None


def test_nothing_is_rendered_where_there_is_no_text(world: World):
    people = world.client()
    imported(people, "silent")
    assert world.db.tasks.count_documents({"problem.name": "silent"}) == 0


def test_a_problem_whose_statements_wait_can_be_deleted(world: World, executor):
    people = world.client()
    people.call("problem_import", import_with_statement(people, "goes"), ProblemInfo)
    assert people.call("delete_problem", ProblemName(name="goes"), Deleted).deleted == 1
    task = assigned(executor)
    executor.report(accepted(task), vacant=0)
