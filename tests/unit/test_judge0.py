"""The parts of Judge0's API that are pure, and that every row of its page is tried."""

import base64
import codecs
import concurrent.futures
import datetime
import json
import re
import time
import uuid
from pathlib import Path

import flask
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from judge0.data import LANGUAGE_TO_LANGUAGE_ID
from pydantic import ValidationError

from judge.common import clock
from judge.common.errors import FieldError, TooLargeError
from judge.config import SubmissionLimits
from judge.executor.slot.program import plan
from judge.gateway.api import handing
from judge.gateway.judge0 import info, wire
from judge.gateway.judge0.calls import Counted
from judge.judge0 import answers, callbacks, fields, languages, program
from judge.judge0.tokens import task_of, token_of
from judge.judicator.tasks.intake import check
from judge.languages import handed
from judge.languages.table import load_table
from judge.model import messages as m

ROOT = Path(__file__).parents[2]
CE = languages.table("ce")
IDS = st.integers(0, 2**96 - 1).map(lambda number: f"{number:024x}")


def read_fields(**values: object) -> fields.Fields:
    """A submission of Python that was asked for."""
    return fields.read(
        {"language_id": 71, "source_code": "x", **values},
        CE,
        lambda row: row.judged({"python3", "c", "go"}),
        base64=False,
    )


def test_a_language_that_cannot_be_used_is_told_from_one_of_the_past() -> None:
    assert read_fields(language_id=4).faults == {
        "language_id": ["language with id 4 is archived and cannot be used anymore"]
    }
    assert read_fields(language_id=62).faults == {
        "language_id": [
            "language with id 62 (Java (OpenJDK 13.0.1)) is on no live executor; GET /languages lists those that are"
        ]
    }


def read_any(values: dict[str, object], **options: bool) -> fields.Fields:
    """With all languages."""
    return fields.read({"source_code": "x", **values}, CE, lambda _: True, base64=False, **options)


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded"])
def test_json_may_begin_with_a_byte_order_mark(kind: str) -> None:
    body = codecs.BOM_UTF8 + b'{"source_code": "x"}'
    with flask.Flask("x").test_request_context(method="POST", data=body, content_type=kind):
        assert wire.request_fields() == {"source_code": "x"}


def test_when_a_callback_is_over() -> None:
    assert all(callbacks.is_final(status, 1) for status in (200, 204, 301, 404, 410))
    assert not any(callbacks.is_final(status, callbacks.TRIES - 1) for status in (0, 408, 425, 429, 500, 503))
    assert callbacks.is_final(0, callbacks.TRIES)


def test_a_callback_says_of_a_problem_no_more_than_the_status() -> None:
    secret = m.TestResult(name="1", verdict=m.Verdict.RTE, signal=11, output="secret")
    result = m.Result(tests=[secret], failed_test="1", stdout="secret", compile_log="of the compiler")
    own = {"id": "0" * 24, "done": True, "status": "success", "verdict": "RTE", "result": result, "created": ""}
    for problem, number, visible in ((None, 7, True), ("hello", 11, False)):
        submission = {"language": "c", "source": "x", "problem": problem, "user": "ada"}
        body = callbacks.body(m.Task.model_validate({**own, "submission": submission}), b"")
        assert (json.loads(body)["status"]["id"], b"c2VjcmV0" in body) == (number, visible)


def submission_of(**values: object) -> m.Submission:
    return program.submission(read_fields(**values), handed.Bounds(), lambda data: f"{len(data):064x}")


def test_every_row_of_the_page_is_tried() -> None:
    page = (ROOT / "docs/judge0.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| ([A-Z]\d+) \|", page)
    tests = (ROOT / "tests/integration/test_judge0.py").read_text(encoding="utf-8")
    tried = {name for names in re.findall(r"@row\(([^)]*)\)", tests) for name in re.findall(r'"(\w+)"', names)}
    assert rows and len(rows) == len(set(rows)) and set(rows) <= tried


@given(IDS)
def test_a_token_is_a_uuid_that_names_its_task(task: str) -> None:
    token = token_of(task)
    assert uuid.UUID(token).version == 4 and uuid.UUID(token).variant == uuid.RFC_4122
    assert task_of(token) == task_of(token.upper()) == task


@given(st.uuids(version=4))
def test_another_uuid_names_no_task(token: uuid.UUID) -> None:
    task = task_of(str(token))
    assert task is None or token_of(task) == str(token)
    assert task_of(str(token).replace("-", "")) is task_of("x") is None


