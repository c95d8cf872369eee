"""Cases of DMOJ whose files a generator makes: it prints the input, and the answer to its standard error.

It runs for a case that lacks one of its two files, and gets the input, if that is there, as its own. Where it prints
nothing the input stays what it was.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

from judge.common import yamltext
from judge.common.errors import PackageError
from judge.common.text import several
from judge.problems.importers import testlib
from judge.problems.importers.draft import Content, Draft, Ref
from judge.problems.importers.making import MakingStep, Plan
from judge.problems.tree import clean

# The folder of the files that were made: no package has such a folder.
FOLDER = "made by generators"
# Keys of a generator. Nobody asks whether it is compiled in another way, or how long it may take.
_OF_GENERATOR = frozenset({
    "source", "args", "flags", "language", "time_limit", "memory_limit", "compiler_time_limit",
})  # fmt: skip


class DmojGeneration:
    """The generators of one init.yml, and what they are to make."""

    def __init__(self, draft: Draft, where: str) -> None:
        self._draft = draft
        self._where = where
        self._plan = Plan(draft.tree)

    def applies(self, keys: Mapping[str, Any]) -> bool:
        return bool(keys.get("generator")) and (keys.get("in") is None or keys.get("out") is None)

    def files(self, keys: Mapping[str, Any], name: str, input_content: Content) -> tuple[Content, Content]:
        """Input and standard error of a case, whose own input is `input_content`; both empty until they are made."""
        tree = self._draft.tree
        paths = (f"{FOLDER}/{name}.in", f"{FOLDER}/{name}.out")
        if all(path in tree.files for path in paths):
            return (Ref(tree, paths[0]) if tree.files[paths[0]] else input_content), Ref(tree, paths[1])
        if isinstance(input_content, Ref) and input_content.tree is not tree:
            raise PackageError(
                f"{self._where}: generator: gets an input that is in the archive; unpack it beside init.yml"
            )
        sources, args = self._commands(keys)
        key = self._plan.program(self._draft, f"generator {' '.join(sources)}", self._source(sources))
        place = input_content.path if isinstance(input_content, Ref) else ""
        self._plan.add(MakingStep(key, paths[0], tuple(args), place, errors=paths[1]))
        return b"", b""

    def check(self) -> None:
        count = len(self._plan.tests)
        if count:
            raise self._plan.refuse(f"{self._where}: {several(count, 'case')} are to be made by generators")

    def _commands(self, keys: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        sources, args = (keys, "generator"), (keys, "generator_args")
        generator = keys["generator"]
        if isinstance(generator, dict):
            self._draft.check_keys(generator, _OF_GENERATOR, f"{self._where}: generator")
            sources, args = (generator, "source"), args if keys.get("generator_args") else (generator, "args")
        return self._arguments("generator", *sources), self._arguments("generator_args", *args)

    def _arguments(self, label: str, container: Mapping[str, Any], key: str) -> list[str]:
        value = container.get(key)
        values = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str | int | float) or (item is None and label != "generator") for item in values):
            raise PackageError(f"{self._where}: {label}: expected names of files, and a list of arguments")
        arguments = yamltext.texts_of(container, key)
        if any("\0" in word or len(word) > 4096 for word in arguments) or len(arguments) > 200:
            raise PackageError(f"{self._where}: {label}: has too many or too long words")
        return arguments

    def _source(self, names: list[str]) -> testlib.ProgramSource:
        """The first that is no header is the program; others are compiled with it."""
        refs = []
        for name in names:
            path = posixpath.normpath(name.replace("\\", "/"))
            if path not in self._draft.tree.files:
                raise PackageError(f"{self._where}: generator: '{clean(name, 80)}' is not in the package")
            refs.append(Ref(self._draft.tree, path))
        main = next((ref for ref in refs if not ref.path.endswith((".h", ".hpp"))), refs[0])
        return testlib.ProgramSource(main, more=tuple(ref for ref in refs if ref != main))
