"""Which file is for which test, where outputs are handed in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.problems import answers
from judge.problems.answers import outputs_for, refusal

TESTS = ["sample/1", "secret/easy/1", "secret/easy/2", "secret/hard/1"]


@pytest.mark.parametrize(
    ("tests", "files", "expected"),
    [
        (["secret/1"], ["anything.txt"], {"secret/1": "anything.txt"}),
        (["sample/1", "secret/1"], ["answer"], {"secret/1": "answer"}),
        (["secret/1", "secret/2"], ["anything.txt"], {}),
        (["secret/01", "secret/02"], ["01.out", "02.ans"], {"secret/01": "01.out", "secret/02": "02.ans"}),
        (["secret/01"], ["01.ans", "01.out", "01.txt", "01"], {"secret/01": "01.out"}),
        (["secret/01", "secret/02"], ["02", "README.md"], {"secret/02": "02"}),
        (["secret/000"], ["output_000.txt"], {"secret/000": "output_000.txt"}),
        (["secret/a.b"], ["a.b", "a.b.out"], {"secret/a.b": "a.b.out"}),
        (TESTS, ["easy/1.out", "hard/1.out"], {"secret/easy/1": "easy/1.out", "secret/hard/1": "hard/1.out"}),
        (TESTS, ["1.out"], {"secret/easy/1": "1.out", "secret/hard/1": "1.out"}),
        (TESTS, ["sample/1.out"], {"sample/1": "sample/1.out"}),
        (TESTS, ["data/secret/easy/2.ans"], {"secret/easy/2": "data/secret/easy/2.ans"}),
        (TESTS, ["1.out", "secret/hard/1.ans"], {"secret/easy/1": "1.out", "secret/hard/1": "secret/hard/1.ans"}),
        (["sample/1", "secret/2"], ["1.out", "2.out"], {"sample/1": "1.out", "secret/2": "2.out"}),
        (TESTS, ["hard/2.out", "asy/1.out"], {}),
        (TESTS, ["hard/2.out"], {}),
        (TESTS, ["my/hard/2.out"], {}),
        (TESTS, ["my/easy/1.out"], {"secret/easy/1": "my/easy/1.out"}),
        (["secret/1", "secret/2"], ["my answers/1.out"], {"secret/1": "my answers/1.out"}),
        (["secret/1", "secret/2"], ["a/b/1.out", "a/b/2.txt"], {"secret/1": "a/b/1.out", "secret/2": "a/b/2.txt"}),
        (["secret/1", "secret/2"], ["a/1.out", "b/2.out"], {}),
        (["secret/1", "secret/2"], ["a/1.out", "2.out"], {"secret/2": "2.out"}),
        (["secret/1"], ["a/anything"], {"secret/1": "a/anything"}),
        (TESTS, [], {}),
    ],
)  # fmt: skip
def test_files_and_tests(tests, files, expected):
    assert outputs_for(tests, files) == expected
    assert outputs_for(tests, files[::-1]) == expected


NAME = st.from_regex(r"[a-c0-2]{1,2}(/[a-c0-2]{1,2}){0,2}(\.out|\.ans|\.txt)?", fullmatch=True)


@given(st.lists(NAME.map("secret/{}".format), unique=True, max_size=6), st.lists(NAME, unique=True, max_size=6))
def test_every_file_belongs_to_a_test_with_its_ending(tests, files):
    matches = outputs_for(tests, files)
    assert set(matches) <= set(tests) and set(matches.values()) <= set(files)
    if len(tests) > 1:
        for test, name in matches.items():
            stem = name.rpartition(".")[0] if "." in name else name
            assert f"/{test}".endswith((f"/{stem}", f"/{name}"))
    for test in tests:
        assert outputs_for([test, "secret/other test"], [f"{test}.out", "zz"])[test] == f"{test}.out"


def test_each_test_costs_a_lookup_and_no_scan_of_all_files(monkeypatch):
    calls = 0

    def counted(name, preferred=answers._preferred):
        nonlocal calls
        calls += 1
        return preferred(name)

    monkeypatch.setattr(answers, "_preferred", counted)
    tests = [f"{kind}/{n}/1" for n in range(1000) for kind in ("sample", "secret")]
    files = [f"a{n}/1.out" for n in range(100)] + [f"1.{n}" for n in range(100)]
    assert len(outputs_for(tests, files)) == 1000
    assert calls <= 4 * 3 * len(files)


def test_files_without_a_test_are_refused_with_the_expected_names():
    tests = ["sample/1", *(f"secret/{number}" for number in range(1, 8))]
    assert refusal(tests, ["my/1.out"]) == refusal([], ["x"]) == ""
    assert refusal(tests, ["html.zip"]) == (
        "are for no test of the problem ('html.zip'); call each output after its test: "
        "1.out, 2.out, 3.out, 4.out, 5.out and 2 more"
    )
    assert "a.out" in refusal(["secret/easy/a", "secret/b"], ["x"])
    sentence = refusal(tests, [f"x{number}" for number in range(100)])
    assert len(sentence) < 300
