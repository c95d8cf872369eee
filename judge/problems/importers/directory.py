"""A plain directory of tests, as people keep them: pairs of files, perhaps with a checker, solutions and a statement.

Nothing but names tells what a file is; docs/problems-import.md has the conventions. What is not known is left out and
said, what would be judged in another way than it was meant is refused.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence

from judge.common.errors import PackageError
from judge.model.verdicts import Verdict
from judge.problems import ini, metadata
from judge.problems.folders import expected, known_folder
from judge.problems.importers import ioi, line_ends, packed, testlib
from judge.problems.importers.cases import ImportedCase, write_plain
from judge.problems.importers.draft import Draft, ImporterWords, Ref, as_number, slug
from judge.problems.importers.pairs import NAMELESS, Pair, find_pairs
from judge.problems.tree import Tree, clean

INI = "domjudge-problem.ini"
_SOURCES = (*testlib.CPP, ".c", ".py", ".java", ".kt", ".pas", ".rs", ".go", ".cs", ".js", ".rb", ".hs", ".d", ".nim")
_CHECKER = re.compile(r"(?:check|checker|[a-z]{0,8}chk|spj|special_?judge|specialjudge|compare|comparator|cmp)")
# Checkers of SIO2, which are asked as it does unless they are made with testlib.
_SIO2 = re.compile(r"prog/[A-Za-z0-9_]{1,12}chk\.(?:c|cpp|cc|py|pas)")
_INTERACTOR = re.compile(r"(?:interactor|interactive|interact|grader_interactive)")
_VALIDATOR = re.compile(r"(?:val|valid|validate|validator|input_validator)")
# The kinds of programs of testlib by the function that each calls first, whatever it is called itself.
_REGISTERED = (
    ("checker", re.compile(rb"\bregisterTestlibCmd\s*\(")),
    ("interactor", re.compile(rb"\bregisterInteraction\s*\(")),
    ("validator", re.compile(rb"\bregisterValidation\s*\(")),
)
# Names of programs that decide verdicts in some systems, and are not asked here: Quera's tester, infoarena's NAME_eval.
_DECIDING = re.compile(
    r"tester|eval|evaluator|evaluate|[a-z0-9]{1,20}_eval|verifier|scorer|communicator|corrector|correttore"
)
# Scripts that compare outputs, or build and run submissions, in systems that ask such; CD-MOJ has them in scripts/.
_SCRIPTS = re.compile(
    r"(?:[\w-]+/)?(?:compare|comparator|checker)\.sh|scripts/(?:arbitro\.\w+|summary\.sh|[\w+]+/(?:compile|prep|run)\.sh)"
)
# The folder of a solution by its name; the first that fits. Names are lower case, without the ending. A word may stand
# at the beginning, or behind others, and something may follow: `wrong`, `x-wrong`, `x-wrong-ann`.
_BETWEEN = r"[\W_]"


def _word(pattern: str, standalone: str = "") -> re.Pattern[str]:
    """The pattern of names with one of these words between separators; `standalone` are other whole names."""
    bare = rf"|{standalone}" if standalone else ""
    return re.compile(rf"(?:{pattern})(?:[\W_\d].*)?|.*{_BETWEEN}(?:{pattern})\d*(?:{_BETWEEN}.*)?{bare}")


_SOLUTIONS = (
    ("time_limit_exceeded", _word("tle?|slow|timeout|timelimit")),
    ("brute_force", _word("brute|naive|bf", r"force(?:[\W_\d].*)?|brut\w*|.*[\W_]brut\w*")),
    ("wrong_answer", _word("wa|wrong|wrong_?answer", r"wrong\w*|.*[\W_]wrong_?(?:ans|answer)\w*")),
    ("run_time_error", _word("rte|mle|runtime_?error", r"(?:re|mle?)(?:[\W_\d].*)?|.*[\W_](?:re|mle?)\d*")),
    ("rejected", _word("bad|fail|incorrect|failing")),
    # Those for a part of the points: `20-percent-solution`, `sol_30pts`, `partial_sub1`, `sub2`.
    (
        "rejected",
        re.compile(
            r"(?:.*[\W_])?(?:partial|parcial|sub\d+|sub[_-]\d{1,2}(?![\W_\d])|sub(?:task|tarea)[\W_]?\d+|(?<!\d)[0-9]{1,2}[_-]?(?:percent|points?|pts?))"
            r"(?:[\W_\d].*)?"
        ),
    ),
    (
        "accepted",
        re.compile(r"(?:sol|solve|solution|std|main|model|ac|accepted|correct|official|answer|jury|judge_?sol(?:ution)?|ok|full)"
                   r"(?:[\W_\d].*)?"
                   r"|.*[_-](?:sol|solution|ac|ok|correct|std|main|full|100)\d*|.*[_-]solution[_-].*"),
    ),
)  # fmt: skip
# Programs that make tests or look at them, by words in their names.
_GENERATOR = re.compile(
    r"(?:gen|generator|generate|make_?tests?|rand|testgen|ingen)[\w.-]*"
    r"|.*[\W_](?:gen|generator|generate|make_?tests?|mktests?|testgen|datagen|rand(?:om)?_?gen|ingen)\d*(?:[\W_].*)?"
    r"|[a-z0-9]{1,20}(?:ingen|_?generator)"
)
_GENERATOR_FOLDERS = frozenset({"gen", "gens", "generator", "generators"})
_NO_SOLUTION = re.compile(
    r"(?:.*[\W_])?(?:check|checker|chk|spj|val|valid|validate|validator|verify|verifier|interactor|inwer|grader|stub)\d*"
)
_NO_SOLUTION_FOLDERS = frozenset({
    "validator", "validators", "input_validators", "output_validators", "checker", "checkers", "interactor", "grader",
    "graders", "tools", "tool", "scripts", "utils", "util",
})  # fmt: skip
_SOLUTION_FOLDERS = frozenset({"sol", "sols", "solution", "solutions", "std", "submissions", "src", "source", "code"})
_FOLDERS = frozenset(folder for folder, _ in _SOLUTIONS)
# The folder of a solution that an annotation asks one verdict of.
_OF_VERDICT = {
    Verdict.AC: "accepted", Verdict.WA: "wrong_answer", Verdict.TLE: "time_limit_exceeded", Verdict.CE: "compile_error",
}  # fmt: skip
# Folders of programs that are no solutions, although they may be the only ones.
_TOOLS = frozenset({
    "scripts", "script", "tools", "tool", "utils", "util", "bin", "lib", "grader", "graders", "checkers",
})  # fmt: skip
# Folders of the older formats, and theirs in the package that is made, which has none of these.
_NOW = {
    "memory_limit_exceeded": "run_time_error",
    "output_limit_exceeded": "rejected",
    "partially_accepted": "rejected",
}
# Files in which other systems keep limits and points, at the root or with the tests.
_SETTINGS = re.compile(
    r"(?:task|config|problem|prob|conf|data|testdata|tests?|testcases?|cases|subtasks?|scor(?:es?|ing)|grad(?:er|ing)"
    r"|judge|limits?|settings|meta|metadata|info)\.(?:ya?ml|json|toml|ini|conf|cfg|properties|xml)"
    r"|[\w.-]*\.cdf|[\w.-]+\.(?:properties|cfg)|data_rule\.txt|\.?timelimit|info"
    r"|(?:judge|config|settings|scor(?:es?|ing)|points|limits?|subtasks?|groups?)\.txt|testplan|problem|testset"
)
# A limit with its unit has one meaning in all systems: `time: 2s`, `memory_limit: 512MiB`.
_LIMIT = re.compile(
    r"(time)(?:_limit)?: *([0-9]{1,5}(?:\.[0-9]{1,3})?) ?(s|ms)"
    r"|(memory)(?:_limit)?: *([0-9]{1,5}(?:\.[0-9]{1,3})?) ?(m|mb|mib|g|gb|gib)",
    re.IGNORECASE,
)
# The value of each unit in seconds or MiB.
_UNITS = {"s": 1.0, "ms": 0.001, "m": 1.0, "mb": 1.0, "mib": 1.0, "g": 1024.0, "gb": 1024.0, "gib": 1024.0}
# The lowest and the highest value of each limit.
_BOUNDS = {"time_limit": (0.01, 600.0), "memory": (4.0, 65536.0)}
# Files that task-maker makes tests of, and checks them by, in the folder where they are.
_MAKERS = frozenset({"gen/cases.gen", "gen/constraints.py", "gen/constraints.yaml"})
# The only PDF of such a folder is the statement, whatever it is called, unless its name tells that it gives more away.
_STATEMENT_PDF = re.compile(r"(?:statements?|description)/[^/]+\.pdf")
_TELLING = re.compile(r"sol|edit|tutorial|analy|hint|review|slide|spoiler|explain|komment|razbor")
# A file of CD-MOJ, by its place.
_CDMOJ = "tests/score"
# The owners of such files, by the endings of their names.
_FOREIGN_SYSTEMS = {
    _CDMOJ: "CD-MOJ",
    "cdf": "a contest of Lemon",
    "cfg": "ejudge, or a system like it",
    "gen": "task-maker",
    "properties": "Kilonova, or a system like it",
}
# Settings that say that verdicts are found in another way than by comparing: a word, and its value.
_JUDGED = re.compile(
    r"""\b(spj|special_?judge|checker(?:_?(?:name|type|file|path))?|interactor|custom_?judge|judge_?(?:type|mode)"""
    r"""|problem_?type|standard_checker|(?:check|interactor)_cmd)["']?[ \t]*[:=][ \t]*["']?([^\s"',}#]*)"""
    r"""|\b(?:Interactive|Grader)Task\w*\(""",
    re.IGNORECASE | re.MULTILINE,
)
_USUAL = re.compile(
    r"|default|normal|standard|std|none|null|nil|~|no|off|false|0|diff|tokens?|text|builtin|traditional|batch|wcmp|lcmp"
    r"|fcmp|white_?diff|ignore_?(?:spaces|trailing_?space)|line|exact"
    r"|cmp_(?:file(?:_nospace)?|(?:(?:unsigned_)?(?:int|long_long)|huge_int)(?:_seq)?)",
    re.IGNORECASE,
)
_LOOKED_AT = 65536
# Programs that decide verdicts in other systems, or that submissions are built with.
_DECIDES = re.compile(r"(?:manager|grader|stub|checker|interactor|judge)[\w-]*")
_STATEMENT = re.compile(
    r"(?:statement|problem|description|task|desc|readme|question|enunciado)(?:[._-]([a-z]{2}))?"
    r"\.(pdf|md|markdown|tex|html)"
)
# In a folder of statements they are called by their languages alone: `statements/es.markdown`, `statement/zh-cn.md`.
_BY_LANGUAGE = re.compile(r"(?:statements?|description)/([a-z]{2})(?:[_-][a-z]{2,4})?\.(pdf|md|markdown|tex|html)")

