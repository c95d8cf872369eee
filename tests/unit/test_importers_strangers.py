"""Packages that nobody made by accident: values of any shape, and so much of it that it must be read in one pass."""

import ast
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from judge.common.yamltext import read as read_yaml
from judge.problems.importers import ImporterWords, open_package_tree
from judge.problems.importers.pairs import find_pairs
from tests.support import packages
from tests.support.packages import ByteFiles, archive

ONE: ByteFiles = {"a.in": b"1\n", "a.out": b"1\n", "c.cpp": b"int main() {}\n"}
CASE = "test_cases:\n- {in: a.in, out: a.out, points: 1}\n"
MANY = 2000


def opened(tmp_path: Path, files: ByteFiles, words: ImporterWords | None = None) -> tuple[dict[str, bytes], list[str]]:
    """The small files of the package that is made, and what is said of it."""
    package = open_package_tree(archive(tmp_path, files), words)
    with package.tree.resources:
        read = {path: package.tree.read(path, size) for path, size in package.tree.files.items()}
    package.tree.close()
    return read, package.report.lines() if package.report is not None else []


def refused(tmp_path: Path, files: ByteFiles) -> str:
    return packages.refused(opened, tmp_path, files)


@pytest.mark.parametrize("body", ["return f(kw)", "return kw[NUMBER]", "return kw.get(NUMBER)"])
def test_numbers_in_checkers_that_are_too_long_to_be_text(tmp_path: Path, body: str) -> None:
    number = "0x" + "f" * 9000
    checker = f"X = {number}\ndef check(a, b, **kw):\n    {body.replace('NUMBER', number)}\n"
    files, _ = opened(tmp_path, {**ONE, "init.yml": f"{CASE}checker: c.py\n".encode(), "c.py": checker.encode()})
    assert "output_validator/dmoj_checker.py" in files


def test_thousands_of_cases_of_no_points_require_the_last_before_them(tmp_path: Path) -> None:
    entries = "".join(f"- {{in: a.in, out: a.out, points: {number % 2}}}\n" for number in range(600))
    files, _ = opened(tmp_path, {**ONE, "init.yml": f"test_cases:\n{entries}".encode()})
    groups = [read_yaml(files[path].decode(), path).value for path in files if path.endswith("/test_group.yaml")]
    assert max(len(group.get("require_pass", ())) for group in groups) == 1


def test_samples_of_no_points_are_required_beside_other_cases(tmp_path: Path) -> None:
    cases = (("a.in", 0), ("sample.in", 0), ("sample.in", 0), ("a.in", 0), ("a.in", 5))
    init = "test_cases:\n" + "".join(f"- {{in: {name}, out: a.out, points: {points}}}\n" for name, points in cases)
    files, _ = opened(tmp_path, {**ONE, "sample.in": b"1\n", "init.yml": init.encode()})
    last = next(path for path in files if path.startswith("data/secret/3_") and path.endswith("test_group.yaml"))
    assert read_yaml(files[last].decode(), last).value["require_pass"] == ["sample", "secret/2_04"]


def seconds(work: Callable[..., object], *args: object) -> float:
    """CPU seconds of the fastest of three calls: other programs on the machine slow down some of them."""
    times = []
    for _ in range(3):
        began = time.process_time()
        work(*args)
        times.append(time.process_time() - began)
    return min(times)


def test_names_that_are_only_loosely_alike_are_looked_up() -> None:
    def names(count: int) -> list[str]:
        return [name for number in range(count) for name in (f"input/{number}.txt", f"output/{number}.ans")]

    assert all(pair.answer for pair in find_pairs(names(50))[0])
    assert seconds(find_pairs, names(4 * MANY)) < 10 * max(seconds(find_pairs, names(MANY)), 0.01)


# --- settings that are data by their size -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["data.json", "PROBLEM", "settings.json", "judge.cfg"])
def test_files_that_are_called_as_settings_and_are_large(tmp_path: Path, name: str) -> None:
    files: ByteFiles = {"input/1": b"1\n", "output/1": b"1\n"}
    files |= {name: b"[" + b"1," * (9 * 1024**2) + b"1]"}
    products, _ = opened(tmp_path, {**files, "a.md": b"# A\n", "sol.cpp": b"int main() {}\n"})
    assert "data/secret/1.in" in products


