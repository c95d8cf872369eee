"""Clients of a cluster: a stream of submissions with a ledger, Postman's collection, a terminal session."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import operator
import os
import queue
import re
import subprocess
import sys
import threading
import time
import uuid
import venv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

import httpx
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import judge_client
from judge.common.errors import DeadlineError, JudgeError, OutcomeUnknownError, UnauthorizedError, UnavailableError
from judge.ctl.api import Api
from judge.model import messages as m
from tests.support.servers import wait_for

JUDGED = "judged: "  # a task's history says so of the attempt whose verdict was committed


@dataclass(frozen=True)
class FinalTask:
    """A finished task as the client saw it: what must never change again."""

    id: str
    key: str | None
    status: str
    verdict: str | None
    attempt: int
    judged_by: str | None
    judged: int
    reason: str = ""

    @classmethod
    def of(cls, task: m.Task) -> FinalTask:
        """Out of the API's answer; `judged` counts the verdicts that its history speaks of."""
        return cls(
            id=task.id,
            key=task.submission.idempotency_key,
            status=task.status.value,
            verdict=task.verdict.value if task.verdict is not None else None,
            attempt=task.attempt,
            judged_by=task.judged_by,
            judged=sum(past.reason.startswith(JUDGED) for past in task.history),
            reason=task.result.reason if task.result is not None else "",
        )


@dataclass
class Ledger:
    """Everything that one client did and was told.

    `offered` maps each idempotency key to the only right verdict, `acknowledged` to every id that it was answered with.
    `seen` has each finished task as it was seen first, `ended` as it was when all was over, and `listed` what the
    cluster lists then: (id, key) of all its tasks, finished or not.
    """

    offered: dict[str, str] = field(default_factory=dict)
    acknowledged: list[tuple[str, str, float]] = field(default_factory=list)
    seen: dict[str, tuple[FinalTask, float]] = field(default_factory=dict)
    ended: dict[str, FinalTask] = field(default_factory=dict)
    listed: list[tuple[str, str | None]] = field(default_factory=list)

    @property
    def ids(self) -> set[str]:
        return {task for _, task, _ in self.acknowledged}

    def waiting(self) -> set[str]:
        """Promised, and not seen finished yet."""
        return self.ids - self.seen.keys()


def faults(ledger: Ledger) -> list[str]:
    """Every broken promise as one sentence; empty when nothing was lost, doubled, changed, or judged wrong."""
    return [
        *_keys(ledger),
        *_losses(ledger),
        *_doubled(ledger),
        *(fault for final in ledger.ended.values() for fault in _verdict(ledger, final)),
    ]


def _keys(ledger: Ledger) -> Iterable[str]:
    ids: dict[str, set[str]] = {}
    keys: dict[str, set[str]] = {}
    for key, task, _ in ledger.acknowledged:
        ids.setdefault(key, set()).add(task)
        keys.setdefault(task, set()).add(key)
        if key not in ledger.offered:
            yield f"{task} was acknowledged for key {key}, which was never handed in"
    for key, tasks in ids.items():
        if len(tasks) > 1:
            yield f"doubled: key {key} was acknowledged as {', '.join(sorted(tasks))}"
    for task, several in keys.items():
        if len(several) > 1:
            yield f"lost: {task} was the answer to several submissions: {', '.join(sorted(several))}"
    for key in ledger.offered.keys() - ids.keys():
        yield f"lost: key {key} was never acknowledged"


def _losses(ledger: Ledger) -> Iterable[str]:
    listed = {task for task, _ in ledger.listed}
    for task in sorted(ledger.ids):
        if task not in listed:
            yield f"lost: {task} was acknowledged and is not listed"
        if task not in ledger.ended:
            yield f"lost: {task} was acknowledged and has no verdict"
    for task in sorted(ledger.seen.keys() - ledger.ended.keys() - ledger.ids):
        yield f"lost: {task} had a verdict and is gone"


def _doubled(ledger: Ledger) -> Iterable[str]:
    for task, count in Counter(task for task, _ in ledger.listed).items():
        if count > 1:
            yield f"doubled: {task} is listed {count} times"
    for key, count in Counter(key for _, key in ledger.listed if key is not None).items():
        if count > 1:
            yield f"doubled: key {key} made {count} tasks"
    for task, key in ledger.listed:
        if task not in ledger.ids:
            yield f"doubled: {task} (key {key}) is listed and was acknowledged to nobody"


