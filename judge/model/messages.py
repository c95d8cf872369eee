"""The messages between hosts and of the HTTP API: pydantic models only, no behaviour (docs/protocol.md).

Units: seconds, bytes. Blobs are named by the SHA-256 of their content in lower-case hex.
"""

from __future__ import annotations

import base64
import uuid
from typing import Annotated, Final, Literal, Self

from pydantic import Field, StringConstraints

from judge.common.errors import JudgeError
from judge.config.allowance import Allowance, Role
from judge.model.base import CoreSpeed, Rate, rate_of
from judge.model.base import Message as Message  # noqa: PLC0414 - the base of all here
from judge.model.base import SearchTime as SearchTime  # noqa: PLC0414
from judge.model.cause import Origin
from judge.model.names import FileName as FileName  # noqa: PLC0414 - problems and submissions have files
from judge.model.names import SourceName
from judge.model.verdicts import Status as Status  # noqa: PLC0414 - messages have both, and so may who reads them
from judge.model.verdicts import Verdict as Verdict  # noqa: PLC0414

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
TaskId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{24}$")]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$")]
# Names that a person may call a language by; `judge.languages.table.find` knows which row is meant.
LanguageName = Annotated[str, StringConstraints(pattern=r"^[^\s\x00](?:[^\n\r\x00]{0,78}[^\s\x00])?$")]
# One id from the API call to the sandbox; every log line about the task names it. Empty: from before there were any.
Trace = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,63})?$")]

# Whatever an executor sends is bounded, as a compromised one may send anything: names, texts, numbers that BSON has.
Line = Annotated[str, StringConstraints(max_length=4096)]
Text = Annotated[str, StringConstraints(max_length=4 * 1024**2)]
Claim = Annotated[str, StringConstraints(max_length=128)]
Integer = Annotated[int, Field(ge=-(2**63), lt=2**63)]

# Bounds nobody exceeds by mistake. Without a bound a few megabytes of JSON become gigabytes of objects, or of faults.
TESTS: Final = 10_000
RESULTS: Final = 100_000
# Names in one question: those of all files of a package, and of all its tests.
BLOBS: Final = 30_000
# Of one submission. A cluster's own limit (`limits.files`) is lower.
FILES: Final = 1000
# Of one executor, by its own word: shares are parts of all slots, and a report gets as many tasks as it asks for.
SLOTS: Final = 4096
# Languages of one executor, and characters of a version; findings of its machine check, and characters of each.
LANGUAGES, VERSION = 200, 200
FINDINGS, FINDING = 1000, 1000


class Limits(Message):
    """The limits of one run. Kattis format defaults where it has one."""

    cpu: float = Field(default=2.0, gt=0, le=600, description="CPU seconds of all processes of one run")
    wall: float | None = Field(default=None, gt=0, le=3600, description="wall seconds; default 2 * cpu + 1")
    memory: int = Field(default=512 * 1024**2, ge=4 * 1024**2, le=64 * 1024**3, description="bytes")
    output: int = Field(default=8 * 1024**2, ge=1, le=1024**3, description="bytes of stdout, of stderr, of any file")
    processes: int = Field(default=64, ge=1, le=4096, description="processes and threads")
    stack: Integer | None = Field(default=None, ge=64 * 1024, description="bytes; default: the memory limit")
    files: int = Field(default=256, ge=8, le=65536, description="open files")

    @property
    def wall_seconds(self) -> float:
        return self.wall if self.wall is not None else 2 * self.cpu + 1


class LimitsOverride(Message):
    """Limits that a submitter without a problem may ask for; None keeps the default."""

    cpu: float | None = Field(default=None, gt=0, le=60)
    wall: float | None = Field(default=None, gt=0, le=120)
    memory: int | None = Field(default=None, ge=4 * 1024**2, le=4 * 1024**3)
    output: int | None = Field(default=None, ge=1, le=64 * 1024**2)
    processes: int | None = Field(default=None, ge=1, le=1024)
    stack: int | None = Field(default=None, ge=64 * 1024, le=4 * 1024**3)


