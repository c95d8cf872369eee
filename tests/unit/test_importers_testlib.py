"""The header that stands in for testlib.h where a package brings none: what programs made with it say of files."""

import subprocess
from pathlib import Path

import pytest

from judge.problems import importers

HEADER = Path(importers.__file__).with_name("testlib.h")
CHECKER = r"""
#include "testlib.h"
using namespace std;

int sum(InStream &in)
{
    int n = in.readInt(1, 5, "n");
    vector<int> a = in.readInts(n, -10, 10, "a");
    if (accumulate(a.begin(), a.end(), 0) == 10)
        in.quitf(_wa, "ten");
    return accumulate(a.begin(), a.end(), 0);
}

int main(int argc, char *argv[])
{
    setName("sums, %d", 1);
    registerTestlibCmd(argc, argv);
    string what = inf.readToken("[a-z]{1,9}");
    if (what == "sum") {
        int expected = sum(ans), found = sum(ouf);
        string ending = englishEnding(expected);
        quitif(expected != found, _wa, "the %d%s, found %s", expected, ending.c_str(), vtos(found).c_str());
        quitf(_ok, "%s", format("%d words", 1).c_str());
    }
    if (what == "real" && doubleCompare(ans.readDouble(), ouf.readDouble(), 1e-6))
        quit(_ok, "near");
    if (what == "strict")
        quitf(_ok, "%.2f", ouf.readStrictDouble(0, 10, 1, 2));
    if (what == "line")
        quitif(ans.readLine() == ouf.readLine() && ouf.seekEof(), _ok, "same");
    if (what == "lines")
        while (!ans.seekEof())
            if (ans.readLine() != ouf.readString())
                quitf(_wa, "other");
    if (what == "long" && ouf.readLong() == LLONG_MIN)
        quitf(_ok, "least");
    if (what == "unsigned" && ouf.readUnsignedLong() == ULLONG_MAX)
        quitf(_ok, "most");
    if (what == "word" && ouf.readWord("-?[1-9][0-9]{0,2}|(ab|c)+x{2,}[^a-y]") != "")
        quitf(_ok, "fits");
    if (what == "points")
        quitp(ouf.readDouble(0, 1), "of %d", 1);
    if (what == "part")
        quitf(_pc(ouf.readInt()), "some");
    if (what == "case")
        for (setTestCase(ouf.readInt()); ; unsetTestCase())
            quitf(_pe, "odd");
    if (what == "fault")
        ensuref(ouf.readInt() == 1, "not %d", 1);
    if (what == "silent")
        return 0;
    if (what == "join")
        quitif(join(split(ouf.readToken(), ','), '-') == ans.readToken(), _ok, "joined");
    quitf(_wa, "unlike");
}
"""
INTERACTOR = r"""
#include "testlib.h"
int main(int argc, char *argv[])
{
    registerInteraction(argc, argv);
    int secret = inf.readInt();
    for (int tries = 1; tries < 4; tries++) {
        int guess = ouf.readInt(1, 9, "guess");
        std::cout << (guess == secret ? "yes" : "no") << std::endl;
        if (guess == secret) {
            tout << tries << std::endl;
            quitf(_ok, "after %d", tries);
        }
    }
    quitf(_wa, "too many; one of %d", rnd.next(1, 9));
}
"""
VALIDATOR = r"""
#include "testlib.h"
int main(int argc, char *argv[])
{
    registerValidation(argc, argv);
    int n = inf.readInt(1, validator.group() == "small" ? 3 : 9, "n");
    inf.readEoln();
    inf.readInts(n, 0, 99, "a");
    inf.readEoln();
    inf.readLine("[a-z ]*", "s");
    inf.readEof();
}
"""
GENERATOR = r"""
#include "testlib.h"
int main(int argc, char *argv[])
{
    registerGen(argc, argv, 1);
    std::vector<int> v = {3, 1, 2};
    int array[] = {7, 8};
    println(v);
    println(v.begin(), v.end());
    println(array, array + 2);
    println(1, "two");
    println("two", std::string("three"));
    println(1, 2LL, v, 'x', std::string("y"));
    println(opt<int>("n"), opt<std::string>("type"), opt<int>(1));
    println(opt<int>("m", 5), opt("k"), has_opt("flag"), opt<bool>("flag", true), has_opt("none"));
    println(opt<double>("p", 0.5), opt<long long>("q"), opt(2));
    println();
}
"""
JUDGED = [
    ("sum", "2\n1 2", "3 1 1 1", 0, "ok 1 words"),
    ("sum", "2 1 2", "2\r\n1\r\n2\r\n", 0, "ok 1 words"),
    ("sum", "2 1 2", "2 1 1", 1, "wrong answer the 3rd, found 2"),
    ("sum", "2 1 2", "2 1 2 7", 4, "wrong output format Extra information in the output file"),
    ("sum", "2 1 2", "2 1", 8, "unexpected eof Unexpected end of file - token expected"),
    ("sum", "2 1 2", "2 1 11", 1, "wrong answer Parameter [name=a] equals to 11, violates the range [-10, 10]"),
    ("sum", "2 1 2", "2 1 02", 2, 'wrong output format Expected integer, but "02" found'),
    ("sum", "2 1 2", "2 1 +2", 2, 'wrong output format Expected integer, but "+2" found'),
    ("sum", "2 1 2", "2 1 -0", 2, 'wrong output format Expected integer, but "-0" found'),
    ("sum", "2 1 2", "2 1 2.0", 2, 'wrong output format Expected integer, but "2.0" found'),
    ("sum", "2 1 2", "2 1 3000000000", 2, 'wrong output format Expected int32, but "3000000000" found'),
    ("sum", "2 5 5", "2 1 2", 3, "FAIL ten (answer)"),
    ("sum", "x", "2 1 2", 3, 'FAIL Expected integer, but "x" found (answer)'),
    ("sum", "2 1 2", "2 5 5", 1, "wrong answer ten"),
    ("real", "1000000", "1000000.5", 0, "ok near"),
    ("real", "0", "1e-7", 0, "ok near"),
    ("real", "0", "1e-5", 1, "wrong answer unlike"),
    ("real", "1", "nan", 2, 'wrong output format Expected double, but "nan" found'),
    ("real", "1", "0x1", 2, 'wrong output format Expected double, but "0x1" found'),
    ("real", "1", "1e999", 2, 'wrong output format Expected double, but "1e999" found'),
    ("strict", "", "1.50", 0, "ok 1.50"),
    ("strict", "", "1", 2, 'wrong output format Expected strict double, but "1" found'),
    ("strict", "", "1.505", 2, 'wrong output format Expected strict double, but "1.505" found'),
    ("line", "a  b\n", "a  b", 0, "ok same"),
    ("line", "a  b\n", "a b\n", 1, "wrong answer unlike"),
    ("line", "a\n", "", 8, "unexpected eof Expected line"),
    ("lines", "a\nb\n", "a\r\nb\r\n", 1, "wrong answer unlike"),
    ("long", "", "-9223372036854775808", 0, "ok least"),
    ("long", "", "-9223372036854775809", 2, 'wrong output format Expected integer, but "-9223372036854775809" found'),
    ("unsigned", "", "18446744073709551615", 0, "ok most"),
    ("unsigned", "", "18446744073709551616", 2, "Expected unsigned integer"),
    ("word", "", "-123", 0, "ok fits"),
    ("word", "", "abcabxxxz", 0, "ok fits"),
    ("word", "", "abxxa", 1, "doesn't correspond to pattern"),
    ("word", "", "0", 1, "doesn't correspond to pattern"),
    ("points", "", "0.5", 7, "points 0.5 of 1"),
    ("points", "", "1", 7, "points 1 of 1"),
    ("part", "", "25", 41, "partially correct (25) some"),
    ("case", "", "3", 2, "wrong output format test case 3: odd"),
    ("fault", "", "2", 3, "FAIL not 1"),
    ("silent", "", "", 3, "FAIL No quit call found"),
    ("join", "a-b--c", "a,b,,c", 0, "ok joined"),
]


