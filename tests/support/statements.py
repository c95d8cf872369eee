"""A problem with everything that people can see of one, for tests of its page; `put` stores a blob and names it."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

from judge.model import messages as m
from judge.model.problem import LimitOrigin, ProblemManifest, ProblemTest, ProblemType, Statement

TEXT = r"""# Cave Walk

You walk through a cave with $n$ rooms. Room $i$ is $h_i$ metres high ($1 \le h_i \le 10^9$), and you may go from room
$u$ to room $v$ when $|h_u - h_v| \le k$. What is the **shortest** way from room $1$ to room $n$[^1]?

![Three rooms and the way through them](cave.png){ width=60% }

The number of steps is
$$
d(v) = \begin{cases} 0 & \text{if } v = 1 \\ \min_{u \to v} d(u) + 1 & \text{otherwise} \end{cases}
$$

## Input

The input consists of:

- one line with two integers $n$ and $k$ ($2 \le n \le 2 \cdot 10^5$, $0 \le k \le 10^9$), the number of rooms and how
  high a step may be;
- one line with $n$ integers $h_1, h_2, \ldots, h_n$.

## Output

Output the number of steps, or `impossible` if there is no way.

{{nextsample}}

In the first sample you go straight from room 1 to room 3, as $|5 - 4| \le 2$.

{{nextsample}}

## Scoring

| Group | Points | Constraints |
|:-----:|-------:|-------------|
| 1     | 30     | $n \le 100$ |
| 2     | 70     | No additional constraints |

[^1]: A way of $d$ steps visits $d + 1$ rooms.
"""
SWEDISH = "Du går genom en grotta med $n$ rum.\n\n## Indata\n\nTvå heltal.\n"


def png(width: int, height: int) -> bytes:
    """A grey picture."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = b"".join(b"\0" + bytes((x * y) % 200 + 40 for x in range(width)) for y in range(height))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pdf(text: str) -> bytes:
    """A PDF of one page with one line."""
    content = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    made, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer\n<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n"
    return made + end % (table, len(made))


def statement(put: Callable[[bytes], str], language: str, name: str, data: bytes, **more: Any) -> Statement:
    """A statement of one file, with others beside it."""
    files = {one: put(content) for one, content in more.pop("files", {}).items()}
    return Statement(language=language, main=name, files={name: put(data), **files}, **more)


def problem(put: Callable[[bytes], str], name: str = "caves", **changes: Any) -> ProblemManifest:
    """A problem told in two languages and as PDF, with samples, an attachment and an inferred limit."""
    tests = [
        ProblemTest(name="sample/1", input=put(b"3 2\n5 9 4\n"), answer=put(b"1\n"), sample=True),
        ProblemTest(name="sample/2", input=put(b"2 0\n1 2\n"), answer=put(b"impossible\n"), sample=True),
        ProblemTest(name="sample/3", input=put(b"4 9\n1 9 2 8\n"), answer=put(b"1\n"), sample=True),
        ProblemTest(name="secret/1", input=put(b"secret input 7\n"), answer=put(b"secret answer 7\n")),
    ]
    values: dict[str, Any] = {
        "name": name,
        "title": "Cave Walk",
        "limits": m.Limits(cpu=2.0, memory=1024**3),
        "tests": tests,
        "statements": [
            statement(put, "en", "problem.en.md", TEXT.encode(), files={"cave.png": png(320, 120)}),
            statement(put, "en", "problem.en.pdf", pdf("Cave Walk, as its author drew it")),
            statement(put, "sv", "problem.sv.md", SWEDISH.encode(), title="Grottvandring"),
        ],
        "attachments": {"tools/view.py": put(b"print('view')\n"), "rooms.txt": put(b"<script>alert(1)</script>\n")},
        "limit_origin": LimitOrigin(
            how="inferred", slowest="accepted/bfs.py", slowest_cpu=0.81, multiplier=2.0, resolution=1.0,
            too_slow={"time_limit_exceeded/quadratic.cpp": 8.2}, left_out=["accepted/bfs.kt: no executor has kotlin"],
        ),
        "format": "2025-09",
        **changes,
    }  # fmt: skip
    return ProblemManifest(**values)


def interactive(put: Callable[[bytes], str], name: str = "guess") -> ProblemManifest:
    """An interactive problem of several passes with a sample dialogue."""
    talk = b"<100\n>50\n<lower\n>25\n<higher\n>30\n<correct\n---\n<7\n>7\n<correct\n"
    return problem(
        put,
        name,
        title="Guess the Number",
        type=[ProblemType.PASS_FAIL, ProblemType.INTERACTIVE],
        statements=[statement(put, "en", "problem.en.md", b"I think of a number.\n")],
        attachments={},
        limit_origin=None,
        tests=[ProblemTest(name="secret/1", input=put(b"7\n"), answer=put(b"7\n"))],
        interactions={"sample/1": put(talk)},
    )
