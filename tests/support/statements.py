"""The pages of statements, made as an executor makes them, but in the tests' own process."""

import dataclasses
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

from judge.common.errors import PackageError
from judge.model import messages as m
from judge.model.problem import ProblemInfo, ProblemManifest, Statement
from judge.model.statements import Page, Pages, PagesReply, PagesRequest
from judge.problems.rendering.fragment import StatementText, render
from judge.problems.statements import question, text_of
from judge.rpc.client import RpcClient
from tests.support.judicators import Executor, accepted
from tests.support.servers import wait_for


def pages_of(manifest: ProblemManifest, read: Callable[[str], bytes]) -> bytes:
    """The pages of a problem's statements as a blob; `read` has the content of others."""

    def page(statement: Statement, text: bytes) -> Page:
        try:
            rendered = render(StatementText(**json.loads(question(manifest, statement, text))))
            return Page.model_validate(dataclasses.asdict(rendered))
        except PackageError as exc:
            return Page(why=str(exc))

    texts = [(item, sha) for item in manifest.statements if (sha := text_of(item)) is not None]
    return Pages(pages={item.main: page(item, read(sha)) for item, sha in texts}).model_dump_json().encode()


def render_statements(people: RpcClient, executor: Executor, *problems: ProblemInfo) -> None:
    """Have an executor render the statements of problems that have just been imported."""

    def read(sha: str) -> bytes:
        with tempfile.TemporaryDirectory() as directory:
            people.get_blob(sha, Path(directory) / sha)
            return (Path(directory) / sha).read_bytes()

    def turn() -> bool:
        for assignment in executor.report().add:
            assert assignment.submission.check == "statements" and assignment.problem is not None
            manifest = ProblemManifest.model_validate_json(read(assignment.problem.hash))
            pages = executor.rpc.put_blob(pages_of(manifest, read))
            executor.report(accepted(assignment, result=m.Result(stdout_blob=pages)), vacant=0)
        requests = [PagesRequest(problem=problem.name, hash=problem.hash) for problem in problems]
        return all(people.call("problem_statements", request, PagesReply).pages for request in requests)

    wait_for(turn, what="rendered statements")
