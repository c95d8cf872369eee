"""Models are built when first used (`defer_build`): a fault in one would show in nothing but its use."""

import importlib
import pkgutil
import subprocess
import sys

import pytest
from pydantic import BaseModel

import judge

# They run when they are imported, or find what they import where they run alone.
_PROGRAMS = ("__main__", "_main", ".wsgi")


def _models() -> list[type[BaseModel]]:
    for module in pkgutil.walk_packages(judge.__path__, "judge."):
        if not module.name.endswith(_PROGRAMS):
            importlib.import_module(module.name)
    models, bases = [], [BaseModel]
    while bases:
        for subclass in bases.pop().__subclasses__():
            bases.append(subclass)
            if subclass.__module__.startswith("judge."):
                models.append(subclass)
    return models


def test_every_model_can_be_built() -> None:
    models = _models()
    assert len(models) > 150
    for model in models:
        model.model_rebuild()
        assert model.__pydantic_complete__, model


# In a process of its own, where nothing has used the models yet. pydantic before 2.14 built without a lock, and another
# thread then checked by the base's fields.
_FIRST_USES = """
import concurrent.futures, threading
from judge.model.messages import Submission
ready = threading.Barrier(8)
def first(number):
    ready.wait()
    return Submission(language="python3", source="1", filename="a.py").model_dump_json()
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert len(set(pool.map(first, range(8)))) == 1
"""


@pytest.mark.parametrize("time", range(3))
def test_the_first_uses_of_several_threads_agree(time: int) -> None:
    run = subprocess.run([sys.executable, "-c", _FIRST_USES], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, ""), time
