"""The HTTP API: its handlers, and the table of routes that registers and documents them."""

from __future__ import annotations

import functools
import json
import logging
from urllib.parse import quote

from flask import Response, request
from pydantic import TypeAdapter, ValidationError

import judge
from judge.common.errors import FieldError, ForbiddenError, JudgeError, NotFoundError
from judge.gateway import disclosure, submit, trace
from judge.gateway.api import (
    answers,
    batches,
    deleting,
    handing,
    models,
    openapi,
    people,
    rejudge,
    results,
    streaming,
)
from judge.gateway.api import problems as problem_routes
from judge.gateway.api.answers import JSON, paced
from judge.gateway.api.routes import (
    BINARY,
    BYTES,
    IDENTIFIER,
    OBJECT,
    Call,
    Reply,
    Route,
    blob_body,
    named,
    small_body,
    streamed,
)
from judge.gateway.api.seen import own_task, search, show
from judge.gateway.auth import Principal
from judge.gateway.cluster import Cluster
from judge.languages import handed
from judge.languages.table import load_table
from judge.model import messages as m
from judge.model import overview
from judge.model import webhooks as w
from judge.model.audit import AuditQuery, AuditReply, Note
from judge.model.figures import FiguresReply, FiguresRequest, HistoryReply, HistoryRequest
from judge.model.messages import BlobsMissing, BlobsWanted
from judge.model.problem import ProblemImport, ProblemInfo, ProblemsReply
from judge.rpc import packs

log = logging.getLogger(__name__)

_SHA = TypeAdapter(m.Sha256)


# --- what pages use as well ------------------------------------------------------------------------------------


def executors(cluster: Cluster, principal: Principal) -> overview.ExecutorsReply:
    """The executors as this person may see them."""
    reply = cluster.call("executors", m.Empty(), overview.ExecutorsReply)
    if principal.admin:
        return reply
    return overview.ExecutorsReply(executors=[disclosure.executor(state) for state in reply.executors])


def status(cluster: Cluster, principal: Principal) -> overview.StatusReply:
    """The cluster at a glance, as this person may see it."""
    reply = cluster.call("status", m.Empty(), overview.StatusReply)
    return reply if principal.admin else disclosure.status(reply, judges=principal.judges)


def figures(cluster: Cluster, principal: Principal, query: FiguresRequest) -> FiguresReply:
    """The cluster's work over time, as this person may see it."""
    reply = cluster.call("figures", query, FiguresReply)
    return reply if principal.judges else disclosure.figures(reply)


def history(cluster: Cluster, principal: Principal, executor: str) -> HistoryReply:
    """The starts of an executor, as this person may see them; NotFoundError."""
    message = HistoryRequest(executor=named(IDENTIFIER, "executor", executor))
    reply = cluster.call("executor_history", message, HistoryReply)
    return reply if principal.admin else disclosure.history(reply)


def problems(cluster: Cluster) -> ProblemsReply:
    """All problems that the person who asks sees."""
    return cluster.call("problems", m.Empty(), ProblemsReply)


def cancel(cluster: Cluster, principal: Principal, task_id: str) -> m.Task:
    """Cancel one's own task, or any as an admin."""
    stored_task = own_task(cluster, principal, task_id)
    if stored_task.submission.user != principal.user and not principal.admin:
        raise ForbiddenError(f"submission '{task_id}' is another user's; cancelling it requires a token of role admin")
    task = cluster.call("cancel", m.TaskRef(id=task_id), m.Task)
    log.info("%s cancelled submission %s, now %s, trace %s", principal.user, task_id, task.status, task.trace)
    return show(cluster, principal, task)


def languages(cluster: Cluster) -> list[models.LanguageInfo]:
    """The languages that live executors judge, with the titles of the built-in table."""
    table = load_table(None)
    versions: dict[str, list[str]] = {}
    for executor in cluster.call("executors", m.Empty(), overview.ExecutorsReply).executors:
        if executor.alive and executor.info is not None:
            for name, version in executor.info.languages.items():
                versions.setdefault(name, []).append(version)
    infos = []
    for name, names in sorted(versions.items()):
        row = table.get(name)
        title, suffixes = (row.title, list(row.suffixes)) if row else (name, [])
        version = " / ".join(sorted(set(names)))
        info = models.LanguageInfo(name=name, title=title, suffixes=suffixes, version=version, executors=len(names))
        infos.append(info)
    return infos


def drain(cluster: Cluster, principal: Principal, executor: str, *, on: bool, reason: str) -> overview.ExecutorState:
    """Drain or resume an executor; the caller has checked the role."""
    message = overview.DrainRequest(executor=named(IDENTIFIER, "executor", executor), drain=on, reason=reason)
    state = cluster.call("drain", message, overview.ExecutorState)
    log.info("%s %s executor %s (%s)", principal.user, "drains" if on else "resumes", executor, reason or "no reason")
    return state


