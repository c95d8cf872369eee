"""The order of the queue: properties of the pure functions (DESIGN 5, rule 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from judge.judicator.order import fair_order, may_take


@dataclass
class Queue:
    """The queue as the database keeps it, for one priority class."""

    waiting: list[tuple[int, int, str]] = field(default_factory=list)
    arrivals: int = 0

    def add(self, user: str) -> tuple[int, int, str]:
        head = min((order for order, _, _ in self.waiting), default=None)
        mine = max((order for order, _, who in self.waiting if who == user), default=None)
        self.arrivals += 1
        entry = (fair_order(head, mine), self.arrivals, user)
        self.waiting.append(entry)
        return entry

    def take(self) -> tuple[int, int, str]:
        first = min(self.waiting)
        self.waiting.remove(first)
        return first


USERS = st.sampled_from("abcd")
STEPS = st.lists(st.one_of(USERS, st.none()), max_size=80)


def play(steps: list[str | None]) -> Queue:
    queue = Queue()
    for step in steps:
        if step is not None:
            queue.add(step)
        elif queue.waiting:
            queue.take()
    return queue


@given(STEPS, USERS)
def test_a_users_own_tasks_keep_their_order(steps: list[str | None], user: str) -> None:
    queue = play(steps)
    mine = [arrival for _, arrival, who in sorted(queue.waiting) if who == user]
    assert mine == sorted(mine)


@given(STEPS)
def test_a_newcomer_waits_for_at_most_one_task_of_each_other_user(steps: list[str | None]) -> None:
    queue = play(steps)
    newcomer = queue.add("new")
    ahead = [who for entry in sorted(queue.waiting) if entry < newcomer for who in entry[2]]
    assert len(ahead) == len(set(ahead))


@given(STEPS, st.lists(USERS, max_size=30))
def test_later_arrivals_never_overtake_without_end(steps: list[str | None], later: list[str]) -> None:
    """Whoever waits is passed, from then on, by at most as many tasks of another user as its own place in line."""
    queue = play(steps)
    mine = queue.add("new")
    place = 1 + sum(1 for entry in queue.waiting if entry[2] == "new" and entry < mine)
    for user in later:
        queue.add(user)
    for user in "abcd":
        passed = [entry for entry in queue.waiting if entry[2] == user and entry[1] > mine[1] and entry < mine]
        assert len(passed) <= place


@given(st.integers(1, 30))
def test_the_nth_waiting_task_is_pushed_back_n_steps(count: int) -> None:
    queue = Queue()
    orders = [queue.add("a")[0] for _ in range(count)]
    assert orders == list(range(1, count + 1))


def test_a_thousand_of_one_user_do_not_delay_another() -> None:
    queue = Queue()
    for _ in range(1000):
        queue.add("a")
    queue.add("b")
    assert [queue.take()[2] for _ in range(3)] == ["a", "b", "a"]


ALIVE = st.dictionaries(st.sampled_from(["e2", "e3", "e4"]), st.frozensets(st.sampled_from(["c", "java"])))


@given(ALIVE, st.sets(st.sampled_from(["e1", "e2", "e3", "e4"])), st.sampled_from(["c", "java", ""]))
def test_a_failed_executor_gets_it_again_only_when_nobody_else_could(
    alive: dict[str, frozenset[str]], failed: set[str], needs: str
) -> None:
    others = {name for name, has in alive.items() if name not in failed and (not needs or needs in has)}
    assert may_take("e1", needs, failed, alive) == ("e1" not in failed or not others)
