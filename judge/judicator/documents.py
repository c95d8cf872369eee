"""The documents of each collection: their fields and types, for all code that reads or writes them.

A document comes in parts, too: a projection reads some of its fields, `$set` writes some. So the types whose documents
change are `total=False`: mypy checks the names and types of fields, tests check that new documents are whole. A dict of
any other shape (a filter, an update, a row of an aggregation) is `Bson`.
"""

from __future__ import annotations

import datetime
from typing import Any, NotRequired, TypedDict

from bson import Int64, ObjectId, Timestamp

from judge.config.allowance import Allowance, Allowances, Quota, Role

# A message as pydantic dumps it.
Dumped = dict[str, Any]


class ProblemHash(TypedDict):
    name: str
    hash: str


class HistoryEntry(TypedDict):
    """The end of one hand-out of a task."""

    attempt: int
    executor: str | None
    reason: str
    rejudging: NotRequired[int]


class OutcomeFields(TypedDict, total=False):
    """The fields of a judged task that a rejudging replaces, all of them (verdicts.py)."""

    status: str
    verdict: str | None
    result: Dumped | None
    judged_by: str | None
    problem: ProblemHash | None
    started: datetime.datetime | None
    finished: datetime.datetime | None
    trace: str


class Staged(OutcomeFields, total=False):
    """The outcome of a run, beside the one of its submission until it is in force (verdicts.py)."""

    rejudging: int
    why: str
    history: list[HistoryEntry]
    blobs: list[str]


class VerdictFields(TypedDict, total=False):
    """A verdict with its figures: one that a rejudging has replaced, or may replace."""

    rejudging: int
    why: str
    status: str
    verdict: str | None
    cpu: float
    wall: float
    memory: int
    score: float | None
    reason: str
    failed_test: str | None
    judged_by: str | None
    problem: ProblemHash | None
    finished: datetime.datetime | None
    trace: str


class TaskDocument(OutcomeFields, total=False):
    """A submission, or a run of a rejudging (collection `tasks`)."""

    _id: ObjectId
    # The task as it was handed in.
    user: str
    language: str | None
    needs: str  # the language that an executor must have; empty for a command, which needs none
    abilities: str  # what an executor must have as well (messages.ABILITIES), with commas; only where there is any
    submission: Dumped
    priority: str
    key: str  # of the user's idempotency key
    digest: str
    blobs: list[str]
    quota: Dumped  # its user's figures in place of the role's; only where there is something
    callback: datetime.datetime  # the time from which its result may be sent to the address named, until that is done
    callback_host: str  # the host and port of that address
    callback_tries: int
    bytes: int
    reserved: int  # of `bytes`: for output that may come (usage.py)
    created: datetime.datetime
    # Its place in the queue (queue/fair.py).
    waits: str  # only while it waits (replica.py)
    rank: int
    order: int  # of a run: its place in its rejudging
    arrival: Timestamp
    tried: str  # `failed` as one text, for the index
    # The hand-out in force, if there is one. `claim` is its fencing token: new with each hand-out, and only who has
    # the present one may report on it.
    executor: str | None
    incarnation: str | None
    claim: str | None
    attempt: int
    handed: int  # the number of the report that it was handed out to
    heartbeat: int  # the number of reports with news of it since
    waiting: bool  # it waits at the executor for its data or a slot
    # The traces of hand-outs before it.
    failed: list[str]  # executors
    penalty: int  # against the cap of attempts, in tenths (queue/order.py)
    history: list[HistoryEntry]
    returned: datetime.datetime  # when an executor gave it back last
    freed: str | None  # the executor from which a person's cancellation has taken it
    # Its state, beside the fields of its outcome.
    done: bool
    progress: str
    version: int
    # The compare-and-set of a bulk that changed the task last (tasks/writing.py).
    write: ObjectId
    latency: float | None
    # Rejudgings: the open one that it is part of; a run's submission; the verdict that a run may replace; the outcome
    # that waits to be in force; the verdicts that were replaced.
    rejudging: int
    rerun_of: ObjectId | None
    before: VerdictFields
    staged: Staged
    past: list[VerdictFields]


class RejudgingDocument(TypedDict, total=False):
    """One rejudging (collection `rejudgings`). `members` are there until it is settled."""

    _id: int
    key: str
    digest: str
    filter: Dumped
    reason: str
    user: str
    trace: str
    state: str
    settled: bool
    members: list[ObjectId]
    problems: list[ProblemHash]
    total: int
    skipped: int
    counts: dict[str, int] | None
    matrix: dict[str, dict[str, int]] | None
    call: str | None  # the key of the call that has ended it
    created: datetime.datetime
    finished: datetime.datetime | None
    ended: datetime.datetime | None
    ended_by: str | None