def _verdict(ledger: Ledger, final: FinalTask) -> Iterable[str]:
    first = ledger.seen.get(final.id)
    if first is not None and first[0] != final:
        yield f"changed: {final.id} was {first[0]} and became {final}"
    if final.judged != 1:
        yield f"{'doubled' if final.judged else 'wrong'}: {final.id} was judged {final.judged} times"
    expected = ledger.offered.get(final.key or "")
    if final.verdict != expected:
        reason = f" ({final.reason})" if final.reason else ""
        yield f"wrong: {final.id} (key {final.key}) is {final.verdict}, not {expected}{reason}"


@dataclass(frozen=True)
class Outage:
    """What a client noticed of an event, in seconds: the longest time without an acknowledgement, and without a
    verdict, that overlaps what followed it; and how long after it the first new submission was judged."""

    acknowledged: float
    verdicts: float
    flowing: float | None


def longest_gap(times: Iterable[float], begin: float, end: float) -> float:
    marks = [begin, *sorted(time for time in times if begin < time < end), end]
    return max(later - earlier for earlier, later in itertools.pairwise(marks))


def outage(ledger: Ledger, event: float, end: float) -> Outage:
    acknowledged: Mapping[str, float] = {task: moment for _, task, moment in reversed(ledger.acknowledged)}
    new = [moment for task, (_, moment) in ledger.seen.items() if acknowledged.get(task, event) > event]
    return Outage(
        acknowledged=longest_gap(acknowledged.values(), event, end),
        verdicts=longest_gap((moment for _, moment in ledger.seen.values()), event, end),
        flowing=min(new) - event if new else None,
    )


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
        limit: int = 20,
        patience: float = 600.0,
        enter: Callable[[], None] = lambda: None,
    ) -> None:
        """`interval` seconds between two submissions, unless `limit` of them wait for their verdicts already.

        `connect` gives a client whose calls take so many seconds at most; `patience` seconds are all that one answer
        may take. `enter` is called first in every thread that makes calls.
        """
        self.user = f"crowd-{uuid.uuid4().hex[:8]}"
        self.ledger = Ledger()
        self._line = functools.partial(_Line, connect, patience)
        self._interval = interval
        self._cases = itertools.cycle(cases)
        self._enter = enter
        self._most = limit
        self._lock = threading.Lock()
        self._due: queue.SimpleQueue[m.Submission | None] = queue.SimpleQueue()
        self._over = threading.Event()
        self._watching = threading.Event()
        self._failure: BaseException | None = None
        self._clock = threading.Thread(target=self._run, args=(self._make,), daemon=True)
        self._crews = [threading.Thread(target=self._run, args=(self._hand_in,), daemon=True) for _ in range(crews)]
        self._watcher = threading.Thread(target=self._run, args=(self._watch,), daemon=True)

    def __enter__(self) -> Stream:
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
        self.check()
        return len(self.ledger.seen)

    def flows(self, count: int = 3, timeout: float = 300.0) -> None:
        """Wait for the verdicts of `more` submissions that are handed in from now on."""
        earlier = set(self.ledger.ids)

        def new() -> bool:
            self.check()
            return len(set(self.ledger.seen) - earlier) >= count

        wait_for(new, timeout, f"{count} new verdicts")

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
        sentences = faults(ledger)
        assert not sentences, "\n".join([f"{len(sentences)} of {len(ledger.offered)}:", *sentences[:20]])
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
                            self.ledger.seen[task.id] = (FinalTask.of(task), time.monotonic())

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
                        self.ledger.ended[task_id] = FinalTask.of(task)


def figures_line(fields: dict[str, Any]) -> str:
    """Measured figures as one line for people: seconds with two digits."""
    return ", ".join(
        f"{name} {value:.2f} s" if isinstance(value, float) else f"{name} {value}" for name, value in fields.items()
    )


FILE = Path(judge_client.__file__).parent / "judge.postman.json"
# Scripts of a collection may only do this here: a variable is set from the answer.
SCRIPT = re.compile(r"pm\.collectionVariables\.set\('(\w+)', pm\.response\.json\(\)\.(\w+)\);")


