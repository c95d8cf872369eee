"""A crowd at the gateway: hands in at a steady rate through the HTTP API, as careful clients do, and writes down all.

Each submission has an idempotency key and is repeated until it is acknowledged (judge.ctl.api does that, and who gets
no answer begins anew with what client.yml says by then: tokens and authorities change). So whatever happens to the
cluster meanwhile, every one must end in one verdict, the right one. tests.support.ledger tells.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import queue
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from judge.ctl.api import Api
from judge.errors import DeadlineError, JudgeError, OutcomeUnknownError, UnauthorizedError, UnavailableError
from judge.model import messages as m
from tests.support.ledger import Final, Ledger, faults
from tests.support.servers import wait_for

T = TypeVar("T")

# Verdicts are looked for this often, in seconds: they are seen so much later than they were committed.
LOOK = 0.2
PAGE = 100
# Seconds. Machines are busy while others start and die: no right program may fail for want of a processor.
AMPLE = 20.0
WALL = 120.0
CALL = 5.0  # seconds, before a client is made anew
AGAIN = (DeadlineError, OutcomeUnknownError, UnauthorizedError, UnavailableError)


@dataclass(frozen=True)
class Case:
    """One kind of submission with its right verdict; `{n}` in the source makes each one different."""

    language: str | None
    source: str
    verdict: m.Verdict
    cpu: float = AMPLE

    def submission(self, user: str, number: int) -> m.Submission:
        """The `number`-th of a stream: it reads n and must print its square."""
        test = m.Test(name="1", input=f"{number}\n", answer=f"{number * number}\n")
        text = self.source.replace("{n}", str(number))
        program = {"command": text} if self.language is None else {"language": self.language, "source": text}
        limits = m.LimitsOverride(cpu=self.cpu, wall=WALL)
        return m.Submission(user=user, tests=[test], limits=limits, idempotency_key=f"{user}-{number}", **program)


def _c(body: str) -> str:
    return f'// {{n}}\n#include <stdio.h>\nint main(void) {{ long n; if (scanf("%ld", &n) != 1) return 1; {body} }}\n'


CASES = (
    Case("c", _c('printf("%ld\\n", n * n); return 0;'), m.Verdict.AC),
    Case("python3", "n = int(input())  # {n}\nprint(n * n)\n", m.Verdict.AC),
    Case("c", _c('printf("%ld\\n", n * n + 1); return 0;'), m.Verdict.WA),
    Case("python3", "import sys  # {n}\nsys.exit(3)\n", m.Verdict.RTE),
    Case("c", "int main(void) { return {n} }\n", m.Verdict.CE),
    Case(None, "read n; echo $((n * n)) # {n}", m.Verdict.AC),
    Case("c", _c("for (volatile long i = 0;; i++) n += i;"), m.Verdict.TLE, cpu=0.2),
    Case("cpp", '#include <cstdio>\nint main() { long n; scanf("%ld", &n); printf("%ld", n * n); } // {n}\n',
         m.Verdict.AC),
    Case("python3", "def broken(: # {n}\n", m.Verdict.CE),
    Case("c", _c("n = *(volatile int *)n; return 0;"), m.Verdict.RTE),
)  # fmt: skip


class _Line:
    """A connection to the gateway that is made anew when nothing comes of a call."""

    def __init__(self, connect: Callable[[float], Api], patience: float) -> None:
        self._connect, self._patience = connect, patience
        self._api = connect(CALL)

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.__exit__()

    def ask(self, question: Callable[[Api], T]) -> T:
        end = time.monotonic() + self._patience
        while True:
            try:
                return question(self._api)
            except AGAIN:
                if time.monotonic() > end:
                    raise
            self._api.__exit__()
            self._api = self._connect(CALL)


class Stream:
    """Use as a context manager: it hands in until `finish`; the ledger may be looked at all the time.

    Several crews hand in side by side, so that one slow answer does not keep the others from being made.
    """

    def __init__(
        self,
        connect: Callable[[float], Api],
        *,
        interval: float,
        cases: Sequence[Case] = CASES,
        crews: int = 4,
        most: int = 20,
        patience: float = 600.0,
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        """`interval` seconds between two submissions, unless `most` of them wait for their verdicts already.

        `connect` gives a client whose calls take so many seconds at most; `patience` seconds are all that one answer
        may take. `enter` is called first in every thread that makes calls.
        """
        self.user = f"crowd-{uuid.uuid4().hex[:8]}"
        self.ledger = Ledger()
        self._line = functools.partial(_Line, connect, patience)
        self._interval = interval
        self._cases = itertools.cycle(cases)
        self._enter = enter
        self._most = most
        self._lock = threading.Lock()
        self._due: queue.SimpleQueue[m.Submission | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._watching = threading.Event()
        self._failure: BaseException | None = None
        self._clock = threading.Thread(target=self._run, args=(self._make,), daemon=True)
        self._crews = [threading.Thread(target=self._run, args=(self._hand_in,), daemon=True) for _ in range(crews)]
        self._watcher = threading.Thread(target=self._run, args=(self._watch,), daemon=True)

    def __enter__(self) -> Stream:
        """Begin."""
        for thread in (self._clock, self._watcher, *self._crews):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End all threads, whatever has become of the cluster; a call that is under way is left to itself."""
        self._over.set()
        self._watching.set()
        for _ in self._crews:
            self._due.put(None)

    # --- what tests ask ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise what ended one of the threads, if something did."""
        if self._failure is not None:
            raise AssertionError(f"the stream broke off: {self._failure}") from self._failure

    def judged(self) -> int:
        """How many verdicts were seen."""
        self.check()
        return len(self.ledger.seen)

    def flows(self, more: int = 3, timeout: float = 300.0) -> None:
        """Wait for the verdicts of `more` submissions that are handed in from now on."""
        known = set(self.ledger.ids)

        def new() -> bool:
            self.check()
            return len(set(self.ledger.seen) - known) >= more

        wait_for(new, timeout, f"{more} new verdicts")

    def finish(self, timeout: float = 300.0) -> Ledger:
        """Hand in no more, wait until all is acknowledged and judged, and read everything once more."""
        self._over.set()
        self._clock.join()
        for _ in self._crews:
            self._due.put(None)

        def ended() -> bool:
            self.check()
            return not any(crew.is_alive() for crew in self._crews) and not self._waiting()

        with contextlib.suppress(AssertionError):  # the ledger says it better: what is lost, by name
            wait_for(ended, timeout, "all verdicts")
        self.check()
        self._watching.set()
        self._watcher.join()
        # A thread of its own again: `enter` must not change the caller.
        reader = threading.Thread(target=self._run, args=(self._read_all,))
        reader.start()
        reader.join()
        self.check()
        return self.ledger

    def verify(self, timeout: float = 300.0) -> Ledger:
        """`finish`, and AssertionError unless every promise was kept."""
        ledger = self.finish(timeout)
        found = faults(ledger)
        assert not found, "\n".join([f"{len(found)} of {len(ledger.offered)}:", *found[:20]])
        return ledger

    # --- the threads -------------------------------------------------------------------------------------------

    def _run(self, work: Callable[[], None]) -> None:
        try:
            self._enter()
            work()
        except (JudgeError, OSError, ValueError, LookupError, RuntimeError) as exc:  # a test must see a thread's end
            self._failure = self._failure or exc

    def _make(self) -> None:
        """The clock: one submission per interval falls due, whatever the cluster does."""
        for number in itertools.count(1):
            case = next(self._cases)
            submission = case.submission(self.user, number)
            self.ledger.offered[str(submission.idempotency_key)] = case.verdict.value
            self._due.put(submission)
            due = time.monotonic() + self._interval
            while not self._over.wait(max(0.0, due - time.monotonic())):
                if number - len(self.ledger.seen) < self._most:
                    break
                due = time.monotonic() + self._interval
            else:
                return

    def _hand_in(self) -> None:
        with self._line() as line:
            while (submission := self._due.get()) is not None:
                task = line.ask(operator.methodcaller("submit", submission))
                with self._lock:
                    self.ledger.acknowledged.append((str(submission.idempotency_key), task.id, time.monotonic()))

    def _waiting(self) -> set[str]:
        with self._lock:
            return self.ledger.waiting()

    def _watch(self) -> None:
        with self._line() as line:
            while not self._watching.wait(LOOK):
                if waiting := self._waiting():
                    for task in self._pages(line, until=min(waiting)):
                        if task.done and task.id not in self.ledger.seen:
                            self.ledger.seen[task.id] = (Final.of(task), time.monotonic())

    def _pages(self, line: _Line, until: str = "") -> Iterator[m.Task]:
        """All tasks of this stream, newest first, down to the id `until`."""
        before: str | None = None
        while True:
            page = line.ask(operator.methodcaller("search", user=self.user, limit=PAGE, before=before))
            yield from page.tasks
            before = page.next
            if before is None or before <= until:
                return

    def _read_all(self) -> None:
        with self._line() as line:
            for task in self._pages(line):
                self.ledger.listed.append((task.id, task.submission.idempotency_key))
            for task_id in sorted(self.ledger.ids):
                with contextlib.suppress(JudgeError):  # it is missing then, which the ledger's faults say
                    task = line.ask(operator.methodcaller("get", task_id))
                    if task.done:
                        self.ledger.ended[task_id] = Final.of(task)


def told(fields: dict[str, Any]) -> str:
    """Measured figures as one line for people: seconds with two digits."""
    return ", ".join(
        f"{name} {value:.2f} s" if isinstance(value, float) else f"{name} {value}" for name, value in fields.items()
    )
