"""The ini file of uWSGI, and the levels of the lines that it prints. Pure functions."""

from __future__ import annotations

import logging
import struct

from judge.config import GatewayConfig

CONFIG_ENV = "JUDGE_GATEWAY_CONFIG"
STDERR_ENV = "JUDGE_GATEWAY_STDERR"  # the number under which workers have the daemon's own stderr open

# A request that outlives this is stuck: far above the longest poll plus its RPC, enough for a blob on a slow line.
HARAKIRI = 900
_SOCKET_TIMEOUT = 30
_LEVELS = (
    # Before anything else: uWSGI shouts its own end between asterisks.
    (logging.ERROR, ("game over", "traceback", "damn", "uaaa", "harakiri on", "segmentation fault")),
    # The banner, with its advice about a root user and buffering, which the unit file and the app take care of.
    (logging.DEBUG, ("***", "detected ", "running as root", "clock source", "compiled with", "page size", "os: ")),
    (logging.ERROR, ("error", "cannot", "unable to", "bind()", "exception")),
    (logging.WARNING, ("warning", "listen queue", "too big", "oops", "respawn", "failed", "invalid")),
)


def socket_name(config: GatewayConfig) -> str:
    return f"{config.name}.sock"


def check_socket_name(config: GatewayConfig) -> str:
    """The name of the socket of the daemon's check: its question does not wait behind those of nginx."""
    return f"{config.name}-check.sock"


def render_ini(config: GatewayConfig, backlog: int) -> str:
    """The ini file (seed: write_ini_config).

    It holds numbers and names only: paths travel in the environment, because uWSGI expands `%` and `$` in values.
    `backlog` is the length of the kernel's listen queue (at most net.core.somaxconn, or uWSGI refuses to start).
    """
    settings: dict[str, object] = {
        "strict": "true",
        # In run_dir, which is its working directory; for nginx alone, whose word about addresses is believed.
        "socket": [socket_name(config), check_socket_name(config)],
        "chmod-socket": "600",
        "listen": backlog,
        "module": "judge.gateway.wsgi:application",
        "master": "true",
        "processes": config.processes,
        "threads": config.threads,
        "enable-threads": "true",
        # Neither threads nor gRPC survive a fork, so each worker loads the app for itself.
        "lazy-apps": "true",
        "py-call-uwsgi-fork-hooks": "true",
        "single-interpreter": "true",
        "need-app": "true",
        "die-on-term": "true",
        "no-orphans": "true",
        "vacuum": "true",
        "thunder-lock": "true",
        # Long polls may be under way when it is told to stop; they are safe to cut off.
        "reload-mercy": 3,
        "worker-reload-mercy": 3,
        "disable-logging": "true",
        "buffer-size": 65535,
        # Each header of a request is one.
        "max-vars": 4096,
        "harakiri": HARAKIRI,
        "socket-timeout": _SOCKET_TIMEOUT,
        "ignore-sigpipe": "true",
        "ignore-write-errors": "true",
        "disable-write-exception": "true",
        "auto-procname": "true",
        "procname-prefix-spaced": "judge-gateway",
    }
    lines = [
        f"{key} = {value}\n"
        for key, values in settings.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return "[uwsgi]\n" + "".join(lines)


def request_packet(path: str) -> bytes:
    """A GET request in uWSGI's protocol: a header of four bytes, then names and values with their lengths."""
    variables = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "CONTENT_LENGTH": "",
        "REMOTE_ADDR": "127.0.0.1",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "localhost",
    }
    pairs = (text.encode() for pair in variables.items() for text in pair)
    body = b"".join(struct.pack("<H", len(text)) + text for text in pairs)
    return struct.pack("<BHB", 0, len(body), 0) + body


def parse_line(line: str) -> tuple[int, str]:
    """One line of output as (logging level, text): the app's own lines keep theirs, uWSGI's are told by their words."""
    text = line.strip()
    low = text.lower()
    for level, markers in _LEVELS:
        if any(word in low for word in markers):
            return level, text
    return logging.INFO, text