def whoami(cluster: Cluster, principal: Principal) -> overview.Whoami:
    """A person with their role, what they may take and what they take now."""
    used = cluster.call("usage", overview.UsageRequest(user=principal.user, role=principal.role), overview.UsageReply)
    return overview.Whoami(user=principal.user, role=principal.role, **dict(used))


# --- handlers --------------------------------------------------------------------------------------------------


def _add(call: Call) -> Reply:
    key = request.headers.get("Idempotency-Key")
    submission = submit.admit(call.body, call.principal, call.services.config.limits, key, trace.current())
    reply = call.cluster.add(submission)
    again = "" if reply.created else " again"
    log.info("%s handed in %s%s, trace %s", submission.user, reply.task.id, again, reply.task.trace)
    task, headers = reply.task, {"Location": f"/api/v1/submissions/{reply.task.id}", **paced(reply.rate)}
    shown = show(call.cluster, call.principal, task)
    if call.query.wait > 0 and not task.done:
        try:
            shown = show(call.cluster, call.principal, _waited(call, task.id, None, headers))
        except JudgeError as exc:  # it is handed in all the same
            log.warning("the end of submission %s cannot be waited for: %s", task.id, exc)
    return Reply(shown, 201 if reply.created else 200, headers)


def _waited(call: Call, task_id: str, version: int | None, headers: dict[str, str]) -> m.Task:
    """The task once it has changed, or the time is over; at once, with a header, when too many wait."""
    task, waited = call.cluster.wait(task_id, call.query.wait, version, call.principal.user)
    if not waited:
        headers["Retry-After"] = "1"
    return task


def _get(call: Call) -> Reply:
    task_id, query = call.params["id"], call.query
    task = own_task(call.cluster, call.principal, task_id)
    headers: dict[str, str] = {}
    if query.wait > 0 and not task.done and (query.version is None or task.version <= query.version):
        task = _waited(call, task_id, query.version, headers)
    return Reply(show(call.cluster, call.principal, task), headers=headers)


def _output(call: Call) -> Reply:
    task = own_task(call.cluster, call.principal, call.params["id"])
    result = show(call.cluster, call.principal, task).result
    if result is not None and result.stdout_blob is not None:
        return _send_blob(call, result.stdout_blob)
    if result is not None and result.stdout is not None:
        return Reply(Response(result.stdout.encode("utf-8", "replace"), mimetype=BINARY, headers=_DOWNLOAD))
    raise NotFoundError(
        f"submission '{task.id}' has no output to download: it was judged with tests, or is not finished"
    )


def _source(call: Call) -> Reply:
    task = own_task(call.cluster, call.principal, call.params["id"])
    files = handed.contents(show(call.cluster, call.principal, task).submission)
    if not files:
        raise NotFoundError(f"submission '{task.id}' has no source; it is a command")
    if call.query.file is not None and call.query.file not in files:
        raise NotFoundError(f"submission '{task.id}' has no file '{call.query.file[:100]}'")
    name = call.query.file or (next(iter(files)) if len(files) == 1 else "")
    data = files[name] if name else handed.pack(files)
    disposition = {"Content-Disposition": _attachment(name or f"{task.id}.zip")}
    return Reply(Response(data, mimetype=BINARY, headers=disposition))


def _attachment(name: str) -> str:
    """The header's value that makes a browser store an answer under the last part of this name (RFC 6266)."""
    last = name.rpartition("/")[2]
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._+-") else "_" for char in last)
    return f"attachment; filename={plain}; filename*=UTF-8''{quote(last, safe='')}"


def _judicators(call: Call) -> m.Message:
    reply = status(call.cluster, call.principal)
    return models.JudicatorsReply(
        leader=reply.leader, epoch=reply.epoch, judicators=reply.judicators, etcd=reply.etcd, mongodb=reply.mongodb
    )


def _health(call: Call) -> Reply:
    faults = call.cluster.faults()
    return Reply(models.Health(healthy=not faults, faults=faults), 503 if faults else 200)


def _import(call: Call) -> m.Message:
    info = call.cluster.call("problem_import", call.body, ProblemInfo)
    log.info("%s imported problem %s with content %s", call.principal.user, info.name, info.hash)
    return info


@functools.cache
def _document() -> str:
    return json.dumps(openapi.document(ROUTES), indent=1)


_DOWNLOAD = {"Content-Disposition": "attachment; filename=output"}


def _sha(call: Call) -> str:
    try:
        return _SHA.validate_python(call.params["sha"])
    except ValidationError:
        raise FieldError("sha", "is not a SHA-256 in 64 lower-case hexadecimal digits") from None


