"""Handing in, at the API of a real gateway: a steady rate by many people, and what one person's flood does to another.

Nothing is judged. The judicator, one mongod with its journal, etcd, the gateway and those who hand in share the cores.
"""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import yaml

from judge.config.allowance import Allowance, Allowances
from judge.daemon.heap import keep_loaded
from judge.gateway.auth import token_digest
from tests.bench.handing_in import PROBLEM, Plan, Seen, Stream
from tests.bench.ledger import Ledger, percentile
from tests.support.gateway import make_config, running_gateway
from tests.support.judicators import World, imported
from tests.support.servers import etcd_server, mongod_server

RATE, USERS, SECONDS = 200, 500, 15.0
_SLOW = 0.15  # seconds, of the slowest of a hundred
_BATCH = 20
OTHER_RATE, FLOOD, FLOOD_SECONDS = 5, 64, 20.0
_TICK = os.sysconf("SC_CLK_TCK")


def measure(ledger: Ledger, work: Path) -> None:
    # A role has no limit of submissions a minute unless it is given one. Nothing is judged here, so without a cap on
    # what waits the flood is taken to its end: the more is stored, the more it costs others.
    allowances = Allowances(user=Allowance(waiting=None))
    people = [*(f"u{number}" for number in range(USERS)), "other", "flood"]
    with etcd_server(work / "gateway-etcd") as etcd, mongod_server(work / "gateway-mongod") as mongod:
        world = World(work / "gateway-world", etcd, mongod)
        try:
            world.judicator(allowances=allowances)
            imported(world.client(), PROBLEM)
            settings = make_config(work / "gateway", world.etcd_config, world.tls("gateway-1", "gateway"))
            rows = [
                {"user": user, "role": "user", "sha256": token_digest(f"token-of-the-bench-{user}")} for user in people
            ]
            settings.tokens.write_text(yaml.safe_dump({"tokens": rows}))
            with running_gateway(settings, work / "gateway") as url:
                port = int(url.rpartition(":")[2])
                keep_loaded()  # as a judicator does that is a process of its own
                _steady(ledger, port, people[:USERS], work)
                _flooded(ledger, port)
        finally:
            world.close()


def _hand_in(port: int, seconds: float, *streams: Stream) -> list[Seen]:
    plan = Plan(port, seconds, list(streams))
    completed = subprocess.run(
        [sys.executable, "-m", "tests.bench.handing_in"],
        input=json.dumps(asdict(plan)), stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 60,
    )  # fmt: skip
    return [Seen(**counts) for counts in json.loads(completed.stdout)]


def _steady(ledger: Ledger, port: int, users: list[str], work: Path) -> None:
    # A fresh gateway has no connections to the judicator yet, and knows nobody.
    _hand_in(port, 2 * USERS / RATE, Stream(users, rate=RATE / 2))
    before = _spent(work)
    [counts] = _hand_in(port, SECONDS, Stream(users, rate=RATE))
    spent = {name: (used - before[name]) / len(counts.times) * 1000 for name, used in _spent(work).items()}
    count = counts.statuses.get("201", 0)
    ok = count == len(counts.times) and percentile(counts.times, 99) <= _SLOW
    value = f"{count / counts.took:.0f}/s, {_times(counts)}"
    ledger.line(f"{RATE} submissions/s of {USERS} users, one by one", value, f"p99 <= {_SLOW * 1000:.0f} ms", ok=ok)
    ledger.note("  CPU of each", ", ".join(f"{name} {used:.1f}" for name, used in spent.items()) + " ms")
    [counts] = _hand_in(port, SECONDS / 2, Stream(users, rate=RATE / _BATCH, each=_BATCH))
    rate = counts.statuses.get("200", 0) * _BATCH / counts.took
    ledger.note(f"the same rate in batches of {_BATCH}", f"{rate:.0f}/s, a batch {_times(counts)}")


def _flooded(ledger: Ledger, port: int) -> None:
    quiet, flood = Stream(["other"], rate=OTHER_RATE), Stream(["flood"], flood=FLOOD)
    [alone] = _hand_in(port, FLOOD_SECONDS, quiet)
    [counts, flooding] = _hand_in(port, FLOOD_SECONDS, quiet, flood)
    ledger.note(f"{OTHER_RATE} submissions/s of one user alone", _times(alone))
    ledger.note(
        f"a flood by another over {FLOOD} connections",
        f"{len(flooding.times) / flooding.took:.0f}/s, {_times(flooding)}",
    )
    ok = set(counts.statuses) == {"201"} and percentile(counts.times, 99) <= _SLOW
    ledger.line("  the same user beside it", _times(counts), f"p99 <= {_SLOW * 1000:.0f} ms", ok=ok)


def _times(counts: Seen) -> str:
    bad = "".join(f", {count} x {status}" for status, count in sorted(counts.statuses.items()) if status[:2] != "20")
    return ", ".join(f"p{percent} {percentile(counts.times, percent) * 1000:.0f} ms" for percent in (50, 99)) + bad


def _spent(work: Path) -> dict[str, float]:
    """CPU seconds up to now of each part: the judicator is a thread of this process."""
    parents, used, commands = {}, {}, {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            pid = int(entry.name)
            parents[pid], used[pid] = int(fields[1]), (int(fields[11]) + int(fields[12])) / _TICK
            commands[pid] = (entry / "cmdline").read_text(errors="replace")

    def field_value(text: str) -> int:
        return next(pid for pid, command in commands.items() if text in command and pid in parents)

    daemon, mongod = field_value(f"{work}/gateway/gateway.yml"), field_value(f"{work}/gateway-mongod")
    children = [pid for pid, parent in parents.items() if parent == daemon]
    nginx = sum(used[pid] for pid in children if "nginx" in commands[pid])
    masters = [pid for pid in children if "nginx" not in commands[pid]]
    uwsgi = sum(used[pid] for pid in (*masters, *(pid for pid, parent in parents.items() if parent in masters)))
    return {
        "nginx": nginx,
        "uWSGI": uwsgi,
        "daemon": used[daemon],
        "judicator": used[os.getpid()],
        "mongod": used[mongod],
    }
