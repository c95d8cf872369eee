"""The pages of statements, made as an executor makes them, but in the tests' own process."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from judge.common.errors import PackageError
from judge.executor.slot.packaged.rendering import question
from judge.model import messages as m
from judge.model.problem import ProblemInfo, ProblemManifest, Statement
from judge.model.statements import Page, Pages, PagesReply, PagesRequest
from judge.problems.rendering.fragment import StatementText, render
from judge.problems.statements import text_of
from judge.rpc.client import RpcClient
from tests.support.judicators import Executor, accepted
from tests.support.servers import wait_for


def pages_of(manifest: ProblemManifest, read: Callable[[str], bytes]) -> bytes:
    """The pages of a problem's statements as a blob; `read` has the content of others."""

    def page(statement: Statement, text: bytes) -> Page:
        try:
            made = render(StatementText(**json.loads(question(manifest, statement, text))))
            return Page.model_validate(dataclasses.asdict(made))
        except PackageError as exc:
            return Page(why=str(exc))

    texts = [(one, sha) for one in manifest.statements if (sha := text_of(one)) is not None]
    return Pages(pages={one.main: page(one, read(sha)) for one, sha in texts}).model_dump_json().encode()


def render_statements(people: RpcClient, executor: Executor, *problems: ProblemInfo) -> None:
    """Have an executor render the statements of problems that have just been imported."""

    def read(sha: str) -> bytes:
        with tempfile.TemporaryDirectory() as directory:
            people.get_blob(sha, Path(directory) / sha)
            return (Path(directory) / sha).read_bytes()

    def turn() -> bool:
        for one in executor.report().add:
            assert one.submission.check == "statements" and one.problem is not None
            manifest = ProblemManifest.model_validate_json(read(one.problem.hash))
            pages = executor.rpc.put_blob(pages_of(manifest, read))
            executor.report(accepted(one, result=m.Result(stdout_blob=pages)), vacant=0)
        asked = [PagesRequest(problem=one.name, hash=one.hash) for one in problems]
        return all(people.call("problem_statements", one, PagesReply).pages for one in asked)

    wait_for(turn, what="rendered statements")