@given(st.binary(max_size=300))
def test_base64_comes_back_however_it_is_written(data: bytes) -> None:
    text = fields.encode_base64(data)
    assert fields.decode_base64(text) == fields.decode_base64(base64.b64encode(data).decode()) == data
    assert fields.decode_base64(base64.b64encode(data).decode().rstrip("=")) == data
    assert fields.decode_base64(f" {text}\r\n") == data and all(len(line) <= 60 for line in text.split("\n"))


@given(st.text())
def test_base64_never_fails(text: str) -> None:
    fields.decode_base64(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = [*fields.CONTENTS, *fields.NUMBERS, *fields.SWITCHES, *fields.SHORT_TEXTS, "language_id", "additional_files",
         "problem", "tests"]  # fmt: skip


# Numbers in their bounds, but for halves that are nothing once they are whole.
NEAR = st.fixed_dictionaries(
    {},
    optional={
        name: (inside := st.floats(rule.least, rule.most)) | inside.map(str) | inside.map(round)
        for name, rule in fields.NUMBERS.items()
    },
)


@given(st.just({}) | st.dictionaries(st.sampled_from(NAMES), JSON), NEAR)
@example({"callback_url": "\ud800", "stdin": "\ud800"}, {})
@example({"language_id": "\ud800"}, {})
def test_any_fields_have_faults_or_are_a_submission(values: dict[str, object], near: dict[str, object]) -> None:
    parsed = read_fields(**{**values, **near})
    if parsed.faults or parsed.archive is not None:
        assert all(isinstance(text, str) and text.encode() for texts in parsed.faults.values() for text in texts)
        return
    try:
        submission = program.submission(parsed, handed.Bounds(), lambda data: f"{len(data):064x}")
    except ValidationError as exc:
        odd = {str(error["loc"][0]) for error in exc.errors()}
    else:
        odd = set()
    # These are said of the field, as of our own API. Numbers have kept their bounds, which are not looser than ours.
    assert odd <= {"problem", "told"}
    if odd:
        return
    assert submission.told["number_of_runs"] == parsed.values["number_of_runs"]
    assert submission.language == "python3" or parsed.row is not CE[71]
    assert submission.model_dump_json(), "what goes to the judicators is Unicode"
    if parsed.problem is not None:
        assert (submission.tests, submission.options, submission.limits) == ([], None, m.LimitsOverride())
        return
    assert len(submission.tests) == (len(parsed.tests) or parsed.values["number_of_runs"]) > 0
    if not parsed.tests:
        without = {test.input is None and test.input_blob is None for test in submission.tests}
        assert without == {"stdin" not in parsed.contents}, "each run is given it"
    assert None not in submission.limits.model_dump().values()


@pytest.mark.parametrize(
    ("name", "value", "faults"),
    [
        ("wall_time_limit", 0.5, ["must be greater than or equal to 1"]),
        ("wall_time_limit", 20.5, ["must be less than or equal to 20.0"]),
        ("memory_limit", 512_001, ["must be less than or equal to 512000"]),
        ("number_of_runs", 0, ["must be greater than 0"]),
        ("number_of_runs", 0.5, ["must be greater than 0"]),
        ("number_of_runs", "0.999", ["must be greater than 0"]),
        ("number_of_runs", 1.5, []),
        ("number_of_runs", 20.5, ["must be less than or equal to 20"]),
        ("number_of_runs", 1e300, ["must be less than or equal to 20"]),
        ("number_of_runs", "1e999", ["is not a number"]),
        ("number_of_runs", -1e300, ["must be greater than 0"]),
        ("max_processes_and_or_threads", 0.5, ["must be greater than 0"]),
        ("memory_limit", 2047.9, ["must be greater than or equal to 2048"]),
        ("stack_limit", -0.5, ["must be greater than or equal to 0"]),
        ("max_file_size", 0.5, []),
        ("cpu_time_limit", "x", ["is not a number"]),
        ("cpu_time_limit", float("nan"), ["is not a number"]),
        ("cpu_time_limit", None, []),
        ("max_file_size", True, ["is not a number"]),
    ],
)
def test_bounds(name: str, value: object, faults: list[str]) -> None:
    assert read_fields(**{name: value}).faults.get(name, []) == faults


# As Judge0's page has them: its defaults and bounds. `above`: the least itself is not taken.
BOUNDS = [
    # field, default, least, above, most
    ("number_of_runs", 1, 0, True, 20),
    ("cpu_time_limit", 5, 0, False, 15),
    ("cpu_extra_time", 1, 0, False, 5),
    ("wall_time_limit", 10, 1, False, 20),
    ("memory_limit", 128_000, 2048, False, 512_000),
    ("stack_limit", 64_000, 0, False, 128_000),
    ("max_processes_and_or_threads", 60, 0, True, 120),
    ("max_file_size", 1024, 0, False, 4096),
]


def test_every_number_has_bounds() -> None:
    assert [name for name, *_ in BOUNDS] == list(fields.NUMBERS)


@pytest.mark.parametrize(("name", "default", "minimum", "above", "maximum"), BOUNDS)
def test_defaults_and_bounds_are_judge0s(name: str, default: int, minimum: int, above: bool, maximum: int) -> None:
    assert read_fields().values[name] == read_fields(**{name: ""}).values[name] == default
    for value in (minimum + 1 if above else minimum, str(maximum)):
        assert read_fields(**{name: value}).values[name] == float(value) and read_fields(**{name: value}).faults == {}
        assert submission_of(**{name: value}).told[name] == float(value), "ours take what Judge0's take"
    for value in (minimum if above else minimum - 0.01, maximum + 0.01, f"{maximum + 1}"):
        assert list(read_fields(**{name: value}).faults) == [name]


def test_limits_in_our_units() -> None:
    submission = submission_of(cpu_time_limit=0, memory_limit=2048, stack_limit=0, max_file_size=64, wall_time_limit=3)
    limits = submission.limits
    assert (limits.cpu, limits.wall, limits.memory, limits.output) == (15.0, 3.0, 4 * 1024**2, 64 * 1024)
    assert (limits.stack, limits.processes) == (128_000 * 1024, 60)
    assert submission_of(max_file_size=0, stack_limit=1).limits.output == 4096 * 1024


def test_arguments_are_parted_as_a_shell_does_and_never_reach_one() -> None:
    assert program.words(" a 'b  c' $(id);x > y `z` ") == ["a", "b  c", "(id)x", "y", "z"]
    assert program.words("it's") == ["it's"]
    submission = submission_of(command_line_arguments="a 'b c'")
    assert submission.options.arguments == ["a", "b c"]


@pytest.mark.parametrize(
    ("language", "options", "passed"),
    [
        (50, "-Wall -o a.out -O0", "-Wall -O0"),
        (54, "-oa.out -std=c++17 -o", "-std=c++17"),
        (54, "-o -o -lm", "-lm"),
        (73, "-C debuginfo=0 -o main", "-C debuginfo=0"),
        (61, "-odir /tmp -o main -O1", "-odir /tmp -O1"),
        (67, "-omain -O1", "-O1"),
        (51, "-o+ -out:Main.exe", "-o+"),
        (62, "-d . -Xlint", "-Xlint"),
        (86, "-o x", "-o x"),
    ],
)
def test_the_compilers_output_option_is_dropped(language: int, options: str, passed: str) -> None:
    """Row P17."""
    parsed = read_any({"language_id": language, "compiler_options": options})
    submission = program.submission(parsed, handed.Bounds(), str)
    assert (submission.options.compiler, submission.told["compiler_options"]) == (passed.split(), options)


def test_the_page_of_languages_fits_the_sdk_and_our_table() -> None:
    table = load_table(None)
    for flavour, version in info.VERSIONS.items():
        rows = languages.table(flavour)
        assert set(LANGUAGE_TO_LANGUAGE_ID[version].values()) <= set(rows)
        assert {row.row for row in rows.values() if row.row} <= set(table)
        assert all(row.file for row in rows.values() if row.row or row.kind in {"text", "executable"})
        for row in rows.values():
            languages.command(row)


def test_a_source_lies_in_the_box_under_judge0s_name_for_it() -> None:
    table = load_table(None)
    for row in CE.values():
        if row.row is None or table[row.row].entry != "file":
            continue
        parsed = read_any({"language_id": row.id})
        planned = plan(program.submission(parsed, handed.Bounds(), str), m.Limits(), table)
        assert (list(planned.files), planned.env["HOME"][:1]) == ([row.file], "/")
        words = " ".join([*planned.run, *(planned.compile or []), *planned.env.values()])
        assert row.file == table[row.row].source_name or f"/box/{table[row.row].source_name}" not in words, row
    prolog = read_any({"language_id": 69})
    planned = plan(program.submission(prolog, handed.Bounds(), str), m.Limits(), table)
    assert (list(planned.files), (planned.compile or [])[-1]) == (["main.pro"], "/box/main.pro"), "GNU's suffix"
    of_a_problem = submission_of(problem="sums", source_code="x")
    assert list(plan(of_a_problem, m.Limits(), table).files) == ["main.py"], "graders may know it"
    plain = m.Submission(language="python3", source="x", filename="a.py")
    assert list(plan(plain, m.Limits(), table).files) == ["main.py"]
    assert list(plan(plain.model_copy(update={"entry": "a.py"}), m.Limits(), table).files) == ["a.py"]
    for odd in ("-a.py", "a:b.py", "a.txt"):
        renamed = plain.model_copy(update={"filename": odd, "entry": odd})
        assert list(plan(renamed, m.Limits(), table).files) == ["main.py"], odd


def test_a_form_may_have_a_list() -> None:
    first, second = {"source_code": "a", "language_id": "71"}, {"source_code": "b"}
    for keys in (("[]", "[]", "[]"), ("[0]", "[0]", "[1]"), ("[7]", "[7]", "[9]"), ("[1]", "[1]", "[0]")):
        names = ("source_code", "language_id", "source_code")
        pairs = [
            (f"submissions{key}[{name}]", text) for key, name, text in zip(keys, names, ["a", "71", "b"], strict=True)
        ]
        expected = [second, first] if keys[2] == "[0]" else [first, second]
        assert wire.nested([("wait", "no"), *pairs, ("wait", "true")]) == {"wait": "true", "submissions": expected}, (
            keys
        )
    for odd in ("submissions[", "submissions[]", "submissions[x][stdin]", "[][a]", "submissions[][a][b]"):
        assert wire.nested([(odd, "1")]) == {odd: "1"}


def test_a_form_of_very_many_objects_or_fields_takes_no_time() -> None:
    started = time.process_time()
    objects = wire.nested([("s[][a]", "")] * 100_000)
    assert len(objects["s"]) == 100_000
    assert time.process_time() - started < 5, "each is looked at once; with all before it, it would be minutes"
    with (
        flask.Flask("x").test_request_context(query_string="a&" * 5_000),
        pytest.raises(wire.Judge0RefusalError) as caught,
    ):
        wire.query_fields()
    assert "there are more than 5000 fields" in str(caught.value)


# Parts of forms without a name, as curl and fuzzers can send them: none, of a file, and one whose quotes do not end.
NAMELESS = ["", '; filename="x"', '; name="a\\"']


@pytest.mark.parametrize("parameters", NAMELESS)
def test_a_part_of_a_form_without_a_name_is_a_refusal(parameters: str) -> None:
    part = f"--b\r\nContent-Disposition: form-data{parameters}\r\n\r\n1\r\n"
    request = {"method": "POST", "data": f"{part}--b--\r\n", "content_type": "multipart/form-data; boundary=b"}
    with flask.Flask("x").test_request_context(**request), pytest.raises(FieldError, match="has a part without a name"):
        handing.submission(SubmissionLimits())
    if "filename" not in parameters:  # files of a form are left alone there
        with (
            flask.Flask("x").test_request_context(**request),
            pytest.raises(wire.Judge0RefusalError, match="a part of the form has no name"),
        ):
            wire.request_fields()


def test_a_language_may_run_by_judge0s_own_command() -> None:
    def sql(**values: object) -> m.Submission:
        parsed = fields.read(
            {"language_id": 82, "source_code": "select 1;", **values}, CE, lambda _: True, base64=False
        )
        return program.submission(parsed, handed.Bounds(), str)

    submission = sql(command_line_arguments="-header 'a b'")
    assert (submission.language, [file.name for file in submission.files]) == ("sqlite", ["script.sql"])
    assert submission.command == "cd /scratch && /bin/cat script.sql | /usr/bin/sqlite3 db.sqlite -header 'a b'"
    assert (submission.options.alone, submission.options.arguments) == (True, [])
    check(submission, SubmissionLimits(), languages=["sqlite"], source_bytes=1024)
    with pytest.raises(FieldError, match="command: is given together with a language"):
        check(submission.model_copy(update={"told": {}}), SubmissionLimits(), languages=["sqlite"], source_bytes=1024)
    assert sql(problem="sums").command is None, "the problem says how it is run"


def test_of_additional_files_all_are_kept_but_hidden_ones() -> None:
    """Row P4; of what people hand in themselves, files that tools leave behind are left out."""
    inner = handed.pack({"x": b"1"})
    plain = {"a.txt~": b"1", "__pycache__/m.pyc": b"2", "lib/Thumbs.db": b"3", "data.zip": inner}
    packed = handed.pack({**plain, ".env": b"4", "lib/.git/config": b"5", "__MACOSX/._a": b"6"})
    submission = submission_of(additional_files=base64.b64encode(packed).decode())
    assert {file.name: file.data for file in submission.files} == {**plain, "script.py": b"x"}
    assert submission.told["language_id"] == 71
    archive = handed.pack({"a.txt~": b"1", "__pycache__/m.pyc": b"2", "b.py": b"3"})
    assert list(handed.gather([("x.zip", archive)])) == ["b.py"]
    with pytest.raises(FieldError, match="is an archive in the archive"):
        handed.gather([("x.zip", handed.pack({"data.zip": inner}))])


def test_additional_files_may_be_more_than_other_sources() -> None:
    files = [m.SourceFile.of("a.bin", b"\1" * 300_000), m.SourceFile.of("script.py", b"x")]
    submission = submission_of().model_copy(
        update={"files": files, "source": None, "filename": None, "entry": "script.py"}
    )
    check(submission, SubmissionLimits(), languages=["python3"], source_bytes=128 * 1024)
    for changes in ({"told": {}}, {"problem": "sums", "tests": [], "options": None, "limits": m.LimitsOverride()}):
        changed = submission.model_copy(update=changes)
        with pytest.raises(TooLargeError) as caught:
            check(changed, SubmissionLimits(), languages=["python3"], source_bytes=128 * 1024)
        assert caught.value.field == "files"


def test_statistics_have_thirty_days_before_today_and_the_statuses_that_occur() -> None:
    """Row N3, as Judge0's own code has it: the newest day first, and what there is most of."""
    days = {"2026-03-01": 4, "2026-02-28": 2, "2026-01-30": 3, "2026-01-29": 9}
    counts = info.SubmissionCounts(18, {3: 5, 11: 7, 1: 6}, {CE[71]: 8, CE[50]: 10}, days, 5 * 1024)
    statistics = info.statistics(counts, datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC))
    last = statistics["submissions"]["last_30_days"]
    assert (statistics["submissions"]["total"], statistics["submissions"]["today"]) == (18, 4)
    assert list(last) == sorted(last, reverse=True) and len(last) == 30
    assert (max(last), min(last), sum(last.values())) == ("2026-02-28", "2026-01-30", 5)
    assert [(row["status"]["id"], row["count"]) for row in statistics["statuses"]] == [(11, 7), (1, 6), (3, 5)]
    assert statistics["statuses"][0]["status"]["name"] == "Runtime Error (NZEC)"
    assert [(row["language"]["id"], row["count"]) for row in statistics["languages"]] == [(50, 10), (71, 8)]
    assert statistics["database"] == {"size_pretty": "5 kB", "size_in_bytes": 5120}


