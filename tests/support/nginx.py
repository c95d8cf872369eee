"""A real nginx with the configuration that the role judge_gateway renders, on free loopback ports."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import free_port, program, wait_for
from tests.unit.test_roles import GROUPS, render, variables

NGINX = program("nginx")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx is missing; scripts/install-packages test")


class Journal:
    """A socket in the place of /dev/log, and what was logged there."""

    def __init__(self, path: Path) -> None:
        self.lines: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while line := self._socket.recv(65536):
            self.lines.append(line)

    @property
    def size(self) -> int:
        """Bytes that were logged."""
        return sum(len(line) for line in self.lines)

    def close(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
        self._thread.join(5)
        self._socket.close()


@dataclass
class Nginx:
    """A running nginx: its ports, its log, and its files in `root`."""

    root: Path
    https: int
    http: int
    journal: Journal
    process: subprocess.Popen[bytes]
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> int:
        """Bytes of all files that nginx has written, but its record of its process."""
        kept = (self.root / "var").rglob("*")
        return sum(path.stat().st_size for path in kept if path.is_file())

    @property
    def url(self) -> str:
        """The base address for people."""
        return f"https://127.0.0.1:{self.https}"

    @property
    def plain_url(self) -> str:
        """The base address of the port for HTTP."""
        return f"http://127.0.0.1:{self.http}"


def write(root: Path, **settings: Any) -> list[str]:
    """Write the role's two files below `root`; returns the command that starts nginx with them."""
    assert NGINX is not None
    given = variables("g1", GROUPS, formed=True) | settings
    for place in ("etc/conf.d", "etc/sites-enabled", "etc/modules-enabled", "var/log", "var/tmp", "var/www"):
        (root / place).mkdir(parents=True, exist_ok=True)
    (root / "etc/mime.types").write_text("types {}\n")
    kinds = ("client_body", "proxy", "fastcgi", "scgi", "uwsgi")
    places = {
        "/etc/nginx": f"{root}/etc", "/run/nginx.pid": f"{root}/pid", "/dev/log": f"{root}/journal",
        "/var/log/nginx": f"{root}/var/log", "user www-data;\n": "user root;\n",
        "http {\n": "http {\n" + "".join(f"    {kind}_temp_path {root}/var/tmp/{kind};\n" for kind in kinds),
    }  # fmt: skip
    for template, path in (("nginx-main.conf.j2", "etc/nginx.conf"), ("nginx.conf.j2", "etc/conf.d/judge.conf")):
        text = render("gateway", template, given)
        for was, now in places.items():
            text = text.replace(was, now)
        (root / path).write_text(text)
    return [NGINX, "-e", str(root / "start.log"), "-p", str(root), "-c", str(root / "etc/nginx.conf")]


@contextlib.contextmanager
def serving(root: Path, gateway: int, certificate: Path, key: Path, **settings: Any) -> Iterator[Nginx]:
    """Run nginx in front of a gateway's port on loopback, with variables of the role as `settings`."""
    https, http = free_port(), free_port()
    root.mkdir(parents=True, exist_ok=True)
    given = {
        "judge_https_port": https, "judge_gateway_http_port": http, "judge_gateway_port": gateway,
        "judge_gateway_certificate": str(certificate), "judge_gateway_certificate_key": str(key),
        "judge_gateway_acme_root": str(root / "var/www"),
        "judge_gateway_connections": 1024, "judge_gateway_ipv6": Path("/proc/net/if_inet6").exists(), **settings,
    }  # fmt: skip
    line = write(root, **given)
    journal = Journal(root / "journal")
    with (root / "stderr").open("wb") as said:
        process = subprocess.Popen([*line, "-g", "daemon off;"], stdout=said, stderr=said)
    try:
        wait_for(lambda: _listens(https) or process.poll() is not None, what="nginx listening")
        assert process.poll() is None, (root / "stderr").read_text() + (root / "start.log").read_text()
        yield Nginx(root, https, http, journal, process, given)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        journal.close()


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