class ExecutorDocument(TypedDict, total=False):
    """One executor, by name (collection `executors`)."""

    _id: str
    incarnation: str
    generation: int
    past: list[str]  # incarnations that were replaced
    sequence: int
    alive: bool
    executing: int
    vacant: int
    reported: datetime.datetime
    drain: bool
    drain_reason: str
    info: Dumped | None
    asked: datetime.datetime  # when it asked for work last


class StartFields(TypedDict):
    """One start of an executor; its first report is `at`."""

    incarnation: str
    at: datetime.datetime
    version: str
    slots: int
    weak_sandbox: bool
    calibration: list[Dumped]
    changes: list[dict[str, str]]


class MachineDocument(TypedDict):
    """The starts of one executor, by name, the newest last (collection `machines`). `languages`: their versions now."""

    _id: str
    seen: datetime.datetime
    languages: dict[str, str]
    starts: list[StartFields]


class MinuteDocument(TypedDict, total=False):
    """The figures of one minute, by its beginning (collection `minutes`). `busy`: the sum of its `looks`."""

    _id: datetime.datetime
    begun: datetime.datetime  # the same, for the index that removes it
    waiting: int
    slots: int
    busy: int
    looks: int
    rejudged: int
    verdicts: dict[str, int]
    times: dict[str, int]  # by class (figures/series.py)


class ProblemDocument(TypedDict, total=False):
    """One problem, by name, at its present content (collection `problems`)."""

    _id: str
    hash: str
    title: str
    tests: int
    limits: Dumped
    source_bytes: int
    kind: str
    languages: list[str]
    include: list[dict[str, Any]]
    imported: datetime.datetime
    verification: Dumped
    visibility: Dumped  # without it, as releases before stored problems, everyone sees the problem
    owners: list[str]
    labels: Dumped  # of the package; the fields below replace them
    tags: list[str]
    difficulty: str
    order: int


class ManifestDocument(TypedDict):
    """One content of a problem, by hash (collection `manifests`). `unused`: from then on retention may remove it.

    `pages` is the blob of its rendered statements, by `rendering` (judge.model.statements.RENDERING); `tries` is how
    often they could not be rendered.
    """

    _id: NotRequired[str]
    name: str
    blobs: list[str]
    imported: datetime.datetime
    pages: NotRequired[str]
    rendering: NotRequired[int]
    tries: NotRequired[int]
    unused: NotRequired[datetime.datetime]


class SessionDocument(TypedDict):
    """One session of the pages, by the digest of its secret (collection `sessions`).

    `account`: of a user of the collection `users`; `token`: begun with this token of theirs.
    """

    _id: str
    user: str
    begun: datetime.datetime
    account: NotRequired[bool]
    token: NotRequired[str | None]
    arrival: NotRequired[str]  # of its account


class UserDocument(TypedDict):
    """One account, by name (collection `users`). `password` is an Argon2 digest, `call` is what has made it."""

    _id: str
    fold: str  # the name in lower case, unique: nobody is to be mistaken for another
    display_name: NotRequired[str]
    email: NotRequired[str]
    role: Role
    groups: list[str]
    disabled: bool
    password: NotRequired[str]
    identity: NotRequired[Dumped]
    quota: NotRequired[Dumped]
    created: datetime.datetime
    arrival: Timestamp  # by the database's logical clock, as of tasks
    call: str


def arrival_of(doc: UserDocument | TokenDocument) -> str:
    """A name for an account, or the account of a token, that no other account has; empty for old documents. Pure."""
    arrival = doc.get("arrival")
    return "" if arrival is None else f"{arrival.time}-{arrival.inc}"


class TokenDocument(TypedDict):
    """One token of an account, by its public id (collection `tokens`): the beginning of its digest."""

    _id: str
    digest: str
    user: str
    label: str
    scopes: list[str]
    created: datetime.datetime
    expires: datetime.datetime | None
    arrival: NotRequired[Timestamp]  # of its account
    line: NotRequired[list[str]]  # the tokens it was made with, the first one first; it ends with any of them
    used: NotRequired[datetime.datetime]
    used_from: NotRequired[str]


class RateDocument(TypedDict):
    """The count of something in the window that ends at `until` (collection `rates`)."""

    _id: str
    n: int
    was: int  # before the last ones were counted
    until: datetime.datetime
    now: datetime.datetime  # by the database's clock, of the last time