IOI_CHECKER = """#include "testlib.h"
int main(int argc, char *argv[])
{
    registerChecker("sums", argc, argv);
    readBothSecrets("s3cret");
    readBothGraderResults();
    compareRemainingLines(3);
}
"""
SAID = "s3cret\nOK\n"
# The output of the submission's grader, the exit code, and what is said.
BY_GRADER = [
    (SAID + "1 2\n3", 0, "ok"), (SAID + "1 2 \n3\n\n", 0, "ok"),
    (SAID + "1 3\n3\n", 1, "line 3 differs: expected '1 2'"),
    (SAID + "1 2\n", 1, "line 4 differs: expected '3', found ''"), (SAID + "1 2\n3\n4\n", 1, "line 5 differs"),
    ("OK\n1 2\n3\n", 1, "security violation the output is not the grader's"), ("", 8, "unexpected eof"),
    ("s3cret\nWA\ntoo many calls\n", 1, "wrong answer too many calls"),
    ("s3cret\nSV\nodd\n", 1, "security violation odd"),
]  # fmt: skip


@pytest.fixture(scope="module", params=["14", "20"])
def programs(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("testlib")
    (folder / "testlib.h").write_bytes(HEADER.read_bytes())
    compiler = ["c++", f"-std=gnu++{request.param}", "-O0", "-Wall", "-Werror"]
    # A precompiled header: the programs include it first.
    header = ["-x", "c++-header", "testlib.h", "-o", "testlib.h.gch"]
    subprocess.run([*compiler, "-Wno-error", *header], cwd=folder, check=True)
    for name, source in (
        ("checker", CHECKER),
        ("interactor", INTERACTOR),
        ("validator", VALIDATOR),
        ("generator", GENERATOR),
        ("weights", WEIGHTS),
        ("grader", IOI_CHECKER),
    ):
        (folder / f"{name}.cpp").write_text(source)
        subprocess.run([*compiler, "-o", name, f"{name}.cpp"], cwd=folder, check=True)
    return folder


# Means of draws from 0 to 99 by weight, and how many were outside; a loop of 200,000 draws for each would not end.
WEIGHTS = """#include "testlib.h"
int main(int argc, char **argv) {
    registerGen(argc, argv, 1);
    const long long low = std::numeric_limits<long long>::min(), high = std::numeric_limits<long long>::max();
    std::vector<int> hundred(100);
    for (int i = 0; i < 100; i++)
        hundred[i] = i;
    for (int type : {0, 3, -3, 24, 30, -30, 200000, -200000}) {
        double sum = 0, wide = 0, widest = 0, drawn = 0;
        int odd = 0;
        for (int i = 0; i < 2000; i++) {
            int n = rnd.wnext(100, type);
            long long far = rnd.wnext(-50LL, 49LL, type);
            double real = rnd.wnext(0.0, 100.0, type);
            sum += n; wide += far + 50; odd += n < 0 || n > 99 || far < -50 || far > 49 || real < 0 || real > 100;
            widest += (rnd.wnext(low, high, type) / 18446744073709551616.0 + 0.5) * 100;
            drawn += i % 2 ? rnd.wany(hundred, type) : rnd.wany(hundred.begin(), hundred.end(), type);
        }
        std::cout << type << " " << int(sum / 2000 + 0.5) << " " << int(wide / 2000 + 0.5) << " "
                  << int(widest / 2000 + 0.5) << " " << int(drawn / 2000 + 0.5) << " " << odd << "\\n";
    }
}
"""


def test_draws_by_weight_also_by_great_ones(programs) -> None:
    process = subprocess.run([programs / "weights", "7"], capture_output=True, text=True, check=True, timeout=20)
    for line in process.stdout.splitlines():
        kind, *means, odd = map(int, line.split())
        expected = 100 * (kind + 1) / (kind + 2) if kind >= 0 else 100 / (2 - kind)
        assert odd == 0 and len(means) == 4 and all(abs(mean - expected) < 3 for mean in means), line


def run(program: Path, root: Path, *texts: str) -> subprocess.CompletedProcess[str]:
    files = ["input", "output", "answer"]
    for name, text in zip(files, texts, strict=True):
        (root / name).write_text(text)
    return subprocess.run([program, *files], cwd=root, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("test", "answer", "output", "code", "says"), JUDGED)
def test_what_a_checker_says(test, answer, output, code, says, programs, tmp_path) -> None:
    process = run(programs / "checker", tmp_path, test, output, answer)
    assert process.returncode == code, process.stderr
    assert says in process.stderr and process.stderr.count("\n") == 1


@pytest.mark.parametrize(("output", "code", "says"), BY_GRADER)
def test_what_a_checker_of_an_ioi_task_says(output, code, says, programs, tmp_path) -> None:
    process = run(programs / "grader", tmp_path, "", output, SAID + "1 2\n3\n")
    assert (process.returncode, says in process.stderr) == (code, True), process.stderr


@pytest.mark.parametrize(
    ("guesses", "code", "replies"),
    [("1\n5\n", 0, "no\nyes\n"), ("1\n2\n3\n", 1, "no\nno\nno\n"), ("1\n", 8, "no\n"), ("1\nx\n", 2, "no\n")],
)
def test_an_interactor(guesses, code, replies, programs, tmp_path) -> None:
    (tmp_path / "input").write_text("5\n")
    command = [programs / "interactor", "input", "record"]
    process = subprocess.run(command, cwd=tmp_path, input=guesses, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (code, replies), process.stderr
    assert (tmp_path / "record").read_text() == ("2\n" if code == 0 else "")


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("2\n1 2\nab c\n", True), ("2\n1 2\n\n", True), ("2\n1  2\nab\n", False), ("2\n1 2 \nab\n", False),
        ("2 \n1 2\nab\n", False), ("2\r\n1 2\nab\n", False), ("2\n1 2\nAb\n", False), ("2\n1 2\nab", False),
        ("2\n1 2\nab\n\n", False), ("4\n1 2 3 4\nab\n", False), ("", False),
    ],
)  # fmt: skip
def test_a_validator_is_strict(text, good, programs) -> None:
    command = [programs / "validator", "--group", "small"]
    process = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    assert process.returncode == (0 if good else 3), process.stderr
    assert good or b"FAIL" in process.stderr


def test_a_generator_knows_its_options_and_prints(programs) -> None:
    command = [programs / "generator", "9", "a b", "-n", "10", "--type=tree", "-k3", "-flag", "-q", "-7"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == [
        "3 1 2", "3 1 2", "7 8", "1 two", "two three", "1 2 3 1 2 x y", "10 tree 9", "5 3 1 1 0", "0.5 -7 a b", "",
    ]  # fmt: skip
    for lacking in ([], ["-n", "x"]):
        process = subprocess.run([*command[:3], *lacking], capture_output=True, text=True, check=False)
        assert process.returncode == 3 and "FAIL" in process.stderr
