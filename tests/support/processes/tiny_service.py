"""A small real service for boot's tests: `tiny_service.py CONTROL.json`. Imports nothing of judge, so starts fast.

CONTROL.json (all optional): port (serves it; HTTP with `status`, after `delay` seconds), exit (code to end with), say
(a line to print first), ignore_term, children (children that outlive it: "marked"), notify (sd_notify lines), record (a
file that gets one line `start PID` per start, and `double PID` when another instance of the same control file lives).
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path


def notify(text):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect("\0" + os.environ["NOTIFY_SOCKET"][1:])
        sock.send(text.encode())


def main():
    path = Path(sys.argv[1])
    control = json.loads(path.read_text())
    os.set_inheritable(int(os.environ["JUDGE_ALIVE_FD"]), False)
    only = os.open(f"{path}.only", os.O_RDWR | os.O_CREAT)
    with Path(f"{path}.record").open("a") as record:
        try:
            fcntl.flock(only, fcntl.LOCK_EX | fcntl.LOCK_NB)
            record.write(f"start {os.getpid()}\n")
        except BlockingIOError:
            record.write(f"double {os.getpid()}\n")
    if "say" in control:
        print(control["say"], flush=True)
    if control.get("ignore_term"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    for seconds in control.get("children", []):
        subprocess.Popen(["sleep", str(seconds)], start_new_session=True)
    for line in control.get("notify", []):
        notify(line)
    if "exit" in control:
        time.sleep(control.get("after", 0))
        os._exit(control["exit"])
    if "port" not in control:
        while True:
            time.sleep(60)
    with socket.create_server(("127.0.0.1", control["port"])) as server:
        while True:
            client, _ = server.accept()
            with client:
                client.settimeout(1)
                try:
                    if client.recv(1000):
                        time.sleep(json.loads(path.read_text()).get("delay", 0))
                        status = json.loads(path.read_text()).get("status", 200)
                        client.sendall(f"HTTP/1.0 {status} x\r\n\r\n".encode())
                except OSError:
                    pass


main()
