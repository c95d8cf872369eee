"""Every playbook has a page for operators, with the same parts, and nothing in it that does not exist."""

import functools
import re
from pathlib import Path

import pytest

from tests.support.ansible import NAMES, options

ROOT = Path(__file__).resolve().parents[2]
INDEX = ROOT / "docs/playbooks/README.md"
PLAYBOOKS = sorted(path.name for path in (ROOT / "playbooks").glob("*.yml"))
PARTS = ["When to run it", "Options", "What it changes", "What it prints", "When it stops"]


# Messages of other people's programs.
THEIRS = {
    "non-zero return code", "Status code was", "Timed out waiting for last boot time check",
    "Unable to locate package prometheus",
}  # fmt: skip
# Parts of a quoted message that stand for others: dots, values, names with a digit in them, paths, words in capitals.
ANYTHING = re.compile(r"…|: |; |\. |\S*/\S*|\b[A-Z]+\b(?=[ `/,.;:]|$)|\S*\d\S*")


@functools.cache
def code_text() -> str:
    """All code that prints something, with texts that go on in the next line in one piece."""
    texts = []
    for pattern in ("judge/**/*.py", "plugins/**/*.py", "playbooks/**/*.yml", "roles/**/*.yml", "roles/**/*.j2"):
        for path in sorted(ROOT.glob(pattern)):
            text = re.sub(r"""["']\s*\n\s*(?:~ |f)?["']""", "", path.read_text(encoding="utf-8"))
            texts.append(" ".join(text.split()))
    return "\n".join(texts)


def messages(page: Path) -> list[str]:
    """The messages that a page quotes, out of the first column of its tables of them."""
    quotes, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        inside = line.startswith("| message |") or (inside and line.startswith("|"))
        if inside:
            quotes += re.findall(r"`([^`]+)`", re.split(r"(?<!\\)\|", line)[1])
    return quotes


def page_of(playbook: str) -> Path:
    link = re.search(rf"^\| \[{re.escape(playbook)}\]\(([^)]+)\) \|", INDEX.read_text(), re.MULTILINE)
    assert link, f"docs/playbooks/README.md does not name {playbook}"
    return (INDEX.parent / link[1]).resolve()


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
    documented = {option for role in NAMES for option in options(role)}
    text = page_of(playbook).read_text(encoding="utf-8")
    for name in re.findall(rf"`(?:-e )?((?:judge|{'|'.join(roles)})_[a-z_]+)(?:=[^`]*)?`", text):
        assert name in documented or name in roles, f"{page_of(playbook).name}: {name}"


def test_the_index_names_no_playbook_that_is_gone() -> None:
    assert set(re.findall(r"^\| \[([\w.]+)\]\(", INDEX.read_text(), re.MULTILINE)) == set(PLAYBOOKS)


@pytest.mark.parametrize("page", sorted(INDEX.parent.glob("*.md")), ids=lambda path: path.stem)
def test_the_words_of_messages_that_a_page_quotes_are_in_the_code(page: Path) -> None:
    for message in messages(page):
        for words in (part.strip(" .,;:()'") for part in ANYTHING.split(message)):
            if re.search("[a-z]{2}", words) and words not in THEIRS:
                assert words in code_text(), f"{page.name}: `{message}`"


def test_messages_are_found_in_pages_and_code() -> None:
    assert any("was not restarted" in message for message in messages(INDEX.with_name("site.md")))
    assert "bring that back first, or remove it first" in code_text(), "two lines of Python"
    assert "has ended without freeing the cluster" in code_text(), "two lines of YAML"
    assert "changes this cluster since" not in code_text()