def _error_kind(call: Call) -> m.Message:
    error_kind = answers.kind(call.params["code"])
    if error_kind is None:
        raise NotFoundError(f"there is no error code '{call.params['code'][:60]}'")
    return error_kind


def _put_blob(call: Call) -> m.Message:
    sha = _sha(call)
    config = call.services.config
    with blob_body(config.limits.blob_bytes, config.spool_dir) as body:
        if body.sha != sha:
            raise FieldError(
                "sha", f"is not the SHA-256 of this content, which is {body.sha}; the content arrived damaged"
            )
        call.cluster.put_blob(body.file, sha, body.length)
        return models.BlobReply(sha=sha, bytes=body.length)


def _put_pack(call: Call) -> m.Message:
    body = small_body(packs.MOST)
    call.cluster.put_pack(body)
    return models.PackReply(bytes=len(body))


def _head_blob(call: Call) -> Reply:
    sha = _sha(call)
    if not call.cluster.has_blob(sha):
        raise NotFoundError(f"there is no blob {sha}")
    return Reply(Response(mimetype=BINARY))


def _send_blob(call: Call, sha: str) -> Reply:
    tagged = {"ETag": f'"{sha}"'}
    if request.if_none_match.contains_weak(sha) and call.cluster.has_blob(sha):
        return Reply(Response(status=304), headers=tagged)
    return Reply(streamed(call.cluster.blob(sha), BINARY), headers={**_DOWNLOAD, **tagged})


def _hold(call: Call) -> Reply:
    body: models.HoldNote = call.body
    details: dict[str, str | int] = {"reason": body.reason, "seconds": body.seconds, "told by": "judgectl"}
    note = Note(action=body.action, object=f"{body.host}/{body.service}", details=details)
    call.cluster.call("audit_note", note, m.Empty)
    return Reply(body, 201)


def _add_webhook(call: Call) -> Reply:
    added = call.cluster.call("webhook_add", call.body, w.WebhookAdded)
    log.info("%s set webhook '%s'", call.principal.user, added.webhook.name)
    return Reply(added, 201)


def _webhook(call: Call) -> w.WebhookRef:
    return w.WebhookRef(name=named(IDENTIFIER, "webhook", call.params["name"]))


def _remove_webhook(call: Call) -> m.Message:
    ref = _webhook(call)
    call.cluster.call("webhook_remove", ref, m.Empty)
    log.info("%s removed webhook '%s'", call.principal.user, ref.name)
    return m.Empty()


_IDEMPOTENCY = {"Idempotency-Key": "1 to 128 characters; the same key with the same submission gives the same task"}

