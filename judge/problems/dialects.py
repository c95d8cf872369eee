"""Differences between the two big judges of the format, beyond scores: one table (docs/judging.md).

`judge.problems.scoring` has the readings of scores. An executor of a release before the table refuses manifests that
say `dialect` or `format`, so it judges none of these otherwise.
"""

from __future__ import annotations

from judge.model.problem import ProblemManifest

# The INPUT of a validator in the later passes of a multi-pass problem, by dialect, else by format; the test's own where
# neither says it. DOMjudge (judgedaemon, runTestcase) and BAPCtools (Run._prepare_nextpass) hand the validator what the
# program has just read; the format's drafts are used with these tools. Kattis' legacy format has the `.in`.
_NEXT_INPUT = {"domjudge": True, "kattis": False}
_NEXT_INPUT_FORMATS = frozenset({"2023-07-draft", "2025-09"})


def later_input_is_next(manifest: ProblemManifest) -> bool:
    """Return whether a validator finds the earlier pass's `nextpass.in` as its INPUT, not the test's; executors ask."""
    return _NEXT_INPUT.get(manifest.dialect, manifest.format in _NEXT_INPUT_FORMATS)
