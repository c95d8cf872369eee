"""Requests of every kind to every route and every method: none is a fault of ours, and none does harm.

The same requests in every run; `python -m tests.fuzz --target api --target rpc` looks for others.
"""

from pathlib import Path

import pytest

from tests.fuzz import web
from tests.fuzz.targets import ROOT, seeds
from tests.support.cluster import running
from tests.support.judicators import World
from tests.support.sandbox import need_sandbox

FEW = web.Effort(examples=1, seed=1)


@pytest.mark.root
@pytest.mark.timeout(900)  # it asks every route a hundred ways
def test_every_route_of_the_gateway(tmp_path: Path):
    need_sandbox()
    with running(tmp_path / "cluster") as cluster:
        assert "\n".join(web.api(cluster, FEW)) == ""


def test_every_method_of_a_judicator(tmp_path: Path, world: World):
    assert "\n".join(web.rpc(world, tmp_path, FEW)) == ""


@pytest.mark.root
@pytest.mark.parametrize("target", sorted(ROOT))
def test_requests_to_the_agent(target: str):
    need_sandbox()
    for data in seeds(target):
        ROOT[target](data)
