"""Descriptions of inputs: what each command takes and refuses, and the program that goes into the sandbox."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.problems import checktestdata
from judge.problems.checktestdata import DescriptionError, check
from judge.problems.package import read_package
from tests.support import packages

# A description, inputs that are as described, and inputs that are not, with what is said of them.
CASES: dict[str, tuple[str, list[str], dict[str, str]]] = {
    "numbers in a line": (
        "INT(1,5,n) NEWLINE REP(n, SPACE) INT(-10,10) END NEWLINE # and no more\n",
        ["1\n0\n", "3\n-10 0 10\n"],
        {
            "0\n\n": "line 1, character 1: expected a whole number from 1 to 5, found '0\\n\\n'",
            "2\n1 2": "line 2, character 4: expected '\\n', found the end",
            "2\n1  2\n": "line 2, character 3: expected a whole number, found ' 2\\n'",
            "2\n1 2 \n": "expected '\\n'",
            "2\n1 2\n\n": "line 3, character 1: expected the end",
            "02\n1 2\n": "expected a whole number",
            "2\n-0 2\n": "expected a whole number",
            "2\n+1 2\n": "expected a whole number",
            "2\r\n1 2\n": "expected '\\n'",
        },
    ),
    "numbers of any size": ("INT(0,10^40)", ["1" + "0" * 40, "0"], {"1" + "0" * 39 + "1": "from 0 to", "-1": "from 0"}),
    "a loop that counts, and values by place": (
        "INT(1,9,n) NEWLINE REPI(i,n,SPACE) INT(0,9,a[i]) END NEWLINE ASSERT(UNIQUE(a) && a[0] < a[n-1])",
        ["2\n0 1\n", "3\n1 2 3\n"],
        {"3\n1 2 1\n": "that UNIQUE ( a ) && a [ 0 ] < a [ n - 1 ]", "2\n2 1\n": "expected that"},
    ),
    "pairs": (
        "REP(3) INT(0,9,x) SPACE INT(0,9,y) SET(p[k]=x,q[k]=y,k=k+1) NEWLINE END ASSERT(UNIQUE(p,q))".replace(
            "REP(3)", "SET(k=0) REP(3)"
        ),
        ["1 1\n1 2\n2 1\n"],
        {"1 1\n1 2\n1 1\n": "that UNIQUE"},
    ),
    "while": (
        'WHILE(!ISEOF) IF(MATCH("+-")) REGEX("[+-]",s) ELSE SET(s="+") END INT(0,9) NEWLINE END',
        ["", "1\n", "+1\n-2\n3\n"],
        {"*1\n": "expected a whole number", "++1\n": "expected a whole number"},
    ),
    "while, counted, with separators": (
        'WHILEI(i, !MATCH("\\n"), STRING(", ")) INT(i,i) END NEWLINE',
        ["\n", "0\n", "0, 1, 2\n"],
        {"0, 2\n": "from 1 to 1"},
    ),
    "texts": (
        'REGEX("[a-z]+",w) SPACE STRING("x\\t\\"\\101") ASSERT(STRLEN(w) <= 3 || w == "long") EOF',
        ['ab x\t"A', 'long x\t"A'],
        {'abcd x\t"A': "that STRLEN", 'ab x\t"B': "expected 'x\\t\"A'", 'Ab x\t"A': "what matches [a-z]+"},
    ),
    "floats": (
        "FLOAT(0,1.5)", ["0", "1.5", "15e-1", "0.50"], {"1.6": "from 0 to 1.5", ".5": "a number", "01": "the end"},
    ),
    "fixed": (
        "FLOAT(-1,1,x,FIXED) ASSERT(x != 0.5)",
        ["-1.0"],
        {"1e0": "the end", "0.50": "that x", "-0.0": "a zero without a sign"},
    ),
    "scientific": ("FLOAT(0,100,x,SCIENTIFIC)", ["1.5e+1", "15e0"], {"15": "a number", "05e0": "a number"}),
    "decimals": ("FLOATP(0,9,1,2)", ["1.5", "1.55"], {"1": "1 to 2 decimals", "1.555": "1 to 2 decimals"}),
    "arithmetic": (
        ("SET(a=-7/2,b=-7%3,c=2^3^2-(1+2)*3,d=7/2.0,e=-2^2)"
        "ASSERT(a == -3 && b == -1 && c == 55 && d == 3.5 && e == -4)"),
        [""],
        {},
    ),
    "brackets around tests and values": (
        "INT(0,9,a) ASSERT((a > 3 && (a+1) < 9) || !(a != 0))", ["4", "0"], {"2": "that", "8": "that"},
    ),
    "classes of letters": ('REGEX("[[:upper:]][[:alnum:]_]*")', ["Ab1_"], {"ab": "what matches"}),
    "in an array": ("SET(p[1]=2,p[2]=3) INT(0,9,a) ASSERT(INARRAY(a,p)) UNSET(p)", ["2", "3"], {"1": "that INARRAY"}),
    "blocks in blocks": (
        ("INT(1,9,n) NEWLINE REP(n) INT(0,9,m) "
        'REP(m) SPACE IF(m == 1) STRING("one") ELSE INT(2,2) END END NEWLINE END'),
        ["2\n0\n1 one\n", "1\n2 2 2\n"],
        {"1\n2 2 one\n": "a whole number"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_inputs_are_checked_against_their_description(name: str) -> None:
    source, good, bad = CASES[name]
    for text in good:
        assert check(source, text) == ""
    for text, sentence in bad.items():
        message = check(source, text)
        assert message.startswith("line ") and sentence in message, (text, message)


@pytest.mark.parametrize(
    ("source", "text", "sentence"),
    [
        ("INT(1,2", "1", "expected ')', found 'the end'"),
        ("NUMBER(1,2)", "1", "'NUMBER' is no command"),
        ("REP(2) SPACE", "  ", "a block has no END"),
        ("SPACE END", " ", "'END' closes nothing"),
        ("ASSERT(n > 1)", "", "'n' has no value here"),
        ('ASSERT("a" < 1)', "", "a text and a number are compared"),
        ('SET(a="x"+1)', "", "'+' is not for texts"),
        ("SET(a=1/0)", "", "a division by 0"),
        ("SET(a=2^(10^9))", "", "'^' takes whole numbers"),
        ('REGEX("(")', "", "is no regular expression"),
        ("INT(1,2) ~", "1", "line 1: '~' cannot be read"),
        ("SET(" + "a=" + "(" * 5000 + "1", "", "nested too deeply"),
        ("ASSERT(UNIQUE(a,b))" + " " + "SET(a=1)", "", None),
        ("SET(a[1]=1,b=1) ASSERT(UNIQUE(a,b))", "", "have not the same places"),
    ],
)
def test_descriptions_at_fault(source: str, text: str, sentence: str | None) -> None:
    if sentence is None:
        assert check(source, text) == ""
        return
    with pytest.raises(DescriptionError) as caught:
        check(source, text)
    assert sentence in str(caught.value)


@given(st.lists(st.lists(st.integers(-(10**20), 10**20), min_size=1), min_size=1), st.data())
def test_tables_of_numbers(rows: list[list[int]], data: st.DataObject) -> None:
    source = "INT(1,10^6,n) NEWLINE REP(n) INT(1,10^6,m) SPACE REP(m,SPACE) INT(-10^20,10^20) END NEWLINE END"
    text = f"{len(rows)}\n" + "".join(f"{len(row)} {' '.join(map(str, row))}\n" for row in rows)
    assert check(source, text) == ""
    place = data.draw(st.integers(0, len(text)))
    assert check(source, text[:place] + data.draw(st.sampled_from("x +\t")) + text[place:]), "one letter too many"


@given(st.text(alphabet='INTREPASSERT(),;n1 \n"+-*/^[]&|!<=>#', max_size=60))
def test_any_description_is_checked_or_refused(source: str) -> None:
    with contextlib.suppress(DescriptionError):
        assert check(source, "1").isprintable()


def test_the_program_that_goes_into_the_sandbox(tmp_path: Path) -> None:
    for name, data in {**checktestdata.program(), "x.ctd": b"INT(1,5)\nNEWLINE\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    for text, code, sentence in (
        (b"5\n", 42, ""),
        (b"6\n", 43, "x.ctd: line 1, character 1: expected a whole number from 1 to 5"),
    ):
        command = [sys.executable, str(tmp_path / checktestdata.MAIN)]
        process = subprocess.run(command, input=text, capture_output=True, check=False, cwd="/")
        assert process.returncode == code and sentence in process.stderr.decode()
    (tmp_path / "x.ctd").write_bytes(b"INT(")
    command = [sys.executable, str(tmp_path / checktestdata.MAIN)]
    process = subprocess.run(command, input=b"1", capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (1, b"x.ctd: expected a name, found 'the end'\n")


def test_a_description_is_an_input_validator_of_a_package(tmp_path: Path) -> None:
    files: packages.Files = {
        "problem.yaml": "name: X\nlimits: {time_limit: 1}\nconstants: {most: 5}\n",
        "data/secret/1.in": "1\n",
        "data/secret/1.ans": "1\n",
        "input_validators/x.ctd": "INT(1,{{most}}) NEWLINE\n",
        "input_format_validators/deep/y.ctd": "INT(1,9) NEWLINE\n",
        "input_validators/z.py": "",
    }
    with read_package(packages.write(tmp_path / "sum", files)) as package:
        programs = {validator.name: validator for validator in package.manifest.input_validators}
        assert set(programs) == {"x.ctd", "y.ctd", "z"}
        validator = programs["x.ctd"]
        assert (validator.language, validator.main) == ("python3", checktestdata.MAIN)
        assert set(validator.files) == {"x.ctd", *checktestdata.program()}
        assert package.read(validator.files["x.ctd"]) == b"INT(1,5) NEWLINE\n", "constants are put in"
        assert not any("ctd" in note or "deep" in note for note in package.notes)
