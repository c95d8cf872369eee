"""Small problems, put together by hand and imported through the RPC."""

from __future__ import annotations

from judge.model.problem import ProblemImport, ProblemInfo, ProblemManifest, ProblemTest
from judge.rpc.client import RpcClient


def manifest(people: RpcClient, name: str = "hello", tests: int = 2, **fields: object) -> ProblemManifest:
    made = [
        ProblemTest(
            name=f"t{n}", input=people.put_blob(f"in {n}".encode()), answer=people.put_blob(f"out {n}".encode())
        )
        for n in range(tests)
    ]
    return ProblemManifest.model_validate({"name": name, "title": "Hello", "tests": made, **fields})


def upload(people: RpcClient, made: ProblemManifest) -> ProblemImport:
    return ProblemImport(manifest=people.put_blob(made.model_dump_json().encode()))


def imported(people: RpcClient, name: str = "hello", tests: int = 2) -> ProblemInfo:
    return people.call("problem_import", upload(people, manifest(people, name, tests)), ProblemInfo)
