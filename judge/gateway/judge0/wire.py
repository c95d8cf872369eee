"""The form of calls and answers of Judge0's API: bodies, switches, refusals in Judge0's words."""

from __future__ import annotations

import codecs
import contextlib
import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

from flask import Response, request
from werkzeug.datastructures import MultiDict

from judge.common.errors import JudgeError, TooLargeError
from judge.common.text import size
from judge.gateway.api.answers import retrying
from judge.gateway.api.routes import LengthError
from judge.gateway.cluster import Cluster
from judge.gateway.judge0 import info
from judge.judge0 import answers
from judge.rpc.faults import check_values

_VALUES: Final = 300_000
# Fields of a form or address: twenty submissions with all that there is are some hundred.
_FIELDS: Final = 5_000
# Characters of all texts of one answer, as they are sent. Twenty outputs of Judge0's usual limit, a MiB, in Base64.
CONTENTS: Final = 32 * 1024**2
# Blobs beyond so many bytes are read by one answer at a time.
_SMALL_BLOB: Final = 1024**2
_NESTED: Final = re.compile(r"([a-z_]+)\[([0-9]{0,4})\]\[([a-z_]+)\]")


class Judge0RefusalError(JudgeError):
    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.http_status = status


class InvalidError(JudgeError):
    http_status = 422

    def __init__(self, faults: Mapping[str, list[str]]) -> None:
        super().__init__("; ".join(f"{name} {text}" for name, texts in faults.items() for text in texts))
        self.faults = dict(faults)


class FullError(JudgeError):
    """So many submissions wait that another one is not taken now; the text says whose and how many."""

    http_status = 503


def request_fields() -> dict[str, Any]:
    """The fields of the address and of the body, which counts where both have one; Judge0RefusalError for a bad body.

    Rails makes one thing of them, so clients write limits, or all of a submission, behind the question mark.
    """
    return {**nested(_pairs(request.query_string)), **_body()}


def _body() -> dict[str, Any]:
    if "chunked" in request.headers.get("Transfer-Encoding", "").lower():
        raise LengthError("the body has no Content-Length; send it whole instead of in chunks")
    if request.mimetype == "multipart/form-data":
        return nested(_parts(request.form))
    data = request.get_data().removeprefix(codecs.BOM_UTF8)
    if request.mimetype == "application/x-www-form-urlencoded" and not data.lstrip().startswith((b"{", b"[")):
        return nested(_pairs(data))
    check_values(data, _VALUES, "the body")
    try:
        sent = json.loads(data or b"{}")
    except (ValueError, RecursionError) as exc:
        raise Judge0RefusalError(400, "the body is not JSON; send an object with the fields of a submission") from exc
    if isinstance(sent, list):  # some send the batch itself
        return {"submissions": sent}
    if not isinstance(sent, dict):
        raise Judge0RefusalError(400, "the body is not a JSON object; send one with the fields of a submission")
    return sent


def _pairs(data: bytes) -> list[tuple[str, str]]:
    """The names and values of a form or address, in their order; Judge0RefusalError for more than anyone needs."""
    if data.count(b"&") >= _FIELDS:
        raise Judge0RefusalError(400, f"there are more than {_FIELDS} fields; send fewer submissions at a time")
    return parse_qsl(data.decode("utf-8", "replace"), keep_blank_values=True)


def _parts(form: MultiDict[str, str]) -> list[tuple[str, str]]:
    """Those of a form in parts, of which the order is lost: without numbers, objects of a list must be alike."""
    pairs: list[tuple[str, str]] = []
    counts: dict[str, int] = {}
    for key, values in form.lists():
        if key is None:  # as werkzeug calls a part without one, whatever its types say
            raise Judge0RefusalError(400, "a part of the form has no name, or one whose quotes do not end")
        name, mark, inner = key.partition("[][")
        if mark and counts.setdefault(name, len(values)) != len(values):
            raise Judge0RefusalError(
                400, f"not all {name[:60]} have the same fields; number them: {name[:60]}[0][{inner[:60]}"
            )
        pairs += [(f"{name}[{at}][{inner}" if mark else key, value) for at, value in enumerate(values)]
    return pairs


