"""The purpose of a jury's submission: by its folder, whatever people call it, or by an annotation in its source.

DOMjudge's annotation says the verdicts that a source may get: `@EXPECTED_RESULTS@: CORRECT, TIMELIMIT`. Juries put such
sources into folders of any name, such as `mixed/`; in the format's own folders it means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from judge.model.verdicts import Verdict

# Other names that people and other judges have for the folders of submissions/: in lower case, with _ between words.
_FOLDERS = {
    alias: folder
    for folder, aliases in {
        "accepted": "accepted accept ac correct good ok pass right",
        "wrong_answer": "wrong_answer wronganswer wrong wa incorrect no_output nooutput presentation_error",
        "time_limit_exceeded": "time_limit_exceeded timelimitexceeded time_limit timelimit tle tl slow timeout",
        "run_time_error": "run_time_error runtimeerror runtime_error runtime run_error rte re",
        "memory_limit_exceeded": "memory_limit_exceeded memorylimitexceeded memory_limit mle ml",
        "output_limit_exceeded": "output_limit_exceeded output_limit ole",
        "compiler_error": "compiler_error compile_error compilation_error ce",
        "partially_accepted": "partially_accepted partial pac",
        "brute_force": "brute_force bruteforce brute naive",
        "rejected": "rejected bad fail",
    }.items()
    for alias in aliases.split()
}

_TAG = re.compile(rb"@EXPECTED_RESULTS@:[ \t]*([A-Za-z, \t_-]{1,200})")
# DOMjudge's words. What it calls a run error may be the memory limit; having printed nothing is a wrong answer.
_WORDS = {
    "CORRECT": (Verdict.AC,),
    "ACCEPTED": (Verdict.AC,),
    "WRONG-ANSWER": (Verdict.WA,),
    "NO-OUTPUT": (Verdict.WA,),
    "TIMELIMIT": (Verdict.TLE,),
    "TIME-LIMIT": (Verdict.TLE,),
    "RUN-ERROR": (Verdict.RTE, Verdict.MLE, Verdict.SV),
    "MEMORY-LIMIT": (Verdict.MLE, Verdict.RTE),
    "OUTPUT-LIMIT": (Verdict.OLE,),
    "COMPILER-ERROR": (Verdict.CE,),
}


def folder_of(path: str) -> str:
    """The folder of submissions/ that a path lies in, by the format's name for it: `accepted` for `AC/a.cpp`."""
    top = path.partition("/")[0]
    return known_folder(top) or top


def known_folder(word: str) -> str | None:
    """The format's name for a folder that is called so: `time_limit_exceeded` for `Time-Limit`; None: nobody's word."""
    return _FOLDERS.get(re.sub(r"[^a-z]+", "_", word.lower()).strip("_"))


def expected(sources: Iterable[bytes]) -> frozenset[Verdict]:
    """The verdicts that the first annotation among a submission's files allows; empty when there is none."""
    for source in sources:
        match = _TAG.search(source)
        if match is not None:
            words = match[1].decode("ascii").upper().replace("_", "-").split(",")
            return frozenset(verdict for word in words for verdict in _WORDS.get(word.strip(), ()))
    return frozenset()
