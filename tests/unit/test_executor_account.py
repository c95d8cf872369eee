"""What a submission has taken of its allowance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.common.text import decimal
from judge.config.allowance import UNLIMITED, Allowance
from judge.executor.slot.account import Account

SECONDS = st.floats(0, 100)


@given(st.lists(SECONDS, max_size=20), st.floats(1, 300), st.booleans())
def test_the_time_is_used_up_exactly_once_the_sum_reaches_it(costs, total, problem):
    account = Account(Allowance(own_seconds=total, problem_seconds=total), problem=problem)
    for count, cost in enumerate(costs, 1):
        account.spend(cost)
        assert account.over is (sum(costs[:count]) >= total - 0.001)
        assert account.remaining == max(0.0, total - account.spent)
    assert f"{decimal(total)} s" in account.sentence


@given(st.lists(st.tuples(SECONDS, SECONDS), max_size=20), st.integers(0, 6), SECONDS)
def test_repetitions_end_with_their_number_and_their_time(wishes, repeats, alone):
    """Nothing is begun that should take longer than there is."""
    account = Account(Allowance(repeats=repeats, alone_seconds=alone), problem=True)
    count, used = 0, 0.0
    for needs, took in wishes:
        refusal = account.refusal(needs)
        assert bool(refusal) is (count >= repeats or needs > max(0.0, alone - used))
        if not refusal:
            account.repeated(took)
            count, used = count + 1, used + took
    assert count <= repeats
    assert account.alone_remaining == max(0.0, alone - used)


@pytest.mark.parametrize(("problem", "name"), [(True, "problem_seconds"), (False, "own_seconds")])
def test_the_sentence_names_the_limit(problem, name):
    account = Account(Allowance(own_seconds=300, problem_seconds=300), problem=problem)
    assert account.sentence == (
        f"total time exceeded: all runs of this submission together may take 300 s ({name}); later tests are not run"
    )
    assert account.repeatable is problem


@given(st.lists(SECONDS))
def test_without_limits_nothing_is_refused(costs):
    account = Account(UNLIMITED, problem=True)
    for cost in costs:
        account.spend(cost)
        account.repeated(cost)
        assert account.refusal(cost) == ""
        assert not account.over