# Others are called as the problem: `sum/sum.md`, `sum/statement/sum.md`.
_CALLED = r"(?:(?:statements?|description|docs?)/)?(?:{})(?:[._-]([a-z]{{2}}))?\.(pdf|md|markdown|tex|html)"

# Names of tests that are no problem's.
_NO_NAMES = frozenset({"", *NAMELESS, "in", "input", "case", "sample", "example", "secret", "small", "large", "t"})


def matches(tree: Tree) -> bool:
    """Return whether there is a test in it, a pair of files by their names, or what may hold some."""
    answered = any(pair.answer is not None for pair in find_pairs(tree.files)[0])
    return answered or packed.holds_tests(tree)


def convert(tree: Tree, options: ImporterWords) -> Draft:
    tree = packed.opened(tree)
    draft = Draft(tree, "directory")
    for carried, line in tree.notes if isinstance(tree, packed.Packed) else ():
        (draft.report.took if carried else draft.report.dropped)(line)
    if options.memory is not None:
        draft.limits["memory"] = options.memory
    settings = _domjudge(draft)
    programs = _programs(tree)
    pairs, unpaired = find_pairs(path for path in tree.files if path not in programs.values())
    _check_pairs(draft, pairs, custom="checker" in programs or "interactor" in programs)
    _check_alone(tree, pairs, options)
    tree = draft.tree = _plain_line_ends(draft, pairs)
    cases = [
        ImportedCase(
            pair.name, Ref(tree, pair.input), b"" if pair.answer is None else Ref(tree, pair.answer), pair.sample
        )
        for pair in pairs
    ]
    write_plain(draft, cases)
    draft.report.took(f"{len(cases)} tests, {sum(case.sample for case in cases)} of them samples by their names")
    used_paths = {path for pair in pairs for path in (pair.input, pair.answer)} | {*programs.values()}
    _put_programs(draft, programs)
    for path in unpaired[:3]:
        draft.report.dropped(f"{tree.where(path)}: is an answer without an input")
    unknown = sorted(path for path in tree.files if _is_settings(path) and path not in used_paths)
    used_paths = put_beside(draft, {*used_paths, *unpaired, *unknown, *settings}, pairs)
    _check_unknown(draft, unknown, used_paths, options)
    for path in unknown:
        ending = "gen" if path.lower() in _MAKERS else path.lower().rpartition(".")[2]
        system = _FOREIGN_SYSTEMS.get(ending, "a system that is not known here")
        losses = "points" if _take_limits(draft, path) else "limits, points"
        draft.report.dropped(f"{path}: is of {system}; its {losses} and checkers are lost")
    if not draft.limits.get("time_limit"):
        draft.report.dropped("the time limit: a directory does not have one; it is inferred, or set by --time-limit")
    return draft