@pytest.mark.parametrize(("value", "text"), [(0, "0.0"), (0.0174, "0.017"), (5, "5.0"), (1.25, "1.25"), (10.0, "10.0")])
def test_decimals(value: float, text: str) -> None:
    assert answers.number(value) == text


def test_fields_by_name() -> None:
    assert answers.fields_of(None) == (answers.DEFAULT, [])
    assert answers.fields_of("token, status") == (["token", "status"], [])
    every, unknown = answers.fields_of("*,verdict,nothing")
    assert set(every) - {"verdict", "nothing"} == set(answers.ALL) and unknown == ["nothing"]
    # The SDK sets every field that comes with `*` on a model that knows these alone.
    from judge0.submission import FIELDS, SKIP_FIELDS

    assert set(answers.ALL) <= FIELDS | SKIP_FIELDS | {"post_execution_filesystem"}


def test_statistics_are_counted_once_in_some_seconds_for_each_caller(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    counted, calls = Counted(), []

    def count(name):
        calls.append(name)
        time.sleep(0.1)
        return {"name": name}

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda n: counted.of(f"u{n % 2}", lambda: count(n % 2)), range(16)))
    assert [result["name"] for result in results] == [n % 2 for n in range(16)] and sorted(calls) == [0, 1]
    now[0] = 5.1
    assert counted.of("u0", lambda: count("again")) == {"name": "again"} and len(calls) == 3
