"""The judicator daemon (seed: judicator Main): RPC server, leader election and sweep, registration."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from prometheus_client import Gauge
from pymongo.errors import PyMongoError

from judge.common.errors import JudgeError, UsageError
from judge.common.webhooks.addresses import networks
from judge.common.webhooks.sender import Sender
from judge.config import JudicatorConfig
from judge.daemon import metrics, tracing
from judge.daemon.notify import notify
from judge.etcd.client import Etcd
from judge.judicator import audit, indexes
from judge.judicator.blobs import Blobs
from judge.judicator.changes import Follower
from judge.judicator.database import BATCH, Database
from judge.judicator.deleting import Deleting
from judge.judicator.dispatch import Dispatcher, Entry, Forward
from judge.judicator.events import calls
from judge.judicator.events.callbacks import Callbacks
from judge.judicator.events.deliveries import DeliverySender
from judge.judicator.events.outbox import Outbox
from judge.judicator.events.streaming import ChangeLog
from judge.judicator.executors import Executors
from judge.judicator.figures.machines import Machines
from judge.judicator.figures.minutes import Figures
from judge.judicator.hosts import Hosts, forget_old_notes
from judge.judicator.hub import Hub
from judge.judicator.leader.leading import Leader
from judge.judicator.leader.retention import Retention
from judge.judicator.loops import Loops, forget_old_faults, put_off
from judge.judicator.people import entry
from judge.judicator.problems import Problems
from judge.judicator.refused import Refused
from judge.judicator.register import Registrar
from judge.judicator.rejudging.calls import RejudgingCalls
from judge.judicator.rejudging.progress import Rejudgings
from judge.judicator.rejudging.reruns import Reruns
from judge.judicator.replica import Replica
from judge.judicator.service import Service
from judge.judicator.statements import Statements
from judge.judicator.status import StatusReader
from judge.judicator.tasks.lifecycle import Tasks
from judge.judicator.work import WorkCounter
from judge.mongodb import backup_age
from judge.mongodb.store import connect, translate
from judge.rpc.pki import server_context
from judge.rpc.server import Server

log = logging.getLogger(__name__)

QUEUE = Gauge("judge_queue", "Tasks that wait", ["priority"])
RUNNING = Gauge("judge_running", "Tasks that executors have in hand")

_BEAT = 1.0
_COUNT = 5
_RETRY = 1.0
_SMALL_BUILD = 5.0


class Judicator:
    """One judicator: its parts, wired. `start` and `stop` are for the daemon and for tests that run several."""

    def __init__(self, config: JudicatorConfig, *, batch: int = BATCH) -> None:
        """Nothing is connected yet. RefusedError, ConfigError: certificates or password files that cannot be read."""
        self.config = config
        self._context = server_context(config.tls)
        self._client = connect(config.mongodb, asynchronous=True)
        self._etcd = Etcd(config.etcd)
        self.database = Database(self._client, config.mongodb.database, batch)
        self.hub = Hub()
        # The build of indexes that is under way, for people.
        self.building = ""
        self.replica = Replica(self.database, config.allowances)
        self.tasks = Tasks(self.database, self.hub, self.replica, config.attempts, config.allowances)
        self.follower = Follower(self.database, self.hub, self.replica, self.tasks.assigner.call)
        self.executors = Executors(self.database)
        self.executors.on_capacity = self.tasks.assigner.set_capacity
        self.blobs = Blobs(self.database)
        self.audit = audit.Audit(self.database)
        self.retention = Retention(
            self.database,
            self.tasks,
            config.retention_days,
            phases=[
                ("counter", self.tasks.usage.recount),
                ("fault", functools.partial(forget_old_faults, self.database)),
                ("host", functools.partial(forget_old_notes, self.database)),
                ("audit", functools.partial(self.audit.remove, config.audit_days)),
            ],
        )
        self.people = entry.People(self.database)
        self.deleting = Deleting(self.database, self.tasks, self.blobs, self.people.users)
        self.loops = Loops(self.database, config.name)
        self.lead = Leader(config, self.database, self._etcd, self.tasks, self.executors, self.loops)
        reruns = Reruns(self.database, self.tasks)
        self.rejudgings = Rejudgings(self.database, reruns, self.loops)
        self.rejudging_calls = RejudgingCalls(self.database, reruns, self.rejudgings)
        webhook_networks = networks(config.webhooks.networks)
        self.deliveries = DeliverySender(self.database, Sender(webhook_networks))
        self.outbox = Outbox(self.database, self.tasks.reader, self.deliveries.wake)
        self.webhook_calls = calls.WebhookCalls(self.database, webhook_networks, self.deliveries.wake)
        callback_networks = networks(config.webhooks.callback_networks)
        sender = Sender(callback_networks, setting="webhooks.callback_networks")
        self.callbacks = Callbacks(self.database, self.blobs, sender)
        self.changes = ChangeLog(self.database)
        self.register = Registrar(config, self._etcd)
        self.refused = Refused(self.database)
        self.work = WorkCounter(self.database, self.replica)
        self.figures = Figures(self.database, self.tasks.counts, self.work, self.executors)
        self.forward = Forward(config.tls, lambda: self.lead.other_address)
        self.machines = Machines(self.database)
        self.hosts = Hosts(config, self.database)
        self._status = StatusReader(
            config,
            self.database,
            self._etcd,
            self.executors,
            self.replica,
            self.hosts,
            following=lambda: self.follower.alive,
            building=lambda: self.building,
        )
        problems = Problems(self.database, self.blobs, self.people.users.groups)
        self.service = Service(
            config=config,
            hub=self.hub,
            tasks=self.tasks,
            executors=self.executors,
            blobs=self.blobs,
            problems=problems,
            leader=self.lead,
            status=self._status,
            people=self.people,
            machines=self.machines,
        )
        self.statements = Statements(self.database, self.service.add, self.deleting.remove)
        problems.render = self.statements.pages
        self.dispatcher = Dispatcher(
            self._table(), self.audit, self.forward, leads=lambda: self.tasks.assigner.epoch is not None
        )
        self.server = Server(
            self.dispatcher,
            self.blobs,
            body_bytes=config.limits.body_bytes,
            blob_bytes=config.limits.blob_bytes,
            translate=_to_judge_error,
            welcome=self.refused.welcome,
        )
        self._loops: list[asyncio.Task[None]] = []
        self._restored = asyncio.Event()

    def _table(self) -> dict[str, Entry]:
        """What answers each method, and what a call is for the audit trail."""
        service, people, users, tokens = self.service, self.people, self.people.users, self.people.tokens
        rejudgings, deleting, webhooks = self.rejudging_calls, self.deleting, self.webhook_calls
        return {
            "ping": Entry(service.ping, early=True),
            "report": Entry(service.report),
            # submissions
            "add": Entry(service.add, audit.describe_behalf),
            "cancel": Entry(service.cancel, audit.describe_cancel(self.tasks.reader.get)),
            "get": Entry(service.get),
            "tasks": Entry(self.tasks.reader.several),
            "search": Entry(service.search),
            "marks": Entry(service.marks),
            "usage": Entry(service.usage),
            "changes": Entry(self.changes.read),
            # the cluster
            "status": Entry(self._status.read),
            "figures": Entry(self.figures.read),
            "executors": Entry(self._status.executors),
            "executor_history": Entry(self.machines.read),
            "drain": Entry(service.drain, audit.describe_drain),
            # problems
            "problems": Entry(service.problems.all, peer=True),
            "problem_import": Entry(service.problems.register, audit.describe_import),
            "problem_change": Entry(service.problems.change, audit.describe_change, peer=True),
            "problem_verified": Entry(
                service.problems.verified, audit.about("problem.verify", "problem", "hash", "right")
            ),
            "problem_verification": Entry(service.problems.verification),
            "problem_statements": Entry(self.statements.pages),
            "blobs_missing": Entry(self.blobs.list_missing),
            # rejudgings
            "rejudge_preview": Entry(rejudgings.preview),
            "rejudge_start": Entry(rejudgings.start, audit.describe_rejudging),
            "rejudgings": Entry(rejudgings.all),
            "rejudging": Entry(rejudgings.read),
            "rejudge_diff": Entry(rejudgings.diff),
            "rejudge_apply": Entry(rejudgings.apply, audit.about("rejudging.apply", "id")),
            "rejudge_cancel": Entry(rejudgings.cancel, audit.about("rejudging.cancel", "id")),
            # deleting
            "delete_preview": Entry(deleting.preview),
            "delete_submission": Entry(deleting.submission, deleting.describe_deletion, peer=True),
            "delete_problem": Entry(deleting.problem, audit.about("problem.delete", "name"), peer=True),
            "purge": Entry(deleting.purge, deleting.describe_purge),
            # people; gateways note log-ins themselves
            "login": Entry(people.login),
            "identity_login": Entry(people.identity_login, people.describe_identity_login, peer=True),
            "credentials": Entry(people.credentials.states),
            "user": Entry(users.get),
            "users": Entry(users.all),
            "user_add": Entry(users.add, entry.describe_add, peer=True),
            "users_add": Entry(users.add_all, entry.describe_import, peer=True),
            "names": Entry(users.names),
            "user_change": Entry(users.change, entry.describe_change),
            "user_password": Entry(users.password, audit.about("user.password", "name", "own")),
            "user_delete": Entry(users.delete, people.describe_delete, peer=True),
            "tokens": Entry(tokens.all),
            "token_create": Entry(tokens.create, entry.describe_token),
            "token_revoke": Entry(tokens.revoke, audit.about("token.revoke", "id"), peer=True),
            "token_used": Entry(tokens.used),
            "session_begin": Entry(people.session_begin),
            "session_end": Entry(people.session_end, entry.describe_session_end),
            # webhooks; a ping has the cluster call out, as a resend does
            "webhooks": Entry(webhooks.all),
            "deliveries": Entry(webhooks.deliveries),
            "webhook_add": Entry(webhooks.add, audit.about("webhook.add", "name", "events", "user", "problem")),
            "webhook_remove": Entry(webhooks.remove, audit.about("webhook.remove", "name")),
            "webhook_ping": Entry(webhooks.ping, audit.about("webhook.ping", "name")),
            "webhook_resend": Entry(webhooks.resend, calls.describe_resend),
            # the audit trail
            "audit": Entry(self.audit.search),
            "audit_note": Entry(self.audit.note, peer=True),
            "audit_tokens": Entry(self.audit.tokens, peer=True),
        }

    async def start(self) -> None:
        """Listen, and begin all loops; does not wait for the databases. RefusedError when the port is in use."""
        await self.server.start(self.config.listen, self._context, self.config.stop_grace)
        backup_age.measure(self.config.backups, self.config.backup_hours, dict(self.config.backup_steps))
        log.info("judicator '%s' listens on %s", self.config.name, self.config.listen)
        self._loop("the preparation", self._prepare)
        self._loop("the election", functools.partial(self._when_restored, self.lead.elect))
        self._loop("the sweep", functools.partial(self._when_restored, self.lead.sweep))
        self._loop("the watch", self._watch)

    def _loop(self, name: str, run: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        task = asyncio.create_task(self.loops.forever(name, run))
        self._loops.append(task)
        return task

    async def _prepare(self) -> None:
        """Wait for the database, then serve, follow its changes and register."""
        last_reason = ""
        while True:
            try:
                reason = await self.database.restoring()
                if not reason:
                    self._restored.set()
                    await indexes.make(self.database, self._note_build)
                    await self.refused.read()
                    break
            except PyMongoError as exc:
                reason = str(translate(exc))
            if reason != last_reason:
                log.warning("waiting for the database: %s", reason)
            last_reason = reason
            await asyncio.sleep(_RETRY)
        # An empty or a small collection has all its indexes before the first call.
        await asyncio.wait({self._loop("the indexes", self._make_rest)}, timeout=_SMALL_BUILD)
        self._loop("the change stream", self.follower.run)
        await self.replica.ready.wait()
        self.dispatcher.ready = True
        log.info("the database is ready: this judicator serves")
        leading = lambda: self.lead.leading  # noqa: E731
        loops: dict[str, Callable[[], Awaitable[None]]] = {
            "the rejudgings": functools.partial(self.rejudgings.run, leading),
            "retention": functools.partial(self.retention.run, leading),
            "the queue": self.replica.run,
            "the figures": functools.partial(self.figures.run, leading),
            "the webhooks": functools.partial(self.outbox.run, leading),
            "the calls of webhooks": functools.partial(self.deliveries.run, leading),
            "the callbacks": functools.partial(self.callbacks.run, leading),
            "the changes": self.changes.run,
            "the registration": self.register.run,
            "the removed hosts": self.refused.run,
            "the state of this host": self.hosts.run,
        }
        for name, run in loops.items():
            self._loop(name, run)

    async def _make_rest(self) -> None:
        while True:
            with put_off("building indexes"):
                return await indexes.make_rest(self.database, self._note_build)
            await asyncio.sleep(_RETRY)

    def _note_build(self, what: str) -> None:
        """Note the build of indexes that is under way, or with an empty text its end."""
        if what:
            log.warning("%s; this may take minutes", what)
        elif self.building:
            log.info("built: %s", self.building)
        self.building = what

    async def _when_restored(self, run: Callable[[], Awaitable[None]]) -> None:
        """A loop that writes without being asked; it would spoil a restore that is under way."""
        await self._restored.wait()
        await run()

    async def _watch(self) -> None:
        """Tell systemd that this event loop turns, and count the queue for the metrics."""
        turn = 0
        while True:
            state = "serving" if self.dispatcher.ready else "waiting for the database"
            state = f"{state}, {self.building}" if self.building else state
            role = f"leading with epoch {self.lead.epoch}" if self.lead.leading else "not leading"
            notify("WATCHDOG=1", f"STATUS={state}, {role}")
            if self.dispatcher.ready and turn % _COUNT == 0:
                work = self.work.work()
                RUNNING.set(work.running)
                for priority, count in work.queued.items():
                    QUEUE.labels(priority).set(count)
            turn += 1
            await asyncio.sleep(_BEAT)

    def crashed(self) -> BaseException | None:
        """The error that ended a loop although `Loops.forever` holds on to each of them; None while all run."""
        for loop in self._loops:
            if loop.done() and not loop.cancelled() and (exc := loop.exception()) is not None:
                return exc
        return None

    async def stop(self) -> None:
        """Stop taking, withdraw, finish what is in flight, resign, close."""
        self.server.refuse()
        pending = set(self._loops)
        while pending:
            # Repeated, as the driver loses a cancellation that comes when its wait ends.
            for loop in pending:
                loop.cancel()
            _, pending = await asyncio.wait(pending, timeout=_BEAT)
        await self.lead.resign()  # first of all: the next leader assigns from then on
        await self.register.withdraw()
        self.hub.close()
        await self.server.stop()
        with contextlib.suppress(TimeoutError):  # retention counts all that is not counted by then
            await asyncio.wait_for(self.tasks.usage.flush(), _BEAT)
        with contextlib.suppress(TimeoutError, PyMongoError):
            await asyncio.wait_for(self.figures.write(), _BEAT)
        await self.rejudgings.close()
        self.forward.close()
        self.people.close()
        await asyncio.to_thread(self._etcd.close)
        await self._client.close()


def _to_judge_error(exc: Exception) -> JudgeError | None:
    """The JudgeError that a caller is told for an error of the database's driver."""
    if isinstance(exc, OverflowError):  # a number that BSON has no form for can only come from a message
        return UsageError(f"a number in this call is too large: {exc}")
    return translate(exc) if isinstance(exc, PyMongoError) else None


async def _serve(config: JudicatorConfig, stop: threading.Event, batch: int) -> int:
    """Run until `stop` is set; the exit code."""
    judicator = Judicator(config, batch=batch)
    metrics.serve(config.metrics, config.metrics_tls)
    tracing.setup("judicator", config.name, config.otlp)
    await judicator.start()
    notify("READY=1")
    crashed: BaseException | None = None
    # A thread of its own: those of the loop may all be waiting for an etcd that does not answer.
    with ThreadPoolExecutor(1, thread_name_prefix="stop") as thread:
        while not stop.is_set() and crashed is None:
            await asyncio.get_running_loop().run_in_executor(thread, stop.wait, _BEAT)
            crashed = judicator.crashed()
    notify("STOPPING=1")
    if crashed is not None:
        log.critical("a loop of this judicator broke, stopping", exc_info=crashed)
    else:
        log.info("stopping")
    await judicator.stop()
    tracing.close()
    log.info("stopped")
    return 1 if crashed is not None else 0


def run(config: JudicatorConfig, stop: threading.Event, batch: int = BATCH) -> int:
    """Serve until `stop` is set; returns the exit code: 1 when a loop broke. Raises RefusedError, ConfigError."""
    return asyncio.run(_serve(config, stop, batch))
