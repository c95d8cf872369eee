"""DOMjudge's annotation in a source of the verdicts that it may get: `@EXPECTED_RESULTS@: CORRECT, TIMELIMIT`.

Juries put such sources into folders of any name, such as `mixed/`; in the format's own folders it means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from judge.model.verdicts import Verdict

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


def expected(sources: Iterable[bytes]) -> frozenset[Verdict]:
    """The verdicts that the first annotation among a submission's files allows; empty when there is none."""
    for source in sources:
        match = _TAG.search(source)
        if match is not None:
            words = match[1].decode("ascii").upper().replace("_", "-").split(",")
            return frozenset(verdict for word in words for verdict in _WORDS.get(word.strip(), ()))
    return frozenset()
