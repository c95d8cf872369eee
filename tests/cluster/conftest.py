"""One cluster of six lab hosts for all modules that need a deployed one: it takes minutes to make.

Each test finds it whole and leaves it whole. The modules go from the harmless to the violent in the order of
scripts/run-tests; any order works.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator

import pytest

from tests.support.deployed import Site, site

SEED = int(os.environ.get("JUDGE_TEST_SEED", random.SystemRandom().randrange(10**6)))


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with site(tmp_path_factory.mktemp("site"), SEED) as made:
        yield made


@pytest.fixture
def chance(figure: Callable[[str], None]) -> random.Random:
    """What decides who is hit; JUDGE_TEST_SEED repeats a run."""
    figure(f"JUDGE_TEST_SEED={SEED}")
    return random.Random(SEED)