class RunOptions(Message):
    """The way to build, run and judge a program without a problem, beside what its language's row says."""

    compiler: list[str] = Field(
        default_factory=list,
        max_length=256,
        description="additional arguments of the compiler, if the language's row allows them",
    )
    arguments: list[str] = Field(default_factory=list, max_length=256, description="of the program, not of a command")
    merged: bool = Field(default=False, description="stderr is redirected to stdout")
    alone: bool = Field(
        default=False, description="only `entry` of `files` is compiled; all files are in its directory"
    )
    unchecked: bool = Field(default=False, description="a source that needs no compiler is not checked")
    lines: bool = Field(
        default=False,
        description="outputs are compared line by line, without the blanks at the end of each line and of the output",
    )
    outputs: bool = Field(default=False, description="the whole outputs and the files of the last run are kept")


class Test(Message):
    """One inline test: text, or a blob. Without an answer any output is right (the seed's command task)."""

    __test__ = False  # not a pytest class

    name: Identifier
    input: str | None = None
    input_blob: Sha256 | None = None
    answer: str | None = None
    answer_blob: Sha256 | None = None

    @property
    def answered(self) -> bool:
        """Return whether outputs are compared with an answer; else AC means that the program ran to its end."""
        return self.answer is not None or self.answer_blob is not None


class SourceFile(Message):
    """One file of a submission: `text`, or `base64` of bytes that are no UTF-8 text. Neither: it is in a list only."""

    name: SourceName
    text: str | None = None
    base64: str | None = None

    @classmethod
    def of(cls, name: str, data: bytes) -> Self:
        """A file with this content, which is kept byte by byte; ValidationError for a name that may not be."""
        try:
            return cls(name=name, text=data.decode("utf-8"))
        except UnicodeDecodeError:
            return cls(name=name, base64=base64.b64encode(data).decode())

    @property
    def data(self) -> bytes:
        """The content. ValueError when `base64` is none, or `text` has half of a surrogate pair."""
        if self.base64 is not None:
            return base64.b64decode(self.base64, validate=True)
        return (self.text or "").encode()


class Submission(Message):
    """A person's submission: `language` + `source` or `files`, or the seed's plain `command` (with `compile`).

    Judged against `problem`, or inline `tests`, or else run once on `stdin`.
    """

    user: str = Field(default="", max_length=64, description="set by the gateway from the token")
    role: Role = Field(default="user", description="set by the gateway from the token; its allowance is in force")
    language: LanguageName | None = Field(default=None, description="by any of its names; stored under its main name")
    source: str | None = None
    filename: str | None = Field(default=None, max_length=255, description="the name of the file or archive")
    files: list[SourceFile] = Field(default_factory=list, max_length=FILES, description="instead of `source`")
    entry: str | None = Field(
        default=None, min_length=1, max_length=255, description="the file of `files`, or the class, that is started"
    )
    compile: str | None = Field(default=None, max_length=4096, description="shell command, may leave files behind")
    command: str | None = Field(default=None, max_length=4096, description="shell command, stdin to stdout")
    stdin: str | None = None
    problem: Identifier | None = None
    problem_hash: Sha256 | None = Field(
        default=None,
        description="admins only: judge against this uploaded manifest, which need not be a problem's current one",
    )
    check: Literal["inputs", "answers", "statements"] | None = Field(
        default=None,
        description="admins only: instead of a program, run the package's input validators on each test's input, or "
        "its output validator on each test's answer, or render its statements",
    )
    tool: Literal["pandoc", "pdftocairo"] | None = Field(
        default=None, description="admins only: a program that `command` calls; only executors that have it judge this"
    )
    cause: Origin | None = Field(
        default=None, description="judges only: the kind of system run; none: a person's submission"
    )
    tests: list[Test] = Field(default_factory=list, max_length=TESTS)
    limits: LimitsOverride = Field(default_factory=LimitsOverride)
    options: RunOptions | None = None
    told: dict[Identifier, str | int | float | bool] = Field(
        default_factory=dict,
        max_length=64,
        description="set by the gateway: fields of Judge0's API, which returns them",
    )
    contents: dict[Sha256, str] = Field(default_factory=dict, description="set by the gateway: tests' blobs, as Base64")
    mode: Literal["lazy", "full"] = Field(
        default="lazy", description="lazy: judging ends where the verdict is decided; full: every test is run"
    )
    priority: Literal["high", "normal", "low"] = "normal"
    idempotency_key: str | None = Field(default=None, min_length=1, max_length=128)
    trace: Trace = Field(default="", description="set by the gateway: X-Request-Id, or traceparent, or a fresh one")

    @property
    def is_free_run(self) -> bool:
        """Return whether it is run once and compared with nothing, so that AC means that it ran to its end."""
        return self.problem is None and not self.tests

    @property
    def characters(self) -> int:
        """How many characters its texts have together; what a serialisation takes is about as much."""
        files = (text for file in self.files for text in (file.name, file.text, file.base64))
        tests = (text for test in self.tests for text in (test.name, test.input, test.answer))
        texts = (self.source, self.stdin, self.command, self.compile, *files, *tests, *self.contents.values())
        return sum(len(text) for text in texts if text)

    def keyed(self, key: str | None = None) -> Submission:
        """The same with an idempotency key: its own, else `key`, else a new one.

        However often it is handed in with that, it is one task (docs/protocol.md, rule 1).
        """
        if self.idempotency_key is not None:
            return self
        return self.model_copy(update={"idempotency_key": key or uuid.uuid4().hex})


