"""Packages of other formats, some of whose files are damaged: each is read as its importer has it, or refused."""

import io
import json
import zipfile
from collections.abc import Mapping

_TESTS = {"1.in": b"1\n", "1.out": b"1\n", "2.in": b"2\n", "2.out": b"2\n"}


def packed(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


_PROBLEM_XML = b"""<?xml version="1.0" encoding="utf-8"?>
<problem short-name="x"><names><name language="english" value="X"/></names>
<judging run-count="1"><testset name="tests"><time-limit>1000</time-limit><memory-limit>268435456</memory-limit>
<test-count>2</test-count><input-path-pattern>tests/%02d</input-path-pattern>
<answer-path-pattern>tests/%02d.a</answer-path-pattern>
<tests><test sample="true" points="0"/><test points="5"/></tests></testset></judging>
<assets><checker type="testlib"><source path="check.cpp" type="cpp.g++17"/></checker>
<solutions><solution tag="main"><source path="main.cpp" type="cpp.g++17"/></solution></solutions></assets></problem>
"""
# A small package of each format, some of whose tests are still to be made; the seeds replace some of its files.
BASES: dict[str, dict[str, bytes]] = {
    "polygon": {
        "problem.xml": _PROBLEM_XML,
        "check.cpp": b'#include "testlib.h"\nint main() { quitp(1); }\n',
        "testlib.h": b"\n",
        "main.cpp": b"int main() {}\n",
        "statement-sections/english/legend.tex": b"Add.\n",
        **{f"tests/{name}": b"1\n" for name in ("01", "01.a", "02", "02.a")},
    },
    "dmoj": {
        "init.yml": b"archive: x.zip\ntest_cases:\n- {in: 1.in, out: 1.out, points: 5}\n- {in: 2.in, out: 2.out}\n",
        "x.zip": packed(_TESTS),
        "check.py": b"def check(process_output, judge_output, **kwargs):\n    return process_output == judge_output\n",
        "check.cpp": b"int main() {}\n",
    },
    "cms": {
        "task.yaml": b"name: x\ntitle: X\ntime_limit: 1\nmemory_limit: 64\nn_input: 2\n",
        **{f"input/input{number}.txt": b"1\n" for number in range(2)},
        **{f"output/output{number}.txt": b"1\n" for number in range(2)},
        "gen/GEN": b"#ST: 50\n1\n#ST: 50\n2\n",
        "sol/solution.cpp": b"int main() {}\n",
    },
    "tps": {
        "problem.json": json.dumps(
            {"code": "x", "name": "x", "type": "Batch", "time_limit": 1, "memory_limit": 64}
        ).encode(),
        "subtasks.json": b'{"subtasks": {"all": {"index": 0, "score": 100, "validators": []}}}',
        "tests/mapping": b"all 0-01\n",
        "tests/0-01.in": b"1\n",
        "tests/0-01.out": b"1\n",
        "solutions.json": b'{"a.cpp": {"verdict": "model_solution"}}',
        "solution/a.cpp": b"int main() {}\n",
    },
    "hydro": {
        "problem.yaml": b"pid: P1\ntitle: X\n",
        "problem.md": b"Add.\n",
        "testdata/config.yaml": b"time: 1s\nmemory: 64m\nchecker_type: testlib\nchecker: chk.cc\nsubtasks:\n"
        b"- {score: 40, type: min, cases: [{input: 1.in, output: 1.out}]}\n"
        b"- {score: 60, type: sum, if: [0], cases: [{input: 2.in, output: 2.out}]}\n",
        "testdata/chk.cc": b'#include "testlib.h"\nint main() {}\n',
        **{f"testdata/{name}": data for name, data in _TESTS.items()},
    },
    "uoj": {
        "problem.conf": b"use_builtin_judger on\nn_tests 2\nn_ex_tests 1\nn_sample_tests 1\ninput_pre \ninput_suf in\n"
        b"output_pre \noutput_suf out\nn_subtasks 2\nsubtask_end_1 1\nsubtask_score_1 40\nsubtask_end_2 2\n"
        b"subtask_score_2 60\nsubtask_type_2 min\nsubtask_dependence_2 1\n",
        "chk.cpp": b'#include "testlib.h"\nint main() { quitp(1); }\n',
        "ex_1.in": b"1\n",
        "ex_1.out": b"1\n",
        **_TESTS,
    },
    "syzoj": {
        "data.yml": b"subtasks:\n- {score: 40, type: sum, cases: [1]}\n- {score: 60, type: mul, cases: [1, 2]}\n"
        b"inputFile: '#.in'\noutputFile: '#.out'\nspecialJudge: {language: cpp, fileName: spj.cpp}\n"
        b"extraSourceFiles:\n- {language: cpp, files: [{name: spj.cpp, dest: a.h}]}\n",
        "spj.cpp": b"int main() {}\n",
        **_TESTS,
    },
    "directory": {
        **_TESTS,
        "sample1.in": b"3\n",
        "sample1.ans": b"3\n",
        "checker.cpp": b'#include "testlib.h"\nint main() {}\n',
        "testlib.h": b"\n",
        "sol.py": b"print(input())\n",
    },
}
# The same with tests that are still to be made. A target is called after its format, with a word behind it.
_LACKING = {
    "polygon": ("tests/02", "tests/01.a", "tests/02.a"),
    "cms": ("input/input0.txt", "input/input1.txt", "output/output0.txt", "output/output1.txt"),
    "tps": ("tests/mapping", "tests/0-01.in", "tests/0-01.out"),
    "dmoj": (),
}
_MAKING: dict[str, dict[str, bytes]] = {
    "polygon": {
        "problem.xml": _PROBLEM_XML.replace(
            b'<test points="5"/>', b'<test points="5" cmd="gen 1" from-file="2"/>'
        ).replace(
            b"<assets>",
            b'<files><executables><executable><source path="gen.cpp" type="cpp.g++17"/></executable></executables>'
            b"</files><assets>",
        ),
        "gen.cpp": b'#include "testlib.h"\nint main() {}\n',
    },
    "cms": {"gen/GEN": b"#ST: 50\n1 2\n#ST: 50\n#COPY: gen/a.txt\n", "gen/a.txt": b"1\n", "gen/generator.py": b"\n"},
    "tps": {
        "gen/data": b"@testset few\nmanual 1.in\n@subtask all\n@include few\ngen 1 2\n",
        "gen/gen.cpp": b"int main() {}\n",
        "gen/manual/1.in": b"1\n",
    },
    "dmoj": {
        "init.yml": b"generator: {source: gen.py, args: [1]}\ntest_cases:\n- {points: 5}\n"
        b"- {in: 1.in, generator_args: [2]}\n",
        "gen.py": b"print(1)\n",
        **_TESTS,
    },
}
_UNTESTED = {
    "problem.yaml": b"name: X\nlimits: {time_limit: 1}\n",
    "data/sample/1.in": b"1\n",
    "data/sample/1.ans": b"1\n",
    "submissions/accepted/a.py": b"print(input())\n",
    "generators/gen.py": b"print(1)\n",
    "data/gen.py": b"print(1)\n",
    "generators/a.in": b"1\n",
}
BASES |= {
    "package-generators": {
        **_UNTESTED,
        "generators/generators.yaml": b"solution: /submissions/accepted/a.py\nrandom_salt: x\ndata:\n"
        b"  sample: {data: {}}\n  secret:\n    testdata.yaml: {on_reject: break}\n"
        b"    data:\n    - one: gen.py {seed}\n    - two: {in: '2'}\n"
        b"      three: {copy: a}\n",
    },
    "package-script": {
        **_UNTESTED,
        "problem.yaml": b"name: X\ntype: scoring\nlimits: {time_limit: 1}\n",
        "data/gen.sh": b"#!/bin/bash\n. ../../testdata_tools/gen.sh\nuse_solution a.py\ncompile gen.py\nsamplegroup\n"
        b"sample 1\ngroup g1 40\ntc one gen n=1\nfor i in {2..3}; do\n  tc t$i gen n=$i\ndone\ngroup g2 60\n"
        b"include_group g1\ntc_manual ../generators/a.in\n",
    },
}
BASES |= {
    f"{name}-made": {path: data for path, data in {**BASES[name], **builder}.items() if path not in _LACKING[name]}
    for name, builder in _MAKING.items()
}
