"""Compilers that end well and make no program: a compile error with a sentence, in every language that has such."""

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.files import in_memory
from judge.executor.slot.made import made_fault
from judge.executor.slot.pipeline import Pipeline
from judge.executor.slot.program import Program
from judge.languages.table import detect, load_table
from judge.model.messages import Limits, RunOptions, SourceFile, Submission, Verdict
from tests.support import packages
from tests.support.sandbox import AS_ROOT, language_pool

pytestmark = AS_ROOT

TABLE = load_table()
HERE = detect(TABLE)
UNIT = (
    "unit {name};\ninterface\nprocedure answer;\nimplementation\nprocedure answer;\nbegin\n  writeln(42)\nend;\nend.\n"
)
LIBRARY = "library main;\nprocedure answer;\nbegin\n  writeln(42)\nend;\nexports answer;\nbegin\nend.\n"
RUST = '#![crate_type = "{kind}"]\n#[no_mangle] pub extern "C" fn answer() {{ println!("42"); }}\n'
NOTHING = [
    *(("rust", RUST.format(kind=kind), "made no program") for kind in ("lib", "rlib", "dylib", "cdylib", "staticlib")),
    ("rust", '#![crate_type = "proc-macro"]\n', "made no program"),
    ("pascal", UNIT.format(name="main"), "there is no file /box/run"),
    ("pascal", LIBRARY, "is a library"),
    ("c", "int answer(void) { return 42; }", ""),
    ("cpp", "int answer() { return 42; }", ""),
    ("go", "package main\nfunc answer() int { return 42 }\n", ""),
    ("go", "package answer\nfunc Answer() int { return 42 }\n", ""),
    ("haskell", "module Solution (answer) where\nanswer :: Int\nanswer = 42\n", ""),
    ("csharp", "namespace N { class C { int x; } }", ""),
    ("gas", ".globl answer\nanswer: ret\n", ""),
    ("java", "public class Solution { int answer() { return 42; } }", "no class has a method main"),
    ("java", "public interface Solution { int answer(); }", "no class has a method main"),
    ("java", "// main\n", "there is no file /box/Main.class"),
]
OPTIONS = ["-c", "-S", "-E", "-fsyntax-only", "-shared", "-r"]
PROGRAMS = [[], ["-static"], ["-static-pie"], ["-no-pie"], ["-pie", "-fPIE"], ["-s"]]


@pytest.fixture(scope="module")
def pool():
    with language_pool("nothing-made") as pool:
        yield pool


@pytest.fixture
def judge(pool, work):
    pipeline = Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=work)

    def run(**fields):
        judged = pipeline.execute(packages.assigned(Submission(**fields))).completed
        return judged.verdict, judged.result.reason

    return run


@pytest.mark.parametrize(("language", "source", "words"), NOTHING)
def test_a_source_that_makes_no_program_is_a_compile_error(judge, language, source, words):
    if language not in HERE:
        pytest.skip(f"{language} is not installed")
    verdict, reason = judge(language=language, source=source)
    assert verdict is Verdict.CE, reason
    assert words in reason
    if words:
        assert reason.startswith("compilation failed: the compiler made no program: ")


@pytest.mark.parametrize("option", OPTIONS)
def test_options_that_make_no_program_are_a_compile_error(judge, option):
    verdict, reason = judge(language="c", source="int main(void) { return 0; }", options=RunOptions(compiler=[option]))
    assert verdict is Verdict.CE, reason


@pytest.mark.parametrize("options", PROGRAMS, ids=" ".join)
def test_every_kind_of_program_is_one(judge, options):
    fields = {"language": "c", "source": "int main(void) { return 0; }", "options": RunOptions(compiler=options)}
    assert judge(**fields) == (Verdict.AC, "")


def test_a_main_that_a_class_inherits_is_one(judge):
    files = {
        "Solution.java": "public class Solution extends Base { }",
        "Base.java": "class Base { public static void main(String[] words) { System.out.println(1); } }",
    }
    sources = [SourceFile.of(name, text.encode()) for name, text in files.items()]
    assert judge(language="java", files=sources, entry="Solution")[0] is Verdict.AC


def test_a_validator_that_is_no_program_is_the_judges_error(pool, work):
    pipeline = Pipeline(take=pool.take, tell=lambda _: None, table=TABLE, outputs=work)
    files = {
        "problem.yaml": "problem_format_version: 2025-09\nname: x\nuuid: 6a1f3c52-6a52-4d0e-9d43-0b6a5f1c1a07\n"
        "limits: {time_limit: 1}\n",
        "output_validator/check.pas": UNIT.format(name="check"),
        "data/secret/1.in": "1\n",
        "data/secret/1.ans": "1\n",
    }
    data = packages.load(packages.write(work / "package", files), work / "blobs")
    judged = pipeline.execute(packages.job(data, "python3", "print(1)")).completed
    assert judged.verdict is Verdict.JE
    assert "the output validator does not compile: the compiler made no program" in judged.result.reason


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [
        (b"", 0o755, "is no executable file"),
        (b"#!/bin/sh\n", 0o755, ""),
        (b"#!/bin/sh\n", 0o644, "is not executable"),
        (b"\x7fELF", 0o755, "is no executable file of this machine"),
        (b"\x7fELF\x02\x01" + b"\xff" * 58, 0o755, "is no executable file"),
        (b"\x7fELF\x02\x01" + b"\0" * 10 + b"\x03\0" + b"\xff" * 46, 0o755, "is a library"),
        (b"!<arch>\nx", 0o755, "is a library"),
        (b"MZ", 0o755, "is no executable file"),
    ],
)
def test_files_that_nobody_can_start(tmp_path, content, mode, words):
    path = tmp_path / "run"
    path.write_bytes(content)
    path.chmod(mode)
    program = Program({}, ["cc"], ["/box/run"], {}, Limits(), products=("run",))
    fault = made_fault(program, lambda _: os.open(path, os.O_RDONLY))
    assert fault == (f"made no program: /box/run {words}" if words else "")


@given(kind=st.sampled_from([1, 2, 3]), tail=st.binary(max_size=200), order=st.sampled_from([1, 2]))
def test_no_file_is_an_error_of_the_judge(kind, tail, order):
    program = Program({}, ["cc"], ["/box/run"], {}, Limits(), products=("run",))
    content = b"\x7fELF\x02" + bytes([order]) + bytes(10) + kind.to_bytes(2, "little" if order == 1 else "big") + tail

    def get(_):
        fd = in_memory("run")
        os.write(fd, content)
        return fd

    assert isinstance(made_fault(program, get), str)


def test_programs_of_this_machine_can_be_started(tmp_path):
    program = Program({}, ["cc"], ["/box/run"], {}, Limits(), products=("run",))
    for path in ("/bin/sh", "/bin/ls", "/usr/bin/python3"):
        assert made_fault(program, lambda _, path=path: os.open(path, os.O_RDONLY)) == ""
    library = subprocess.run(["gcc", "-print-file-name=libm.so.6"], capture_output=True, text=True, check=True)
    fault = made_fault(program, lambda _: os.open(library.stdout.strip(), os.O_RDONLY))
    assert fault == "made no program: /box/run is a library"
