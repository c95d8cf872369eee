"""What languages are called elsewhere: every name leads to one row, by any case and spacing."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.errors import ConfigError
from judge.languages.table import allows, family, find, guess, load_table

TABLE = load_table()

# As Kattis' format, DOMjudge, DMOJ, CMS, Judge0, Codeforces and Polygon, AtCoder, Luogu and Hydro write them.
ELSEWHERE = {
    "ada": ["ada", "adb", "Ada", "ADA"],
    "algol68": ["algol68", "ALGL68"],
    "awk": ["awk", "AWK"],
    "bash": ["bash", "Bash shell", "Bash (5.0.0)", "BASH"],
    "brainfuck": ["BF", "brainfuck"],
    "c": ["c", "C", "C (GCC 9.2.0)", "GNU C", "c.gcc", "C / gcc", "GNU GCC 5.1.0"],
    "c11": ["C11", "C11 / gcc", "GNU GCC C11 5.1.0", "c.gcc11", "GNU C11"],
    "c17-clang": ["C (Clang 7.0.1)", "CLANG"],
    "clojure": ["Clojure (1.10.1)"],
    "cobol": ["cobol", "CBL", "COBOL (GnuCOBOL 2.2)", "cob"],
    "cpp": ["cpp", "C++", "c++", "cc", "cxx", "C++ (GCC 9.2.0)", "cpp.g++", "g++", "C++ / g++"],
    "cpp11": ["C++11 / g++", "CPP11", "GNU G++11 5.1.0", "cpp.g++11", "C++11 (GCC)"],
    "cpp14": ["C++14", "C++14 / g++", "C++14 (GCC 9)", "GNU G++14 6.4.0", "cc.cc14o2"],
    "cpp17": ["C++17 (GCC)", "C++17 / g++", "GNU G++17 7.3.0", "GNU G++17 9.2.0 (64 bit, msys 2)", "CPP17",
              "cpp.g++17", "cpp.msys2-mingw64-9-g++17", "c++ 17 (gcc)", "C++17 (GCC 7-32)"],
    "cpp20": ["C++20 / g++", "GNU G++20 11.2.0 (64 bit, winlibs)", "cpp.gcc13-64-winlibs-g++20", "C++ 20 (gcc 12.2)",
              "cpp.gcc11-64-winlibs-g++20", "CPP20", "C++20 (GCC 13-64)"],
    "cpp23": ["cpp.gcc14-64-msys2-g++23", "C++23", "CPP23", "c++23"],
    "cpp17-clang": ["Clang++17 Diagnostics", "CLPP17"],
    "cpp20-clang": ["C++ (Clang 7.0.1)", "Clang++20 Diagnostics", "CLANGX"],
    "csharp": ["C#", "csharp", "C# / Mono", "C# (Mono 6.6.0.161)", "C# Mono 6.8", "csharp.mono", "MONOCS", "cs"],
    "d": ["d", "D (DMD 2.089.1)", "D DMD32 v2.101.2", "D"],
    "elixir": ["elixir", "Elixir (1.9.4)"],
    "erlang": ["erlang", "Erlang (OTP 22.2)"],
    "forth": ["forth", "FORTH"],
    "fortran": ["fortran", "f95", "F95", "Fortran (GFortran 9.2.0)", "f90"],
    "go": ["go", "GO", "Go (1.13.5)", "Go 1.19.5", "golang"],
    "groovy": ["Groovy (3.0.3)", "GROOVY"],
    "haskell": ["haskell", "hs", "HASK", "Haskell / ghc", "Haskell (GHC 8.8.1)", "Haskell GHC 7.8.3 (2014.2.0.0)"],
    "java": ["java", "Java", "JAVA8", "Java / JDK", "Java (OpenJDK 13.0.1)", "java21", "Java 1.8.0_241",
             "Java 17 64bit", "java_javac_detect"],
    "javascript": ["javascript", "js", "JavaScript (Node.js 12.14.0)", "Node.js 12.16.3", "NODEJS", "Node.js LTS"],
    "kotlin": ["kotlin", "kt", "Kotlin (1.3.70)", "Kotlin 1.7.20", "kotlin17", "Kotlin/JVM"],
    "lisp": ["lisp", "Common Lisp (SBCL 2.0.0)", "SBCL"],
    "lua": ["lua", "Lua (5.3.5)", "LUA"],
    "nasm": ["Assembly (NASM 2.14.02)", "NASM64"],
    "objectivec": ["objectivec", "OBJC", "Objective-C (Clang 7.0.1)", "Objective C"],
    "ocaml": ["ocaml", "OCaml (4.09.0)", "OCaml 4.02.1", "ml", "OCAML"],
    "octave": ["octave", "Octave (5.1.0)", "OCTAVE"],
    "pascal": ["pascal", "pas", "PAS", "Pascal / fpc", "Pascal (FPC 3.0.4)", "Free Pascal 3.0.2", "pas.fpc", "pas.dpr"],
    "perl": ["perl", "pl", "PERL", "Perl (5.28.1)", "Perl 5.20.1"],
    "php": ["php", "PHP (7.4.1)", "PHP 8.1.7", "php.5", "PHP"],
    "prolog": ["prolog", "plg", "PRO"],
    "pypy3": ["PYPY3", "PyPy 3.6.9 (7.3.0)", "PyPy 3-64", "python.pypy3", "python.pypy3-64", "Python 3 / PyPy",
              "PyPy 3.9.10 (7.3.9, 64bit)", "PyPy3 (7.3.0)", "Python (PyPy 3.10-v7.3.12)", "pypy3"],
    "python3": ["python", "python3", "python 3", "Python 3", "py", "py3", "PY3", "Python (3.8.1)", "Python 3.8.10",
                "Python 3 / CPython", "python.3", "Python (CPython 3.11.4)"],
    "r": ["r", "R", "R (4.0.0)"],
    "racket": ["racket", "RKT"],
    "ruby": ["ruby", "rb", "RUBY2", "Ruby (2.7.0)", "Ruby 3.0.0"],
    "rust": ["rust", "rs", "RUST", "Rust (1.40.0)", "Rust 1.66.0 (2021)", "Rust (rustc 1.70.0)"],
    "scala": ["scala", "Scala (2.13.2)", "SCALA", "Scala 2.12.8"],
    "scheme": ["SCM", "Scheme"],
    "sh": ["sh", "POSIX shell"],
    "sqlite": ["SQL (SQLite 3.27.2)", "sql"],
    "swift": ["swift", "Swift (5.2.3)", "SWIFT"],
    "tcl": ["TCL", "ActiveTcl 8.5"],
    "typescript": ["typescript", "ts", "TypeScript (3.7.4)"],
}  # fmt: skip

# A version of a language that is not judged here is never taken for another.
NOWHERE = ["Python (2.7.17)", "Python 2", "python2", "PY2", "PyPy 2.7.13 (7.3.0)", "python.2", "python.pypy2", "F#",
           "Java 1.4 / gcj", "C# 8, .NET Core 3.1", "csharp.dotnet-core", "", " ", "*", "(*)", "C++98"]  # fmt: skip


@pytest.mark.parametrize("row", list(ELSEWHERE))
def test_names_of_other_judges(row: str) -> None:
    assert {name: find(name, TABLE) for name in ELSEWHERE[row]} == dict.fromkeys(ELSEWHERE[row], row)


def test_a_language_that_is_not_judged_has_no_row() -> None:
    assert {name: find(name, TABLE) for name in NOWHERE} == dict.fromkeys(NOWHERE)


@given(st.sampled_from(list(TABLE)), st.data())
def test_every_name_leads_to_its_row_in_any_case_and_spacing(row: str, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([row, TABLE[row].title, *TABLE[row].aliases]))
    versions = st.from_regex(r"[0-9]{1,2}(\.[0-9]{1,2}){0,2}", fullmatch=True)
    name = name.replace("(*)", "(64 bit, any)").replace("*", data.draw(versions))
    assert find(data.draw(st.sampled_from([name, name.upper(), name.lower(), f"  {name}  "])), TABLE) == row


@given(st.text(max_size=40))
def test_any_text_has_one_row_or_none(text: str) -> None:
    row = find(text, TABLE)
    assert row is None or (row in TABLE and find(text.swapcase(), TABLE) in {row, find(text, TABLE), None})


def test_the_default_row_of_each_suffix() -> None:
    rows = {"a.cc": "cpp", "x/y.CPP": "cpp", "a.c++": "cpp", "a.C": "cpp", "a.c": "c", "a.py": "python3",
            "s.PY": "python3", "M.java": "java", "a.pl": "perl", "a.sh": "bash", "a.m": "objectivec", "a.R": "r",
            "a.h": None, "a.fs": None, "README": None, "a.txt": None, ".c": None}  # fmt: skip
    assert {name: guess(name, TABLE) for name in rows} == rows


def test_two_rows_cannot_have_one_name(tmp_path: Path) -> None:
    path = tmp_path / "languages.yml"
    row = "{title: Mine, source_name: a.x, run: [/usr/bin/x], version_command: [/usr/bin/x], aliases: [%s]}"
    for alias, owner in (
        ("python 3", "python3"),
        ("PYPY3", "pypy3"),
        ("GNU G++17 *", "cpp17"),
        ("C++17(gcc)", "cpp17"),
    ):
        path.write_text("languages:\n  mine: " + row % alias)
        with pytest.raises(ConfigError, match=f"is a name of both '{owner}' and 'mine'"):
            load_table(path)
    path.write_text("languages:\n  mine: " + row % "mine too")
    assert find("MINE TOO", load_table(path)) == "mine"


def test_a_version_belongs_to_its_family() -> None:
    assert [family(name, TABLE) for name in ("cpp17", "cpp23-clang", "c11", "pypy3", "luajit", "rust", "none")] == [
        "cpp", "cpp", "c", "python3", "lua", "rust", "none",
    ]  # fmt: skip
    assert allows(["cpp"], "cpp17", TABLE) and allows([], "rust", TABLE) and allows(["cpp17"], "cpp17", TABLE)
    assert not allows(["cpp17"], "cpp", TABLE) and not allows(["cpp"], "c", TABLE) and not allows(["cpp"], None, TABLE)


def test_rows_like_another_have_its_commands_with_other_words() -> None:
    clang = TABLE["cpp23-clang"]
    assert clang.compile is not None and clang.compile[:3] == ["/usr/bin/clang++", "-O2", "-std=gnu++2b"]
    assert clang.version_command == ["/usr/bin/clang++", "--version"] and clang.suffixes == []
    assert clang.run == TABLE["cpp"].run and clang.packages == ["clang", "g++"]
    assert TABLE["scala"].memory_full == TABLE["java"].memory_full and TABLE["scala"].compile != TABLE["java"].compile


def test_a_row_of_a_standard_compiles_by_it() -> None:
    standards = {"11": "11", "14": "14", "17": "17", "20": "20", "23": "2[bx3]"}
    rows = {name: row for name, row in TABLE.items() if re.fullmatch(r"(c|cpp)\d\d(-clang)?", name)}
    assert len(rows) >= 8
    for name, row in rows.items():
        year = name.removesuffix("-clang")[-2:]
        (option,) = [word for word in row.compile or [] if word.startswith("-std=")]
        assert re.fullmatch(rf"-std=gnu(\+\+)?{standards[year]}", option), name


def test_a_row_is_like_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "languages.yml"
    path.write_text("languages:\n  mine: {title: Mine, like: later}\n")
    with pytest.raises(ConfigError, match="'mine' is like 'later', which is no row before it"):
        load_table(path)
    path.write_text(
        "languages:\n  mine: {title: Mine, words: {a: b}, source_name: a, run: [/a], version_command: [/a]}\n"
    )
    with pytest.raises(ConfigError, match="words: replace those of another row"):
        load_table(path)
    path.write_text("languages:\n  mine: {title: Mine, like: cpp, words: {-O2: -O3}}\n")
    language = load_table(path)["mine"]
    assert language.compile is not None and language.compile[1] == "-O3" and language.family == "cpp"
