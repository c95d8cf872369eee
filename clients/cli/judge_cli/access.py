"""The cluster and the token: of the environment, or of a client.yml as judgectl has it; `login` writes one."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import NamedTuple

from judge_cli.errors import UsageError

_SERVER = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[^\s/:@?#\[\]]+)(:\d{1,5})?")


class Access(NamedTuple):
    """A gateway's address, a token, and the CA that is trusted; None: the authorities of this machine."""

    server: str
    token: str
    ca: Path | None = None


def own_file() -> Path:
    """The client.yml that `login` writes."""
    return Path.home() / ".config/judge/client.yml"


def current() -> Access:
    """The access of all commands; UsageError without one.

    A client.yml below the present directory is not read: a folder of somebody else could have one.
    """
    server, token = os.environ.get("JUDGE_SERVER", ""), os.environ.get("JUDGE_TOKEN", "")
    if server and token:
        return Access(checked_server(server), token)
    context = os.environ.get("JUDGE_CONTEXT")
    places = [Path(context)] if context else [own_file(), Path("/etc/judge/client.yml")]
    file = next((path for path in places if context or path.is_file()), None)
    if file is None:
        raise UsageError(
            "no cluster to talk to; log in with 'judge-cli login URL', or set JUDGE_SERVER and JUDGE_TOKEN"
        )
    stored = read(file)
    if server and checked_server(server) != stored.server:
        raise UsageError(f"{file} has a token for {stored.server}, not for {server}; set JUDGE_TOKEN too")
    return Access(stored.server, token or stored.token, stored.ca)


def read(file: Path) -> Access:
    """One client.yml, of which each line is `key: value`, and the token that it names."""
    fields: dict[str, str] = {}
    for line in read_text(file).splitlines():
        key, _, value = line.partition(":")
        value = value.partition(" #")[0].strip()
        fields[key.strip()] = value[1:-1] if value[:1] in {'"', "'"} and value[-1:] == value[:1] else value
    for key in ("server", "token_file"):
        if not fields.get(key):
            raise UsageError(f"{file}: '{key}' is missing; log in again with 'judge-cli login URL'")
    token = read_text(file.parent / fields["token_file"]).strip()
    ca = file.parent / fields["ca"] if fields.get("ca") else None
    return Access(checked_server(fields["server"]), token, ca)


def read_text(path: Path) -> str:
    """A text file; UsageError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"{path}: cannot be read: {exc.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: is not UTF-8 text") from None


def checked_server(server: str) -> str:
    """The address without a slash at its end; UsageError unless it is `https://HOST` or `http://HOST`."""
    if not _SERVER.fullmatch(server.rstrip("/")):
        raise UsageError(f"'{server}' is no address of a gateway; expected one such as https://judge.example.org")
    return server.rstrip("/")


def ask_token(server: str, token_file: Path | None) -> str:
    """A token out of a file, from a hidden prompt, or of a pipe; UsageError for none."""
    if token_file is not None:
        token = read_text(token_file).strip()
    elif sys.stdin.isatty():
        from getpass import getpass  # noqa: PLC0415 - one command needs it

        token = getpass(f"Token (the page {server}/me makes one): ").strip()
    else:
        token = sys.stdin.readline().strip()
    if not token or not token.isascii() or not token.isprintable():
        raise UsageError("there is no token; the page behind your name makes one")
    return token


def store(access: Access) -> Path:
    """Write client.yml, the token, which only its owner may read, and a copy of the CA; returns the client.yml."""
    file = own_file()
    lines = [f"server: {json.dumps(access.server)}", "token_file: token"]
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if access.ca is not None:
            (file.parent / "ca.crt").write_bytes(access.ca.read_bytes())
            lines.append("ca: ca.crt")
        token = file.parent / "token"
        token.unlink(missing_ok=True)
        with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(access.token + "\n")
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as exc:
        raise UsageError(f"{exc.filename}: cannot be written: {exc.strerror}") from None
    return file