ROUTES: list[Route] = [
    Route("POST", "/submissions", "submit", "Hand in a submission; with wait, the answer "
                                            "has its verdict", _add, "user", m.Task, 201,
          also={200: "The Idempotency-Key was used before; this is its task"}, query=models.SubmitQuery,
          body=m.Submission, media=handing.MEDIA,
          read=handing.submission, headers=_IDEMPOTENCY,
          calls=("add",)),
    Route("GET", "/submissions", "search", "Find submissions, newest first",
          lambda call: search(call.cluster, call.principal, call.query), "user", m.SearchReply, query=m.SearchRequest,
          calls=("search",)),
    Route("GET", "/submissions/<id>", "get", "One submission; with wait, once it has changed", _get, "user", m.Task,
          query=models.TaskQuery, calls=("get",)),
    Route("GET", "/submissions/<id>/output", "output", "The whole output of a task without "
                                                       "tests", _output, "user", BYTES,
          calls=("get",)),
    Route("GET", "/submissions/<id>/source", "source", "The files handed in; several as a ZIP archive", _source,
          "user", BYTES, query=models.SourceQuery, calls=("get",)),
    Route("POST", "/submissions/<id>/cancel", "cancel", "Cancel a submission",
          lambda call: cancel(call.cluster, call.principal, call.params["id"]), "user", m.Task,
          calls=("get", "cancel")),
    Route("GET", "/executors", "executors", "The executors, their slots and languages",
          lambda call: executors(call.cluster, call.principal), "user",
          overview.ExecutorsReply, calls=("executors",)),
    Route("POST", "/executors/<name>/drain", "drain", "Drain an executor: it gets no more work",
          lambda call: drain(call.cluster, call.principal, call.params["name"], on=True, reason=call.body.reason),
          "admin", overview.ExecutorState, body=models.DrainBody, calls=("drain",)),
    Route("POST", "/executors/<name>/resume", "resume", "Resume an executor: it gets work again",
          lambda call: drain(call.cluster, call.principal, call.params["name"], on=False, reason=""),
          "admin", overview.ExecutorState, calls=("drain",)),
    Route("GET", "/judicators", "judicators", "The judicators, and the members of etcd and MongoDB", _judicators,
          "judge", models.JudicatorsReply, calls=("status",)),
    Route("GET", "/status", "status", "The cluster at a glance", lambda call: status(call.cluster, call.principal),
          "user", overview.StatusReply, calls=("status",)),
    Route("GET", "/health", "health", "The health of the cluster", _health, "none", models.Health,
          also={503: "The cluster does not judge; `faults` has the reasons"}, calls=("status",)),
    Route("GET", "/alive", "alive", "Check that the gateway is alive",
          lambda _: models.Alive(version=judge.__version__), "none", models.Alive),
    Route("GET", "/problems", "problems", "All problems that you see", None, "user", ProblemsReply,
          calls=("problems",)),
    Route("POST", "/problems", "import_problem", "Register a problem whose blobs have been uploaded", _import, "judge",
          ProblemInfo, 201, body=ProblemImport, calls=("problem_import",)),
    Route("PUT", "/blobs/<sha>", "put_blob", "Store a blob under its SHA-256", _put_blob, "judge", models.BlobReply,
          201, binary_body=True),
    Route("PUT", "/blobs/pack", "put_pack", "Store a pack of small blobs", _put_pack, "judge", models.PackReply, 201,
          binary_body=True),
    Route("POST", "/blobs/missing", "missing_blobs", "Blobs of a list that are missing", None, "judge", BlobsMissing,
          body=BlobsWanted, calls=("blobs_missing",)),
    Route("HEAD", "/blobs/<sha>", "head_blob", "Whether a blob is stored", _head_blob, "judge", BYTES, errors=(400,)),
    Route("GET", "/blobs/<sha>", "get_blob", "A stored blob", lambda call: _send_blob(call, _sha(call)), "judge",
          BYTES, errors=(400,)),
    *batches.ROUTES,
    Route("GET", "/figures", "figures", "The cluster's work in the last hour or day, step by step",
          lambda call: figures(call.cluster, call.principal, call.query), "user", FiguresReply, query=FiguresRequest,
          calls=("figures",)),
    Route("GET", "/executors/<name>/history", "executor_history", "The last starts of an executor: versions, speed",
          lambda call: history(call.cluster, call.principal, call.params["name"]), "user", HistoryReply,
          calls=("executor_history",)),
    *problem_routes.ROUTES,
    *rejudge.ROUTES,
    *deleting.ROUTES,
    Route("GET", "/audit", "audit", "The audit trail, newest first", None, "admin", AuditReply, query=AuditQuery,
          calls=("audit",)),
    Route("POST", "/audit/holds", "audit_hold", "Record in the audit trail that a service is held or "
                                                "released", _hold, "admin",
          models.HoldNote, 201, body=models.HoldNote, calls=("audit_note",)),
    Route("GET", "/webhooks", "webhooks", "All webhooks", None, "admin", w.WebhooksReply, calls=("webhooks",)),
    Route("POST", "/webhooks", "add_webhook", "Add a webhook, or change it; the secret is shown only once",
          _add_webhook, "admin", w.WebhookAdded, 201, body=w.WebhookAdd, calls=("webhook_add",)),
    Route("DELETE", "/webhooks/<name>", "remove_webhook", "Remove a webhook and its waiting calls", _remove_webhook,
          "admin", m.Empty, calls=("webhook_remove",)),
    Route("POST", "/webhooks/<name>/ping", "ping_webhook", "Send a test call",
          lambda call: call.cluster.call("webhook_ping", _webhook(call), w.Delivery), "admin", w.Delivery, 201,
          calls=("webhook_ping",)),
    Route("GET", "/deliveries", "deliveries", "Calls to receivers, newest first", None, "admin", w.DeliveriesReply,
          query=w.DeliveriesRequest, calls=("deliveries",)),
    Route("POST", "/deliveries/resend", "resend", "Send one delivery again, or all of a webhook that were given up",
          None, "admin", w.Resent, body=w.Resend, calls=("webhook_resend",)),
    *streaming.ROUTES,
    *people.ROUTES,
    *results.ROUTES,
    Route("GET", "/languages", "languages", "The languages that live executors judge",
          lambda call: models.LanguagesReply(languages=languages(call.cluster)), "user", models.LanguagesReply,
          calls=("executors",)),
    Route("GET", "/whoami", "whoami", "The token's owner, and their limits",
          lambda call: whoami(call.cluster, call.principal), "user", overview.Whoami, calls=("usage",)),
    Route("GET", "/errors/<code>", "error_kind", "The meaning of an error's code", _error_kind, "none",
          answers.ErrorKind),
    Route("GET", "/openapi.json", "openapi", "This description",
          lambda _: Reply(Response(_document(), mimetype=JSON)), "none", OBJECT),
]  # fmt: skip
