"""The ini file of uWSGI, and the levels of the lines that it prints. Pure functions."""

from __future__ import annotations

import logging

from judge.config import GatewayConfig

CONFIG_ENV = "JUDGE_GATEWAY_CONFIG"
STDERR_ENV = "JUDGE_GATEWAY_STDERR"  # the number under which workers have the daemon's own stderr open

# A request that outlives this is stuck: far above the longest poll plus its RPC, enough for a blob on a slow line.
HARAKIRI = 900
_SOCKET_TIMEOUT = 30
_LEVELS = (
    # No fault of anybody's: the front has withheld a stranger's body, which the app finds as it reads a form.
    (logging.INFO, ("[uwsgi-body-read]",)),
    # Before anything else: uWSGI shouts its own end between asterisks.
    (logging.ERROR, ("game over", "traceback", "damn", "uaaa", "harakiri on", "segmentation fault")),
    # The banner, with its advice about a root user and buffering, which the unit file and the app take care of.
    (logging.DEBUG, ("***", "detected ", "running as root", "clock source", "compiled with", "page size", "os: ")),
    (logging.ERROR, ("error", "cannot", "unable to", "bind()", "exception")),
    (logging.WARNING, ("warning", "listen queue", "too big", "oops", "respawn", "failed", "invalid")),
)


def socket_name(config: GatewayConfig) -> str:
    """The name of uWSGI's socket in run_dir."""
    return f"{config.name}.sock"


def render_ini(config: GatewayConfig, backlog: int) -> str:
    """The ini file (seed: write_ini_config).

    It holds numbers and names only: paths travel in the environment, because uWSGI expands `%` and `$` in values.
    `backlog` is the length of the kernel's listen queue (at most net.core.somaxconn, or uWSGI refuses to start).
    """
    settings: dict[str, object] = {
        "strict": "true",
        # In run_dir, which is its working directory; for the daemon alone, whose word about addresses is believed.
        "socket": socket_name(config),
        "chmod-socket": "600",
        "listen": backlog,
        "module": "judge.gateway.wsgi:application",
        "master": "true",
        "processes": config.processes,
        # One more than the front lets in, so that the daemon's own question never waits for people's.
        "threads": config.threads + 1,
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
        "harakiri": HARAKIRI,
        "socket-timeout": _SOCKET_TIMEOUT,
        "add-header": "Connection: close",
        "ignore-sigpipe": "true",
        "ignore-write-errors": "true",
        "disable-write-exception": "true",
        "auto-procname": "true",
        "procname-prefix-spaced": "judge-gateway",
    }
    return "[uwsgi]\n" + "".join(f"{key} = {value}\n" for key, value in settings.items())


def parse_line(line: str) -> tuple[int, str]:
    """One line of output as (logging level, text): the app's own lines keep theirs, uWSGI's are told by their words."""
    text = line.strip()
    low = text.lower()
    for level, words in _LEVELS:
        if any(word in low for word in words):
            return level, text
    return logging.INFO, text