class ProblemRef(Message):
    """A problem at one content: `hash` names the manifest blob that lists its tests."""

    name: Identifier
    hash: Sha256


class RunUsage(Message):
    """The time and memory that one run used, and how it ended."""

    cpu: float = 0.0
    wall: float = 0.0
    memory: Integer = 0
    exit_code: Integer | None = None
    signal: Integer | None = None


class GroupScore(Message):
    """The result of one group: the verdict of its first test that failed, and its part of the score."""

    name: Line
    verdict: Line
    score: float | None = None
    max_score: float | None = None


class Repeated(Message):
    """The run of a test that was near its time limit and was repeated: what that first run used.

    `exclusive`: no other slot computed during the second one; False when another's run took too long to end.
    """

    cpu: float
    wall: float
    exclusive: bool = True


class TestResult(Message):
    """One test of one submission, in judging order."""

    __test__ = False  # not a pytest class

    name: Line
    verdict: Verdict
    cpu: float = 0.0
    wall: float = 0.0
    memory: Integer = 0
    exit_code: Integer | None = None
    signal: Integer | None = None
    reason: Text = ""
    output_sha256: Sha256 | None = None
    output_bytes: Integer = 0
    output: Text = Field(default="", description="the first bytes of stdout, for people")
    error: Text = Field(default="", description="the first bytes of stderr, for people")
    message: Text = Field(default="", description="the validator's message for judges")
    feedback: Text = Field(default="", description="the validator's message for the submitter (teammessage.txt)")
    score: float | None = None
    passes: Integer = Field(default=1, description="how often the program ran, in multi-pass problems")
    repeated: Repeated | None = Field(
        default=None, description="the test's first run, near the time limit; all other fields are of the second"
    )
    withheld: bool = Field(
        default=False,
        description="a secret test as its submitter sees it: figures are rounded, and hidden fields are empty or 0",
    )


class Result(Message):
    """Everything known about a judged attempt."""

    compile_log: Text = ""
    compile: RunUsage | None = None
    tests: list[TestResult] = Field(default_factory=list, max_length=RESULTS)
    cpu: float = Field(default=0.0, description="the largest of the tests")
    wall: float = 0.0
    memory: Integer = 0
    reason: Text = ""
    stdout: Text | None = Field(default=None, description="whole output of a task without answers, when small")
    stdout_blob: Sha256 | None = None
    stderr: Text | None = Field(default=None, description="Base64 of the first 64 KiB, when whole outputs are kept")
    left: Text | None = Field(default=None, description="Base64 of a ZIP: files that its last run made or changed")
    language_version: Line = ""
    judge_version: Line = Field(default="", description="of the executor that judged it")
    sandbox: Line = Field(default="", description="the slot and core that judged it, as its log lines name them")
    limits: Limits | None = Field(default=None, description="of each run, the language's additions included")
    weak_sandbox: bool = False
    failed_test: Line | None = None
    score: float | None = Field(default=None, description="of a scoring problem")
    groups: list[GroupScore] = Field(
        default_factory=list, max_length=RESULTS, description="the result of each group of tests"
    )
    withheld: bool = Field(default=False, description="as its submitter sees it, judged with secret tests")


