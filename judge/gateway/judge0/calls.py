"""The calls of Judge0's API: who may make them, what they do, what they answer; and their table."""

from __future__ import annotations

import functools
import logging
import re
import threading
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from flask import Flask, Response, g, request
from pydantic import ValidationError

from judge.common import clock
from judge.common.errors import (
    FieldError,
    ForbiddenError,
    JudgeError,
    LimitError,
    NotFoundError,
    TooLargeError,
    UnauthorizedError,
)
from judge.config.services import Judge0
from judge.gateway import asking, submit, trace
from judge.gateway.api import deleting, handlers, seen
from judge.gateway.api.answers import paced
from judge.gateway.api.routes import Services, field_error
from judge.gateway.auth import JUDGE0_CHECKS, NOBODY, Principal, below, token_with
from judge.gateway.judge0 import info, wire
from judge.judge0 import answers, fields, languages, program
from judge.judge0.answers import SeenTask
from judge.judge0.languages import Flavour, Judge0Language
from judge.judge0.tokens import task_of, token_of
from judge.languages import handed, rules
from judge.model import messages as m
from judge.model.base import Rate, rate_of
from judge.model.overview import UsageReply, UsageRequest

log = logging.getLogger(__name__)

# Pages send headers of their own with a call; none means anything here but those of a token.
_HEADERS: Final = "Content-Type, Authorization, X-Auth-Token, X-Auth-User, X-RapidAPI-Key, X-RapidAPI-Host"
_HEADER_NAMES: Final = re.compile(r"[A-Za-z0-9, _-]{1,1000}")
_POLL: Final = 30.0
_OFFERED_AGE: Final = 5.0
_COUNTED_AGE: Final = 5.0
_PAGE, _MOST_EACH = 20, 100
# Of a list no more are shown, the newest: a search leaves out no more, and counts no further.
_LISTED: Final = 10_000
# Searches that count all submissions, and the status that each finds: which signal ended a run is in no index.
_COUNTED: Final = [
    *((m.SearchRequest(verdict=verdict, limit=1, total=True), answers.of_run(verdict, None)) for verdict in m.Verdict),
    *(
        (m.SearchRequest(status=status, limit=1, total=True), number)
        for number, several in ((1, answers.WAITING), (2, answers.PROCESSING), (13, {m.Status.CANCELLED}))
        for status in sorted(several)
    ),
]
# Fields of ours that may be at fault, alone or with the part at fault, and their names in a submission of Judge0.
_NAMES: Final = {
    "source": "source_code",
    "language": "language_id",
    "files": "additional_files",
    "options": "compiler_options",
    "options.arguments": "command_line_arguments",
    "command": "command_line_arguments",  # the rest of it is our own
    "limits.cpu": "cpu_time_limit",
    "limits.wall": "wall_time_limit",
    "limits.memory": "memory_limit",
    "limits.stack": "stack_limit",
    "limits.processes": "max_processes_and_or_threads",
    "limits.output": "max_file_size",
    **{name: name for name in ("problem", "tests", "callback_url", "Idempotency-Key")},
    **{f"told.{name}": name for name in fields.SHORT_TEXTS},
}


