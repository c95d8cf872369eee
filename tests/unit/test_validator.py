"""The default output validator: the format's rules as a table, laws as properties, hostile outputs with a clock."""

import math
import resource
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.common.errors import PackageError
from judge.problems import validator
from judge.problems.validator import Validation, excerpt, number, parse_flags, validate
from tests.support.examples import at_least

CASE = ["case_sensitive"]
SPACE = ["space_change_sensitive"]
E6 = ["float_tolerance", "1e-6"]

ACCEPTED = [
    (b"", b"", []),
    (b" \n\t", b"", []),
    (b"1 2 3", b"1\n2\n\n3\n", []),
    (b"1\r\n2\r\n", b"1\n2\n", []),
    (b"\v1\f2", b"1 2", []),
    (b"YES", b"yes", []),
    (b"\xc3\x84", b"\xc3\x84", []),
    (b"YES", b"YES\n", CASE),
    (b"1  2\n", b"1  2\n", SPACE),
    (b"Yes  2\n", b"yes  2\n", SPACE),
    (b"3.1400001", b"3.14", E6),
    (b"3.14000000e-2", b"0.0314", E6),
    (b"1000001", b"1000000", ["float_relative_tolerance", "1e-6"]),
    (b"1.5", b"1", ["float_absolute_tolerance", "0.5"]),
    (b"1.", b"1", E6),
    (b".5", b"0.5", E6),
    (b"+1E+0", b"1", E6),
    (b"-0", b"0", E6),
    (b"1", b"1.0", ["float_tolerance", "0"]),
    (b"NaN", b"nan", E6),
    (b"inf", b"Inf", E6),
    (b"1e999", b"1E999", E6),
    (b"0x10", b"0X10", E6),
    (b"x 1.0000001 Y", b"X 1 y", E6),
    (b"1.0 2", b"1 2", [*SPACE, *E6]),
    (b"0." + b"1" * 30, b"0.1111111111", E6),
    (b"1.25", b"1", ["float_absolute_tolerance", "0.1", "float_relative_tolerance", "0.25"]),
]
REJECTED = [
    (b"", b"1", [], "the output is empty, more is expected"),
    (b" \n", b"1", [], "the output has no tokens, more is expected"),
    (b"1 2", b"1 2 3", [], "the output ends after token 2, more is expected"),
    (b"1 2\n3", b"1 2", [], "line 2, token 3: unexpected '3' after the end of the expected output"),
    (b"1 2\n4 5", b"1 2\n3 5", [], "line 2, token 3: '4' is wrong"),
    (b"12", b"1 2", [], "line 1, token 1: '12' is wrong"),
    (b"YES", b"yes", CASE, "line 1, token 1: 'YES' is wrong"),
    (b"\xc3\xa4", b"\xc3\x84", [], "line 1, token 1: 'ä' is wrong"),
    (b"1 2\n", b"1  2\n", SPACE, "line 1: the blank space differs"),
    (b"1\n2", b"1\n2\n", SPACE, "line 2: the blank space differs"),
    (b" 1", b"1", SPACE, "line 1: the blank space differs"),
    (b"1\t2", b"1 2", SPACE, "line 1: the blank space differs"),
    (b"1\r\n2", b"1\n2", SPACE, "line 1: the blank space differs"),
    (b"\n", b"", SPACE, "line 1: the blank space differs"),
    (b"3.15", b"3.14", E6, "line 1, token 1: '3.15' is outside the tolerance"),
    (b"1.0", b"1", [], "line 1, token 1: '1.0' is wrong"),
    (b"nan", b"1", E6, "line 1, token 1: expected a number, found 'nan'"),
    (b"1", b"nan", E6, "line 1, token 1: '1' is wrong"),
    (b"inf", b"1e300", E6, "line 1, token 1: expected a number, found 'inf'"),
    (b"1e999", b"1e300", E6, "line 1, token 1: expected a number, found '1e999'"),
    (b"0x1p3", b"8", E6, "line 1, token 1: expected a number, found '0x1p3'"),
    (b"1_0", b"10", E6, "line 1, token 1: expected a number, found '1_0'"),
    (b"1,5", b"1.5", E6, "line 1, token 1: expected a number, found '1,5'"),
    (b"\xd9\xa1", b"1", E6, "line 1, token 1: expected a number, found '\u0661'"),
    (b"1.25", b"1", ["float_relative_tolerance", "0.2"], "line 1, token 1: '1.25' is outside the tolerance"),
    (b"0.0000001", b"0", ["float_relative_tolerance", "1"], "line 1, token 1: '0.0000001' is outside the tolerance"),
    (b"-1e308", b"1e308", E6, "line 1, token 1: '-1e308' is outside the tolerance"),
    (b"42\x00junk", b"42", [], "line 1, token 1: '42\\x00junk' is wrong"),
    (b"1.0  2", b"1 2", [*SPACE, *E6], "line 1: the blank space differs"),
]