class Attempt(Message):
    """One hand-out that did not end in a verdict, or did; evidence for people.

    `rejudging`: it was made for this rejudging.
    """

    attempt: int
    executor: str
    reason: str
    rejudging: int | None = None


class PastVerdict(Message):
    """A verdict that a rejudging has replaced."""

    rejudging: int = Field(description="the rejudging that replaced it")
    why: str = Field(default="", description="the reason of that rejudging")
    status: Status
    verdict: Verdict | None = None
    cpu: float = 0.0
    wall: float = 0.0
    memory: int = 0
    score: float | None = None
    reason: str = ""
    failed_test: str | None = None
    judged_by: str | None = None
    problem: ProblemRef | None = None
    finished: str | None = None
    trace: str = ""


class Waits(Message):
    """Why a submission waits for an executor, and for how long it has waited."""

    reason: str
    seconds: float = Field(description="since it was handed in, or since an executor gave it back")


class Task(Message):
    """A submission and all that happened to it; the shape of the stored document, as Get and Search answer it."""

    id: TaskId
    submission: Submission
    problem: ProblemRef | None = None
    status: Status
    done: bool
    verdict: Verdict | None = None
    attempt: int = 0
    executor: str | None = Field(default=None, description="the executor that has it now")
    judged_by: str | None = None
    progress: str = ""
    result: Result | None = None
    history: list[Attempt] = Field(default_factory=list)
    created: str = Field(description="UTC, ISO 8601; for people only")
    started: str | None = None
    finished: str | None = None
    latency: float | None = Field(default=None, description="seconds from submit to verdict, on the judicators' clocks")
    version: int = Field(default=0, description="grows with every visible change; for waiting")
    trace: str = Field(default="", description="the id, in every daemon's log, of the judging that gave the verdict")
    rejudging: int | None = Field(default=None, description="the open rejudging that it is part of")
    rerun_of: TaskId | None = Field(default=None, description="a run of a rejudging: of this submission")
    past: list[PastVerdict] = Field(default_factory=list, description="verdicts that rejudgings replaced, oldest first")
    waits: Waits | None = Field(default=None, description="why it waits, if it has waited for some seconds")


# --- executor to judicator -------------------------------------------------------------------------------------


class Assignment(Message):
    """One hand-out: the task, and the claim under which alone its result is accepted."""

    id: TaskId
    attempt: int
    claim: str
    submission: Submission
    problem: ProblemRef | None = None
    trace: str = ""
    allowance: Allowance = Field(default=Allowance(), description="of the submitter's role")


class Executing(Message):
    """A task that this executor has in hand. `waiting`: not begun, its data or its slot is not there yet."""

    id: TaskId
    attempt: Integer
    claim: Claim
    status: Status = Status.COMPILING
    progress: Line = ""
    waiting: bool = False


class Completed(Message):
    """A finished attempt. `retry` means the executor could not judge it and the attempt should be made again.

    `penalty`: with `retry`, whether a whole attempt counts against the cap; False when neither task nor machine is to
    blame (the executor was told to stop, no slot was free in time, no judicator could be asked for the data).
    """

    id: TaskId
    attempt: Integer
    claim: Claim
    status: Status
    verdict: Verdict | None = None
    result: Result = Result()
    retry: bool = False
    penalty: bool = True


# Abilities that a task may want of an executor beside its language, and that an executor of an older release lacks.
ABILITIES: Final = frozenset({"check", "files", "options", "statements"})
# Programs that some executors have, and that make pages of statements: among their abilities, by the same names.
TOOLS: Final = frozenset({"pandoc", "pdftocairo"})


