"""Which cluster judgectl talks to, and as whom: flags, environment, then the first client.yml that is found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from judge.config import Model, Url, parse_text
from judge.errors import ConfigError, UsageError

PLACES = (Path(".judge/client.yml"), Path("~/.config/judge/client.yml"), Path("/etc/judge/client.yml"))


class ClientConfig(Model):
    """client.yml. Relative paths are taken from the file's own directory."""

    server: Url
    token_file: Path
    ca: Path | None = None
    run_dir: Path | None = None


@dataclass(frozen=True)
class Context:
    """One cluster and the person's token; `run_dir` is set on a host whose boot can be held and released."""

    server: str
    token: str
    ca: Path | None = None
    run_dir: Path | None = None
    source: str = "environment"


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8 text"
        msg = f"{path}: {what} cannot be read: {reason}"
        raise ConfigError(msg) from None


def from_file(path: Path) -> Context:
    """Read one client.yml and the token it names; raises ConfigError."""
    config = parse_text(ClientConfig, _read(path, "client config"), str(path))
    base = path.parent
    token = _read(base / config.token_file, "token file").strip()
    return Context(
        server=config.server,
        token=token,
        ca=base / config.ca if config.ca else None,
        run_dir=base / config.run_dir if config.run_dir else None,
        source=str(path),
    )


def find(explicit: Path | None, server: str | None) -> Context:
    """The context to use; UsageError tells how to make one when there is none. Called by every judgectl command."""
    env_server, env_token = os.environ.get("JUDGE_SERVER"), os.environ.get("JUDGE_TOKEN")
    named = explicit or (Path(os.environ["JUDGE_CONTEXT"]) if os.environ.get("JUDGE_CONTEXT") else None)
    if named is None and (server or env_server) and env_token:
        return Context(server=(server or env_server or "").rstrip("/"), token=env_token)
    candidates = [named] if named else [place.expanduser() for place in PLACES]
    for path in candidates:
        if named or path.exists():
            found = from_file(path)
            token = env_token or found.token
            return Context(server or env_server or found.server, token, found.ca, found.run_dir, found.source)
    places = ", ".join(str(place) for place in PLACES)
    msg = (
        f"no cluster to talk to: none of {places} exists and JUDGE_SERVER with JUDGE_TOKEN is not set; "
        "start one with 'judge up', or name a client.yml with --context"
    )
    raise UsageError(msg)