@pytest.mark.parametrize(("output", "answer", "flags"), ACCEPTED)
def test_accepted(output: bytes, answer: bytes, flags: list[str]):
    assert validate(output, answer, flags) == Validation(accepted=True)


@pytest.mark.parametrize(("output", "answer", "flags", "message"), REJECTED)
def test_rejected(output: bytes, answer: bytes, flags: list[str], message: str):
    result = validate(output, answer, flags)
    assert not result.accepted and result.message == message and result.detail.startswith(message)


def test_only_the_detail_quotes_the_answer():
    secret = b"secret"
    for output in (b"", b"1", b"1 2", b"x y"):
        result = validate(output, b"1 " + secret, [])
        assert "secret" not in result.message
    assert "expected 'secret'" in validate(b"1 2", b"1 " + secret, []).detail
    assert "next is 'secret'" in validate(b"1", b"1 " + secret, []).detail
    assert validate(b"1 2", b"1\n2", SPACE).detail.endswith("expected the end of the line, found a space")
    assert validate(b"1", b"1\v", SPACE).detail.endswith("expected byte 11, found the end")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["float_tolerance"], "flag float_tolerance needs a tolerance such as 1e-6 after it, found nothing"),
        (["float_tolerance", "case_sensitive"], "found 'case_sensitive'"),
        (["float_tolerance", "-1"], "found '-1'"),
        (["float_tolerance", "nan"], "found 'nan'"),
        (["float_tolerance", "1e999"], "found '1e999'"),
        (["float_tolerance", "\udcff"], "flag float_tolerance needs a tolerance"),
        (["case-sensitive"], "the default validator has no flag 'case-sensitive'; it has case_sensitive, "),
        (["1e-6"], "has no flag '1e-6'"),
    ],
)
def test_bad_flags(flags: list[str], sentence: str):
    with pytest.raises(PackageError) as caught:
        parse_flags(flags)
    assert sentence in str(caught.value)
    with pytest.raises(PackageError):
        validate(b"same", b"same", flags)


def test_contradicting_tolerances_are_an_error_in_the_current_format_only():
    pair = ["float_tolerance", "1e-6", "float_absolute_tolerance", "1e-3"]
    assert (parse_flags(pair).relative, parse_flags(pair).absolute) == (1e-6, 1e-3)
    for flags in (pair, [*pair[2:], *pair[:2]], [*pair[:2], *pair[:2]]):
        with pytest.raises(PackageError, match="contradicts a tolerance given before it"):
            parse_flags(flags, strict=True)
    fine = ["float_relative_tolerance", "1e-6", "float_absolute_tolerance", "1e-3", "case_sensitive"]
    assert parse_flags(fine, strict=True).absolute == 1e-3


def test_excerpts_are_short_and_printable():
    for token in (b"\x1b[31m" * 30, bytes(range(256)), "\u202e\u200bא".encode() * 20, b"\xff" * 10**6):
        text = excerpt(token)
        assert text.isprintable() and len(text) <= 41
    assert excerpt(b"plain") == "plain"


# --- laws ------------------------------------------------------------------------------------------------------

TOKENS = st.lists(
    st.sampled_from([b"0", b"1", b"-1.5", b"1e3", b"a", b"A", b"nan", b"\xff", b"\0", b"2.50"]), max_size=30
)
BLANKS = st.text(" \t\n\r\v\f", min_size=1, max_size=4).map(str.encode)
FLAGS = st.sampled_from([[], CASE, SPACE, E6, [*CASE, *SPACE], [*SPACE, *E6], ["float_absolute_tolerance", "0.5"]])
FUZZ = settings(max_examples=at_least(400), deadline=2000)


def spread(tokens: list[bytes], blanks: list[bytes]) -> bytes:
    """Tokens with blanks between (and before) them."""
    return b"".join((blanks[place % len(blanks)] if blanks else b" ") + token for place, token in enumerate(tokens))


def reference(output: bytes, answer: bytes, flags: list[str]) -> bool:
    """The rules once more, as short as they can be said."""
    rules = parse_flags(flags)
    tokens, right = output.split(), answer.split()
    if len(tokens) != len(right):
        return False
    for token, theirs in zip(tokens, right, strict=True):
        want = number(theirs) if rules.numbers else None
        if want is not None:
            have = number(token)
            if have is None:
                return False
            gap = abs(have - want)
            if not (gap <= (rules.absolute or 0) or gap <= (rules.relative or 0) * abs(want)):
                return False
        elif (token if rules.case_sensitive else token.lower()) != (theirs if rules.case_sensitive else theirs.lower()):
            return False
    if not rules.space_change_sensitive:
        return True
    blanks = [validator._WORD.split(text) for text in (output, answer)]
    return blanks[0] == blanks[1]


