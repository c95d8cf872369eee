"""Every playbook has a page for operators, with the same parts, and nothing in it that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs/playbooks/README.md"
PLAYBOOKS = sorted(path.name for path in (ROOT / "playbooks").glob("*.yml"))
PARTS = ["When to run it", "Options", "What it changes", "What it prints", "When it stops"]


def page_of(playbook: str) -> Path:
    """The page that the index names for a playbook."""
    link = re.search(rf"^\| \[{re.escape(playbook)}\]\(([^)]+)\) \|", INDEX.read_text(), re.MULTILINE)
    assert link, f"docs/playbooks/README.md does not name {playbook}"
    return (INDEX.parent / link[1]).resolve()


def options_of_roles() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        for entry in yaml.safe_load(path.read_text())["argument_specs"].values():
            found |= set(entry.get("options", {}))
    return found


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_every_playbook_has_a_page_with_all_parts(playbook: str) -> None:
    text = page_of(playbook).read_text(encoding="utf-8")
    command = "site.yml" if playbook == "site.yml" else f"playbooks/{playbook}"
    assert re.search(rf"^ansible-playbook -i inventory/NAME {re.escape(command)}$", text, re.MULTILINE)
    headings = re.findall(r"^##+ (.+)$", text, re.MULTILINE)
    assert [part for part in PARTS if part not in headings] == []
    assert re.search(r"\| message \| what to do \|", text), "a table of what may go wrong"


@pytest.mark.parametrize("playbook", PLAYBOOKS)
def test_variables_that_a_page_names_exist(playbook: str) -> None:
    roles = [path.name for path in (ROOT / "roles").iterdir()]
    known = options_of_roles()
    text = page_of(playbook).read_text(encoding="utf-8")
    for name in re.findall(rf"`(?:-e )?((?:judge|{'|'.join(roles)})_[a-z_]+)(?:=[^`]*)?`", text):
        assert name in known or name in roles, f"{page_of(playbook).name}: {name}"


def test_the_index_names_no_playbook_that_is_gone() -> None:
    assert set(re.findall(r"^\| \[([\w.]+)\]\(", INDEX.read_text(), re.MULTILINE)) == set(PLAYBOOKS)
