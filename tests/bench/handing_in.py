"""Hands submissions in at a gateway, in a process of its own: reads a plan from standard input, prints what it saw.

An open stream has its moments fixed in advance, and each time is measured from such a moment to the whole answer: what
a slow answer holds up counts as slow, too. A flood hands the next one in as soon as one of its connections is free.
"""

import asyncio
import gc
import json
import random
import sys
import time
import uuid
from dataclasses import asdict, dataclass, field

import uvloop

PROBLEM = "hello"
_SOURCE = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; } // '
_PATIENCE = 30.0
_LEAD = 0.3  # seconds until the first of all


@dataclass
class Stream:
    """Those who hand in together: so many a second by all of them, or as a flood over so many connections.

    With `each` above 1 a call hands in that many at once.
    """

    users: list[str]
    rate: float = 0.0
    flood: int = 0
    each: int = 1


@dataclass
class Plan:
    port: int
    seconds: float
    streams: list[Stream]


@dataclass
class Seen:
    """What came of a stream: how long each call took, how many had which answer, and when the last one had it."""

    times: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    took: float = 0.0


def request(user: str, number: int, submissions: int) -> bytes:
    items = [
        {"language": "c", "problem": PROBLEM, "source": f"{_SOURCE}{number}.{place}\n", "filename": "main.c"}
        for place in range(submissions)
    ]
    body = json.dumps(items[0] if submissions == 1 else {"submissions": items})
    path = "/api/v1/submissions" if submissions == 1 else "/api/v1/submissions/batch"
    return (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Authorization: Bearer token-of-the-bench-{user}\r\n"
        f"Idempotency-Key: {uuid.uuid4()}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


async def _call(port: int, data: bytes) -> str:
    """The status of an answer that has come as a whole."""
    async with asyncio.timeout(_PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(data)
            answer = await reader.read(-1)
        finally:
            writer.close()
    return answer[9:12].decode("latin-1")


async def _send_when_due(plan: Plan, counts: Seen, data: bytes, due: float) -> None:
    try:
        status = await _call(plan.port, data)
    except (OSError, TimeoutError) as exc:
        status = type(exc).__name__
    now = time.monotonic()
    counts.times.append(now - due)
    counts.statuses[status] = counts.statuses.get(status, 0) + 1
    counts.took = max(counts.took, now)


async def _open(plan: Plan, stream: Stream, start: float, counts: Seen) -> None:
    """Moments as those of many people who know nothing of each other: their gaps are of an exponential distribution."""
    chance = random.Random(1)
    moments, at = [], 0.0
    while (at := at + chance.expovariate(stream.rate)) < plan.seconds:
        moments.append(at)
    calls = [request(stream.users[index % len(stream.users)], index, stream.each) for index in range(len(moments))]
    async with asyncio.TaskGroup() as group:
        for at, data in zip(moments, calls, strict=True):
            await asyncio.sleep(start + at - time.monotonic())
            group.create_task(_send_when_due(plan, counts, data, start + at))


async def _flood(plan: Plan, stream: Stream, start: float, counts: Seen) -> None:
    numbers = iter(range(10**9))

    async def connection() -> None:
        while time.monotonic() < start + plan.seconds:
            number = next(numbers)
            user = stream.users[number % len(stream.users)]
            await _send_when_due(plan, counts, request(user, number, stream.each), time.monotonic())

    await asyncio.sleep(start - time.monotonic())
    await asyncio.gather(*(connection() for _ in range(stream.flood)))


async def _run(plan: Plan) -> list[Seen]:
    start, counts = time.monotonic() + _LEAD, [Seen() for _ in plan.streams]
    ways = [
        (_flood if stream.flood else _open)(plan, stream, start, count)
        for stream, count in zip(plan.streams, counts, strict=True)
    ]
    await asyncio.gather(*ways)
    for count in counts:
        count.took -= start
    return counts


def main() -> None:
    document = json.load(sys.stdin)
    plan = Plan(document["port"], document["seconds"], [Stream(**stream) for stream in document["streams"]])
    gc.disable()  # its own pauses are nobody's latency
    json.dump([asdict(count) for count in uvloop.run(_run(plan))], sys.stdout)


if __name__ == "__main__":
    main()
