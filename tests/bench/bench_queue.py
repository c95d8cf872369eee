"""What a call costs with ever more tasks waiting: they are written straight into the store of a real judicator."""

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from judge.config.allowance import Allowance, Allowances
from judge.model import messages as m
from judge.model.overview import StatusReply
from tests.bench.ledger import Ledger, percentile, timed
from tests.support.judicators import World, accepted, source, waiting, write
from tests.support.servers import etcd_server, mongod_server, wait_for

SIZES = (10_000, 100_000, 1_000_000)
_USERS = 100
# Noise on a machine that does nothing else; what grows with the queue grows a hundredfold.
_GROWS = 2.0


def measure(ledger: Ledger, work: Path, sizes: Sequence[int], rounds: int) -> None:
    """Print a table, operation by number of waiting tasks; each median must not grow with the queue."""
    results: dict[str, list[list[float]]] = {}
    with etcd_server(work / "queue-etcd") as etcd, mongod_server(work / "queue-mongod") as mongod:
        for size in sizes:
            world = World(work / f"queue-{size}", etcd, mongod)
            try:
                for name, times in _measure_size(world, size, rounds).items():
                    results.setdefault(name, []).append(times)
            finally:
                world.close()
    print(f"{'ms, median / 99 %':<40}" + "".join(f"{size:>20,}" for size in sizes) + " waiting")
    for name, columns in results.items():
        cells = [f"{statistics.median(times) * 1000:.1f} / {percentile(times, 99) * 1000:.1f}" for times in columns]
        print(f"{name:<40}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
    for name, columns in results.items():
        medians = [statistics.median(times) for times in columns]
        ratio = max(medians) / medians[0]
        ledger.line(
            f"queue: {name}, the longest over the shortest", f"{ratio:.2f}", f"<= {_GROWS:g}", ok=ratio <= _GROWS
        )


def _measure_size(world: World, size: int, rounds: int) -> dict[str, list[float]]:
    allowances = Allowances(user=Allowance(waiting=None, slot_share=0.5, stored_bytes=None))
    judicator = world.judicator(
        executor_expiry=3600.0, executor_forget=7200.0, task_expiry=3600.0, allowances=allowances
    )
    # In front: a language that nobody has, what the executor has failed, a user at the share; then a hundred users.
    part = size // 4
    write(world.db, waiting(part, user="cobolist", needs="cobol", size=1000))
    write(world.db, waiting(part, user="broken", tried=["e1"], size=1000))
    write(world.db, waiting(part, user="full", size=1000))
    for number in range(_USERS):
        write(world.db, waiting(part // _USERS, user=f"user{number}", size=1000))
    people, executor = world.client(timeout=60.0), world.executor("e1", slots=4)
    executor.rpc = world.client("e1", "executor", timeout=60.0)
    second = world.executor("e2", slots=4)
    second.report(vacant=0)
    executor.report(vacant=0)
    wait_for(lambda: judicator.judicator.lead.leading, what="a leader")
    # The four slots that half of eight are go to each user who comes to the front; then it is the hundred users' turn.
    while not any(assignment.submission.user.startswith("user") for assignment in executor.work.values()):
        assert executor.report(vacant=1).add
    added: list[str] = []

    def add() -> None:
        added.append(people.call("add", source(user="newcomer", text="x" * 1000), m.AddReply).task.id)

    def hand_out() -> None:
        assignment = next(task for task in executor.work.values() if task.submission.user.startswith("user"))
        assert executor.report(accepted(assignment), vacant=1).add

    calls: dict[str, Callable[[], object]] = {
        "add": add,
        "end a task and be handed the next": hand_out,
        "status": lambda: people.call("status", m.Empty(), StatusReply),
        "search, by user": lambda: people.call("search", m.SearchRequest(user="user7"), m.SearchReply),
        "search, open ones": lambda: people.call("search", m.SearchRequest(done=False), m.SearchReply),
        "get, waiting for 1 ms": lambda: people.call("get", m.GetRequest(id=added[-1], wait=0.001), m.Task),
    }
    results = {}
    for name, call in calls.items():
        call()  # data that is read for the first time comes from the disk
        results[name] = [timed(call) for _ in range(rounds)]
    return results