def _take_limits(draft: Draft, path: str) -> bool:
    """Copy the limits with units from a file of settings into the draft; return whether there are any."""
    has_limits = False
    for line in draft.start(path).splitlines():
        match = _LIMIT.fullmatch(line.rstrip())
        if match is None:
            continue
        word, number, unit = (part for part in match.groups() if part is not None)
        key = "time_limit" if word.lower() == "time" else "memory"
        value = float(number) * _UNITS[unit.lower()]
        if key not in draft.limits and _BOUNDS[key][0] <= value <= _BOUNDS[key][1]:
            draft.limits[key] = as_number(value)
            draft.report.took(f"{word.lower()} limit {number}{unit} of {path}")
            has_limits = True
    return has_limits


def _plain_line_ends(draft: Draft, pairs: Sequence[Pair]) -> Tree:
    """The tree in which tests that were written on Windows have the line ends of Linux, where programs run here."""
    files = [path for pair in pairs for path in (pair.input, pair.answer) if path is not None]
    tree, _ = line_ends.plain(draft.tree, files)
    if isinstance(tree, line_ends.ChangedLines):
        draft.report.took(
            f"{len(tree.changed)} files of tests with plain line ends (LF), as all of theirs are those of Windows "
            f"(CR LF), such as in {next(iter(tree.changed))}"
        )
    return tree


