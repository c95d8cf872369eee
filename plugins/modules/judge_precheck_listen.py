#!/usr/bin/python
"""Listens on a bare host's ports while the other hosts try to reach them."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ..module_utils.judge_observe import LISTENER

DOCUMENTATION = r"""
module: judge_precheck_listen
short_description: Listen on ports for a moment, so that others can find out whether a firewall refuses them
description:
  - Before the first deployment nothing listens on the cluster's ports, and a connection that a firewall refuses looks
    like any other refused one.
  - Listens with a process of its own, which ends by itself, and only on ports that nobody else has.
options:
  ports: {description: TCP ports., type: list, elements: int, default: []}
  pid: {description: "The process to end; 0 starts one.", type: int, default: 0}
  seconds: {description: When the process ends if nobody ends it., type: int, default: 300}
author: [judge]
"""

RETURN = r"""
ports: {description: The ports that it listens on., type: list, returned: with O(pid=0)}
pid: {description: The process that listens., type: int, returned: with O(pid=0)}
"""

_NAME = Path("/proc/self/comm")
DEPLOYED = Path("/opt/judge/current")


def opened(ports: list[int]) -> dict[int, socket.socket]:
    listeners = {}
    for port in ports:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("0.0.0.0", port))
            listener.listen(128)
        except OSError:
            listener.close()
        else:
            listeners[port] = listener
    return listeners


def accept(listeners: list[socket.socket], seconds: int) -> None:
    end = time.monotonic() + seconds
    while (remaining := end - time.monotonic()) > 0:
        for listener in select.select(listeners, [], [], remaining)[0]:
            listener.accept()[0].close()


def start(ports: list[int], seconds: int) -> tuple[int, list[int]]:
    """Start the process that listens: its number, and the ports that it has; no process if it would have none."""
    listeners = opened(ports)
    if not listeners:
        return 0, []
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(null, descriptor)
            _NAME.write_text(LISTENER, encoding="ascii")
            accept(list(listeners.values()), seconds)
        finally:
            os._exit(0)
    for listener in listeners.values():
        listener.close()
    return pid, sorted(listeners)


def stop(pid: int) -> None:
    """End the process, unless another one has its number now; waits until its ports are free."""
    status = Path(f"/proc/{pid}/stat")
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            # One that nobody has waited for yet, state Z, has closed its sockets.
            if (
                f" ({LISTENER}) " not in (text := status.read_text(encoding="utf-8", errors="replace"))
                or ") Z " in text
            ):
                return
            os.kill(pid, signal.SIGKILL)
        except OSError:
            return
        time.sleep(0.02)


def main() -> None:
    module = AnsibleModule(
        {
            "ports": {"type": "list", "elements": "int", "default": []},
            "pid": {"type": "int", "default": 0},
            "seconds": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    if module.params["pid"]:
        stop(module.params["pid"])
        module.exit_json(changed=False)
    if DEPLOYED.exists():  # its services listen themselves, or are to be able to at any moment
        module.exit_json(changed=False, pid=0, ports=[])
    pid, ports = start(module.params["ports"], module.params["seconds"])
    module.exit_json(changed=False, pid=pid, ports=ports)


if __name__ == "__main__":
    main()
