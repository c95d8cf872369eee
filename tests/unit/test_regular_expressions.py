"""Every regular expression that reads strangers' text takes time in proportion to it, whatever the text is."""

import importlib
import inspect
import pkgutil
import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import judge.gateway.statements
import judge.problems
import judge.problems.rendering

kinds = importlib.import_module("re._constants")
parser = importlib.import_module("re._parser")

SIZE = 24 * 1024
SECONDS = 0.5
PACKAGES = (judge.problems, judge.gateway.statements, judge.problems.rendering)


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """All patterns that modules of these packages hold, also in tables, by module and name."""
    reported = set()
    for package in PACKAGES:
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if info.name.endswith(("__main__", "child")) or ".shim_" in info.name or info.name.endswith("_main"):
                continue
            try:
                module = importlib.import_module(info.name)
            except ImportError:  # runs beside a checker in a sandbox, where its neighbours are modules of their own
                assert ".dmoj." in info.name
                continue
            for name, value in vars(module).items():
                for index, pattern in enumerate(patterns_in(value)):
                    if pattern not in reported:
                        reported.add(pattern)
                        yield f"{info.name.removeprefix('judge.')}.{name}[{index}]", pattern


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        for part in (*value, *value.values()):
            yield from patterns_in(part)
    elif isinstance(value, list | tuple | set | frozenset):
        for part in value:
            yield from patterns_in(part)


def example(tree: Any, repeats: int = 1) -> str:
    """A text that a part of a pattern matches, with every repetition `repeats` times where it may be."""
    parts = []
    for kind, value in tree:
        if kind is kinds.LITERAL:
            parts.append(chr(value))
        elif kind in {kinds.NOT_LITERAL, kinds.ANY}:
            parts.append("a" if value != ord("a") else "b")
        elif kind is kinds.IN:
            parts.append(member(value))
        elif kind in {kinds.MAX_REPEAT, kinds.MIN_REPEAT, kinds.POSSESSIVE_REPEAT}:
            low, highest, inner = value
            parts.append(example(inner, repeats) * max(int(low), min(repeats, int(highest))))
        elif kind is kinds.SUBPATTERN:
            parts.append(example(value[3], repeats))
        elif kind is kinds.BRANCH:
            parts.append(example(value[1][0], repeats))
        elif kind is kinds.ATOMIC_GROUP:
            parts.append(example(value, repeats))
    return "".join(parts)


def member(items: Any) -> str:
    negated = items[0][0] is kinds.NEGATE
    accepted = re.compile("[" + ("^" if negated else "") + "".join(map(spelled, items[negated:])) + "]")
    return next((chr(code) for code in (*range(97, 123), *range(32, 256), 9, 10) if accepted.match(chr(code))), "a")


def spelled(item: Any) -> str:
    kind, value = item
    if kind is kinds.LITERAL:
        return re.escape(chr(value))
    if kind is kinds.RANGE:
        return f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}"
    return {
        kinds.CATEGORY_DIGIT: r"\d", kinds.CATEGORY_NOT_DIGIT: r"\D", kinds.CATEGORY_SPACE: r"\s",
        kinds.CATEGORY_NOT_SPACE: r"\S", kinds.CATEGORY_WORD: r"\w", kinds.CATEGORY_NOT_WORD: r"\W",
    }[value]  # fmt: skip


def branches(tree: Any) -> Iterator[Any]:
    yield tree
    for index, (kind, value) in enumerate(tree):
        inner = value[1] if kind is kinds.BRANCH else ()
        if kind is kinds.SUBPATTERN:
            inner = branches(value[3])
        for branch in inner:
            for deeper in branches(branch) if kind is kinds.BRANCH else [branch]:
                yield [*list(tree)[:index], (kinds.SUBPATTERN, (None, 0, 0, deeper)), *list(tree)[index + 1 :]]


def texts(pattern: re.Pattern[Any]) -> list[str]:
    """Long texts that begin as matches do, again and again, and never end as one does."""
    text = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = parser.parse(text, pattern.flags & ~re.UNICODE)
    samples: dict[str, None] = {}
    for count, branch in enumerate(branches(tree)):
        if count >= 12:
            break
        for repeats in (1, 2):
            samples[example(branch, repeats)[:60]] = None
    hostile: dict[str, None] = {}
    for sample in samples:
        for end in sorted({*range(1, min(len(sample), 10) + 1), len(sample) // 2, len(sample) - 1, len(sample)}):
            prefix = sample[:end]
            if prefix:
                hostile[prefix * (SIZE // len(prefix))] = None
                for char in {*prefix[-3:], " ", "\n", ","}:
                    hostile[prefix + char * SIZE] = None
    return list(hostile)[:400]


class LateError(Exception):
    """The clock has rung."""


def late(*_: Any) -> None:
    raise LateError


def searches(name: str) -> bool:
    """Return whether a module looks for a pattern anywhere in a text. Names are matched as a whole, and are short."""
    module, _, variable = name.partition("[")[0].rpartition(".")
    source = inspect.getsource(importlib.import_module("judge." + module))
    return re.search(rf"\b{variable}\.(?:search|sub|subn|split|findall|finditer)\b", source) is not None


# Patterns that are tried once, at the beginning of a whole statement.
BEGINNINGS = {"statements.fragment._FIRST[0]"}


def slow_texts(name: str, pattern: re.Pattern[Any]) -> list[str]:
    """The beginning of the first text for which a pattern takes longer than SECONDS."""
    for text in texts(pattern):
        subject: Any = text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        begin = time.thread_time()
        try:
            if name in BEGINNINGS:
                pattern.match(subject)
            else:
                pattern.sub("" if isinstance(subject, str) else b"", subject)
        except LateError:
            if time.thread_time() - begin > SECONDS / 3:
                return [text[:40]]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    return []


def test_no_pattern_takes_the_square_of_a_texts_length() -> None:
    signal.signal(signal.SIGALRM, late)
    searched = {name: pattern for name, pattern in patterns() if searches(name) or name in BEGINNINGS}
    assert len(searched) > 80
    slow = {name: texts for name, pattern in searched.items() if (texts := slow_texts(name, pattern))}
    assert not slow, f"these take more than {SECONDS} s for {SIZE} characters"
