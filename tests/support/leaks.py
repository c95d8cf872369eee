"""Secrets that must be seen nowhere: what they are, and where one of them shows. For every test that deploys something.

secrets = of_controller(directory) | of_hosts(lab)
assert leaks(secrets, {"site.yml": output, "processes": watch.text(), "journal of j1": journal(lab, "j1")}) == []
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lab import cgroups
from lab.cluster import Lab

SHORTEST = 16  # characters; what is shorter is no secret, and would be found by chance
PIECE = 32  # characters of a long line that are looked for at a time, so that a part of a secret counts too
PERIOD = 0.02  # seconds between two looks at the processes
# Of the secrets directory and of /etc/judge, everything else is secret: a new file is looked after by itself.
PUBLIC = (".crt", ".yml", ".lock", ".pub")
# mongod reads key and certificate from one file, which its daemon writes into its own data directory.
HOMES = ("/var/lib/judge/mongodb/judge-tls.pem",)
Needles = dict[str, str]  # secrets that are looked for, and their owners

_READ = r"""
import base64, json, os, sys
found = {}
for top, _, names in os.walk("/etc/judge"):
    for name in names:
        path = os.path.join(top, name)
        if not name.endswith(tuple(PUBLIC)):
            with open(path, "rb") as file:
                found[path] = file.read().decode("latin-1")
json.dump(found, sys.stdout)
"""

# Everything that may hold a copy; the daemons' own journal and databases are read by their own programs.
_SEARCH = r"""
import json, os, stat, sys
roots = ["/etc", "/home", "/opt/judge", "/root", "/run", "/tmp", "/var"]
skip = ["/opt/judge/bundle", "/opt/judge/bundle.former", "/opt/judge/releases", "/run/log", "/var/log/journal",
        "/var/lib/judge/mongodb/journal"]
needles = [(needle.encode(), name) for needle, name in NEEDLES.items()]
found = set()
for root in roots:
    for top, folders, names in os.walk(root):
        folders[:] = [name for name in folders if os.path.join(top, name) not in skip]
        for name in names:
            path = os.path.join(top, name)
            try:
                here = os.lstat(path)
                home = path in HOMES or path.startswith("/etc/judge/") and not name.endswith(tuple(PUBLIC))
                home = home and not here.st_mode & 0o007
                if home or not stat.S_ISREG(here.st_mode) or here.st_size > 64 << 20:
                    continue
                with open(path, "rb") as file:
                    data = file.read()
            except OSError:
                continue
            found.update((path, whose) for needle, whose in needles if needle in data)
json.dump(sorted(found), sys.stdout)
"""


def forms(text: str) -> Iterator[str]:
    """A secret as it may show: itself, in hex, and inside of base64, wherever it begins there."""
    data = text.encode("latin-1")
    yield text
    yield data.hex()
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data).decode()
        # the first and the last characters depend on what stands around it
        yield encoded[4 if before else 0 : len(encoded) - 4]


def pieces(text: str) -> Iterator[str]:
    """Of a secret's text what is looked for: lines that are long enough, very long ones in pieces."""
    if text.startswith("-----BEGIN"):
        yield from key_pieces(text)
        return
    for line in text.splitlines():
        bare = line.strip()
        if len(bare) >= 2 * PIECE:
            yield from (bare[start : start + PIECE] for start in range(0, len(bare) - PIECE + 1, PIECE))
        elif len(bare) >= SHORTEST:
            yield bare


def key_pieces(pem: str) -> Iterator[str]:
    """The parts of a private key's lines that only it has: its public half is in certificates, its head in all keys."""
    lines = [line for line in pem.splitlines() if line and not line.startswith("-----")]
    start, end = len(lines[0]), len("".join(lines))  # of an encrypted key: all but how it is encrypted
    if "ENCRYPTED" not in pem:
        key = serialization.load_pem_private_key(pem.encode(), None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError("only elliptic-curve keys are known here; say which part of the new kind is secret")
        number = key.private_numbers().private_value.to_bytes((key.key_size + 7) // 8, "big")
        first = base64.b64decode("".join(lines)).index(number)
        start, end = -(-first // 3) * 4, (first + len(number)) // 3 * 4
    at = 0
    for line in lines:
        part = line[max(start - at, 0) : max(end - at, 0)]
        if len(part) >= SHORTEST:
            yield part
        at += len(line)


def needles(name: str, text: str) -> Needles:
    """What to look for, of one secret called `name`."""
    return {form: name for piece in pieces(text) for form in forms(piece)}


def of_controller(directory: Path) -> Needles:
    """Every secret in `judge_secrets_dir`, that of the authority included."""
    found: Needles = {}
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.name.endswith(PUBLIC):
            found |= needles(f"the controller's {path.relative_to(directory)}", path.read_text(encoding="latin-1"))
    return found


def of_hosts(lab: Lab) -> Needles:
    """Every secret in /etc/judge of every host: key pairs, passwords, keys."""
    found: Needles = {}
    for host in lab.record.hosts:
        script = f"PUBLIC = {PUBLIC!r}\n{_READ}"
        files: dict[str, str] = json.loads(lab.ssh(host, "/usr/bin/python3 -", text=script))
        for path, text in files.items():
            found |= needles(f"{host}:{path}", text)
    return found


def leaks(secrets: Needles, texts: Mapping[str, str]) -> list[str]:
    """One sentence for each secret that shows in one of the texts (by where they are from); never the secret itself."""
    found: dict[str, None] = {}
    for where, text in texts.items():
        for needle, name in secrets.items():
            at = text.find(needle)
            if at >= 0:
                found[f"{where}, line {text.count(chr(10), 0, at) + 1}, shows {name}"] = None
    return list(found)


def copies_on(lab: Lab, host: str, secrets: Needles) -> list[str]:
    """One sentence for each file of a host that holds a secret and is not the secret's own file in /etc/judge."""
    script = f"PUBLIC = {PUBLIC!r}\nHOMES = {HOMES!r}\nNEEDLES = {secrets!r}\n{_SEARCH}"
    found: list[list[str]] = json.loads(lab.ssh(host, "/usr/bin/python3 -", text=script))
    return [f"{host}:{path} holds {name}" for path, name in found]


def journal(lab: Lab, host: str) -> str:
    """Everything that a host has logged, every field of it."""
    return lab.ssh(host, "journalctl --no-pager --all --output=verbose")


class ProcessWatch:
    """What any user of a host may see while something is done: arguments of all processes; their environment, too.

    Counts are the lab's own processes, on its hosts and of `lab run`; a process that lives for less than PERIOD may
    be missed.
    """

    def __init__(self, lab: Lab) -> None:
        self.group = cgroups.controller("pids") / cgroups.group(lab.record.name)
        self.seen: set[bytes] = set()
        self.looks = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process watch")

    def __enter__(self) -> ProcessWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def text(self) -> str:
        """One line for each command or environment that was seen."""
        return "\n".join(sorted(line.decode("latin-1").replace("\0", " ").replace("\n", " ") for line in self.seen))

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            self.look()

    def look(self) -> None:
        """One look at all processes of the lab."""
        self.looks += 1
        for directory, _, _ in os.walk(self.group):  # it passes over cgroups that go away meanwhile
            try:
                numbers = Path(directory, "cgroup.procs").read_text().split()
            except OSError:
                continue  # the cgroup is gone
            for number in numbers:
                for name in ("cmdline", "environ"):
                    try:
                        self.seen.add(Path("/proc", number, name).read_bytes())
                    except OSError:
                        continue  # the process is gone
