"""A small service under a judge unit: says READY=1 and beats as its control file tells, serves, hangs, ends.

Started as `unit_service.py CONTROL`; CONTROL is JSON, read in every turn: ready, beat, port, exit, say, deaf;
`late` and `linger` are seconds without serving, of its start and of its end.
"""

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path


def tell(*lines: str) -> None:
    address = os.environ["NOTIFY_SOCKET"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect("\0" + address[1:] if address.startswith("@") else address)
        sock.sendall("\n".join(lines).encode())


def main() -> None:
    control = Path(sys.argv[1])
    first = json.loads(control.read_text())
    if first.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if first.get("say"):
        print(first["say"], file=sys.stderr, flush=True)
    if "exit" in first:
        sys.exit(first["exit"])
    server = None

    def end(*_: object) -> None:
        if server is not None:
            server.close()
        time.sleep(first["linger"])
        sys.exit()

    if first.get("linger"):
        signal.signal(signal.SIGTERM, end)
    serves_at = time.monotonic() + first.get("late", 0)
    if first.get("port") and not first.get("late"):
        server = socket.create_server(("127.0.0.1", first["port"]))
        server.settimeout(0.01)
    announced = False
    while True:
        now = json.loads(control.read_text())
        if first.get("late") and server is None and time.monotonic() >= serves_at:
            server = socket.create_server(("127.0.0.1", first["port"]))
            server.settimeout(0.01)
        if now.get("ready", True) and not announced:
            announced = True
            tell("READY=1")
        if now.get("beat", True):
            tell("WATCHDOG=1", f"STATUS=turning as {os.getpid()}")
        if server is not None and now.get("serve", True):
            with contextlib.suppress(TimeoutError):
                server.accept()[0].close()
        elif server is not None:
            server.close()
            server = None
        time.sleep(0.02)


main()
