"""The head of a stranger's HTTP request: parsed strictly, and turned into uWSGI's packet. Pure functions."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, quote, unquote_to_bytes

import h11

from judge.errors import UsageError

HEAD_BYTES = 32 * 1024
PACKET_BYTES = 65535
# uWSGI drops a request of 128 variables without a word.
_LINES = 100
_DIGITS = 15
# Of a name, also in its full form with a dot at the end.
_PORT = re.compile(r"\.?(?::\d*)?$")
# Characters that stand in a path as they are (RFC 3986, pchar).
_UNQUOTED = "/!$&'()*+,;=:@"
_COOKIES, _PLAIN = "; ", ", "
# Requests as nearly every client sends them: a part of what h11 takes, in which nothing can be read in two ways.
_USUAL = re.compile(rb"([A-Z]+) (/[!-~]*) HTTP/1\.1\r\n((?:[A-Za-z0-9-]+:[ ]?[!-~]+(?: [!-~]+)*\r\n)+)\r\n")


class HeadTooLargeError(UsageError):
    """A request line or header fields beyond what any client of ours sends."""

    http_status = 431
    code = "head"


@dataclass(frozen=True)
class Head:
    """Request line and header fields. Names are in lower case; a field given twice has its values joined."""

    method: str
    target: str
    version: str
    fields: dict[str, str]

    @property
    def path(self) -> str:
        """The path as the app compares it: percent signs decoded, one slash in front, a character for each byte."""
        return "/" + unquote_to_bytes(self.target.partition("?")[0].encode("latin-1")).decode("latin-1").lstrip("/")

    @property
    def host(self) -> str:
        """The host that the client has asked for, in lower case and without a port; empty when it does not say."""
        return _PORT.sub("", self.fields.get("host", "").lower())

    @property
    def chunked(self) -> bool:
        """Says whether the body comes in chunks, its length unknown."""
        return "transfer-encoding" in self.fields

    @property
    def length(self) -> int:
        """Bytes of the body; 0 when there is none or its length is unknown."""
        return 0 if self.chunked else int(self.fields.get("content-length", "0"))

    def at(self, path: str) -> Head:
        """The same at another path, given as `path` says one."""
        _, mark, query = self.target.partition("?")
        return replace(self, target=quote(path.encode("latin-1"), safe=_UNQUOTED) + mark + query)

    def of_length(self, length: int) -> Head:
        """The same for a body that came in chunks and is whole now."""
        fields = {name: text for name, text in self.fields.items() if name not in {"transfer-encoding", "trailer"}}
        return replace(self, fields={**fields, "content-length": str(length)})

    def field(self, name: str) -> str | None:
        """A header field, by its name in any capitals; None without it."""
        return self.fields.get(name.lower())

    def argument(self, name: str) -> str | None:
        """The first value of a name in the query of the address, as the app reads it; None without it."""
        return next(iter(self.arguments(name)), None)

    def arguments(self, name: str) -> list[str]:
        """All values of a name in the query of the address."""
        query = self.target.partition("?")[2].encode("latin-1").decode("utf-8", "replace")
        return [value for key, value in parse_qsl(query, keep_blank_values=True) if key == name]


def parse(head: bytes) -> Head:
    """Parse a head up to and with its empty line. UsageError says what is wrong, such as two lengths."""
    if head.count(b"\n") > _LINES:
        raise HeadTooLargeError(f"the request has more than {_LINES} header lines")
    if head.count(b"\n") != head.count(b"\r\n") or b"\n " in head or b"\n\t" in head:
        raise UsageError("the request's lines must end with CR LF and not be folded")
    return _usual(head) or _whole(head)


def _usual(head: bytes) -> Head | None:
    """A head without anything unusual, parsed fast. None: h11 decides, which takes ten times as long."""
    found = _USUAL.fullmatch(head)
    if found is None:
        return None
    fields: dict[str, str] = {}
    for line in found[3].decode("ascii").split("\r\n")[:-1]:
        name, _, value = line.partition(":")
        name, value = name.lower(), value.lstrip(" ")
        if name in fields:
            if name in {"host", "content-length"}:
                return None
            value = f"{fields[name]}{_COOKIES if name == 'cookie' else _PLAIN}{value}"
        fields[name] = value
    length = fields.get("content-length", "0")
    if "host" not in fields or "transfer-encoding" in fields or not length.isdecimal() or len(length) > _DIGITS:
        return None
    return Head(found[1].decode("ascii"), found[2].decode("ascii"), "1.1", fields)


def _whole(head: bytes) -> Head:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)
    try:
        connection.receive_data(head)
        event = connection.next_event()
    except h11.RemoteProtocolError as exc:
        raise UsageError(f"the request is not HTTP/1.1: {exc}") from None
    if not isinstance(event, h11.Request) or event.http_version not in {b"1.0", b"1.1"}:
        raise UsageError("the request is not HTTP/1.1")
    method = event.method.decode("ascii")
    if method != method.upper():  # the app takes `get` for GET, the gate would not
        raise UsageError(f"'{method[:20]}' is not a method of HTTP; send it in capital letters")
    fields = _fields(event)
    target = event.target.decode("latin-1")
    for scheme in ("http://", "https://"):
        if target.lower().startswith(scheme):
            _, slash, rest = target[len(scheme) :].partition("/")
            target = slash + rest or "/"
    if not target.startswith("/"):
        raise UsageError(f"'{target[:60]}' is not a path of this server")
    return Head(method, target, event.http_version.decode("ascii"), fields)


def _fields(event: h11.Request) -> dict[str, str]:
    fields: dict[str, str] = {}
    for raw_name, raw_value in event.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        # Names of CGI variables do not tell `_` from `-`: with both, a stranger could overwrite what a proxy said.
        if "_" not in name:
            fields[name] = (
                f"{fields[name]}{_COOKIES if name == 'cookie' else _PLAIN}{value}" if name in fields else value
            )
    if "cookie" in fields:
        # Other programs under the same name set cookies in any encoding, which readers of UTF-8 would fail at.
        told = fields["cookie"].encode("latin-1").decode("utf-8", "replace")
        fields["cookie"] = told.encode("utf-8").decode("latin-1")
    if "transfer-encoding" in fields and "content-length" in fields:
        raise UsageError("the request has both Content-Length and Transfer-Encoding; send one of them")
    if len(fields.get("content-length", "")) > _DIGITS:
        raise UsageError(f"Content-Length has more than {_DIGITS} digits")
    return fields


def fields_of(answer: bytes) -> dict[str, str]:
    """The header fields at the start of an answer of our own, by their names in lower case."""
    lines = answer.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def packet(head: Head, remote: str, scheme: str, listen: tuple[str, int]) -> bytes:
    """The request as uWSGI's own protocol has it; HeadTooLargeError beyond its largest packet."""
    path, _, query = head.target.partition("?")
    values: dict[bytes, bytes] = {
        b"REQUEST_METHOD": head.method.encode("ascii"),
        b"REQUEST_URI": head.target.encode("latin-1"),
        b"PATH_INFO": unquote_to_bytes(path.encode("latin-1")),
        b"QUERY_STRING": query.encode("latin-1"),
        b"SCRIPT_NAME": b"",
        b"SERVER_PROTOCOL": b"HTTP/" + head.version.encode("ascii"),
        b"SERVER_NAME": listen[0].encode(),
        b"SERVER_PORT": str(listen[1]).encode(),
        b"REMOTE_ADDR": remote.encode(),
        b"UWSGI_SCHEME": scheme.encode(),
    }
    for name, text in head.fields.items():
        if name.lower().startswith(
            "x-forwarded-"
        ):  # uWSGI believes these; what a proxy says is in `remote` and `scheme`
            continue
        key = name.upper().replace("-", "_").encode("ascii")
        bare = key in {b"CONTENT_TYPE", b"CONTENT_LENGTH"}
        values[key if bare else b"HTTP_" + key] = text.encode("latin-1")
    parts = [part for pair in values.items() for part in pair]
    if sum(len(part) + 2 for part in parts) > PACKET_BYTES:
        raise HeadTooLargeError("the request's header fields are too large")
    data = b"".join(struct.pack("<H", len(part)) + part for part in parts)
    return struct.pack("<BHB", 0, len(data), 0) + data
