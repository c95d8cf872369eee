"""The RPC methods (seed: start_rpc_server(Add, Cancel, Search, Get, Report)); docs/protocol.md describes each."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from typing import TypeVar

from bson import ObjectId

import judge
from judge.common import clock, failpoint
from judge.common.errors import FieldError, JudgeError, UnavailableError
from judge.common.webhooks.addresses import networks
from judge.config import JudicatorConfig
from judge.judicator.blobs import Blobs
from judge.judicator.coroutines import in_thread_if_large, to_completion
from judge.judicator.documents import ProblemDocument, TaskDocument, waiting_seconds, wants_of
from judge.judicator.executors import Executors, languages, to_state
from judge.judicator.figures.machines import Machines
from judge.judicator.hub import Hub
from judge.judicator.leader.leading import Leader
from judge.judicator.people.entry import People
from judge.judicator.people.rates import Count
from judge.judicator.people.users import handing_in
from judge.judicator.problems import Problems, included_names
from judge.judicator.queue.order import (
    FULL_PENALTY,
    LIGHT_PENALTY,
    NO_PENALTY,
    ExecutorCapacity,
    attempt_penalty,
    waiting_reason,
)
from judge.judicator.status import WAITS_SECONDS, StatusReader
from judge.judicator.tasks import forms, intake, results
from judge.judicator.tasks.assigning import RequestingExecutor
from judge.judicator.tasks.forms import HandOut
from judge.judicator.tasks.lifecycle import STALE, Tasks, too_many
from judge.judicator.usage import output_of
from judge.languages.handed import contents
from judge.languages.table import load_table, row_of
from judge.model import messages as m
from judge.model.base import Rate
from judge.model.overview import DrainRequest, ExecutorState, MarksReply, MarksRequest, UsageReply, UsageRequest
from judge.model.problem import ProblemManifest, together
from judge.problems.answers import refusal

log = logging.getLogger(__name__)
R = TypeVar("R", bound=m.Message)

_NO_SOURCE_LIMIT = 2**63
_LANGUAGES = frozenset(load_table(None))
# While the change stream is away a waiting Get looks by itself this often; else this rarely. Seconds.
_LOOK_OFTEN, _LOOK = 1.0, 5.0


@dataclasses.dataclass
class Service:
    """The methods about submissions, problems and executors. The parts are shared with the leader's loops."""

    config: JudicatorConfig
    hub: Hub
    tasks: Tasks
    executors: Executors
    blobs: Blobs
    problems: Problems
    leader: Leader
    status: StatusReader
    people: People
    machines: Machines

    async def ping(self, _: m.Empty) -> m.Pong:
        """Answer, whatever the state of the databases."""
        return m.Pong(name=self.config.name, version=judge.__version__, leader=self.leader.leading)

    # --- people ------------------------------------------------------------------------------------------------

    async def add(self, submission: m.Submission) -> m.AddReply:
        """Check and queue a submission (rule 1)."""
        # The key's digest is over what was handed in: two tries may differ in what is stored as blobs.
        digest = await in_thread_if_large(len(submission.tests), lambda: forms.digest(submission))
        try:
            return await self._add(submission, digest)
        except JudgeError:
            # A submission that is refused now may be stored since an earlier try, whose answer was lost.
            existing = await self.tasks.existing(submission, digest)
            if existing is None:
                raise
        return m.AddReply(task=forms.to_task(existing), created=False)

    async def _problem(self, name: str, submission: m.Submission) -> ProblemDocument:
        """The problem that a submission is judged against: what its name stands for, or the content that it names."""
        intake.check_trial(submission)
        if submission.problem_hash is None:
            return await self.problems.get_visible(name, submission.user, submission.role)
        problem = await self.problems.at(submission.problem_hash)
        if problem["_id"] != name:
            raise FieldError("problem_hash", f"names a manifest of problem '{problem['_id']}', not of '{name}'")
        return problem

    async def _check_outputs(self, submission: m.Submission, problem: m.ProblemRef) -> None:
        """Refuse outputs of which none is for a test of the problem; FieldError says what they must be called."""
        data = await self.blobs.get(problem.hash)
        tests = await asyncio.to_thread(lambda: [test.name for test in ProblemManifest.model_validate_json(data).tests])
        fault = refusal(tests, contents(submission))
        if fault:
            raise FieldError("files", fault)

    async def _with_row_name(self, submission: m.Submission) -> tuple[m.Submission, frozenset[str]]:
        """(the submission with its language's name as rows have it, the languages there are)."""
        table = _LANGUAGES
        if submission.language is None or submission.language in table:
            return submission, table
        # A site's executors may have a language of their own.
        table = table.union(*(languages(executor) for executor in await self.executors.all()))
        if submission.language in table:
            return submission, table
        return submission.model_copy(update={"language": row_of(submission.language)}), table

    async def _add(self, submission: m.Submission, digest: str) -> m.AddReply:
        problem, source_bytes, allowed, answers = None, _NO_SOURCE_LIMIT, [], False
        include: Mapping[str, list[str]] = {}
        if submission.problem is not None:
            document = await self._problem(submission.problem, submission)
            problem, source_bytes = m.ProblemRef(name=document["_id"], hash=document["hash"]), document["source_bytes"]
            allowed = document.get("languages", [])
            answers = not together(document["kind"].split(", ")).has_program
            include = included_names(document)
        quota = await self.people.users.quota(submission.user)
        allowance = self.config.allowances.of(submission.role, quota)
        submission, table = await self._with_row_name(submission)
        checked = functools.partial(
            intake.check,
            submission,
            self.config.limits,
            languages=table,
            source_bytes=source_bytes,
            allowed=allowed,
            own_tests=allowance.own_tests,
            answers=answers,
            include=include,
        )
        await in_thread_if_large(len(submission.tests), checked)
        if problem is not None and answers and submission.check is None:
            await self._check_outputs(submission, problem)
        intake.check_callback(submission, networks(self.config.webhooks.callback_networks))
        stored, texts = await in_thread_if_large(len(submission.tests), lambda: intake.name_texts(submission))
        blob_names = set(forms.blobs_of(stored)) - set(texts)
        cap = allowance.waiting
        # A submission that will be refused stores no texts; `tasks.add` looks again.
        if texts and cap is not None and self.tasks.full(stored.user, cap):
            raise too_many(stored.user, cap)
        usage = self.tasks.usage
        doc = forms.new(stored, problem, digest, clock.wall())
        size = await usage.size_of_submission(doc["submission"], blob_names) + sum(map(len, texts.values()))
        output = output_of(stored)
        async with (
            self._rate_limited(stored.user, allowance.per_minute) as count,
            usage.reserving(stored.user, size, output, allowance.stored_bytes) as reservation,
        ):
            if texts:
                await reservation.confirm()
            try:
                for data in texts.values():
                    await self.blobs.put(data)
                # Asked last: retention leaves these blobs alone for longer than the rest of this call takes.
                missing = await self.blobs.missing(forms.blobs_of(stored))
                if missing:
                    msg = f"blob {missing[0]} is not uploaded ({len(missing)} missing); upload it first"
                    raise FieldError("tests", msg)
                doc, created = await self.tasks.add(
                    stored, doc, size=size, output=output, quota=quota, confirm=reservation.confirm
                )
                failpoint.hit("add-stored")
            except JudgeError:
                await self.blobs.mark_unused(texts)
                # The refused texts stay on the disk until retention removes them, so they count until the recount: else
                # a user could fill the disk beyond any limit with big submissions that are refused.
                reservation.kept = bool(texts)
                if (
                    texts and await self.tasks.existing(submission, digest) is not None
                ):  # another try of the same has them
                    reservation.kept = False
                raise
            reservation.kept = created
        if count is not None and not created:
            await self.people.rates.give_back(handing_in(stored.user), count.limit)
            count = dataclasses.replace(count, left=count.left + 1)
        return m.AddReply(task=forms.to_task(doc), created=created, rate=_rate(count))

    @contextlib.asynccontextmanager
    async def _rate_limited(self, user: str, most: int | None) -> AsyncIterator[Count | None]:
        """Count one more submission of this minute; LimitError when it is one too many. What fails does not count."""
        if most is None:
            yield None
            return
        count = await self.people.rates.take(handing_in(user), most)
        if count.beyond:
            raise count.refusal(
                f"user '{user}' has handed in {most} submissions within a minute, and no more are taken; "
                f"hand in again in {count.seconds} s"
            )
        try:
            yield count
        except JudgeError:
            await self.people.rates.give_back(handing_in(user), most)
            raise

    async def cancel(self, request: m.TaskRef) -> m.Task:
        return forms.to_task(await self.tasks.cancel(ObjectId(request.id)))

    async def get(self, request: m.GetRequest) -> m.Task:
        """One task; with `wait` hold the answer until it is done or its version passes `version`."""
        task = ObjectId(request.id)
        deadline = clock.Deadline(request.wait)
        version = request.version or 0
        with self.hub.watching(task, end=request.version is None) as watch:
            while request.wait:
                watch.changed.clear()
                if watch.done is not None:  # it need not be read twice
                    version = max(version, watch.done)
                    break
                watch.version, done = await self.tasks.reader.version(task, version)
                passed = request.version is not None and watch.version > request.version
                if done or passed or deadline.over or self.hub.closed:
                    version = watch.version
                    break
                interval = _LOOK if self.status.following() else _LOOK_OFTEN
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(deadline.left(), interval)):
                        await watch.changed.wait()
        return await self._with_reason(await self.tasks.reader.get(task, version))

    async def _with_reason(self, doc: TaskDocument) -> m.Task:
        """The message, with the reason why the task waits if it has for some seconds."""
        task = forms.to_task(doc)
        waited = waiting_seconds(doc, clock.wall())
        if waited is not None and waited >= WAITS_SECONDS:
            reason = waiting_reason(doc["needs"], wants_of(doc), doc["failed"], await self.executors.capacities())
            task.waits = m.Waits(reason=reason, seconds=round(waited, 1))
        return task

    async def search(self, request: m.SearchRequest) -> m.SearchReply:
        # One more than asked for tells whether there is a next page.
        docs = await self.tasks.reader.search(request.model_copy(update={"limit": request.limit + 1}))
        more = len(docs) > request.limit
        tasks = [forms.to_task(doc) for doc in docs[: request.limit]]
        total = await self.tasks.reader.count(request) if request.total else None
        return m.SearchReply(tasks=tasks, next=tasks[-1].id if more else None, total=total)

    async def drain(self, request: DrainRequest) -> ExecutorState:
        """Drain or resume an executor; it hears of it at once."""
        doc = await self.executors.drain(request.executor, drain=request.drain, reason=request.reason)
        self.tasks.assigner.call(request.executor)
        return to_state(doc)

    async def marks(self, request: MarksRequest) -> MarksReply:
        solved, tried = await self.tasks.reader.marks(request.user)
        return MarksReply(solved=sorted(solved), tried=sorted(tried - solved))

    async def usage(self, request: UsageRequest) -> UsageReply:
        """The allowance of one person, and what the person takes of it now."""
        allowance = self.config.allowances.of(request.role, await self.people.users.quota(request.user))
        queue = self.tasks.replica.queue
        most = allowance.per_minute
        count = None if most is None else await self.people.rates.look(handing_in(request.user), most)
        return UsageReply(
            allowance=allowance,
            waiting=queue.waiting_of(request.user),
            running=queue.running_of(request.user),
            stored_bytes=await self.tasks.usage.stored(request.user),
            rate=_rate(count),
        )

    # --- executors ---------------------------------------------------------------------------------------------

    async def report(self, request: m.ReportRequest) -> m.ReportReply:
        """A report (seed: Report), answered by the leader (rule 4). While none leads, results are committed."""
        epoch = self.tasks.assigner.epoch
        if epoch is None:
            return await self._report_without_leader(request)
        reply = await to_completion(self._take_report(request))
        news = reply.drop or reply.settled or reply.add or reply.drain
        if request.hold and not news:
            await self._hold(request, reply)
        if reply.add and self.executors.sequence(request.executor, request.incarnation) is None:
            await self._take_back(request, reply)
        reply.epoch, reply.leader = epoch, self.config.address
        return reply

    async def _report_without_leader(self, request: m.ReportRequest) -> m.ReportReply:
        if not request.complete:
            raise UnavailableError("no judicator leads at the moment; report again")
        hand_outs, capacities = await asyncio.gather(
            self.tasks.hand_outs_of(request.executor, _claims(request)), self.executors.capacities()
        )
        reply = m.ReportReply(drain=request.executor in capacities and capacities[request.executor].drained)
        await asyncio.gather(
            *(to_completion(self._complete(request, done, hand_outs, reply)) for done in request.complete)
        )
        return reply

    async def _take_report(self, request: m.ReportRequest) -> m.ReportReply:
        """Completions, heartbeats, give-backs and assignments, in this order."""
        assigner = self.tasks.assigner
        await self.executors.take_report(request)
        hand_outs = assigner.hand_outs(request.executor)
        missing = _claims(request) - {(task, hand_out.claim) for task, hand_out in hand_outs.items()}
        if missing:
            hand_outs = await self.tasks.hand_outs_of(request.executor, missing) | hand_outs
        assigner.note_report(request.executor)
        if request.info is not None:
            await self.machines.note(request.executor, request.incarnation, request.info)
        capacity = (await self.executors.capacities()).get(request.executor)
        reply = m.ReportReply(drain=capacity is not None and capacity.drained)
        await asyncio.gather(*(self._complete(request, done, hand_outs, reply) for done in request.complete))
        await asyncio.gather(*(self._heartbeat(executing, hand_outs, reply) for executing in request.executing))
        again = await self._give_back_unlisted(request, hand_outs)
        reply.add += await assigner.resend(again)
        room = request.vacant - len(reply.add)
        if room > 0 and not reply.drain and capacity is not None:
            reply.add += await assigner.assign(_asking(request, capacity), room, min(request.ahead, room))
        return reply

    async def _hold(self, request: m.ReportRequest, reply: m.ReportReply) -> None:
        """Hold a report until there is work for the executor, or another reason to answer."""
        capacity = (await self.executors.capacities()).get(request.executor)
        if capacity is None or self.hub.closed:
            return
        assigner, executor = self.tasks.assigner, _asking(request, capacity)
        tasks = await assigner.park(executor, request.vacant, min(request.hold, self.config.wait_timeout))
        starting = request.vacant - min(request.ahead, request.vacant)
        if tasks:
            reply.add += await to_completion(assigner.claim(executor, tasks, first=0, starting=starting))
        hand_outs = assigner.hand_outs(request.executor)
        for executing in request.executing:
            if executing.id not in hand_outs or hand_outs[executing.id].claim != executing.claim:
                reply.drop.append(m.ClaimRef(id=executing.id, claim=executing.claim))

    async def _take_back(self, request: m.ReportRequest, reply: m.ReportReply) -> None:
        """Give back what was claimed for a process that was replaced meanwhile: nobody ever had it."""
        claims = {assignment.claim for assignment in reply.add}
        reply.add = []
        hand_outs = list(self.tasks.assigner.hand_outs(request.executor).values())
        reason = "the executor restarted before the hand-out was sent"
        await asyncio.gather(
            *(
                self.tasks.give_back(hand_out, "lost", reason, penalty=NO_PENALTY)
                for hand_out in hand_outs
                if hand_out.claim in claims
            )
        )

    async def _complete(
        self, request: m.ReportRequest, done: m.Completed, hand_outs: dict[str, HandOut], reply: m.ReportReply
    ) -> None:
        """Commit one completion, or tell the executor to forget it."""
        ref = m.ClaimRef(id=done.id, claim=done.claim)
        reply.settled.append(ref)
        hand_out = hand_outs.get(done.id)
        if hand_out is not None and (hand_out.claim, hand_out.attempt) == (done.claim, done.attempt):
            flaw = results.flaw(done)
            if done.retry or flaw is not None:
                reason = flaw or done.result.reason or "the executor could not judge it"
                penalty = FULL_PENALTY if done.penalty else LIGHT_PENALTY
                if await self.tasks.give_back(hand_out, "executor", reason, penalty=penalty):
                    return
            elif await self.tasks.complete(hand_out, done):
                return
        if not await self.tasks.settled(request.executor, done):
            STALE.inc()
            log.warning(
                "result of task %s attempt %d from %s is stale: not committed", done.id, done.attempt, request.executor
            )
            reply.drop.append(ref)

    async def _heartbeat(self, executing: m.Executing, hand_outs: dict[str, HandOut], reply: m.ReportReply) -> None:
        """Note one heartbeat, or tell the executor to stop."""
        hand_out = hand_outs.get(executing.id)
        same = hand_out is not None and (hand_out.claim, hand_out.attempt) == (executing.claim, executing.attempt)
        if hand_out is None or not same or not await self.tasks.heartbeat(hand_out, executing):
            STALE.inc()
            reply.drop.append(m.ClaimRef(id=executing.id, claim=executing.claim))

    async def _give_back_unlisted(self, request: m.ReportRequest, hand_outs: dict[str, HandOut]) -> list[HandOut]:
        """Return what the database says is this executor's and it does not list; the ones to be sent again instead."""
        listed = _claims(request)
        resend: list[HandOut] = []
        give_backs: list[Awaitable[bool]] = []
        for hand_out in hand_outs.values():
            if (str(hand_out.id), hand_out.claim) in listed:
                continue
            if hand_out.incarnation != request.incarnation:
                reason, penalty = attempt_penalty("the executor restarted", waiting=self.tasks.assigner.waits(hand_out))
                give_backs.append(self.tasks.give_back(hand_out, "restarted", reason, penalty=penalty))
            elif hand_out.handed == request.sequence:
                resend.append(hand_out)  # this very report was answered before, and the answer got lost
            elif hand_out.handed > request.sequence or hand_out.handed == request.pending:
                continue  # its answer is on its way, or a later report is being answered at the same time
            elif not self.tasks.assigner.beats(hand_out):
                give_backs.append(
                    self.tasks.give_back(hand_out, "lost", "the hand-out did not reach it", penalty=NO_PENALTY)
                )
            else:
                # The process that had it lives on, so the task did it no harm.
                reason = "the executor no longer has it"
                give_backs.append(self.tasks.give_back(hand_out, "unlisted", reason, penalty=LIGHT_PENALTY))
        await asyncio.gather(*give_backs)
        return resend


def _asking(request: m.ReportRequest, capacity: ExecutorCapacity) -> RequestingExecutor:
    return RequestingExecutor(
        request.executor, request.incarnation, request.sequence, capacity.languages, capacity.abilities
    )


def _claims(request: m.ReportRequest) -> set[tuple[str, str]]:
    """The hand-outs that a report names, by task and claim."""
    done = {(task.id, task.claim) for task in request.complete}
    return done | {(task.id, task.claim) for task in request.executing}


def _rate(count: Count | None) -> Rate | None:
    return None if count is None else Rate(limit=count.limit, left=max(0, count.left), seconds=count.seconds)
