"""Submissions of several files: names, archives and directories, what is compiled and started, the checks of Add."""

import base64
import io
import random
import stat
import struct
import time
import tracemalloc
import unicodedata
import zipfile
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from judge.common import clock
from judge.common.errors import FieldError, JudgeError, TooLargeError, UnfitError
from judge.config import SubmissionLimits
from judge.executor.slot.program import plan
from judge.gateway.api import handing
from judge.judicator.tasks import forms, intake
from judge.languages import handed, sources
from judge.languages.table import Language, load_table
from judge.model.messages import Limits, SourceFile, Submission
from judge.model.names import name_fault

TABLE = load_table()
LIMITS = SubmissionLimits()
MIB = 1024**2


def zipped(*entries: tuple[str | zipfile.ZipInfo, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in entries:
            archive.writestr(name, data, method)
    return target.getvalue()


def refusal(call) -> str:
    with pytest.raises(JudgeError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message and message.isprintable() and len(message) < 400, message
    return message


@pytest.mark.parametrize(
    "name",
    ["main.cpp", "src/app/Main.java", "main (1).cpp", "Größe.java", "решение.py", "a+b.c++", "x", "日本.py", "a'b.c"],
)
def test_names_that_people_use(name: str) -> None:
    assert name_fault(name) == ""
    assert SourceFile(name=name, text="x").name == name


@pytest.mark.parametrize(
    "name",
    ["", "/etc/passwd", "../x.c", "a/../../x.c", "a//b.c", "a/", "./a.c", ".bashrc", "a/.git/b", "-o", "a/-x", "C:x.c",
     "C:\\x.c", "a\\b.c", "a\0.c", "a\n.c", "a\u202eb.c", "a\ud800.c", "x" * 256, "ü" * 128,
     "a .c ", " a.c", "a*.c", "a?"],
)  # fmt: skip
def test_names_that_may_not_be(name: str) -> None:
    with pytest.raises((ValidationError, ValueError)):
        SourceFile(name=name, text="x")
    assert name_fault(name) and "\n" not in name_fault(name)


@given(st.text(max_size=300))
def test_a_name_that_is_taken_stays_below_its_folder(name: str) -> None:
    if not name_fault(name):
        place = Path("/box") / name
        assert place.is_relative_to("/box") and ".." not in place.parts and place.as_posix() == f"/box/{name}"
        assert all(len(part.encode()) <= 255 for part in place.parts)


@given(st.binary(max_size=200))
def test_contents_are_kept_byte_by_byte(data: bytes) -> None:
    file = SourceFile.of("a.c", data)
    assert file.data == data
    assert SourceFile.model_validate_json(file.model_dump_json()).data == data
    assert handed.gather([("x.zip", handed.pack({"a.c": data}))]) == {"a.c": data}


def test_an_archive_keeps_folders_and_drops_what_tools_leave() -> None:
    data = zipped(
        ("src/app/Main.java", b"class Main {}\r\n"), ("src/", b""), ("__MACOSX/src/._Main.java", b"x"),
        (".DS_Store", b"x"), (".git/config", b"x"), ("a.c~", b"x"), ("__pycache__/a.pyc", b"x"), ("./b.c", b""),
        ("cafe\u0301.py", b"\xff"),
    )  # fmt: skip
    files = handed.gather([("x.ZIP", data)])
    assert files == {"src/app/Main.java": b"class Main {}\r\n", "b.c": b"", "café.py": b"\xff"}


def test_names_of_old_packers() -> None:
    """Windows packs with backslashes; a Mac writes UTF-8 and does not say so."""
    data = zipped(("src!a.c", b"1")).replace(b"src!a.c", b"src\\a.c")
    assert handed.gather([("x.zip", data)]) == {"src/a.c": b"1"}
    plain = zipped(("GrXXsse.java", b"1")).replace(b"GrXXsse", "Grüsse".encode())
    assert handed.gather([("x.zip", plain)]) == {"Grüsse.java": b"1"}


def link(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    return entry


def encrypted() -> bytes:
    data = bytearray(zipped(("a.c", b"1")))
    for signature, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(signature) + place] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (zipped(("../x.c", b"1")), "'..' in its path"),
        (zipped(("/etc/passwd", b"1")), "absolute path"),
        (zipped(("a/../../x.c", b"1")), "'..' in its path"),
        (zipped((link("a.c"), b"/etc/shadow")), "is a link"),
        (zipped(("b.zip", zipped(("a.c", b"1")))), "archive in the archive"),
        (zipped(("a.c", b"1"), ("b.c", b"2")).replace(b"b.c", b"a.c"), "name of two files"),
        (zipped(("a.c", b"1"), method=zipfile.ZIP_LZMA), "packed by an unusual method"),
        (encrypted(), "is encrypted"),
        (zipped(("a.c", b"1"))[:-10], "is no ZIP archive"),
        (zipped(("a.c", bytes(9 * MIB))), "bytes together"),
        (zipped(*((f"{n}.c", b"") for n in range(1001))), "more than 1000"),
        (b"PK\3\4" + bytes(MIB), "at most 1048576"),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else value,
)  # fmt: skip
def test_archives_that_are_refused(data: bytes, sentence: str) -> None:
    message = refusal(lambda: handed.gather([("x.zip", data)]))
    assert sentence in message and message.startswith("files: ")


def test_a_hundred_thousand_entries_are_refused_unread() -> None:
    data = zipped(*((f"{n}", b"") for n in range(100_000)))
    assert "at most 1048576" in refusal(lambda: handed.gather([("x.zip", data)]))
    junk = zipped(*((f".{n}", b"") for n in range(10_001)))
    assert len(junk) < MIB and "more than 10000 entries" in refusal(lambda: handed.gather([("x.zip", junk)]))


def test_entries_are_counted_before_an_object_is_made_for_each() -> None:
    """The largest archive that is taken, of nothing but entries without names."""
    bounds = handed.Bounds(bytes=4 * MIB, archive=6 * MIB)
    count = bounds.archive // 46 - 10
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", 20, 3, 20, *[0] * 15)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count % 65536, count % 65536, len(entry) * count, 0, 0)
    data = b"PK\x03\x04" + entry * count + end
    tracemalloc.start()
    begin = time.process_time()
    assert "more than 10000 entries" in refusal(lambda: handed.gather([("x.zip", data)], bounds))
    assert handed.unpack(data, 10**9) == {}
    spent, peak = time.process_time() - begin, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(data) and spent < 0.5


def test_a_file_that_is_longer_than_the_archive_says() -> None:
    data = zipped(("a.c", b"x" * 1000))
    for signature, place in ((b"PK\3\4", 22), (b"PK\1\2", 24)):
        at = data.index(signature) + place
        data = data[:at] + struct.pack("<I", 10) + data[at + 4 :]
    assert "files: " in refusal(lambda: handed.gather([("x.zip", data)]))


def test_a_name_of_any_length_is_refused_at_once() -> None:
    """To compose it takes the square of its length: a name of 200 KB, some minutes in which nothing else ran."""
    marks = "a" + "\u0316\u0300" * 50_000
    begin = clock.monotonic()
    for name in (f"{marks}.c", f"{marks}/a.c"):
        assert "longer than 255 bytes" in refusal(lambda: handed.gather([(name, b"x")]))  # noqa: B023
    assert clock.monotonic() - begin < 5


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=255))
def test_every_form_of_a_name_is_the_same_name(text: str) -> None:
    name = unicodedata.normalize("NFC", text)
    if not name_fault(name):
        longest = unicodedata.normalize("NFD", name)
        assert [*handed.gather([(longest, b"x")])] == [name]


