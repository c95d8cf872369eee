"""What listeners cost a gateway of one core: memory, time to come in, and how late they hear of a verdict."""

import asyncio
import contextlib
import os
import time
from pathlib import Path

import yaml

from judge.gateway.auth import token_digest
from judge.model import messages as m
from tests.bench.ledger import Ledger, percentile
from tests.support.gateway import make_config, running_gateway
from tests.support.judicators import World, source
from tests.support.servers import etcd_server, mongod_server

LISTENERS, EACH, CHANGES = 2000, 40, 50
_LATE = 1.0  # seconds, of the slowest of a hundred


class _Crowd:
    """Connections that listen, and when each has heard what."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heard: dict[str, list[float]] = {}
        self.count = 0
        self.all = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def come(self, number: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            user = number % (LISTENERS // EACH)
            writer.write(
                f"GET /api/v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-of-the-bench-{user}\r\n"
                f"X-Forwarded-For: 10.0.{number // 250}.{number % 250}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.partition(b"\r\n")[0], head
        self.tasks.append(asyncio.create_task(self._hear(reader)))

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            if line.startswith(b"data: ") and b'"submission":"' in line:
                task = line.partition(b'"submission":"')[2][:24].decode()
                self.heard.setdefault(task, []).append(time.monotonic())
                self.count += 1
                if self.count == LISTENERS * CHANGES:
                    self.all.set()


def measure(ledger: Ledger, work: Path) -> None:
    with etcd_server(work / "etcd") as etcd, mongod_server(work / "mongod") as mongod:
        world = World(work, etcd, mongod)
        try:
            world.judicator()
            settings = make_config(
                work / "gw", world.etcd_config, world.tls("gateway-1", "gateway"), processes=1, threads=4, proxied=True
            )
            rows = [
                {"user": f"u{index}", "role": "admin", "sha256": token_digest(f"token-of-the-bench-{index}")}
                for index in range(LISTENERS // EACH)
            ]
            settings.tokens.write_text(yaml.safe_dump({"tokens": rows}))
            before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, {min(before)})
            with running_gateway(settings, work / "gw") as url:
                os.sched_setaffinity(0, before)
                _listen(ledger, world, int(url.rpartition(":")[2]))
        finally:
            world.close()


def _listen(ledger: Ledger, world: World, port: int) -> None:
    empty = _memory(port)
    people = world.client()

    async def run() -> tuple[float, int, list[float]]:
        crowd, gate = _Crowd(port), asyncio.Semaphore(50)
        began = time.monotonic()
        await asyncio.gather(*(crowd.come(number, gate) for number in range(LISTENERS)))
        came = time.monotonic() - began
        memory = _memory(port) - empty
        sent_at: dict[str, float] = {}
        for _ in range(CHANGES):
            reply = await asyncio.to_thread(people.call, "add", source("int x;"), m.AddReply)
            sent_at[reply.task.id] = time.monotonic()
            await asyncio.sleep(0.1)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(crowd.all.wait(), 60)
        late = [at - sent_at[task] for task, times in crowd.heard.items() if task in sent_at for at in times]
        for task in crowd.tasks:
            task.cancel()
        return came, memory, late

    came, memory, late = asyncio.run(run())
    assert len(late) == LISTENERS * CHANGES, f"{len(late)} events of {LISTENERS * CHANGES}"
    p99 = percentile(late, 99)
    ledger.note(f"{LISTENERS} listeners came in, one core", f"{came:.1f} s")
    ledger.note("memory of the gateway for each listener", f"{memory / LISTENERS / 1024:.1f} KiB")
    figures = f"p50 {percentile(late, 50) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms"
    ledger.line(f"{CHANGES} changes, each to all of them", figures, f"p99 <= {_LATE:g} s", ok=p99 <= _LATE)


def _memory(port: int) -> int:
    total = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            if b"gateway" in command and b"gateway.yml" in command:
                total += int((entry / "statm").read_text().split()[1]) * 4096
        except OSError:
            continue
    return total
