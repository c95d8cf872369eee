"""nginx in front of uWSGI: its configuration, its answers to what the application never sees, and its log lines.

The daemon runs it. It receives heads and bodies at the client's pace and delivers answers likewise, so that a thread of
uWSGI is busy for as long as the application needs, and no longer.
"""

from __future__ import annotations

import html
import json
import logging
import os
import re
import resource
import shutil
import stat
from pathlib import Path
from typing import Final

import jinja2

from judge.common import files
from judge.common.errors import (
    ConfigError,
    JudgeError,
    LimitError,
    NotFoundError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
    UsageError,
)
from judge.common.text import size
from judge.config import GatewayConfig
from judge.gateway import assets
from judge.gateway.admission import SMALL_BODY
from judge.gateway.api import answers
from judge.gateway.policy import content_policy
from judge.gateway.uwsgi import HARAKIRI, socket_name

_TEMPLATE: Final = Path(__file__).with_name("nginx.conf.j2")
_PAGE: Final = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>That did not work · Judge</title>
<link rel="stylesheet" href="{css}"></head>
<body><main><div class="narrow card"><h1>That did not work</h1>
<p>{sentence}</p>
<p>Your browser's Back button leads to what you typed. <a href="/">To the problems</a></p></div></main></body>
</html>
"""
_CONNECTIONS: Final = 16_384
# Files that nginx has open beside two for each connection.
_SPARE_FILES: Final = 512
_LEVEL: Final = re.compile(r"\[(debug|info|notice|warn|error|crit|alert|emerg)\]")
_LEVELS: Final = {
    "debug": logging.DEBUG, "info": logging.DEBUG, "notice": logging.INFO, "warn": logging.WARNING,
}  # fmt: skip


def events_socket(config: GatewayConfig) -> str:
    return f"{config.name}-events.sock"


def render(config: GatewayConfig, spool: Path, connections: int, backlog: int) -> str:
    """The text of nginx.conf. `connections`: of clients and to uWSGI together."""
    judge0 = config.judge0 if config.judge0.enabled else None
    source = _TEMPLATE.read_text(encoding="utf-8")
    template = jinja2.Template(source, undefined=jinja2.StrictUndefined, trim_blocks=True)
    text: str = template.render(
        answer_timeout=HARAKIRI + 30,
        backlog=backlog,
        blob_bytes=max(config.limits.blob_bytes, config.limits.body_bytes),
        body_bytes=config.limits.body_bytes,
        connections=connections,
        events_socket=events_socket(config),
        judge0=judge0.prefix if judge0 else "",
        judge0_hosts=judge0.hosts if judge0 else [],
        judge0_origins=judge0.let_in if judge0 else [],
        listen=config.listen,
        # nginx has one socket for both and tells their connections apart; a backlog would make it open a second one.
        listen_shares=f"0.0.0.0:{config.listen.rpartition(':')[2]}" in config.public.listen,
        name=config.name,
        policy=content_policy(),
        proxied=config.proxied,
        public=config.public,
        spool_dir=re.sub(r'(["\\])', r"\\\1", str(spool)),
        uwsgi_socket=socket_name(config),
    )
    return text


def errors(config: GatewayConfig) -> dict[str, bytes]:
    """The files of nginx's own answers: by status and form, in the words and shapes of the application."""
    small, large = size(SMALL_BODY), size(config.limits.body_bytes)
    sentences: dict[int, JudgeError] = {
        400: UsageError("the request is not valid HTTP, or its headers are too large"),
        401: UnauthorizedError(f"the request has no valid token or session; without one at most {small} are accepted"),
        404: NotFoundError("there is no such file here"),
        413: TooLargeError(
            f"the body is too large; without a token at most {small} are accepted, and none in chunks; with one {large}"
        ),
        429: LimitError("you have too many connections or large bodies open at once; try again in a few seconds"),
        503: UnavailableError("this gateway's server does not answer; try again in a few seconds"),
    }
    contents = {}
    for status, error in sentences.items():
        contents[f"{status}.api"] = answers.problem_text(error, "")[0].encode()
        contents[f"{status}.judge0"] = json.dumps({"error": str(error)}).encode()
        sentence = html.escape(f"{error}."[:1].upper() + f"{error}."[1:])
        contents[f"{status}.page"] = _PAGE.format(css=assets.address("app.css"), sentence=sentence).encode()
    return contents


def prepare(config: GatewayConfig, backlog: int) -> Path:
    """Write nginx.conf and what it names into run_dir; returns its path. ConfigError when a directory cannot be used.

    Raises this process's limit of open files, which nginx inherits.
    """
    spool = _spool(config)
    directory = config.run_dir / f"{config.name}-errors"
    path = config.run_dir / f"{config.name}-nginx.conf"
    certificates = {"crt": config.public.certificate, "key": config.public.certificate_key}
    connections = min(_CONNECTIONS, _open_files(2 * _CONNECTIONS + _SPARE_FILES) - _SPARE_FILES)
    try:
        directory.mkdir(exist_ok=True)
        for name, content in errors(config).items():
            (directory / name).write_bytes(content)
        assets.write(config.run_dir / f"{config.name}-static")
        for ending, file in certificates.items():
            link = config.run_dir / f"{config.name}-https.{ending}"
            link.unlink(missing_ok=True)
            if file is not None:
                link.symlink_to(file)  # nginx would expand a `$` in the name of the file
        files.replace(path, render(config, spool, connections, backlog), durable=False)
    except OSError as exc:
        msg = f"run_dir {config.run_dir} cannot be written: {exc.strerror}; name a directory that this user may write"
        raise ConfigError(msg) from exc
    return path


def remove(config: GatewayConfig) -> None:
    """Remove what was prepared, and what nginx has buffered."""
    for name in ("errors", "static"):
        shutil.rmtree(config.run_dir / f"{config.name}-{name}", ignore_errors=True)
    for name in ("nginx.conf", "nginx.pid", "https.crt", "https.key"):
        (config.run_dir / f"{config.name}-{name}").unlink(missing_ok=True)
    shutil.rmtree(_spool_path(config), ignore_errors=True)


def command(binary: Path, path: Path) -> list[str]:
    """The command line that runs nginx in run_dir. No name of a directory is in it, which nginx would expand."""
    return [str(binary), "-p", "./", "-e", "stderr", "-c", path.name]


def parse_line(line: str) -> tuple[int, str]:
    """One line of nginx's log as (logging level, text)."""
    text = line.strip()
    level = _LEVEL.search(text)
    return _LEVELS.get(level[1], logging.ERROR) if level else logging.INFO, text


def _spool_path(config: GatewayConfig) -> Path:
    port = config.listen.rpartition(":")[2]
    return config.spool_dir / f"judge-{config.name}-{port}"


def _spool(config: GatewayConfig) -> Path:
    """An empty directory of this user alone for bodies and answers that are not small."""
    path = _spool_path(config)
    try:
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700, parents=True)
        status = path.lstat()
    except OSError as exc:
        msg = f"spool_dir {config.spool_dir} cannot be used: {exc.strerror}; name a directory that this user may write"
        raise ConfigError(msg) from exc
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise ConfigError(f"{path} belongs to another user; remove it, or set another spool_dir")
    return path.absolute()


def _open_files(count: int) -> int:
    """Ask the kernel for so many open files; returns how many this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        soft = min(count, hard) if hard != resource.RLIM_INFINITY else count
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft
