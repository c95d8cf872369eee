"""Programs of several files in every language that has a way for them, in the real sandbox: what is compiled, started
and found beside it; names of classes and packages.
"""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from judge.executor.slot.pipeline import Pipeline
from judge.languages.table import load_table
from judge.model.messages import Completed, SourceFile, Submission, Test, Verdict
from tests.integration.test_languages import PATIENT, need
from tests.support import packages
from tests.support.packages import PROGRAMS, programs
from tests.support.sandbox import AS_ROOT, language_pool

pytestmark = AS_ROOT

TABLE = load_table()
# Versions of a row take its programs.
CASES = PROGRAMS | {
    name: PROGRAMS[row.family] for name, row in TABLE.items() if name not in PROGRAMS and row.family in PROGRAMS
}
# Rows whose programs are one file, and have no way to say that there is another.
ALONE = {"brainfuck"}


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    outputs: Path = tmp_path_factory.mktemp("outputs")
    with language_pool("files") as pool:
        yield Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=outputs)


def judge(
    pipeline: Pipeline,
    language: str,
    files: dict[str, bytes],
    entry: str | None = None,
    test: Test = Test(name="1", answer="42\n"),  # noqa: B008 - is never changed
) -> Completed:
    need(language)
    submission = Submission(
        language=language,
        files=[SourceFile.of(name, data) for name, data in files.items()],
        entry=entry,
        tests=[test],
        limits=PATIENT,
    )
    return packages.judged(pipeline, packages.assigned(submission))


def test_every_row_has_a_program_of_several_files() -> None:
    assert {name.split(maxsplit=1)[0] for name in CASES} == TABLE.keys() - ALONE


@pytest.mark.parametrize("name", list(CASES))
def test_a_program_of_several_files(pipeline: Pipeline, name: str) -> None:
    judged = judge(pipeline, name.split(maxsplit=1)[0], CASES[name])
    assert judged.verdict is Verdict.AC, (judged.result.reason, judged.result.compile_log, judged.result.tests)


MAIN = b"class %s { public static void main(String[] a) { System.out.println(%d); } }\n"


@pytest.mark.parametrize(
    ("language", "files", "entry"),
    [
        ("java", {"A.java": MAIN % (b"A", 1), "p/B.java": b"package p; " + MAIN % (b"B", 42)}, "p.B"),
        ("java", {"A.java": MAIN % (b"A", 1), "B.java": MAIN % (b"B", 42)}, "B.java"),
        ("python3", {"a.py": b"print(1)", "b.py": b"print(42)"}, "b.py"),
        ("javascript", {"a.js": b"console.log(1)", "b.js": b"console.log(42)"}, "b.js"),
        ("kotlin", {"a.kt": b"fun main() = println(1)\n", "b.kt": b"package p\nfun main() = println(42)\n"}, "p.BKt"),
    ],
)
def test_the_entry_that_is_named(pipeline: Pipeline, language: str, files: dict[str, bytes], entry: str) -> None:
    judged = judge(pipeline, language, files, entry)
    assert judged.verdict is Verdict.AC, (judged.result.reason, judged.result.compile_log, judged.result.tests)


BINARY = b"data = open('/box/d/x.bin', 'rb').read()\nprint(42 if data == b'\\r\\n\\xff\\0' else data)"
HEADER = b'#define B "42" // \xe9'


@pytest.mark.parametrize(
    ("language", "files"),
    [
        ("python3", {"main.py": BINARY, "d/x.bin": b"\r\n\xff\0", "empty.py": b""}),
        ("python3", {"main.py": b"# coding: latin-1\nprint(42 if len('\xe9') == 1 else 0)\r\n", "x.py": b""}),
        ("c", {"a.c": b'#include <stdio.h>\r\n#include "b.h"\r\nint main(void) { puts(B); }\r\n', "b.h": HEADER}),
    ],
    ids=["data", "latin-1", "crlf"],
)  # fmt: skip
def test_files_arrive_byte_by_byte(pipeline: Pipeline, language: str, files: dict[str, bytes]) -> None:
    judged = judge(pipeline, language, files)
    assert judged.verdict is Verdict.AC, (judged.result.reason, judged.result.compile_log, judged.result.tests)


@pytest.mark.parametrize("name", ["Größe", "Решение", "日本", "Caf\u00e9$1"])
def test_a_java_class_may_be_called_anything(pipeline: Pipeline, name: str) -> None:
    source = f"public class {name} {{ public static void main(String[] a) {{ System.out.println(42); }} }}\n".encode()
    for files in ({"x.java": source}, {f"{name}.java": source, "Other.java": b"class Other {}"}):
        judged = judge(pipeline, "java", files)
        assert judged.verdict is Verdict.AC, (judged.result.reason, judged.result.compile_log)


def test_a_compiler_reads_no_configuration_of_the_submission(pipeline: Pipeline) -> None:
    files = {"main.pas": b"begin writeln(42) end.", "fpc.cfg": b"#WRITE from the submission\n#INCLUDE /etc/fpc.cfg\n"}
    judged = judge(pipeline, "pascal", files)
    assert judged.verdict is Verdict.AC, judged.result.compile_log
    assert "from the submission" not in judged.result.compile_log


@pytest.mark.parametrize(
    "files",
    [
        {"a.go": b'package other\n\nimport "fmt"\n\nfunc main() { fmt.Println(42) }\n'},
        {"a.go": b"package other\n\nfunc F() {}\n", "b.go": b"package other\n\nfunc G() {}\n"},
    ],
)  # fmt: skip
def test_a_go_package_that_is_not_main_is_a_compile_error(pipeline: Pipeline, files: dict[str, bytes]) -> None:
    judged = judge(pipeline, "go", files)
    assert judged.verdict is Verdict.CE
    assert "main" in judged.result.compile_log


@pytest.mark.parametrize(("language", "name"), [("c", "b.c"), ("python3", "lib/b.py"), ("java", "B.java")])
def test_a_fault_in_any_source_is_a_compile_error(pipeline: Pipeline, language: str, name: str) -> None:
    good = {
        "c": ("a.c", b"int main(void) { return 0; }"),
        "python3": ("main.py", b""),
        "java": ("A.java", MAIN % (b"A", 1)),
    }
    judged = judge(pipeline, language, dict([good[language]]) | {name: b"this is not a program ("})
    assert judged.verdict is Verdict.CE
    assert name in judged.result.compile_log


# Rows whose commands are scripts of a shell or of the language itself.
SCRIPTED = [
    "typescript",
    "coffeescript",
    "tcl",
    "ada",
    "nasm",
    "gas",
    "brainfuck",
    "cobol",
    "lisp",
    "scheme",
    "prolog",
    "erlang",
    "elixir",
    "clojure",
    "sqlite",
    "ocaml",
    "luajit",
    "r",
    "octave",
]


@pytest.mark.parametrize("stem", ["main (1)", "a;b", "it's $HOME `x` & [1] #{2}/x"])
@pytest.mark.parametrize("language", SCRIPTED)
def test_a_file_may_be_called_anything(pipeline: Pipeline, language: str, stem: str) -> None:
    row = TABLE[language]
    examples = programs(row)
    name = stem + PurePosixPath(row.source_name).suffix
    stdin, answer = examples.tests[0]
    files = {name: examples.sources["right"].encode(), "notes.txt": b"beside it\n"}
    judged = judge(pipeline, language, files, test=Test(name="1", input=stdin, answer=answer))
    assert judged.verdict is Verdict.AC, (judged.result.reason, judged.result.compile_log, judged.result.tests)


def test_a_name_runs_no_other_compiler(pipeline: Pipeline) -> None:
    source = b'#include <stdio.h>\nint main(void) { puts("42"); }\n'
    files = {"a;cd ..;cd box;gcc x.c -o run;exit 0;.asm": b"nothing", "x.c": source}
    assert judge(pipeline, "nasm", files).verdict is Verdict.CE


SAYS = {"typescript": "const n: number = %s; console.log(n);\n", "coffeescript": "console.log %s\n"}


@pytest.mark.parametrize("language", list(SAYS))
@pytest.mark.parametrize(
    ("names", "entry"),
    [(("index", "other"), None), (("main", "index"), None), (("b", "a"), "b"), (("src/b", "src/main"), "src/b")],
    ids=["index", "main", "entry", "folder"],
)
def test_the_script_that_is_started(
    pipeline: Pipeline, language: str, names: tuple[str, str], entry: str | None
) -> None:
    suffix = TABLE[language].suffixes[0]
    texts = {f"{name}{suffix}": (SAYS[language] % number).encode() for name, number in zip(names, (42, 1), strict=True)}
    judged = judge(pipeline, language, dict(reversed(texts.items())), entry and entry + suffix)
    assert judged.verdict is Verdict.AC, (judged.result.reason, judged.result.compile_log, judged.result.tests)
