"""The language table: the built-in rows, a site's own, what is found on a machine, and entry points."""

import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.common.errors import ConfigError
from judge.languages.entry import find_entry, main_classes
from judge.languages.table import CommandPlan, Language, Survey, detect, extra_paths, load_table, survey
from judge.model.messages import Limits
from tests.support import ansible
from tests.support.examples import at_least
from tests.support.lab import ROOT

MIB = 1024**2

ROW = """
languages:
  awk:
    title: Awk
    suffixes: [.awk]
    source_name: main.awk
    run: [/usr/bin/awk, -f, "{source}"]
    version_command: [/usr/bin/awk, -W, version]
    cpu_multiplier: 2
    memory_extra: 16
    processes_extra: 3
    env: {LC_ALL: C}
"""


def site(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "languages.yml"
    path.write_text(text)
    return path


NAMES = list(load_table())


def test_the_built_in_table_is_checked_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    load_table()

    def again(*_: object) -> None:
        raise AssertionError("every submission asks for the table several times")

    monkeypatch.setattr("judge.languages.table.Names", again)
    monkeypatch.setattr("judge.languages.table._read", again)
    table = load_table()
    table.clear()
    assert list(load_table()) == NAMES, "whoever has one may change it"


def test_built_in_rows():
    table = load_table()
    assert len(table) >= 60 and list(table)[:2] == ["c", "cpp"]
    assert all(language.name == name for name, language in table.items())
    for language in table.values():
        for program in language.programs():
            assert program.startswith(("/usr/", "/bin/sh")), "nobody's PATH decides which compiler judges"
        assert language.packages, "a row says what to install"


def test_the_page_names_every_language_and_its_files():
    page = (Path(__file__).parents[2] / "docs/languages.md").read_text()
    rows = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    for name, language in load_table().items():
        assert f"`{name}`" in rows
        assert all(re.search(rf"[` ]{re.escape(suffix)}[` ]", rows) for suffix in language.suffixes), name
    for field in set(Language.model_fields) - {"name"}:
        assert f"`{field}`" in page


def plan_of(language: Language, source: str, filename: str | None, memory: int) -> CommandPlan:
    return language.plan_files({language.own_name(source, filename): source.encode()}, memory)


def test_plan_of_a_file_language():
    plan = plan_of(load_table()["c"], "int main(){}", "../../etc/passwd", 64 * MIB)
    assert plan.source_name == "main.c"
    assert plan.compile is not None and plan.compile[-2:] == ["/box/main.c", "-lm"]
    assert plan.run == ["/box/run"]


def test_plan_of_java():
    source = "package a.b; public class Foo { public static void main(String[] x) {} }"
    plan = plan_of(load_table()["java"], source, "whatever.java", 256 * MIB)
    assert plan.source_name == "Foo.java"
    assert plan.compile is not None and plan.compile[-1] == "/box/Foo.java"
    assert plan.run[-1] == "a.b.Foo" and "-Xmx256m" in plan.run


def test_a_placeholder_is_filled_once():
    language = Language(
        title="X", source_name="a.x", run=["/usr/bin/x", "{source}{memory_mb}", "{}", "{ }"], version_command=["/x"]
    )
    assert plan_of(language, "", None, 3 * MIB).run == ["/usr/bin/x", "/box/a.x3", "{}", "{ }"]


def test_the_environment_is_filled_too():
    row = {"title": "X", "source_name": "a.x", "run": ["/usr/bin/x", "-m{limit_mb}"], "version_command": ["/x"]}
    language = Language(**row, memory_extra=32, env={"HEAP": "{memory_mb}MiB", "PLAIN": "{}"})
    plan = plan_of(language, "", None, 64 * MIB)
    assert plan.env == {"HEAP": "64MiB", "PLAIN": "{}"} and plan.run == ["/usr/bin/x", "-m96"]
    assert language.env == {"HEAP": "{memory_mb}MiB", "PLAIN": "{}"}


def test_limits_grow_as_the_row_says(tmp_path: Path):
    language = load_table(site(tmp_path, ROW))["awk"]
    limits = language.limits(Limits(cpu=1.5, memory=64 * MIB, processes=10))
    assert (limits.cpu, limits.wall, limits.memory, limits.processes) == (3.0, 8.0, 80 * MIB, 13)


def test_a_sites_table_adds_replaces_and_removes_rows(tmp_path: Path):
    tiny = (
        "{title: Tiny C, suffixes: [.c], source_name: a.c, run: [/usr/bin/tcc, -run], version_command: [/usr/bin/tcc]}"
    )
    table = load_table(site(tmp_path, f"{ROW}  java: null\n  c: {tiny}\n"))
    assert set(table) == {*NAMES, "awk"} - {"java"}
    assert table["c"].title == "Tiny C" and table["awk"].env == {"LC_ALL": "C"}
    assert "java" in load_table(), "the built-in table is untouched"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ROW + "    memory: 3\n", "unknown key 'languages.awk.memory'"),
        (ROW.replace("{source}", "{sauce}"), r"run: unknown placeholder '{sauce}'; known are {directory}, {entry}"),
        (ROW.replace("LC_ALL: C", "HEAP: '{memory}'"), "env.HEAP: unknown placeholder '{memory}'; known"),
        (ROW.replace("[.awk]", "[.py]"), "suffix '.py' belongs to both 'python3' and 'awk'"),
        (ROW.replace("[.awk]", "[awk]"), "languages.awk.suffixes.0"),
        (ROW.replace("main.awk", "'{entry}.awk'"), "source_name: '{entry}' needs 'entry: class'"),
        (ROW.replace("main.awk", "../main.awk"), "languages.awk.source_name"),
        (ROW.replace('run: [/usr/bin/awk, -f, "{source}"]', "run: []"), "run: is missing; only a row with 'like'"),
        (ROW.replace("  awk:", "  'a b':"), "languages.a b"),
        ("languages: [", "not YAML"),
        ("[]", "expected a mapping"),
    ],
)  # fmt: skip
def test_refused_tables(tmp_path: Path, text: str, sentence: str):
    path = site(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_table(path)
    assert sentence in str(caught.value) and str(caught.value).startswith(f"{path}:")


def test_unreadable_tables(tmp_path: Path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_table(tmp_path / "none.yml")
    (tmp_path / "bad.yml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        load_table(tmp_path / "bad.yml")


def test_detect_finds_what_is_here():
    versions = detect(load_table())
    assert versions["python3"].startswith("Python 3.")
    assert versions["c"].startswith("gcc ")


def test_detect_hides_programs_outside_of_the_sandbox(tmp_path: Path):
    outside = tmp_path / "python3"
    outside.symlink_to("/usr/bin/python3")
    copied = tmp_path / "true"
    copied.write_bytes(Path("/usr/bin/true").read_bytes())
    copied.chmod(0o755)

    def row(run: str, version: list[str] | None = None) -> Language:
        return Language(title="X", source_name="x", run=[run], version_command=version or [run, "--version"])

    table = {
        "fine": row("/usr/bin/env"),
        "link": row(str(outside)),
        "home": row(str(copied)),
        "absent": row("/usr/bin/no-such-compiler"),
        "path": row("env"),
        "fails": row("/usr/bin/env", ["/usr/bin/false"]),
        "silent": row("/usr/bin/env", ["/usr/bin/true"]),
        "hangs": row("/usr/bin/env", ["/usr/bin/sleep", "60"]),
        "no program": row("/usr/bin"),
    }
    result = survey(table, timeout=1.0)
    assert set(result.found) == {"fine", "link"}
    assert result.missing == {
        "home": f"{copied} leads to {copied}, which sandboxes do not show; add its directory to the row's 'paths'",
        "absent": "/usr/bin/no-such-compiler is not installed",
        "path": "'env' is not an absolute path; write the program's full path into the row",
        "fails": "'/usr/bin/false' ended with 1: ",
        "silent": "'/usr/bin/true' printed nothing",
        "hangs": "'/usr/bin/sleep 60' did not end within 1 s",
        "no program": "/usr/bin is not installed",
    }
    with_path = row(str(copied), ["/usr/bin/env", "--version"]).model_copy(update={"paths": [str(tmp_path)]})
    assert "home" in detect({"home": with_path})


def test_a_version_command_ends_with_all_that_it_started(tmp_path: Path):
    trace = tmp_path / "left"
    script = f"(sleep 20; echo still here >{trace}) & sleep 60"
    row = Language(title="X", source_name="x", run=["/usr/bin/env"], version_command=["/bin/sh", "-c", script])
    began = time.monotonic()
    assert list(survey({"x": row}, timeout=0.5).missing) == ["x"]
    assert time.monotonic() - began < 15, "nobody waits for what a killed command has started"


def test_detect_logs_what_is_missing(caplog: pytest.LogCaptureFixture):
    row = Language(title="X", source_name="x", run=["/usr/bin/none"], version_command=["/usr/bin/none"])
    with caplog.at_level("INFO"):
        assert detect({"x": row}) == {}
    assert caplog.messages == ["language x is not offered: /usr/bin/none is not installed"]


def test_survey_of_nothing():
    assert survey({}) == Survey({}, {})


def test_extra_paths_are_resolved(tmp_path: Path):
    (tmp_path / "jdk-1").mkdir()
    (tmp_path / "jdk-2").mkdir()
    language = Language(title="X", source_name="x", run=["/x"], version_command=["/x"], paths=[f"{tmp_path}/jdk-*"])
    assert extra_paths([language, language]) == [f"{tmp_path}/jdk-1", f"{tmp_path}/jdk-2"]


def _built(name: str, source: str, directory: Path) -> subprocess.CompletedProcess[bytes]:
    """Compile and run with the table's own commands, on this machine instead of inside the sandbox."""
    language = load_table()[name]
    if name not in detect({name: language}):
        pytest.skip(f"{language.title} is not on this machine")
    plan = plan_of(language, source, None, 256 * MIB)
    (directory / plan.source_name).write_text(source)
    commands = [
        [word.replace("/box", str(directory)) for word in command] for command in (plan.compile or [], plan.run)
    ]
    compilation = subprocess.run(commands[0], capture_output=True, cwd=directory, check=False)
    return (
        compilation
        if compilation.returncode
        else subprocess.run(commands[1], capture_output=True, cwd=directory, check=False)
    )


HELLO = {
    "c": '#include <stdio.h>\n#include <math.h>\nint main(int n, char **v) { printf("%g\\n", sqrt(n * 4.0)); }',
    "cpp": "#include <iostream>\n#include <span>\nint main() { std::cout << 2 << std::endl; }",
    "java": "class Helper {} class Two { static public void main(String... a) { System.out.println(2); } }",
    "python3": "print(2)",
}


@pytest.mark.parametrize("name", list(HELLO))
def test_commands_compile_and_run(name: str, tmp_path: Path):
    process = _built(name, HELLO[name], tmp_path)
    assert (process.returncode, process.stdout) == (0, b"2\n"), process.stderr


@pytest.mark.parametrize("name", list(HELLO))
def test_commands_report_compile_errors(name: str, tmp_path: Path):
    process = _built(name, "this is not a program (", tmp_path)
    assert process.returncode == 1
    assert b"error" in (process.stdout + process.stderr).lower() and b"Traceback" not in process.stderr


@pytest.mark.parametrize(
    ("source", "filename", "expected"),
    [
        ("", None, ("Main", "Main")),
        ("", "Solve.java", ("Solve", "Solve")),
        ("", "no class.java", ("Main", "Main")),
        ("class A { static void main(String[] a) {} }", None, ("A", "A")),
        ("class A {} class B { static void main(String[] a) {} }", None, ("B", "B")),
        ("class A {} class B { static void main(String[] a) {} }", "Keep.java", ("Keep", "B")),
        ("public class P {} class B { static void main(String[] a) {} }", "x.java", ("P", "B")),
        ("class A { void main() {} } public final class P { static void main(String[] a) {} }", None, ("P", "P")),
        ("// public class No {\n/* public class No */ public class Yes { void main() {} }", None, ("Yes", "Yes")),
        ('class S { String s = "public class No { void main("; char c = \'"\'; void main(){} }', None, ("S", "S")),
        ('class T { String s = """\n } public class No { " void main( """; void main(){} }', None, ("T", "T")),
        ("class A { class Inner { void main() {} } } class B { void main() {} }", None, ("B", "B")),
        ("package x . y;\nimport java.util.*;\npublic enum E { A; public static void main(String[] a) {} }", None,
         ("E", "x.y.E")),
        ("public @Mark({1, 2}) record R(int a) { public static void main(String[] a) {} }", None, ("R", "R")),
        ("@Mark(Some.class) interface I { static void main(String[] a) {} }", None, ("I", "I")),
        ("class A { int domain(int x) { return main(x); } }", None, ("Main", "A")),
        (f"public class {'x' * 300} {{ void main() {{}} }}", None, ("Main", "Main")),
        ("void main() {}", None, ("Main", "Main")),
    ],
)  # fmt: skip
def test_entry(source: str, filename: str | None, expected: tuple[str, str]):
    assert find_entry(source, filename) == expected


@settings(max_examples=at_least(300), deadline=2000)
@given(
    st.text(alphabet="abc \"'\\/*{}();.$\npublicasvomnE", max_size=300) | st.text(max_size=300), st.text(max_size=30)
)
def test_entry_never_leaves_the_directory(source: str, filename: str):
    stem, entry = find_entry(source, filename)
    assert stem.replace("$", "_").isidentifier() and len(stem) <= 200
    assert all(part.replace("$", "_").isidentifier() for part in entry.split("."))


@pytest.mark.parametrize("unit", ["/*", '"""', '"', "'\\", "class A{", "void main(", "public ", "package a.", '\\"'])
def test_entry_is_linear_in_hostile_sources(unit: str):
    source = unit * (128 * 1024 // len(unit))
    find_entry(source)  # the suite's timeout is the check; a quadratic scan takes minutes


@pytest.mark.timeout(60)
def test_many_classes_with_main_take_linear_time():
    """A look at all types for each main takes three minutes of an executor's slot."""
    source = "".join(f"class a{number}{{void main(}}" for number in range(46_000))
    assert len(main_classes(source, "x.java", "class")) == 46_000


_SEARCH = """
import re
from judge.languages import sources, table
for row in table.load_table().values():
    if row.entry_pattern:
        for what in (b"\\n", b" ", b"\\t", b"\\r\\n", b"\\n \\t", b"a \\n", b"package ", b"pub fn\\n", b"main "):
            many = what * (256 * 1024 // len(what))
            sources.choose({"a": many, "b": many}, row)
"""


def test_the_file_to_start_is_found_in_time_linear_in_its_size():
    """The slot does it, outside of all limits."""
    subprocess.run([sys.executable, "-c", _SEARCH], check=True, timeout=60)


@pytest.mark.parametrize(("pattern", "fine"), [(r"^\s*x", False), (r"^[ \t]*x", True), ("^\\n", False), ("", True)])
def test_patterns_of_the_file_to_start_stay_in_a_line(tmp_path: Path, pattern: str, fine: bool):
    path = site(tmp_path, f"{ROW}    entry_pattern: '{pattern}'\n")
    if fine:
        assert load_table(path)["awk"].entry_pattern == pattern
    else:
        with pytest.raises(ConfigError, match="entry_pattern"):
            load_table(path)


@pytest.mark.parametrize(
    "command",
    [
        "[/bin/sh, -c, 'exec x {source}']", '[/bin/sh, -c, "{source}"]', '[/bin/sh, -ec, "{directory}"]',
        '[/usr/bin/x, --eval, "{stem}"]', '[/usr/bin/x, -eval, "{entry}"]', '[/usr/bin/x, -e, "{sources}"]',
        "[/usr/bin/x, '.read {source}']", "[/usr/bin/x, '--do=(load \"{source}\")']", '[/usr/bin/python3, -c, "{source}"]',  # noqa: E501
    ],
)  # fmt: skip
def test_names_of_files_are_never_code(tmp_path: Path, command: str):
    for field in ("run", "compile"):
        text = ROW if field == "compile" else ROW.replace('[/usr/bin/awk, -f, "{source}"]', "[/usr/bin/x]")
        row = text.replace("run: [/usr/bin/x]", f"run: {command}") + (
            f"    compile: {command}\n" * (field == "compile")
        )
        with pytest.raises(ConfigError, match="would be code"):
            load_table(site(tmp_path, row))


@pytest.mark.parametrize(
    "command",
    ['[/bin/sh, -c, \'exec x "$1"\', sh, "{source}"]', '[/usr/bin/perl, -c, "{source}"]', '[/usr/bin/x, "-I{directory}"]',  # noqa: E501
     "[/bin/sh, -c, 'x -Xmx{memory_mb}m']", '[/usr/bin/gcc-12, -c, "{sources}"]'],
)  # fmt: skip
def test_names_of_files_as_arguments(tmp_path: Path, command: str):
    load_table(site(tmp_path, f"{ROW}    compile: {command}\n"))


TABLE = load_table()


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    return ansible.plugin("filter", "judge_languages")


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_the_filter_and_the_command_read_the_same_table(plugin: ModuleType, release: str) -> None:
    rows = [row for row in TABLE.values() if release in row.releases]
    expected = sorted({package for row in rows for package in row.packages})
    assert (
        plugin.judge_language_packages(["all"], release) == plugin.judge_language_packages("all", release) == expected
    )
    command = [sys.executable, "-m", "judge.languages", "--release", release]
    assert subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split() == expected


def test_some_rows_and_those_that_one_release_has(plugin: ModuleType) -> None:
    packages = plugin.judge_language_packages
    assert packages([]) == [] and packages(["java", "rust"]) == ["default-jdk-headless", "rustc"]
    assert packages(["cpp17-clang"]) == ["clang", "g++"]
    assert packages(["swift"]) == [] and packages(["swift"], partly=True) == ["swiftlang"]
    assert packages(["swift"], "bookworm") == [] and packages(["swift"], "trixie") == ["swiftlang"]
    assert {"nim", "swiftlang"} <= set(packages("all", partly=True)) and "gcc" not in packages("all", partly=True)


def test_a_row_that_is_none_is_named(plugin: ModuleType) -> None:
    with pytest.raises(
        Exception, match="judge_languages: 'fortan' is no row of the table of languages; choose all, or"
    ):
        plugin.judge_language_packages(["fortan"])


def test_a_submission_is_in_the_first_language_that_there_is(plugin: ModuleType) -> None:
    programs = [{"language": "c"}, {"language": "python3"}, {"command": "true"}]
    choose = plugin.judge_program
    assert choose(programs, ["python3", "c"]) == {"language": "c"}
    assert choose(programs, ["python3"]) == {"language": "python3"}
    assert choose(programs, []) == {"command": "true"}
