"""The table of Judge0's languages, by its ids, and which of our rows judges each (languages.yml beside this module)."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import model_validator

from judge import config
from judge.languages.table import BOX, Language, load_table
from judge.model.messages import Identifier

Flavour = Literal["ce", "extra"]
_FILE = Path(__file__).with_name("languages.yml")
# Judge0 shows this in its own commands, where the options of the caller go.
_OPTIONS = "%s"
# Languages whose `-o` is never written together with the name: `-odir` is another option there.
_APART: Final = frozenset({"haskell"})


class Judge0Language(config.Model):
    """One of Judge0's languages. With neither `row` nor `kind` nobody can hand in for it here.

    `command` runs a source in place of our row's own command.
    """

    id: int
    name: str
    row: Identifier | None = None
    kind: Literal["text", "executable", "project"] | None = None
    command: str | None = None
    file: str = ""

    @model_validator(mode="after")
    def _command(self) -> Self:
        if self.command is not None and (self.row is None or self.kind is not None):
            raise config.fault("command: goes with a 'row', which says who can run it, and without 'kind'", "command")
        return self

    @property
    def language(self) -> Language | None:
        """The row of ours that judges it."""
        return load_table(None).get(self.row or "")

    def judged(self, names: Collection[str]) -> bool:
        """Return whether somebody can hand in for it, when the cluster's executors have these languages."""
        return self.kind is not None or self.row in names


class _Judge0Table(config.Model):
    ce: list[Judge0Language]
    extra: list[Judge0Language]


@functools.cache
def table(flavour: Flavour) -> dict[int, Judge0Language]:
    """All languages of one flavour of Judge0 by their ids; ConfigError when the file is broken."""
    read = config.parse_text(_Judge0Table, _FILE.read_text(encoding="utf-8"), str(_FILE))
    return {row.id: row for row in getattr(read, flavour)}


def command(row: Judge0Language) -> tuple[str | None, str | None]:
    """(how it is compiled, how it is run) here, for people to read; the first is None where nothing is."""
    if row.command is not None:
        return None, row.command
    language = row.language
    if language is None:
        return None, {"text": "/bin/cat text.txt", "executable": "./a.out"}.get(row.kind or "")
    plan = language.plan_files({row.file: b""}, 0, row.file)
    compiled = None if language.compile is None or language.compile_checks else list(plan.compile or [])
    if compiled is not None and language.compiler_options:
        place = next((index for index, word in enumerate(compiled) if word.endswith(f"/{row.file}")), len(compiled))
        compiled.insert(place, _OPTIONS)
    return (None if compiled is None else " ".join(compiled)), " ".join(plan.run)


def options_allowed(row: Judge0Language) -> bool:
    language = row.language
    return language is not None and language.compiler_options and row.command is None


def without_output(row: Judge0Language, options: Sequence[str]) -> list[str]:
    """Options of people without those that say where the program goes: `-o a.out`, as people write for Judge0.

    A compiler takes the last one, so nothing would lie where a run looks for it.
    """
    language = row.language
    command = (language.compile if language is not None else None) or []
    apart = {flag for flag, place in pairwise(command) if flag[:1] == "-" and f"{place}/".startswith(f"{BOX}/")}
    joined = {word.partition(f"{BOX}/")[0] for word in command if word[:1] == "-" and f"{BOX}/" in word}
    joined |= {flag for flag in apart if flag == "-o" and (language is None or language.family not in _APART)}
    words_kept, skip = [], False
    for word in options:
        if not skip and word not in apart and not word.startswith(tuple(joined)):
            words_kept.append(word)
        skip = not skip and word in apart
    return words_kept


def compiled(row: Judge0Language) -> bool:
    """Return whether anything is compiled before a run, at Judge0's as here."""
    language = row.language
    return language is not None and language.compile is not None and not language.compile_checks and row.command is None


def of_row(flavour: Flavour, name: str | None) -> Judge0Language | None:
    """The newest of Judge0's languages that one of our rows judges, for submissions that came another way."""
    rows = [row for row in table(flavour).values() if row.row is not None and row.row == name]
    return max(rows, key=lambda row: row.id, default=None)