def test_a_specification_in_one_line_is_not_read_beyond_its_beginning(tmp_path: Path) -> None:
    files: ByteFiles = {**ONE, "spec.cpp": b"a" * 9_000_000 + b" tcframe\n"}
    tracemalloc.start()
    opened(tmp_path, files)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 1024**2


# --- names that become the same -----------------------------------------------------------------------------------


def test_programs_whose_names_become_the_same(tmp_path: Path) -> None:
    names = ["解/sol.cpp", "答/sol.cpp", "法/sol.cpp", "sol.cpp", "gen/解.py", "gen/a/答.py", "generators/a_b.cpp"]
    products, _ = opened(
        tmp_path, {"1.in": b"1\n", "1.out": b"1\n", "generators/a/b.cpp": b"", **dict.fromkeys(names, b"")}
    )
    assert len([path for path in products if path.startswith("submissions/accepted/sol")]) == 4
    assert len([path for path in products if path.startswith("generators/generators_a_b")]) == 2


def test_letters_before_the_word_for_input_are_a_part_of_the_name() -> None:
    """`a`, `i` and `o` mean an answer or an input at the end of a name alone: such groups are lettered to the end."""
    names = [f"{group}.{ending}" for group in ("1.a", "1.b", "1.i", "1.key", "1.o", "2") for ending in ("in", "out")]
    pairs, alone = find_pairs(names)
    assert [(pair.input, pair.answer) for pair in pairs] == list(zip(names[::2], names[1::2], strict=True))
    assert not alone


# --- sentences that name what there is ----------------------------------------------------------------------------


def test_an_archive_in_a_package_has_its_own_name_in_sentences(tmp_path: Path) -> None:
    archive(tmp_path, {"../1.in": b"1\n"}, name="inner.zip")
    files = {"init.yml": b"archive: t.zip\n", "t.zip": (tmp_path / "inner.zip").read_bytes()}
    assert refused(tmp_path, files).startswith("sum.zip/t.zip: ../1.in: the name leads out of the archive")


def test_subtasks_that_require_each_other_name_their_package(tmp_path: Path) -> None:
    case = "cases: [{input: a.in, output: a.out}]"
    config = f"subtasks: [{{id: 1, if: [2], {case}}}, {{id: 2, if: [1], {case}}}]\n".encode()
    files: ByteFiles = {"problem.yaml": b"title: A\n", "testdata/config.yaml": config}
    files |= {f"testdata/{name}": data for name, data in ONE.items()}
    assert refused(tmp_path, files).startswith("sum.zip: subtask '1' requires itself")


def test_thousands_of_tests_in_each_of_thousands_of_subtasks(tmp_path: Path) -> None:
    groups = "- [1, '.*']\n" * 300
    task = "name: s\ntitle: S\ntime_limit: 1\nmemory_limit: 64\nn_input: 700\nscore_type: GroupMin\n"
    files: ByteFiles = {f"{way}put/{way}put{number}.txt": b"" for way in ("in", "out") for number in range(700)}
    files["task.yaml"] = f"{task}score_type_parameters:\n{groups}".encode()
    assert "its subtasks have 210000 tests together" in refused(tmp_path, files)


PROBLEMS = Path(__file__).resolve().parents[2] / "judge/problems"
# Modules that start processes, and functions of `os` that do.
STARTERS = {"subprocess", "multiprocessing", "concurrent.futures", "asyncio", "pty", "runpy"}
OF_OS = ("system", "popen", "fork", "exec", "spawn", "posix_spawn", "startfile")
# Patterns of DMOJ's test cases are strangers' regular expressions, which may take for ever: they are matched by an
# interpreter of ours that is ended after a while. No code of the package is in what it runs.
EXCEPTION = PROBLEMS / "importers/dmoj/tests.py"


def starts(path: Path) -> set[str]:
    """What a module imports, or calls, to start processes, and to read strangers' programs by itself."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{node.value.id}.{node.attr}")
    of_os = {word for word in names if word.startswith(tuple(f"os.{name}" for name in OF_OS))}
    reads = names & {"ast.parse", "ast.literal_eval"}
    return {word for word in names if word in STARTERS or word.partition(".")[0] in STARTERS} | of_os | reads


def test_no_module_of_problems_starts_a_process() -> None:
    modules = {path: starts(path) for path in PROBLEMS.rglob("*.py")}
    allowed = {EXCEPTION: {"subprocess", "subprocess.run", "subprocess.TimeoutExpired"}}
    assert {path: names for path, names in modules.items() if names} == allowed