class WebhookDocument(TypedDict):
    """One webhook, by name (collection `webhooks`). `last`: of the last try, for people.

    `since`: the database's time when it was added; it is told of what ends later. `dropped`: how many deliveries were
    dropped, as too many waited. `retry`: when somebody last asked that its receiver is called now.
    """

    _id: str
    url: str
    secret: str
    events: list[str]
    user: str | None
    problem: str | None
    system: NotRequired[bool]
    created: datetime.datetime
    since: NotRequired[Timestamp]
    last: NotRequired[str]
    dropped: NotRequired[int]
    retry: NotRequired[datetime.datetime]


class DeliveryDocument(TypedDict):
    """One call that a receiver should get (collection `deliveries`).

    `key` says what it is about, so that it is made once; `next` is when it may be tried, and while it is, when another
    may.
    """

    _id: ObjectId
    key: str
    hook: str
    event: str
    task: ObjectId | None
    user: str
    version: int
    body: str
    state: str  # waiting, delivered or failed
    tries: int
    created: datetime.datetime
    next: datetime.datetime
    ended: NotRequired[datetime.datetime]
    status: NotRequired[int]
    text: NotRequired[str]


class AuditDocument(TypedDict):
    """One entry of the audit trail (collection `audit`); `number` and `tokens`: of a gateway's tokens.change."""

    _id: ObjectId
    key: str
    at: datetime.datetime
    actor: str
    role: str
    action: str
    object: str
    origin: str
    gateway: str
    trace: str
    call: str
    outcome: str
    details: Dumped
    number: NotRequired[int]
    tokens: NotRequired[list[str]]


class UsageDocument(TypedDict):
    """The bytes stored for one user, by name (collection `usage`). `off`: by how much they were at the last look."""

    _id: NotRequired[str]
    bytes: int
    off: NotRequired[int]


class Refusal(TypedDict):
    """One entry of the document `refused` (judge/common/pki/refused.py)."""

    name: str
    before: float


class MetaDocument(TypedDict, total=False):
    """The single documents of the cluster, each with fields of its own (collection `meta`)."""

    _id: str
    # `leader`: the newest epoch, who has it, and its passes (leader/leading.py).
    epoch: int
    holder: str
    passes: int
    # `retention`: the position of a pass that is under way (leader/retention.py).
    phase: str | None
    after: Any
    # `refused`: names of removed hosts, and the moment before which their certificates were issued (refused.py).
    names: list[Refusal]
    # `webhooks`: how far the leader has followed the changes of tasks, or since when (events/outbox.py).
    token: Any
    since: Any
    # `verdicts`: the switch (verdicts.py).
    generation: int
    folding: list[int]
    # `rejudgings`: the last number given.
    last: int
    # `fault:…`: what a loop fails in (loops.py). `at` is of the webhooks' position and of hosts, too.
    text: str
    at: datetime.datetime
    # `host:…`: what a judicator notes of its host (hosts.py).
    texts: list[str]
    backs_up: bool
    backup: datetime.datetime | None
    steps: dict[str, datetime.datetime]


class FileDocument(TypedDict):
    """A blob in GridFS (collection `fs.files`); its name is its hash, its id that of the upload."""

    _id: ObjectId
    filename: str
    chunkSize: int
    length: Int64
    uploadDate: NotRequired[datetime.datetime]
    unused: NotRequired[datetime.datetime]


class ChunkDocument(TypedDict):
    """A piece of a blob (collection `fs.chunks`)."""

    _id: NotRequired[ObjectId]
    files_id: ObjectId
    n: int
    data: bytes


def iso(moment: datetime.datetime) -> str:
    """A moment as messages have it: UTC, in milliseconds."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_or_none(moment: datetime.datetime | None) -> str | None:
    """The same for a moment that may not have come yet."""
    return None if moment is None else iso(moment)


def first_id(moment: datetime.datetime, later: int = 0) -> ObjectId:
    """The first id that a document of this moment's second can have, or of so many seconds `later`."""
    second = min(max(int(moment.timestamp()) + later, 0), 2**32 - 1)
    return ObjectId(second.to_bytes(4, "big") + bytes(8))


def allowance_of(doc: TaskDocument, allowances: Allowances) -> Allowance:
    """The allowance of a task's user: the role's, with the user's own figures at the time of handing in."""
    own = doc.get("quota")
    role = doc["submission"].get("role", "user")
    return allowances.of(role, Quota.model_validate(own) if own else None)


def wants_of(task: TaskDocument) -> list[str]:
    """The abilities that an executor must have for a task."""
    return [ability for ability in task.get("abilities", "").split(",") if ability]


def waiting_seconds(task: TaskDocument, now: datetime.datetime) -> float | None:
    """The seconds for which a task has waited, on judicators' clocks; None if it does not wait. For people only."""
    if task["done"] or task.get("executor") is not None:
        return None
    return max(0.0, (now - task.get("returned", task["created"])).total_seconds())