def nested(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The fields of a form or address; `submissions[][stdin]` and `submissions[0][stdin]` are of objects in a list.

    Without numbers an object begins with the first name that the one before it has already, as Rails reads them.
    """
    plain: dict[str, Any] = {}
    lists: dict[str, dict[int, dict[str, Any]]] = {}
    highest: dict[str, int] = {}
    for key, text in pairs:
        match = _NESTED.fullmatch(key)
        if match is None:
            plain[key] = text  # of a name that comes twice the last counts, as Rails reads it
            continue
        name, number, inner = match.groups()
        objects = lists.setdefault(name, {})
        place = int(number) if number else highest.get(name, 0)
        if not number and inner in objects.get(place, {}):
            place += 1
        highest[name] = max(place, highest.get(name, 0))
        objects.setdefault(place, {})[inner] = text
    return {**plain, **{name: [objects[place] for place in sorted(objects)] for name, objects in lists.items()}}


def query_fields() -> dict[str, str]:
    """The fields of the address; the last of a name that comes twice."""
    return dict(_pairs(request.query_string))


def waits(sent: Mapping[str, Any]) -> bool:
    """Whether the caller asks with `wait=true` for the verdict; who does not gets a token, and asks with that."""
    return str(sent.get("wait", "")).lower() == "true"


def base64(sent: Mapping[str, Any] | None = None) -> bool:
    """Return whether contents are Base64, by the address or by what was `sent`.

    Only this very text says so: `True` and the JSON value do not at Judge0, so who sends them sends plain contents.
    """
    return (query_fields() if sent is None else sent).get("base64_encoded") == "true"


def fields(sent: Mapping[str, Any] | None = None) -> Sequence[str]:
    """The fields that the caller wants, by the address or by what was `sent`; Judge0RefusalError for unknown ones."""
    named = (query_fields() if sent is None else sent).get("fields")
    names, unknown = answers.fields_of(named if isinstance(named, str) else None)
    if unknown:
        raise Judge0RefusalError(400, f"invalid fields: [{', '.join(name[:40] for name in unknown[:20])}]")
    return names


def check_batch(count: int) -> None:
    """Judge0RefusalError for a batch of none, or of too many."""
    if count > info.BATCH:
        raise Judge0RefusalError(400, f"number of submissions in a batch should be less than or equal to {info.BATCH}")
    if count == 0:
        raise Judge0RefusalError(400, "there should be at least one submission in a batch")


def whole_number(name: str, default: int) -> int:
    """A whole number of the address as Ruby reads it: what is none is 0."""
    text = query_fields().get(name)
    if text is None:
        return default
    try:
        return int(text[:9])
    except ValueError:
        return 0


def plain(text: str) -> Response:
    return Response(text, mimetype="text/plain")


def answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json.dumps(body, ensure_ascii=False), status, headers, content_type=answers.MEDIA)


def error_answer(error: JudgeError) -> Response:
    """A refusal in the shape that clients of Judge0 read."""
    body: dict[str, Any] = error.faults if isinstance(error, InvalidError) else {"error": str(error)}
    if isinstance(error, FullError):
        body = {"error": "queue is full", "reason": str(error)}
    return Response(json.dumps(body), error.http_status, retrying(error), content_type=answers.MEDIA)


class Contents(contextlib.ExitStack):
    """The contents that one answer may have: an answer stands in memory whole, several times over.

    Leave it once the answer is made.
    """

    _turn = threading.Lock()

    def __init__(self) -> None:
        super().__init__()
        self._left = CONTENTS
        self._mine = False

    def read(self, cluster: Cluster, name: str) -> bytes:
        """A blob; TooLargeError, before it is in memory, for one that has no room."""
        with cluster.blob(name) as file:
            length = file.seek(0, 2)
            if length > self._left:
                raise _too_large()
            if length > _SMALL_BLOB and not self._mine:
                self.enter_context(self._turn)
                self._mine = True
            file.seek(0)
            return file.read()

    def take(self, document: Mapping[str, Any], encoded: Iterable[str]) -> None:
        """Count the texts of one submission; those in `encoded` grow no more. TooLargeError when that is too much."""
        encoded_names = frozenset(encoded)
        for name, value in document.items():
            if isinstance(value, str | list):
                self._left -= len(value) if name in encoded_names else len(json.dumps(value, ensure_ascii=False))
        if self._left < 0:
            raise _too_large()


def _too_large() -> TooLargeError:
    return TooLargeError(
        f"these submissions have more than {size(CONTENTS)} of contents; ask for fewer at once, or name the fields "
        "without stdout: GET /api/v1/submissions/ID/output has an output of any length"
    )
