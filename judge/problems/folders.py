"""Folders of submissions/ by the names that people give them; for expectations and importers."""

from __future__ import annotations

import re

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


def folder_of(path: str) -> str:
    """The folder of submissions/ that a path lies in, by the format's name for it: `accepted` for `AC/a.cpp`."""
    top = path.partition("/")[0]
    return known_folder(top) or top


def known_folder(word: str) -> str | None:
    """The format's name for a folder that is called so: `time_limit_exceeded` for `Time-Limit`; None: nobody's word."""
    return _FOLDERS.get(re.sub(r"[^a-z]+", "_", word.lower()).strip("_"))