def put_beside(draft: Draft, used_paths: set[str | None], pairs: Sequence[Pair] = ()) -> set[str | None]:
    """Statements and solutions by their names; says what is left. Returns `used_paths` with what was taken.

    `pairs`: the tests of a plain directory. There a file that is called as the problem is its statement or a solution,
    and a program that is the only one is a solution as well.
    """
    called = _called(draft.tree, pairs) if pairs else frozenset()
    used_paths = {*used_paths, *_put_statement(draft, used_paths, called)}
    used_paths |= _put_solutions(draft, used_paths, called)
    used_paths |= _put_only(draft, used_paths, pairs)
    unused = sorted(draft.tree.files.keys() - used_paths)
    if unused:
        suffix = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        draft.report.dropped(f"{', '.join(unused[:3])}{suffix}: nothing says what it is for")
    return used_paths


def _is_settings(path: str) -> bool:
    folder, name = posixpath.split(path.lower())
    near_top = not folder or folder in NAMELESS
    return (near_top and _SETTINGS.fullmatch(name) is not None) or path.lower() in _MAKERS or path.lower() == _CDMOJ


def _check_unknown(
    draft: Draft, unknown: Sequence[str], used_paths: Collection[str | None], options: ImporterWords
) -> None:
    """PackageError where settings of some system decide verdicts, or go with a program that does.

    --from directory insists.
    """
    if options.format == "directory":
        return
    tree = draft.tree
    judged = any(path.startswith("output_validator/") for path in draft.files)
    for path in () if judged else unknown:
        hits = (
            match for match in _JUDGED.finditer(draft.start(path)) if match[2] is None or not _USUAL.fullmatch(match[2])
        )
        excerpt = next((match[0].strip() for match in hits), "")
        if excerpt:
            raise PackageError(
                f"{tree.where(path)}: says '{clean(excerpt, 60)}', which decides verdicts in the system that it is of; "
                "make a package of it, or have the tests compared alone (--from directory)"
            )
    # Beside a checker of testlib, such a script only calls it.
    scripts = [path for path in sorted(tree.files) if _SCRIPTS.fullmatch(path.lower())]
    scripts = [path for path in scripts if not (judged and "compare" in path)]
    if scripts:
        raise PackageError(
            f"{tree.where(scripts[0])}: decides verdicts, or builds or runs submissions, in the system that it is of; "
            "make a package of it, or have the tests compared alone (--from directory)"
        )
    sources = [(path, stem) for path, stem in _sources_in(tree, _SOURCES) if path not in used_paths]
    asked_there = next((path for path, stem in sources if _DECIDING.fullmatch(stem) and not path.endswith(".py")), "")
    if asked_there and not judged:
        raise PackageError(
            f"{tree.where(asked_there)}: may be a checker by its name, and does not use testlib.h, so how it answers "
            "is unknown; remove or rename it, or have the tests compared alone (--from directory)"
        )
    deciders = [path for path, stem in sources if _DECIDES.fullmatch(stem)]
    if unknown and deciders:
        raise PackageError(
            f"{tree.where(unknown[0])}: is of a system that is not known here, and {clean(deciders[0], 60)} may decide "
            "verdicts there; make a package of it, or have the tests compared alone (--from directory)"
        )


