"""The right number, printed by a program that is short enough."""

from dmoj.result import CheckerResult

MOST = 60


def check(process_output, judge_output, submission_source, **kwargs):
    if len(submission_source.strip()) > MOST:
        return CheckerResult(False, 0, f"the program has more than {MOST} bytes")
    return process_output.split() == judge_output.split()