class Collection:
    """Its requests, with the variables that somebody sets in an environment before those of its own."""

    def __init__(self, **values: str) -> None:
        document = json.loads(FILE.read_text(encoding="utf-8"))
        self.folders: dict[str, list[Any]] = {folder["name"]: folder["item"] for folder in document["item"]}
        self.variables = {variable["key"]: variable["value"] for variable in document["variable"]}
        assert values.keys() <= self.variables.keys()
        self.given = values
        self._auth = document["auth"]

    def filled(self, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            if match[1] == "$guid":
                return str(uuid.uuid4())
            return self.given.get(match[1]) or self.variables[match[1]]

        return re.sub(r"{{([$\w]+)}}", value, text)

    def address(self, url: dict[str, Any]) -> str:
        """Where a request goes, of the parts; `raw` is the same for people."""
        places = {part["key"]: quote(self.filled(part["value"]), safe="") for part in url.get("variable", [])}
        assert all(places.values()), f"{url['raw']} is about nothing: {places}"
        path = [places[part[1:]] if part.startswith(":") else part for part in url["path"]]
        query = [f"{item['key']}={self.filled(item['value'])}" for item in url.get("query", []) if not item["disabled"]]
        assert url["raw"].partition("?")[0] == "/".join([*url["host"], *url["path"]])
        return "/".join([self.filled(url["host"][0]), *path]) + ("?" + "&".join(query) if query else "")

    def run(self, item: dict[str, Any]) -> int:
        """Send one request, again while the cluster cannot answer now; the status of the answer."""
        status = wait_for(
            lambda: (status := self._run(item)) not in {503, 504} and status, 60, f"an answer to {item['name']}"
        )
        assert isinstance(status, int)
        return status

    def _run(self, item: dict[str, Any]) -> int:
        request = item["request"]
        headers = {header["key"]: self.filled(header["value"]) for header in request["header"]}
        if request.get("auth", self._auth)["type"] == "bearer":
            headers["Authorization"] = f"Bearer {self.filled(self._auth['bearer'][0]['value'])}"
        body = request.get("body", {})
        content = self.filled(body["raw"]).encode() if body.get("mode") == "raw" else b"" if body else None
        with (
            httpx.Client(trust_env=False, timeout=60) as client,
            client.stream(request["method"], self.address(request["url"]), headers=headers, content=content) as answer,
        ):
            if item["name"] == "events":
                next(answer.iter_lines())
                return answer.status_code
            answer.read()
            for event in item.get("event", []):
                for line in event["script"]["exec"]:
                    script = SCRIPT.fullmatch(line)
                    assert script is not None, line
                    if answer.is_success:
                        self.variables[script[1]] = str(answer.json()[script[2]])
        return answer.status_code


COLUMNS: Final = 116
# As rich's own, without the fonts that it would load from another site.
_FRAME: Final = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg"
 role="img" aria-label="a session with judgectl">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
 font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
"""


def run_in_terminal(command: str, directory: Path, env: Mapping[str, str]) -> Text:
    """What a shell's command prints, coloured as on a terminal of this width; a failure is shown like anything else."""
    environment = {**os.environ, **env, "FORCE_COLOR": "1", "TTY_INTERACTIVE": "0", "COLUMNS": str(COLUMNS)}
    completed = subprocess.run(
        ["bash", "-c", command], cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL, text=True, timeout=300, check=False,
    )  # fmt: skip
    text = re.sub(r"\x1b\[\?25[lh]", "", completed.stdout)
    return Text.from_ansi(re.sub(r"\n[\s\n]*\n", "\n", text).strip("\n"))


def terminal_svg(session: Sequence[tuple[str, Text]], title: str) -> str:
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123 - it is no file of ours
        console = Console(record=True, width=COLUMNS, file=nowhere, force_terminal=True, color_system="truecolor")
        for number, (command, printed) in enumerate(session):
            if number:
                console.print()
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=True)
            console.print(printed, soft_wrap=True)
        return console.export_svg(title=title, theme=MONOKAI, code_format=_FRAME, unique_id="session")


def installed(project: Path, directory: Path, *options: str) -> Path:
    """Where the programs of a virtual environment are that has nothing but the wheel of a project."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", directory, project]
    subprocess.run(wheel, check=True, capture_output=True)
    (package,) = directory.glob("*.whl")
    venv.create(directory / "venv", with_pip=False)
    install = [*pip, "--python", directory / "venv/bin/python", "install", "--no-index", *options, package]
    subprocess.run(install, check=True, capture_output=True)
    return directory / "venv/bin"