def _domjudge(draft: Draft) -> list[str]:
    """Title and time limit of domjudge-problem.ini, which some old contests have beside their tests."""
    if INI not in draft.tree.files:
        return []
    where = draft.tree.where(INI)
    settings = ini.parse_ini(draft.tree.read(INI, metadata.YAML_BYTES), where)
    if settings.get("name"):
        draft.problem["name"] = clean(settings["name"])
    if settings.get("timelimit"):
        draft.limits["time_limit"] = as_number(metadata.seconds(settings["timelimit"], f"{where}: timelimit"))
        draft.report.took(f"the time limit of {INI}")
    return [INI]


def _check_pairs(draft: Draft, pairs: Sequence[Pair], *, custom: bool) -> None:
    unanswered = [pair for pair in pairs if pair.answer is None]
    if not pairs:
        raise PackageError(f"{draft.tree.label}: has no tests; expected pairs of files as NAME.in and NAME.out")
    if unanswered and not custom:
        first = draft.tree.where(unanswered[0].input)
        msg = f"{first}: has no answer, as {len(unanswered)} of {len(pairs)} inputs"
        raise PackageError(f"{msg}; add it (as NAME.out), or remove the input")
    if unanswered:
        draft.report.dropped(f"answers of {len(unanswered)} tests: there are none, so the checker gets empty files")


def _check_alone(tree: Tree, pairs: Sequence[Pair], options: ImporterWords) -> None:
    """PackageError where the tests are of several problems, or where something says how they are scored."""
    for path in ("gen/GEN", "gen/cases.gen"):
        if path in tree.files and options.format != "directory":
            raise PackageError(
                f"{tree.label}: has {path}, but no task.yaml beside it; add it, or choose --from directory"
            )
    programs = {stem for _, stem in _sources_in(tree, _SOURCES)}
    folders = {posixpath.basename(posixpath.dirname(pair.input)).lower() for pair in pairs}
    # In contests' archives A.in and A.out lie with A.cpp, and beside them B.in and B.out with B.cpp.
    stems = {_stem(pair) for pair in pairs} - _NO_NAMES if options.format != "directory" else set()
    for names, hint in (
        (folders, "; give the folder of one of them"),
        (stems, ", by their programs; give one of them"),
    ):
        solved = sorted(names & programs)
        if len(solved) > 1:
            examples = ", ".join(clean(name, 40) for name in solved[:4])
            raise PackageError(f"{tree.label}: has tests of several problems ({examples}){hint}")


def _stem(pair: Pair) -> str:
    """The name of a test's problem, if it has that: its input's, without numbers behind it and endings."""
    name = posixpath.basename(pair.input).lower().partition(".")[0]
    return re.sub(r"[._-]*[0-9]+[a-z]?$", "", name)


def _called(tree: Tree, pairs: Sequence[Pair]) -> frozenset[str]:
    stems = {_stem(pair) for pair in pairs}
    folder = posixpath.basename(tree.label).lower()
    return frozenset({folder, *(stems if len(stems) == 1 else ())} - _NO_NAMES)