@FUZZ
@given(TOKENS, TOKENS, st.lists(BLANKS, max_size=3), st.lists(BLANKS, max_size=3), FLAGS, st.integers(1, 40))
def test_agrees_with_the_rules_said_shortly(first, second, blanks, gaps, flags, window):
    before = validator._WINDOW
    validator._WINDOW = window  # so that short texts have many windows
    try:
        for output, answer in (
            (spread(first, blanks), spread(first, gaps)),
            (spread(first, blanks), spread(second, blanks)),
            (spread(first, blanks), spread([*first, *second], blanks)),
            (spread([*first, *second], blanks), spread(first, blanks)),
        ):
            assert validate(output, answer, flags).accepted == reference(output, answer, flags)
    finally:
        validator._WINDOW = before


@FUZZ
@given(st.binary(max_size=200), st.binary(max_size=200), FLAGS)
def test_any_bytes_are_judged_and_described(output, answer, flags):
    result = validate(output, answer, flags)
    assert result.accepted == reference(output, answer, flags)
    assert result.accepted == (result.message == "") == (result.detail == "")
    assert result.message.isprintable() and len(result.message) < 200 and result.detail.isprintable()


_DIGITS = "0123456789+-.eE_x²½٣Ⅷ一\uff10\u3007\u202e\ufeff\u00a0\u2003\x00\n nanif"


@FUZZ
@given(st.text(_DIGITS, max_size=40) | st.text(max_size=40), st.text(_DIGITS, max_size=40), FLAGS)
def test_any_two_texts_are_judged_whatever_else_calls_itself_a_digit(output, answer, flags):
    result = validate(output.encode("utf-8", "surrogatepass"), answer.encode(), flags)
    assert result.message.isprintable() and result.detail.isprintable()


@FUZZ
@given(st.text(_DIGITS, max_size=12))
def test_only_decimal_numbers_in_ascii_are_numbers(token):
    assert number(token.encode()) is None or token.isascii()


@FUZZ
@given(st.lists(st.sampled_from(["case_sensitive", "float_tolerance"]) | st.text(_DIGITS, max_size=9), max_size=3))
def test_any_flags_are_taken_or_refused_in_a_sentence(flags):
    try:
        parse_flags(flags)
    except PackageError as exc:
        message = str(exc)
        assert message.isprintable()


@FUZZ
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_in_every_common_notation_are_the_same(value):
    for text in (f"{value!r}", f"{value:.17e}", f"{value:+.17E}"):
        assert number(text.encode()) == value
        assert validate(text.encode(), repr(value).encode(), ["float_tolerance", "0"]).accepted


@FUZZ
@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1), st.floats(-3, 3))
def test_the_tolerance_is_a_bound(value, epsilon, factor):
    flags = ["float_absolute_tolerance", repr(epsilon)]
    moved = value + factor * epsilon
    gap = abs(moved - value)
    assert validate(repr(moved).encode(), repr(value).encode(), flags).accepted == (gap <= epsilon)


@FUZZ
@given(st.binary(max_size=40) | st.text("0123456789+-.eE", max_size=12).map(str.encode))
def test_numbers_are_finite_or_none(token):
    value = number(token)
    assert value is None or math.isfinite(value)
    if value is not None:
        assert float(token) == value


# --- hostile outputs -------------------------------------------------------------------------------------------

SIZE = 8 * 1024**2
HOSTILE = {
    "NUL bytes": (b"\0" * SIZE, b"1", []),
    "one line of one token": (b"a" * SIZE, b"A" * SIZE, []),
    "only newlines": (b"\n" * SIZE, b"1", []),
    "right, then blanks": (b"1" + b" " * SIZE, b"1", []),
    "four million tokens": (b"1 " * (SIZE // 2), b"1\n" * (SIZE // 2), []),
    "a million numbers": (b"1.250 " * 10**6, b"1.25\n" * 10**6, E6),
    "wrong at the very end": (b"12 " * (SIZE // 3) + b"x", b"12\n" * (SIZE // 3) + b"y", []),
    "one number of 8 MiB": (b"1" * SIZE, b"1", E6),
    "long numbers": ((b"1." + b"3" * 5000 + b" ") * 1600, b"1.3333333333333 " * 1600, E6),
    "tokens of very different sizes": ((b"0" * 5990 + b"1 ") * 1400, b"1 " * (SIZE // 2), E6),
    "nearly a number": (b"0." * (SIZE // 2), b"1", E6),
    "many exponents": (b"1e" * (SIZE // 2), b"1", E6),
    "not UTF-8": (b"\xff\xfe\xe2\x82" * (SIZE // 4), b"1", []),
    "blank space is compared too": (b"1 " * (SIZE // 2) + b"1", b"1 " * (SIZE // 2) + b"1\n", SPACE),
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_outputs_take_little_time_and_memory(name: str):
    output, answer, flags = HOSTILE[name]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    validate(output, answer, flags)
    seconds = resource.getrusage(resource.RUSAGE_SELF).ru_utime - before
    assert seconds < 10, "linear is below 2 s on any machine; quadratic would be hours"
    part = SIZE // 8  # tracing is slow
    tracemalloc.start()
    try:
        validate(output[:part], answer[:part], flags)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * part + 64 * 1024 * 100, "the two inputs, and a window's worth of small objects"