@given(st.data())
def test_a_damaged_archive_is_one_sentence(data: st.DataObject) -> None:
    good = bytearray(zipped(("a.c", b"int main(){}" * 9), ("b/c.h", b"#define X")))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(4, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        files = handed.gather([("x.zip", bytes(good))])
    except JudgeError as exc:
        message = str(exc)
        if "\n" in message:
            pytest.fail(message)
    else:
        assert all(not name_fault(name) for name in files)


def test_a_directory_in_name_order_without_what_tools_leave(work: Path) -> None:
    for name in ("b/z.py", "a.py", ".git/config", "__pycache__/a.pyc", "main.py~"):
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_bytes(name.encode())
    (work / "inner.py").symlink_to("a.py")
    assert list(handed.read_directory(work)) == ["a.py", "b/z.py", "inner.py"]
    for target in ("/etc/passwd", "/etc"):
        (work / "outside").symlink_to(target)
        assert "leads out" in refusal(lambda: handed.read_directory(work))
        (work / "outside").unlink()


def program(files: dict[str, bytes], **options: str) -> Submission:
    return Submission(**handed.program(files, TABLE, **options))


def test_one_text_is_a_source_and_all_else_are_files() -> None:
    assert program({"src/a.c": b"int x;\r\n"}).model_dump(exclude_defaults=True) == {
        "language": "c", "source": "int x;\r\n", "filename": "a.c",
    }  # fmt: skip
    latin = program({"a.c": b"// caf\xe9\n"})
    assert latin.source is None and latin.files[0].data == b"// caf\xe9\n"
    two = program({"a.c": b"", "a.h": b""}, entry="a.c", filename="two.zip")
    assert (two.language, two.entry, two.filename, len(two.files)) == ("c", "a.c", "two.zip", 2)


@pytest.mark.parametrize(
    ("names", "entry", "language"),
    [
        (["a.cpp", "b.cc", "a.h", "Makefile"], None, "cpp"),
        (["a.c", "b.cpp"], None, "cpp"),
        (["b.c", "a.h"], None, "c"),
        (["main.py", "native.c"], "main.py", "python3"),
        (["src/main.py", "native.c"], "main.py", "python3"),
        (["src/Main.java", "lib/A.java"], None, "java"),
    ],
)
def test_the_language_by_the_names(names: list[str], entry: str | None, language: str) -> None:
    assert handed.guess_language(names, TABLE, entry) == language


@pytest.mark.parametrize(
    ("names", "sentence"), [(["a.c", "b.py"], "could be c or python3"), (["x", "README"], "cannot be told from 'x'")]
)
def test_a_language_that_cannot_be_told(names: list[str], sentence: str) -> None:
    assert sentence in refusal(lambda: handed.guess_language(names, TABLE))


def test_nothing_is_no_program() -> None:
    assert "files: are none" in refusal(lambda: program({}))


MAIN = b"public class %s { public static void main(String[] a) {} }"


@pytest.mark.parametrize(
    ("language", "files", "entry", "main", "started", "compiled"),
    [
        ("python3", {"lib.py": b"", "main.py": b""}, None, "main.py", "main", 2),
        ("python3", {"lib.py": b"", "__main__.py": b""}, None, "__main__.py", "__main__", 2),
        ("python3", {"sol/lib.py": b"", "sol/Main.py": b"", "data.txt": b""}, None, "sol/Main.py", "Main", 2),
        ("python3", {"b.py": b"", "a.py": b""}, None, "b.py", "b", 2),
        ("python3", {"b.py": b"", "a.py": b""}, "a.py", "a.py", "a", 2),
        ("python3", {"b.py": b"", "x/a.py": b"", "a.txt": b""}, "a", "x/a.py", "a", 2),
        ("cpp", {"a.h": b"", "a.cpp": b"", "b.cc": b"", "c.c": b""}, None, "a.cpp", "a", 3),
        ("c", {"a.h": b"", "b.c": b""}, None, "b.c", "b", 1),
        ("java", {"a/Lib.java": b"package a; class Lib {}", "Main.java": MAIN % b"Main"}, None, "Main.java", "Main", 2),
        ("java", {"app/Go.java": b"package app; " + MAIN % b"Go"}, None, "app/Go.java", "app.Go", 1),
        ("java", {"A.java": MAIN % b"A", "B.java": MAIN % b"B"}, None, "A.java", "A", 2),
        ("java", {"A.java": MAIN % b"A", "p/B.java": b"package p; " + MAIN % b"B"}, "B", "p/B.java", "p.B", 2),
        ("java", {"A.java": MAIN % b"A", "p/B.java": b"package p; " + MAIN % b"B"}, "p.B", "p/B.java", "p.B", 2),
        ("java", {"A.java": MAIN % b"A", "B.java": MAIN % b"B"}, "B.java", "B.java", "B", 2),
        ("java", {"A.java": MAIN % b"A", "Main.java": MAIN % b"Main"}, None, "Main.java", "Main", 2),
        ("java", {"A.java": "class Größe { void main() {} }".encode(), "B.java": b""}, None, "A.java", "Größe", 2),
        ("kotlin", {"u.kt": b"package x\nfun f() = 1", "m.kt": b"package x\nfun main() {}"}, None, "m.kt", "x.MKt", 2),
        ("kotlin", {"u.kt": b'@file:JvmName("Go")\nfun main() {}', "m.kt": b""}, None, "u.kt", "Go", 2),
        ("kotlin", {"u.kt": b"object App { @JvmStatic fun main(a: X) {} }", "m.kt": b""}, None, "u.kt", "App", 2),
        ("rust", {"geo.rs": b"pub fn f() {}", "start.rs": b"mod geo;\nfn main() {}"}, None, "start.rs", "start", 2),
        ("haskell", {"Lib.hs": b"module Lib where", "Go.hs": b"module Main where\nmain = x"}, None, "Go.hs", "Go", 2),
        ("pascal", {"u.pas": b"unit u;", "p.pas": b"  Program p;"}, None, "p.pas", "p", 2),
    ],
)  # fmt: skip
def test_the_entry_of_a_program(
    language: str, files: dict[str, bytes], entry: str | None, main: str, started: str, compiled: int
) -> None:
    chosen = sources.choose(files, TABLE[language], entry)
    assert (chosen.main, chosen.entry, len(chosen.sources)) == (main, started, compiled)
    assert chosen.sources[0] == main


@given(
    st.dictionaries(st.sampled_from(["a.java", "b/B.java", "m.kt", "y", "z.c"]), st.binary(max_size=60), min_size=1),
    st.sampled_from(sorted(TABLE)), st.none() | st.text(max_size=12),
)  # fmt: skip
def test_something_is_always_started(files: dict[str, bytes], language: str, entry: str | None) -> None:
    plan = TABLE[language].plan_files(files, 64 * MIB, entry)
    assert plan.source_name in files
    assert all("{sources}" not in word for word in [*(plan.compile or []), *plan.run])


def test_the_placeholders_of_several_files() -> None:
    row = Language(
        title="X", source_name="a.x", suffixes=[".x"], version_command=["/x"],
        compile=["/x", "{sources}", "-I{directory}"], run=["/x", "{source}"], env={"LIB": "{directory}"},
    )  # fmt: skip
    plan = row.plan_files({"d/m.x": b"", "e.x": b"", "f.h": b""}, MIB)
    assert plan.compile == ["/x", "/box/d/m.x", "/box/e.x", "-I/box/d"]
    assert (plan.run, plan.env) == (["/x", "/box/d/m.x"], {"LIB": "/box/d"})
    assert row.outputs() == set() and TABLE["c"].outputs() == {"run"} and TABLE["csharp"].outputs() == {"run.exe"}


def files(**contents: str) -> list[dict[str, str]]:
    return [{"name": name.replace("_", "."), "text": text} for name, text in contents.items()]


def check(source_bytes: int = 128 * 1024, **fields: object) -> None:
    submission = Submission.model_validate(fields)
    intake.check(submission, LIMITS, languages=set(TABLE), source_bytes=source_bytes)


GOOD = {"language": "c", "files": files(a_c="int main(){}", a_h="")}


@pytest.mark.parametrize(
    "fields",
    [
        GOOD,
        {**GOOD, "entry": "a.c", "problem": "hello", "filename": "a.zip"},
        {"language": "java", "files": files(A_java="class A {}", B_java=""), "entry": "app.A"},
        {"command": "sh x.sh", "files": files(x_sh="true")},
        {"language": "groovy", "files": files(Main_groovy="println 1", Lib_groovy="class Lib {}")},
        {"language": "c", "files": [{"name": "a.c", "base64": "/w=="}]},
        {"language": "c", "files": [{"name": f"{n}.c", "text": "x"} for n in range(100)]},
        {"language": "c", "files": [{"name": "A.c", "text": "x"}, {"name": "a.c", "text": "x"}]},
        {"language": "c", "files": files(a_c="x" * 200_000, b_c="x" * 60_000)},
        {"language": "python3", "files": [{"name": "run/x.py", "text": "x"}, {"name": "y.bin", "base64": "/wA="}]},
    ],
)
def test_accepted_submissions(fields: dict[str, object]) -> None:
    check(**fields)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({**GOOD, "source": "x"}, "files"),
        ({"language": "c", "files": [{"name": f"{n}.c", "text": "x"} for n in range(101)]}, "files"),
        ({"language": "c", "files": files(a_c="x", b_c="x") + files(a_c="y")}, "files.2.name"),
        ({"language": "c", "files": [{"name": "a.c"}]}, "files.0"),
        ({"language": "c", "files": [{"name": "a.c", "text": "", "base64": ""}]}, "files.0"),
        ({"language": "c", "files": [{"name": "a.c", "base64": "?"}]}, "files.0.base64"),
        ({"language": "c", "files": [{"name": "a.c", "text": "x"}, {"name": "a.c/b.c", "text": "x"}]}, "files.1.name"),
        ({"language": "c", "files": [{"name": "a.c", "text": "x"}, {"name": "run/b.c", "text": "x"}]}, "files.1.name"),
        ({"language": "c", "files": files(a_c="", b_c=" \n")}, "files"),
        ({"language": "c", "files": files(a_py="x", b_py="x")}, "files"),
        ({"language": "c", "files": files(a_c="\0", b_c="x")}, "files.0"),
        ({**GOOD, "entry": "b.c"}, "entry"),
        ({"language": "java", "files": files(A_java="x"), "entry": "no class"}, "entry"),
        ({"command": "true", "files": files(a="x"), "entry": "a"}, "entry"),
        ({"files": files(a_c="x")}, "language"),
    ],
)  # fmt: skip
def test_a_refusal_names_its_field(fields: dict[str, object], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        check(**fields)
    assert caught.value.field == field
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source_bytes", "size"), [(128 * 1024, 256 * 1024 + 1), (1000, 1001), (1024**2, 256 * 1024 + 1)]
)
def test_the_limit_of_all_files_together(source_bytes: int, size: int) -> None:
    """A problem's own limit counts; where its package asks for none, the cluster's."""
    fields = {"language": "c", "files": files(a_c="x" * (size // 2), b_c="x" * (size - size // 2))}
    with pytest.raises(TooLargeError, match=f"have {size} bytes together, the limit is {size - 1}"):
        check(source_bytes, **fields)


def test_the_digest_is_of_all_fields() -> None:
    first = Submission.model_validate(GOOD)
    keyed = Submission.model_validate({**GOOD, "idempotency_key": "k"})
    changed = Submission.model_validate({"language": "c", "files": files(a_c="int main(){ }", a_h="")})
    entered = Submission.model_validate({"language": "c", "files": files(a_c="int main(){}", a_h=""), "entry": "a.c"})
    digests = [forms.digest(submission) for submission in (first, keyed, changed, entered)]
    assert digests[0] == digests[1] and len(set(digests)) == 3


_NAMES = st.lists(
    st.sampled_from(["main.c", "a/b.c", "u\u0308.h", "\u00fc.c", "data.bin", "C.java"]), min_size=1, unique=True
)


@given(_NAMES, st.binary(max_size=20), st.randoms(use_true_random=False), st.sampled_from(["C", "c", "gcc"]))
def test_the_digest_ignores_the_form_of_the_files(
    names: list[str], data: bytes, chance: random.Random, language: str
) -> None:
    """As JSON, in another order, decomposed, as Base64, or as a form or an archive makes a submission of them."""
    contents = {name: data + bytes([65 + place]) for place, name in enumerate(names)}
    plain = {"language": "c", "files": [SourceFile.of(name, content) for name, content in contents.items()]}
    turned = list(contents.items())
    chance.shuffle(turned)
    shuffled = {
        "language": language,
        "filename": "x.zip",
        "files": [
            {"name": unicodedata.normalize(chance.choice(["NFC", "NFD"]), name), "base64": base64.b64encode(content)}
            for name, content in turned
        ],
    }
    gathered = handed.program(handed.gather(turned), load_table(None), language="c", filename=None)
    gathered = {key: value for key, value in gathered.items() if value is not None}
    submissions = [Submission.model_validate(fields) for fields in (plain, shuffled, gathered)]
    assert len({forms.digest(submission) for submission in submissions}) == 1
    changed = {**plain, "files": [*plain["files"][1:], SourceFile.of(names[0], data + b"other")]}
    assert forms.digest(Submission.model_validate(changed)) != forms.digest(submissions[0])
    composed = handed.composed(submissions[1])
    assert {file.name: file.data for file in composed.files} == {
        unicodedata.normalize("NFC", name): content for name, content in contents.items()
    }


def test_one_file_is_its_source() -> None:
    """`source` and `files` are one submission; the folder of an output counts, as it says which test it is for."""
    source = Submission(language="c", source="int main(){}", filename="a.c")
    for changes in ({}, {"entry": "a.c"}):
        submission = Submission.model_validate({"language": "c", "files": files(a_c="int main(){}"), **changes})
        assert forms.digest(submission) == forms.digest(source)
    renamed = Submission(language="c", source="int main(){}", filename="b.c")
    assert forms.digest(renamed) != forms.digest(source)
    outputs = [
        Submission.model_validate({"problem": "x", "files": [{"name": name, "text": "1"}]})
        for name in ("1.out", "a/1.out")
    ]
    assert forms.digest(outputs[0]) != forms.digest(outputs[1])
    assert handed.program({"a/1.out": b"1"}, load_table(None), answers=True)["files"][0].name == "a/1.out"


@pytest.mark.parametrize("field", ["entry.x", "filename.x", "language.x", "entry_point.x", ".x"])
@pytest.mark.parametrize("files", [False, True])
def test_only_limits_have_inner_fields(field: str, files: bool) -> None:
    parts = {"files": (io.BytesIO(b"print(1)"), "a.py")} if files else {}
    with (
        Flask(__name__).test_request_context("/", method="POST", data={field: "1", **parts},
                                             content_type="multipart/form-data"),
        pytest.raises(FieldError, match="is not a known field"),
    ):  # fmt: skip
        handing.submission(LIMITS)


def test_an_archive_whose_entry_lies_beyond_all_files_is_refused() -> None:
    data = zipped(("a.py", b"print(1)"))
    at = data.index(b"PK\x01\x02")
    extra = struct.pack("<HHQ", 1, 8, 2**63)
    length = struct.unpack_from("<H", data, at + 28)[0]
    entry = bytearray(data[at : at + 46 + length])
    struct.pack_into("<H", entry, 30, len(extra))
    struct.pack_into("<I", entry, 42, 0xFFFFFFFF)
    end = bytearray(data[data.index(b"PK\x05\x06") :])
    struct.pack_into("<I", end, 12, len(entry) + len(extra))
    damaged = data[:at] + bytes(entry) + extra + bytes(end)
    assert "no ZIP archive that can be read" in refusal(lambda: handed.gather([("a.zip", damaged)]))


def test_an_entry_is_for_executors_that_know_of_it() -> None:
    assert forms.wants_of(Submission(language="java", source="x", entry="app.Main")) == ["files"]
    assert forms.wants_of(Submission(language="java", source="x")) == []


def test_a_shells_program_has_the_line_ends_of_unix():
    submission = handed.composed(Submission(language="bash", source="if true\r\nthen echo 1\r\nfi\r\n"))
    assert submission.source == "if true\nthen echo 1\nfi\n"
    files = [SourceFile.of("a.sh", b"echo\r\n"), SourceFile.of("b.sh", b"echo\r\n")]
    assert [file.text for file in handed.composed(Submission(language="bash", files=files)).files] == ["echo\n"] * 2
    assert handed.composed(Submission(language="c", source="a\r\n")).source == "a\r\n"


@pytest.mark.parametrize(
    ("fields", "log"),
    [
        ({"source": "x", "filename": "err.c"}, "err.c:1:2: error, amain.c main.cc"),
        ({"files": [SourceFile.of("my/err.c", b"x")]}, "my/err.c:1:2: error, amain.c main.cc"),
        ({"source": "x", "filename": "a\n.c"}, "/box/main.c:1:2: error, amain.c main.cc"),
        ({"source": "x"}, "/box/main.c:1:2: error, amain.c main.cc"),
    ],
)
def test_a_compiler_names_the_only_source_as_its_author_does(fields: dict[str, Any], log: str) -> None:
    program = plan(Submission(language="c", **fields), Limits(), TABLE)
    assert program.named("/box/main.c:1:2: error, amain.c main.cc") == log


PARTS = st.lists(st.sampled_from(["a", "b", "lib", "x.h"]), min_size=1, max_size=3).map("/".join)


@given(own=st.sets(PARTS, min_size=2, max_size=4), include=st.sets(PARTS, max_size=4))
def test_conflicting_names_are_refused(own: set[str], include: set[str]) -> None:
    assume(sources.name_conflict(include, ()) is None)
    files = {*own, *include}
    conflict = any(file.startswith(f"{folder}/") for file in files for folder in files)
    submission = Submission(problem="p", language="c", files=[{"name": f"{name}", "text": "x"} for name in sorted(own)])
    limits = {"languages": ["c"], "source_bytes": 1000, "include": {"c": sorted(include), "default": ["a/b/x.h"]}}
    beside = dict.fromkeys(include, b"")
    if conflict:
        assert "; rename your f" in refusal(lambda: intake.check(submission, LIMITS, **limits))
        with pytest.raises(UnfitError):
            plan(submission, Limits(), TABLE, beside)
        return
    try:
        intake.check(submission, LIMITS, **limits)
    except FieldError as exc:
        assert "have no source in C" in str(exc)  # noqa: PT017 - both outcomes are right
    plan(submission, Limits(), TABLE, beside)