def _sources_in(tree: Tree, endings: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Sources and their names without endings, those nearest to the root first."""
    for path in sorted(tree.files, key=lambda path: (path.count("/"), path)):
        stem, ending = posixpath.splitext(posixpath.basename(path))
        if ending.lower() in endings:
            yield path, stem.lower()


def _programs(tree: Tree) -> dict[str, str]:
    """The checker, interactor and validator among the files: what testlib registers one as counts, then its name."""
    programs: dict[str, str] = {}
    registered = {path: role for path, _ in _sources_in(tree, testlib.CPP) if (role := _registered(tree, path))}
    for path, stem in _sources_in(tree, _SOURCES):
        for role, pattern in (("checker", _CHECKER), ("interactor", _INTERACTOR), ("validator", _VALIDATOR)):
            if pattern.fullmatch(stem) and registered.get(path, role) == role:
                programs.setdefault(role, path)
    for path, role in registered.items():
        programs.setdefault(role, path)
    return programs


def _registered(tree: Tree, path: str) -> str:
    """The kind of a program of testlib by what it calls; "" for other programs, generators, and large files."""
    if tree.files[path] > _LOOKED_AT or not testlib.uses_testlib(Ref(tree, path)):
        return ""
    data = tree.read(path, _LOOKED_AT)
    return next((role for role, called in _REGISTERED if called.search(data)), "")


def _put_programs(draft: Draft, programs: dict[str, str]) -> None:
    checker = programs.get("checker", "")
    if _SIO2.fullmatch(checker) and "interactor" not in programs and not testlib.uses_testlib(Ref(draft.tree, checker)):
        ioi.put_asked(draft, Ref(draft.tree, checker), "sio2_wrapper.sh")
        draft.report.took(f"checker {checker}, asked as SIO2 does")
        draft.report.dropped("parts of points by the checker: a test is right or wrong in a directory of tests")
        programs = {role: path for role, path in programs.items() if role != "checker"}
    sources = {}
    for role, path in programs.items():
        ref = Ref(draft.tree, path)
        if not path.endswith(testlib.CPP) or not testlib.uses_testlib(ref):
            if role == "validator":
                draft.report.dropped(f"{ref.where}: is an input validator without testlib.h")
                continue
            msg = f"{ref.where}: is a {role} that does not use testlib.h, so how it answers is unknown"
            raise PackageError(f"{msg}; remove or rename it, or make a package with output_validator/")
        draft.report.took(f"{role} {path} (testlib)")
        sources[role] = testlib.ProgramSource(ref)
    if sources.keys() - {"validator"}:
        testlib.put_checker(draft, sources.get("checker"), sources.get("interactor"))
    if "interactor" in sources:
        draft.kind("interactive")
    if "validator" in sources:
        testlib.put_input_validator(draft, "validator", sources["validator"])


def _put_statement(draft: Draft, taken_paths: Collection[str | None], called: Collection[str]) -> set[str]:
    """Statements by name; one of each language. A README is one where nothing else is."""
    used_paths = set()
    by_name = re.compile(_CALLED.format("|".join(re.escape(name) for name in sorted(called)))) if called else None
    languages = {path.split(".")[1] for path in draft.files if path.startswith("statement/problem.")}
    order = sorted(
        draft.tree.files, key=lambda path: (_is_readme(path), path.count("/"), not path.endswith(".pdf"), path)
    )
    pdfs = [path for path in order if _STATEMENT_PDF.fullmatch(path.lower()) and not _TELLING.search(path.lower())]
    if len(pdfs) == 1 and pdfs[0] not in taken_paths and not _BY_LANGUAGE.fullmatch(pdfs[0].lower()):
        draft.put("statement/problem.en.pdf", Ref(draft.tree, pdfs[0]))
        draft.report.took(f"statement {pdfs[0]} (en)")
        used_paths.add(pdfs[0])
        languages.add("en")
    for path in order:
        match = _STATEMENT.fullmatch(posixpath.basename(path).lower()) or _BY_LANGUAGE.fullmatch(path.lower())
        match = match or (by_name.fullmatch(path.lower()) if by_name is not None else None)
        out_of_place = path.count("/") > 1 or path in taken_paths or path in used_paths
        if match is None or out_of_place or (languages and _is_readme(path)):
            continue
        language = match[1] or ("pt" if posixpath.basename(path).lower().startswith("enunciado") else "en")
        used_paths.add(path)
        if language in languages:
            draft.report.dropped(f"{path}: there is a statement in {language} already")
            continue
        languages.add(language)
        ending = {"markdown": "md"}.get(match[2], match[2])
        draft.put(f"statement/problem.{language}.{ending}", Ref(draft.tree, path))
        draft.report.took(f"statement {path} ({language})")
        used_paths.update(ioi.put_pictures(draft, posixpath.dirname(path)) if ending != "pdf" else ())
    return used_paths


def _is_readme(path: str) -> bool:
    return posixpath.basename(path).lower().startswith("readme")


def _put_solutions(draft: Draft, used_paths: set[str | None], called: Collection[str]) -> set[str]:
    """Solutions by their names and folders, and generators; returns what was taken."""
    put_paths: set[str] = set()
    for path, stem in _sources_in(draft.tree, _SOURCES):
        folders = path.split("/")[:-1]
        if path in used_paths:
            continue
        names = (stem, _parted(path))
        below = {part.lower() for part in folders}
        if any(map(_GENERATOR.fullmatch, names)) or below & _GENERATOR_FOLDERS:
            draft.put(_free(draft, "generators", path.replace("/", "_")), Ref(draft.tree, path))
            put_paths.add(path)
            continue
        folder = _annotated(draft, path) or next(
            (name.lower() for name in reversed(folders) if name.lower() in _FOLDERS), None
        )
        place = next((at for at, name in enumerate(folders) if name.lower() in _SOLUTION_FOLDERS), len(folders))
        folder = folder or next(
            (_NOW.get(word, word) for word in map(known_folder, reversed(folders[place:])) if word), None
        )
        if folder is None and (any(map(_NO_SOLUTION.fullmatch, names)) or below & _NO_SOLUTION_FOLDERS):
            continue
        folder = folder or _by_name(path)
        if folder is None and (stem in called or any(name.lower() in _SOLUTION_FOLDERS for name in folders)):
            folder = "accepted"
        if folder is not None:
            _put_solution(draft, folder, path)
            put_paths.add(path)
    return put_paths


def _by_name(path: str) -> str | None:
    names = (posixpath.splitext(posixpath.basename(path))[0].lower(), _parted(path))
    return next((folder for folder, pattern in _SOLUTIONS for name in names if pattern.fullmatch(name)), None)


def _parted(path: str) -> str:
    """A source's name in lower case, with separators where capitals begin its words: `twin_gen` of `TwinGen.cpp`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", posixpath.splitext(posixpath.basename(path))[0]).lower()


def _annotated(draft: Draft, path: str) -> str:
    """The folder by DOMjudge's annotation in a source; `mixed` has the package's reader look at it. "" for none."""
    verdicts = expected([next(draft.tree.chunks(path), b"")])
    return (_OF_VERDICT.get(min(verdicts), "mixed") if len(verdicts) == 1 else "mixed") if verdicts else ""


def _put_only(draft: Draft, used_paths: set[str | None], pairs: Sequence[Pair]) -> set[str]:
    """The only program of a directory in which nothing else is a solution: people keep tests with what they solved.

    Should it be something else, then it is not accepted on these tests, and no time limit follows from it.
    """
    sources = [(path, stem) for path, stem in _sources_in(draft.tree, _SOURCES) if path not in used_paths]
    if not pairs or len(sources) != 1 or any(path.startswith("submissions/") for path in draft.files):
        return set()
    path, stem = sources[0]
    if any(pattern.fullmatch(stem) for pattern in (_NO_SOLUTION, _DECIDES, _DECIDING)):
        return set()
    if (_TOOLS | _NO_SOLUTION_FOLDERS) & {*path.lower().split("/")[:-1]} or _SCRIPTS.fullmatch(path.lower()):
        return set()
    if stem in _NO_NAMES | {_stem(pair) for pair in pairs} or _NO_SOLUTION.fullmatch(_parted(path)):
        return set()
    _put_solution(draft, "accepted", path, ", as it is the only program")
    return {path}


def _put_solution(draft: Draft, folder: str, path: str, note: str = "") -> None:
    stem, ending = posixpath.splitext(posixpath.basename(path))
    target = f"submissions/{folder}/{slug(stem)}{ending}"
    if target in draft.files:
        target = _free(draft, f"submissions/{folder}", path.replace("/", "_"))
    draft.put(target, Ref(draft.tree, path))
    draft.report.took(f"solution {path} as {folder}{note}")


def _free(draft: Draft, folder: str, name: str) -> str:
    """A path for a program that no other has: names in other alphabets, and of folders, may become the same."""
    stem, ending = posixpath.splitext(name)
    target = f"{folder}/{slug(stem)}{ending}"
    number = len(draft.files)
    while target in draft.files:
        target, number = f"{folder}/{slug(stem)}_{number}{ending}", number + 1
    return target
