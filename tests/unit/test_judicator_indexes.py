"""Which indexes a judicator waits for before it serves."""

import re
from pathlib import Path

from judge.judicator import indexes
from judge.judicator.replica import WAITING_INDEX

JUDICATOR = Path(indexes.__file__).parent


def test_every_hint_is_among_the_indexes_that_serving_needs() -> None:
    text = "".join(path.read_text() for path in JUDICATOR.rglob("*.py"))
    hints = set(re.findall(r'hint="(\w+)"', text)) - {"_id_"}
    assert hints | {WAITING_INDEX} == indexes.HINTED
    names = {index.document["name"] for models in indexes.INDEXES.values() for index in models}
    assert names >= indexes.HINTED


def test_serving_needs_every_unique_index() -> None:
    for models in indexes.INDEXES.values():
        unique = {index.document["name"] for index in models if index.document.get("unique")}
        assert unique <= {index.document["name"] for index in indexes.needed(models)}


def test_given_up_names_are_not_in_use() -> None:
    for collection, names in indexes.GIVEN_UP.items():
        assert not names & {index.document["name"] for index in indexes.INDEXES[collection]}
