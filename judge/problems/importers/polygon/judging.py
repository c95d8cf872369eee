"""The tests, groups and limits of a problem of Polygon (<judging>)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from xml.etree.ElementTree import Element

from judge.common.errors import PackageError
from judge.common.text import decimal, several
from judge.problems.importers import line_ends
from judge.problems.importers.cases import (
    ImportedCase,
    ImportedSubtask,
    Rule,
    points,
    write_plain,
    write_scored,
    write_unbounded,
)
from judge.problems.importers.draft import Draft, Ref, as_number
from judge.problems.importers.polygon.assets import Programs
from judge.problems.importers.polygon.document import PROBLEM_XML, expand, number
from judge.problems.importers.polygon.generation import PolygonTest, check_files
from judge.problems.tree import Tree

# The set that decides on Codeforces; others are run before it, or not at all.
_MAIN = "tests"
_MOST_TESTS = 20_000
_MIB = 1024**2


def put_tests(draft: Draft, root: Element, programs: Programs) -> None:
    """Tests, points and limits of the testset that decides; PackageError."""
    where = draft.tree.where(PROBLEM_XML)
    judging = root.find("judging")
    sets = [] if judging is None else judging.findall("testset")
    if judging is not None and not sets and judging.find("script/testset") is not None:
        raise PackageError(
            f"{where}: is of PCMS2, whose limits, groups and verifiers are not read; take the problem out of Polygon, "
            "or have the tests compared alone (--from directory)"
        )
    if judging is None or not sets:
        raise PackageError(f"{where}: has no <testset>; expected one in <judging>")
    sizes = {testset: len(testset.findall("tests/test")) for testset in sets}
    main_testset = max(sets, key=lambda testset: (testset.get("name") == _MAIN, sizes[testset]))
    for testset in sets:
        if testset is not main_testset:
            name = (testset.get("name") or "")[:40]
            draft.report.dropped(f"testset {name} of {sizes[testset]} tests: only {main_testset.get('name')} decides")
    _limits(draft, judging, main_testset)
    tests = _tests(draft.tree, main_testset)
    # Before anything is made of them: the main solution and validators expect plain line ends, too.
    _plain_line_ends(draft, tests)
    check_files(draft, root, tests)
    cases = {test.index: _case(draft, test) for test in tests}
    _write(draft, main_testset, tests, cases, programs)
    samples = sum(test.sample for test in tests)
    draft.report.took(f"{len(tests)} tests of testset {main_testset.get('name')}, {samples} of them samples")
    _shown_samples(draft, tests, interactive=programs.interactive)


def _limits(draft: Draft, judging: Element, testset: Element) -> None:
    where = draft.tree.where(PROBLEM_XML)
    time = number(testset.findtext("time-limit"), f"{where}: time-limit", most=600_000, least=1)
    memory = number(testset.findtext("memory-limit"), f"{where}: memory-limit", most=1 << 40, least=1)
    machine = (judging.get("cpu-name") or "").strip()
    if time is not None:
        draft.limits["time_limit"] = as_number(time / 1000)
        draft.report.took(f"time limit {decimal(time / 1000)} s" + (f", meant for {machine}" if machine else ""))
    if memory is not None:
        draft.limits["memory"] = max(4, -(-memory // _MIB))
        draft.report.took(f"memory limit {-(-memory // _MIB)} MiB")
    for key in ("input", "output"):
        name = (judging.get(f"{key}-file") or "").strip()
        if name and name.lower() not in {"stdin", "stdout"}:
            draft.judge[f"{key}_file"] = name
            draft.report.took(f"{key} file {name}")


def _tests(tree: Tree, testset: Element) -> list[PolygonTest]:
    where = tree.where(PROBLEM_XML)
    elements = testset.findall("tests/test")
    count = number(testset.findtext("test-count"), f"{where}: test-count", most=_MOST_TESTS)
    elements += [Element("test")] * max(0, (count or 0) - len(elements))
    input_pattern = (testset.findtext("input-path-pattern") or "tests/%02d").strip()
    answers = (testset.findtext("answer-path-pattern") or input_pattern + ".a").strip()
    if not elements:
        raise PackageError(f"{where}: testset '{(testset.get('name') or '')[:40]}' has no tests")
    if len(elements) > 1 and expand(input_pattern, 1) == expand(input_pattern, 2):
        raise PackageError(
            f"{where}: input-path-pattern: '{input_pattern[:80]}' names one file for all tests; expected %d in it"
        )
    return [
        PolygonTest(index, expand(input_pattern, index), expand(answers, index), element)
        for index, element in enumerate(elements, 1)
    ]


def _plain_line_ends(draft: Draft, tests: Sequence[PolygonTest]) -> None:
    """Packages for Windows have its line ends, in which validators find faults; those for Linux have plain ones."""
    files = [path for test in tests for path in (test.input, test.answer)]
    examples = [_example(draft.tree, test.index, ending) for test in tests if test.sample for ending in ("", ".a")]
    draft.tree, mixed = line_ends.plain(draft.tree, [*files, *filter(None, examples)])
    if isinstance(draft.tree, line_ends.ChangedLines):
        changed = several(len(draft.tree.changed), "file")
        draft.report.dropped(
            f"line ends of Windows (CR LF) in {changed} of tests and examples: plain ones (LF), as in the linux package"
        )
    if mixed:
        draft.report.dropped(
            f"line ends of {several(len(mixed), 'file')}, some of which are those of Windows (first: {mixed[0]}): they "
            "are left as they are"
        )


def _case(draft: Draft, test: PolygonTest) -> ImportedCase:
    points_text = test.element.get("points")
    group = test.element.get("group")
    # A validator hears a test's group; samples are not in it here, nor are tests of groups without points.
    validated = group and any(path.startswith("input_validators/") for path in draft.files)
    where = f"{draft.tree.where(PROBLEM_XML)}: test {test.index}: points"
    return ImportedCase(
        f"{test.index:02d}",
        Ref(draft.tree, test.input),
        Ref(draft.tree, test.answer),
        sample=test.sample,
        points=None if points_text is None else points(points_text, where),
        settings={"input_validator_args": ["--group", group]} if validated else {},
    )


def _write(
    draft: Draft, testset: Element, tests: Sequence[PolygonTest], cases: Mapping[int, ImportedCase], programs: Programs
) -> None:
    where = draft.tree.where(PROBLEM_XML)
    described = {group.get("name") or "": group for group in testset.findall("groups/group")}
    worth = _of_tests(cases.values())
    worth += sum((points(group.get("points") or 0, f"{where}: group") for group in described.values()), Fraction(0))
    if not worth:
        if programs.partial and any(case.points is not None for case in cases.values()):
            write_unbounded(draft, list(cases.values()))
            draft.report.took("points by the checker alone: no test has any of its own")
            return
        if described:
            draft.report.dropped("groups of tests: without points they decide nothing")
        write_plain(draft, list(cases.values()))
        return
    members: dict[str, list[ImportedCase]] = {name: [] for name in described}
    for test in tests:
        if not test.sample:
            cases[test.index].settings = {}  # its group's are the same
        members.setdefault(test.element.get("group") or "", []).append(cases[test.index])
    subtasks = [_subtask(draft, name, described.get(name), group_cases) for name, group_cases in members.items()]
    write_scored(draft, subtasks, partial=programs.partial, samples=list(cases.values()))
    totals = [
        subtask.points if subtask.rule == "all" else _of_tests(subtask.cases) or subtask.points for subtask in subtasks
    ]
    draft.report.took(f"{len(subtasks)} groups with {decimal(float(sum(totals)))} points")


def _of_tests(cases: Iterable[ImportedCase]) -> Fraction:
    return sum((case.points or Fraction(0) for case in cases), Fraction(0))


def _subtask(draft: Draft, name: str, element: Element | None, cases: list[ImportedCase]) -> ImportedSubtask:
    """A group: without a word of its own, or with policy each-test, every test has its own points."""
    element = Element("group") if element is None else element
    where = f"{draft.tree.where(PROBLEM_XML)}: group '{name[:40]}'"
    policy = (element.get("points-policy") or "each-test").lower()
    if policy not in {"each-test", "complete-group"}:
        raise PackageError(f"{where}: points-policy '{policy[:40]}' is not known; expected complete-group or each-test")
    test_points = _of_tests(cases)
    points_text = element.get("points")
    rule: Rule = "all" if policy == "complete-group" else "each"
    # A complete group's points stand at the group, else at its tests, which are then won or lost together.
    total = (
        points(points_text, f"{where}: points")
        if points_text is not None and (rule == "all" or not test_points)
        else test_points
    )
    requires = [dependency.get("group") or "" for dependency in element.iterfind("dependencies/dependency")]
    feedback = element.get("feedback-policy") or ""
    if feedback and feedback != "complete":
        draft.report.dropped(f"feedback-policy {feedback[:20]}: what submitters see is the cluster's rule")
    if rule == "each" and test_points:
        # Samples without points are shown; judging them here as well would give them a share.
        cases = [case for case in cases if not (case.sample and not case.points)] or cases
        for case in cases:
            case.points = case.points or Fraction(0)
    settings = {"input_validator_args": ["--group", name]} if name else {}
    return ImportedSubtask(
        name or "tests", cases, total, rule, [dependency for dependency in requires if dependency != name], settings
    )


def _shown_samples(draft: Draft, tests: Sequence[PolygonTest], *, interactive: bool) -> None:
    """Write what statements show in place of a sample, where that differs from the test."""
    samples = [test for test in tests if test.sample]
    written = sorted(path for path in draft.files if path.startswith("data/sample/") and path.endswith(".in"))
    for test, path in zip(samples, written, strict=False):
        for ending, kind, file in (("", "in", test.input), (".a", "ans", test.answer)):
            example = _example(draft.tree, test.index, ending)
            if example is not None and not _same_files(draft.tree, example, file):
                # The format wants what is shown and what can be downloaded together.
                for use in ("statement", "download"):
                    draft.put(f"{path.removesuffix('.in')}.{kind}.{use}", Ref(draft.tree, example))
    if interactive and samples:
        draft.report.dropped("interactive samples as dialogues: Polygon has their two sides apart")


def _example(tree: Tree, index: int, ending: str) -> str | None:
    """The first language's example file of a test, English before others."""
    name = f"/example.{index:02d}{ending}"
    paths = [path for path in tree.files if path.startswith("statement-sections/") and path.endswith(name)]
    return min(paths, key=lambda path: ("/english/" not in path, path), default=None)


def _same_files(tree: Tree, first: str, second: str) -> bool:
    """Return whether two files are the same but for their line ends; big ones are never an example."""
    if max(tree.files[first], tree.files[second]) > 256 * 1024:
        return tree.files[first] == tree.files[second]
    texts = [tree.read(path, 256 * 1024).replace(b"\r\n", b"\n").rstrip() for path in (first, second)]
    return texts[0] == texts[1]
