"""What a playbook does to those who hand programs in meanwhile: each verb of docs/playbooks, measured, as one table.

A verb runs under a stream of submissions with idempotency keys, of which nothing may be lost, doubled or misjudged.
The rows of a run are printed at its end and written to out/verbs.md; docs/playbooks/README.md has them in a table.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.table import KILLED, PLANNED, ROWS, Verb, row_hosts
from tests.support.clients import Ledger, faults, outage
from tests.support.lab import ROOT, Run, Site

INTERVAL = 0.5  # seconds between two submissions
TABLE = ROOT / "out" / "verbs.md"
HEAD = (
    "| verb | hosts | seconds | longest without a verdict | without an acknowledgement | lost | doubled | wrong |",
    "|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Row:
    """One verb as it was measured; times are seconds, and the last three count submissions.

    They are None where nobody can hand in: no cluster is left.
    """

    verb: str
    hosts: str
    seconds: float
    verdicts: float | None = None
    acknowledged: float | None = None
    losses: int | None = None
    doubled: int | None = None
    wrong: int | None = None

    def line(self) -> str:
        times = ("-" if time is None else f"{time:.1f} s" for time in (self.verdicts, self.acknowledged))
        counts = ("-" if count is None else str(count) for count in (self.losses, self.doubled, self.wrong))
        return f"| {' | '.join((self.verb, self.hosts, f'{self.seconds:.0f}', *times, *counts))} |"


def playing(site: Site, *arguments: str, runs: list[Run] | None = None) -> Callable[[int], Run]:
    """What runs this playbook and kills it at its task of a number; each run is kept in `runs`."""

    def play(number: int) -> Run:
        run = site.play(*arguments, kill_at=number)
        if runs is not None:
            runs.append(run)
        return run

    return play


class Table:
    """The rows of one session, of whatever clusters."""

    def __init__(self, path: Path = TABLE) -> None:
        """The file at `path` is rewritten with every row."""
        self.path = path
        self.rows: list[Row] = []

    def keep(self, row: Row) -> None:
        """Put a row into the table; AssertionError for one that tests/cluster/table.py does not name."""
        self.rows.append(row)
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text("\n".join((*HEAD, *(row.line() for row in self.rows))) + "\n")
        assert (row.verb, row.hosts) in ROWS, f"tests/cluster/table.py does not name {row.line()}"


class Verbs:
    """The verbs of one session on one deployed cluster."""

    def __init__(self, site: Site, seed: int, table: Table) -> None:
        """`seed` decides where runs are cut off."""
        self.site, self.seed, self.table = site, seed, table
        self.late: list[str] = []
        self._control: Row | None = None

    @property
    def control(self) -> Row:
        """What a playbook that changes nothing costs: as much as Ansible, the hosts and the crowd on one machine do."""
        if self._control is None:
            self._control = self.measure("(site.yml, nothing to do)", self.site.hosts, lambda: self.site.site().check())
        return self._control

    def run(self, verb: Verb, act: Callable[[], object], suffix: str = "") -> Row | None:
        """A row of the table, as `measure` does it; None for what nobody can hand in meanwhile."""
        if not verb.streamed:
            act()
            return None
        # A killed one is a person's patience more, and the machines' that start it again.
        return self.measure(verb.title + suffix, verb.hosts, act, planned=verb.planned and not suffix)

    def measure(
        self, verb: str, hosts: Sequence[str], act: Callable[[], object], *, planned: bool = False, settle: int = 3
    ) -> Row:
        """Do it under the stream, and keep the row; AssertionError when something was lost, doubled or misjudged.

        `planned`: verdicts are away for PLANNED seconds at most, whatever a playbook costs that changes nothing. What
        takes longer is `late`, and the test fails at its end, so that it leaves a whole cluster to the others.

        `act` runs the playbook and checks it. Afterwards `settle` new submissions have to be judged, which belongs to
        what is measured: a verb that ends with a cluster that stands still has not ended.
        """
        with self.site.stream(INTERVAL) as crowd:
            crowd.flows()
            began = time.monotonic()
            act()
            seconds = time.monotonic() - began
            crowd.flows(settle)
            ended = time.monotonic()
            ledger = crowd.finish()
        noticed = outage(ledger, began, ended)
        row = self._row(verb, hosts, seconds, noticed.verdicts, noticed.acknowledged, ledger)
        self.table.keep(row)
        broken = faults(ledger)
        assert not broken, "\n".join([f"{len(broken)} of {len(ledger.offered)}:", *broken[:20]])
        if planned and noticed.verdicts > PLANNED:
            self.late.append(row.line())
        return row

    def in_time(self) -> None:
        """AssertionError when a planned verb kept verdicts away for too long since the last call."""
        late, self.late = self.late, []
        assert not late, f"verdicts were away for more than {PLANNED:g} s:\n" + "\n".join(late)

    @staticmethod
    def _row(
        verb: str, hosts: Sequence[str], seconds: float, verdicts: float, acknowledged: float, ledger: Ledger
    ) -> Row:
        kinds = [text.partition(":")[0] for text in faults(ledger)]
        losses, doubled = kinds.count("lost"), kinds.count("doubled")
        wrong = len(kinds) - losses - doubled
        return Row(verb, row_hosts(hosts), seconds, verdicts, acknowledged, losses, doubled, wrong)

    def killed(self, verb: str, hosts: Sequence[str], tasks: int, play: Callable[[int], Run]) -> list[str]:
        """`cut_off` under the stream, with a row of its own: nothing is lost, however long a person takes to go on."""
        reached: list[str] = []
        self.measure(verb + KILLED, hosts, lambda: reached.extend(self.cut_off(verb, tasks, play)))
        return reached

    def cut_off(self, verb: str, tasks: int, play: Callable[[int], Run], times: int = 3) -> list[str]:
        """Kill a playbook `times` times in a row, each at another task, and run it to its end; where it was killed.

        `tasks` is how many a whole run begins; `play(N)` runs it and kills it at its Nth task, with 0 to its end.
        JUDGE_TEST_SEED repeats the choice, which is the verb's own. A run that has fewer tasks comes to its end, as
        one that goes on may; then the rest is chosen among those that it had. AssertionError when it was killed less
        often.
        """
        chance = random.Random(f"{self.seed} {verb}")
        reached: list[str] = []
        ended = 0
        numbers = self._chosen(chance, tasks, times)
        while numbers:
            run = play(numbers[0])
            if run.code == 0:
                ended += 1
                assert ended <= times, f"{verb} was killed {len(reached)} times instead of {times}: {run.text[-6000:]}"
                numbers = self._chosen(chance, len(run.tasks), len(numbers))
                continue
            assert run.code < 0, f"{verb} ended with {run.code} before it was killed: {run.text[-6000:]}"
            assert len(run.tasks) <= numbers.pop(0), run.text[-6000:]
            reached.append(run.tasks[-1] if run.tasks else "the start")
        assert len(reached) == times
        play(0).check()
        return reached

    @staticmethod
    def _chosen(chance: random.Random, tasks: int, times: int) -> list[int]:
        """The numbers of the tasks at which a run is killed, each further than the one before."""
        return sorted(chance.sample(range(2, max(tasks, times + 2)), times))