class Offered:
    """The languages that live executors have; asked for at most once in a few seconds, kept while none answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._when = -_OFFERED_AGE
        self._names: frozenset[str] = frozenset()

    def names(self, services: Services) -> frozenset[str]:
        with self._lock:
            if clock.monotonic() - self._when < _OFFERED_AGE and self._names:
                return self._names
        names = frozenset(language.name for language in handlers.languages(services.cluster))
        with self._lock:
            self._names = names or self._names
            self._when = clock.monotonic()
            return self._names


class Counted:
    """The statistics of each caller, counted at most once in some seconds: each takes some twenty searches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}
        self._making: dict[str, threading.Lock] = {}

    def of(self, caller: str, count: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The statistics of a caller. Further calls of theirs wait for the one that counts."""
        with self._lock:
            making = self._making.setdefault(caller, threading.Lock())
        with making:
            with self._lock:
                now = clock.monotonic()
                self._known = {key: value for key, value in self._known.items() if now - value[0] < _COUNTED_AGE}
                self._making = {key: value for key, value in self._making.items() if value.locked()}
                if caller in self._known:
                    return self._known[caller][1]
            value = count()
            with self._lock:
                self._known[caller] = clock.monotonic(), value
            return value


@dataclass(frozen=True)
class Judge0Api:
    """Judge0's API of one flavour, for one worker process. Its calls get who makes them."""

    services: Services
    flavour: Flavour
    offered: Offered
    counted: Counted

    @functools.cached_property
    def rows(self) -> dict[int, Judge0Language]:
        return languages.table(self.flavour)

    def judged(self, row: Judge0Language) -> bool:
        return row.judged(self.offered.names(self.services))

    def caller(self, *, in_address: bool = False) -> Principal:
        """The person who makes this call; UnauthorizedError for nobody. `in_address`: it only checks a token."""
        settings, identities = self.services.config.judge0, self.services.identities
        token = token_with(request.method, request.path, settings.prefix, request.headers.get, request.args.get)
        if token is None and settings.guest:
            visitor = Principal(settings.guest, "user", "")
            if not identities.allows(visitor):
                raise UnauthorizedError("guests have no access now; send a token in the header X-Auth-Token")
            asking.begin(visitor)
            return visitor
        if token is None:
            raise UnauthorizedError("no token; send it in the header X-Auth-Token")
        principal = identities.by_token(token, request.remote_addr or "")
        if principal is None:
            self.services.notes.refused("judge0")
            raise UnauthorizedError("unknown token; ask the operator of the cluster for a new one")
        asking.begin(principal)
        principal.may("read" if in_address or request.method in {"GET", "HEAD"} else "submit")
        return principal

    # --- submissions -----------------------------------------------------------------------------------------------

    def create(self, principal: Principal) -> Response:
        sent = wire.request_fields()
        names = wire.fields(sent)
        base64 = wire.base64(sent)
        added = self._add(principal, sent, base64=base64, key=request.headers.get("Idempotency-Key"))
        task, headers = added.task, paced(added.rate)
        if not wire.waits(sent):
            return wire.answer({"token": token_of(task.id)}, 201, headers)
        try:
            task = self._waited(principal, task)
            g.pop("identified", None)
            principal = self.caller()  # a person who was shut out while this was held sees no more of it
            document = self._document(principal, task, names, base64=base64)
        except UnauthorizedError:
            raise
        except (answers.NotTextError, JudgeError) as exc:  # it is handed in all the same
            document = {"error": str(exc), "token": token_of(task.id)}
        return wire.answer(document, 201, headers)

    def create_batch(self, principal: Principal) -> Response:
        """Several submissions; each is taken or refused by itself, but none when not all of them may wait."""
        sent = wire.request_fields()
        base64 = wire.base64(sent)
        batch = sent.get("submissions")
        batch = list(batch) if isinstance(batch, list) else []
        wire.check_batch(len(batch))
        self._check_room(principal, len(batch))
        replies: list[Any] = []
        accepted = False
        rate: Rate | None = None  # as the last one left it
        for item in batch:
            try:
                added = self._add(principal, item if isinstance(item, dict) else {}, base64=base64, key=None)
                replies.append({"token": token_of(added.task.id)})
                accepted, rate = True, added.rate or rate
            except wire.InvalidError as exc:
                replies.append(exc.faults)
            except JudgeError as exc:
                if not accepted:
                    raise
                replies.append({"error": [str(exc)]})
                rate = rate_of(exc) or rate
        return wire.answer(replies, 201 if accepted else 422, paced(rate))

    def show(self, principal: Principal, token: str) -> Any:
        names = wire.fields()
        return self._document(principal, self._own_task(principal, token), names, base64=wire.base64())

    def show_batch(self, principal: Principal) -> Any:
        """Several; null for one that there is not."""
        names = wire.fields()
        tokens = (request.headers.get("tokens") or wire.query_fields().get("tokens", "")).split(",")
        tokens = [name.strip() for name in tokens if name.strip()]
        wire.check_batch(len(tokens))
        ids = [task_of(token.removesuffix(".json")) or "" for token in tokens]
        return {"submissions": self._documents(principal, ids, names)}

    def index(self, principal: Principal) -> Any:
        """The caller's submissions, an admin's are all, newest first, by pages."""
        if not principal.fingerprint:
            raise ForbiddenError("a list of submissions requires a token; send it in the header X-Auth-Token")
        names = wire.fields()
        page, page_size = wire.whole_number("page", 1), wire.whole_number("per_page", _PAGE)
        if page <= 0:
            raise wire.Judge0RefusalError(400, f"invalid page: {page}")
        if page_size < 0:
            raise wire.Judge0RefusalError(400, f"invalid per_page: {page_size}")
        page_size = min(page_size, _MOST_EACH)
        start = (page - 1) * page_size
        room = max(0, min(page_size, _LISTED - start))
        query = m.SearchRequest(limit=room or 1, skip=start if room else 0, total=True)
        reply = seen.search(self.services.cluster, principal, query)
        total = reply.total or 0
        pages = -(-total // page_size) if page_size else 0
        documents = self._documents(principal, [item.id for item in reply.tasks[:room]], names)
        meta = {
            "current_page": page,
            "next_page": page + 1 if page < pages else None,
            "prev_page": page - 1 if page > 1 else None,
            "total_pages": pages,
            "total_count": total,
        }
        # Without those that went meanwhile.
        return {"submissions": [document for document in documents if document is not None], "meta": meta}

    def destroy(self, principal: Principal, token: str) -> Any:
        """Delete a finished submission; one that is not finished is cancelled when the caller says so."""
        names = wire.fields()
        task = self._own_task(principal, token)
        if wire.query_fields().get("cancel") == "true":
            handlers.cancel(self.services.cluster, principal, task.id)
            return self._document(principal, self._own_task(principal, token), names, base64=True)
        if not principal.admin:
            raise ForbiddenError("deleting requires a token of role admin")
        if not self.services.config.judge0.delete:
            raise wire.Judge0RefusalError(400, "delete not allowed")
        number = answers.status(task)
        if number in {1, 2}:
            text = f"submission cannot be deleted because its status is {number} ({answers.STATUSES[number]})"
            raise wire.Judge0RefusalError(400, text)
        document = self._document(principal, task, names, base64=True)
        deleting.delete(self.services.cluster, principal, deleting.deletion("submission", task.id))
        return document

    def _add(self, principal: Principal, sent: Mapping[str, Any], *, base64: bool, key: str | None) -> m.AddReply:
        """Hand in one submission; wire.InvalidError says what is wrong with it, under Judge0's names."""
        config, cluster = self.services.config, self.services.cluster
        parsed = fields.read(sent, self.rows, self.judged, base64=base64, callbacks=config.judge0.callbacks)
        if parsed.faults:
            raise wire.InvalidError(parsed.faults)

        # Bytes that are no text go along, and are stored as texts are: after all that may refuse a submission.
        blobs: dict[str, str] = {}

        def store(data: bytes) -> str:
            name = sha256(data).hexdigest()
            blobs[name] = b64encode(data).decode()
            return name

        most = config.limits.judge0_bytes
        bounds = handed.Bounds(config.limits.files, most, most)
        try:
            rules.check_size(len(parsed.contents.get("source_code", b"")), config.limits.source_bytes)
            whole_submission = program.submission(parsed, bounds, store)
            bare = whole_submission.model_copy(update={"tests": []})  # its blobs are its own
            admitted = submit.admit(bare, principal, config.limits, key, trace.current())
            blob_fields = {"tests": whole_submission.tests, "told": whole_submission.told, "contents": blobs}
            reply = cluster.add(admitted.model_copy(update=blob_fields))
        except ValidationError as exc:
            raise self._named(field_error(exc, "the submission")) from None
        except (FieldError, TooLargeError) as exc:
            raise self._named(exc) from exc
        except LimitError as exc:
            if rate_of(exc) is not None:  # too often, which has an end that the headers tell
                raise
            raise wire.FullError(str(exc)) from exc
        log.info("%s handed in %s by judge0, trace %s", principal.user, reply.task.id, reply.task.trace)
        return reply

    def _check_room(self, principal: Principal, count: int) -> None:
        """FullError unless so many more submissions of this person may wait: clients cannot read half a batch."""
        used = self._usage(principal)
        most = used.allowance.waiting
        if most is not None and used.waiting + count > most:
            raise wire.FullError(f"{used.waiting} submissions of '{principal.user}' wait, of at most {most}")

    def _usage(self, principal: Principal) -> UsageReply:
        return self.services.cluster.call("usage", UsageRequest(user=principal.user, role=principal.role), UsageReply)

    def _named(self, error: JudgeError) -> wire.InvalidError:
        """A fault of a submission of ours under Judge0's name of the field."""
        place, _, inner = (error.field or "").partition(".")
        name = _NAMES.get(f"{place}.{inner.partition('.')[0]}") or _NAMES.get(place)
        if name is None:  # nothing that a caller of Judge0 can name: Rails' word for faults of the whole
            return wire.InvalidError({"base": [str(error)]})
        text = str(error).removeprefix(f"{error.field}: ").removeprefix(f"{place}: ")
        return wire.InvalidError({name: [text]})

    def _own_task(self, principal: Principal, token: str) -> m.Task:
        """The caller's submission of this token; NotFoundError for any other."""
        task_id = task_of(token.removesuffix(".json"))
        if task_id is None:
            raise NotFoundError(f"there is no submission '{token[:60]}'")
        return seen.own_task(self.services.cluster, principal, task_id)

    def _waited(self, principal: Principal, task: m.Task) -> m.Task:
        """The task once it is done; as it is, when that takes too long, or too many wait."""
        end = clock.monotonic() + self.services.config.judge0.wait
        waited = True
        while not task.done and waited and (remaining := end - clock.monotonic()) > 0:
            task, waited = self.services.cluster.wait(task.id, min(_POLL, remaining), None, principal.user)
        return task

    def _documents(self, principal: Principal, ids: Sequence[str], names: Sequence[str]) -> list[dict[str, Any] | None]:
        """Several submissions as they are shown, null for one that there is not; Judge0RefusalError."""
        tasks, base64 = seen.own_tasks(self.services.cluster, principal, ids), wire.base64()
        try:
            return [None if task is None else self._document(principal, task, names, base64=base64) for task in tasks]
        except answers.NotTextError as exc:
            raise wire.Judge0RefusalError(400, str(exc).replace("this submission", "one or more submissions")) from exc

    def _document(self, principal: Principal, task: m.Task, names: Sequence[str], *, base64: bool) -> dict[str, Any]:
        room, cluster = g.judge0_contents, self.services.cluster
        task = seen.show(cluster, principal, task)
        row = answers.row_of(task, self.rows, self.flavour)
        document = answers.shown(SeenTask(task, row, functools.partial(room.read, cluster)), names, base64=base64)
        room.take(document, answers.encoded(base64=base64))
        return document

    # --- what there is ---------------------------------------------------------------------------------------------

    def languages(self, _: Principal) -> Any:
        return [info.language(row) for row in self._by_name() if self.judged(row)]

    def languages_all(self, _: Principal) -> Any:
        """All, the others as archived."""
        return [{**info.language(row), "is_archived": not self.judged(row)} for row in self._by_name()]

    def _by_name(self) -> list[Judge0Language]:
        return sorted(self.rows.values(), key=lambda row: row.name)

    def language(self, _: Principal, number: str) -> Any:
        number = number.removesuffix(".json")
        row = self.rows.get(int(number)) if number.isdecimal() and len(number) < 9 else None
        if row is None:
            raise NotFoundError(f"there is no language '{number[:20]}'")
        return info.language_with_commands(row, judged=self.judged(row))

    def config_info(self, principal: Principal) -> Any:
        return info.config_info(self.services.config, self._usage(principal).allowance.waiting)

    def system_info(self, principal: Principal) -> Any:
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii", errors="replace")
        return info.system_info(handlers.status(self.services.cluster, principal), meminfo)

    def workers(self, principal: Principal) -> Any:
        return info.workers(handlers.status(self.services.cluster, principal))

    def statistics(self, principal: Principal) -> Any:
        """The numbers of submissions, as far as the caller may know them."""
        return self.counted.of(
            f"{principal.role} {principal.user}", lambda: info.statistics(self._counts(principal), clock.wall())
        )

    def _counts(self, principal: Principal) -> info.SubmissionCounts:
        cluster = self.services.cluster
        statuses: Counter[int] = Counter()
        for query, number in _COUNTED:
            statuses[number] += seen.search(cluster, principal, query).total or 0
        reply = seen.search(cluster, principal, m.SearchRequest(limit=500, total=True))
        rows = Counter(answers.row_of(task, self.rows, self.flavour) for task in reply.tasks)
        return info.SubmissionCounts(
            total=reply.total or 0,
            statuses=+statuses,
            languages={row: count for row, count in rows.items() if row is not None},
            days=Counter(task.created[:10] for task in reply.tasks),
            stored_bytes=self._usage(principal).stored_bytes,
        )

    def authorize(self, principal: Principal) -> Response:
        """The check of an operator's token: an empty answer when the caller may do what operators may."""
        if not principal.admin:
            raise ForbiddenError("this requires a token of role admin")
        return wire.plain("")


_Call = Callable[..., Any]
# A row: the methods, the path under the prefix, its name, and the call, which gets who makes it.
_ROUTES: Final[list[tuple[str, str, str, _Call]]] = [
    ("POST", "/submissions", "create", Judge0Api.create),
    ("GET", "/submissions", "index", Judge0Api.index),
    ("POST", "/submissions/batch", "create_batch", Judge0Api.create_batch),
    ("GET", "/submissions/batch", "show_batch", Judge0Api.show_batch),
    ("GET", "/submissions/<token>", "show", Judge0Api.show),
    ("DELETE", "/submissions/<token>", "destroy", Judge0Api.destroy),
    ("GET", "/languages", "languages", Judge0Api.languages),
    ("GET", "/languages/all", "languages_all", Judge0Api.languages_all),
    ("GET", "/languages/<number>", "language", Judge0Api.language),
    ("GET", "/statuses", "statuses", lambda *_: info.statuses()),
    ("GET", "/config_info", "config_info", Judge0Api.config_info),
    ("GET", "/system_info", "system_info", Judge0Api.system_info),
    ("GET", "/workers", "workers", Judge0Api.workers),
    ("GET", "/statistics", "statistics", Judge0Api.statistics),
    ("GET", "/about", "about", lambda api, _: info.about(api.flavour)),
    ("GET", "/version", "version", lambda api, _: wire.plain(info.VERSIONS[api.flavour])),
    ("GET", "/isolate", "isolate", lambda *_: wire.plain("The sandbox of this cluster; it is not isolate\n")),
    ("GET", "/license", "license", lambda *_: wire.plain(info.license_text())),
    ("POST", "/authenticate", "authenticate", lambda *_: wire.plain("")),
    ("POST", "/authorize", "authorize", Judge0Api.authorize),
]


def register(app: Flask, services: Services) -> None:
    """Serve the API of both flavours, where the config says."""
    settings = services.config.judge0
    if not settings.enabled:
        return
    app.after_request(functools.partial(_for_scripts, settings))
    offered = Offered()
    flavours: dict[Flavour, str] = {"ce": settings.prefix, "extra": f"{settings.prefix}/extra"}
    for flavour, prefix in flavours.items():
        api = Judge0Api(services, flavour, offered, Counted())
        for method, path, name, call in _ROUTES:
            view = functools.partial(_answer, api, call, checks=path[1:] in JUDGE0_CHECKS)
            # Rails takes the name of the format behind a path, too; where an id ends the path, the calls do.
            for end in ("",) if path.endswith(">") else ("", ".json"):
                app.add_url_rule(
                    prefix + path + end,
                    endpoint=f"judge0.{flavour}.{name}",
                    view_func=view,
                    methods=[method, "OPTIONS"],
                    provide_automatic_options=False,
                    strict_slashes=False,
                )


def _answer(api: Judge0Api, call: _Call, *, checks: bool, **params: str) -> Response:
    """The answer to a call; one that only `checks` a token takes it in the address as well."""
    asking.begin(NOBODY)
    if request.method == "OPTIONS":
        return Response(status=204)
    with wire.Contents() as g.judge0_contents:
        try:
            body = call(api, api.caller(in_address=checks), **params)
        except JudgeError as exc:
            return wire.error_answer(exc)
        return body if isinstance(body, Response) else wire.answer(body)


def _for_scripts(settings: Judge0, response: Response) -> Response:
    """Let scripts of other sites read any answer below the prefix, where the config names these sites.

    No cookie counts here.
    """
    headers = settings.for_scripts(request.headers.get("Origin", ""))
    if headers and below(request.path, settings.prefix):
        response.headers.update(headers)
        if request.method == "OPTIONS":
            response.headers["Access-Control-Allow-Methods"] = "GET, POST, DELETE, OPTIONS"
            requested = request.headers.get("Access-Control-Request-Headers", "")
            response.headers["Access-Control-Allow-Headers"] = (
                requested if _HEADER_NAMES.fullmatch(requested) else _HEADERS
            )
            response.headers["Access-Control-Max-Age"] = "600"
    return response