class ExecutorInfo(Message):
    """An executor's description of itself."""

    slots: int = Field(ge=0, le=SLOTS)
    slot_memory: Integer | None = Field(default=None, ge=0, description="bytes that each slot has for its runs")
    languages: dict[Identifier, Annotated[str, StringConstraints(max_length=VERSION)]] = Field(
        default_factory=dict, max_length=LANGUAGES, description="language to version"
    )
    version: str = Field(default="", max_length=VERSION)
    abilities: list[Identifier] = Field(
        default_factory=list, max_length=100, description="features that older executors lack"
    )
    weak_sandbox: bool = False
    calibration: list[CoreSpeed] = Field(default_factory=list, max_length=SLOTS)
    checks: list[Annotated[str, StringConstraints(max_length=FINDING)]] = Field(
        default_factory=list, max_length=FINDINGS, description="findings of the machine check, WARN and FAIL only"
    )


class ReportRequest(Message):
    """The executor's loop (seed: report). `sequence` grows by one with every report of one incarnation.

    `vacant` is how many tasks it asks for; the last `ahead` of them will wait for slots that are nearly free. A report
    that says nothing new may be held for `hold` seconds until there is work. `pending` is the number of an earlier
    report that waits for its answer; 0: none.
    """

    executor: Identifier
    incarnation: Claim
    sequence: Integer
    vacant: int = Field(ge=0, le=SLOTS)
    ahead: int = Field(default=0, ge=0, le=SLOTS)
    executing: list[Executing] = Field(default_factory=list, max_length=10_000)
    complete: list[Completed] = Field(default_factory=list, max_length=10_000)
    info: ExecutorInfo | None = None
    hold: float = Field(default=0.0, ge=0, le=60)
    pending: Integer = 0


class ClaimRef(Message):
    """Names one hand-out."""

    id: TaskId
    claim: str


class ReportReply(Message):
    """`drop`: stop these, forget their results. `settled`: these completions are committed or void; forget them.

    `epoch` is that of the leader who assigns (0: nobody did), `leader` its address; an executor takes no assignments of
    an older epoch than it has heard of.
    """

    drop: list[ClaimRef] = Field(default_factory=list)
    settled: list[ClaimRef] = Field(default_factory=list)
    add: list[Assignment] = Field(default_factory=list)
    drain: bool = False
    epoch: int = 0
    leader: str = ""


# --- people (through the gateway) to judicator -----------------------------------------------------------------


class Empty(Message):
    """No arguments, or nothing to answer."""


class Pong(Message):
    """The answer to a ping: the judicator that answered."""

    name: str
    version: str
    leader: bool


class TaskRef(Message):
    """Names one task."""

    id: TaskId


class AddReply(Message):
    """`created` is False when the idempotency key had been used before with the same content."""

    task: Task
    created: bool
    rate: Rate | None = Field(default=None, description="of handing in; None without a limit")


class GetRequest(Message):
    """Get one task; with `wait` hold the answer until it is done or its version passes `version`."""

    id: TaskId
    wait: float = Field(default=0.0, ge=0, le=30)
    version: int | None = None


class SearchRequest(Message):
    """Find tasks, newest first. `before` pages: the `next` of the answer before."""

    user: str | None = None
    problem: Identifier | None = None
    language: LanguageName | None = None
    status: Status | None = None
    verdict: Verdict | None = None
    executor: str | None = None
    done: bool | None = None
    limit: int = Field(default=50, ge=1, le=500)
    before: TaskId | None = None
    skip: int = Field(default=0, ge=0, le=10_000, description="skip this many; prefer `before` where possible")
    total: bool = Field(default=False, description="also count all matches")


class SearchReply(Message):
    """Tasks without source, per-test results and logs; `next` is None on the last page."""

    tasks: list[Task]
    next: TaskId | None = None
    total: int | None = Field(default=None, description="the number of matches, counted up to 10000, if requested")


class BlobsWanted(Message):
    """A question for blobs that are not stored. Those that are stay for a while, as if each had been asked for."""

    blobs: list[Sha256] = Field(max_length=BLOBS)


class BlobsMissing(Message):
    """Those to be uploaded. Right after a change of the database's primary one may be among them that is stored."""

    missing: list[Sha256] = Field(max_length=BLOBS)


class ErrorBody(Message):
    """Every non-2xx answer: the error's stable code, one sentence; when known, the field, and the rate passed."""

    code: str
    error: str
    field: str | None = None
    rate: Rate | None = None

    @classmethod
    def of(cls, error: JudgeError) -> Self:
        return cls(code=error.code, error=str(error), field=getattr(error, "field", None), rate=rate_of(error))
