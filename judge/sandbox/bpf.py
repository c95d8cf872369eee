"""A system call filter with fewer instructions: the same answers, found over ranges of numbers.

The kernel checks, converts and compiles a filter each time that one is set, which each run does, so every instruction
costs every run (docs/decisions/015). libseccomp compares each number by itself, and looks at the upper half of an
argument also where a rule masks it away. Pure functions; `judge.sandbox.seccomp` calls `compact`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

STATEMENT: Final = struct.Struct("=HBBI")
LOAD, AND, RETURN, ALWAYS = 0x20, 0x54, 0x06, 0x05
EQUAL, GREATER, AT_LEAST = 0x15, 0x25, 0x35
_FARTHEST = 255  # instructions that a conditional jump can pass over
_NUMBER, _ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
_X32 = 0x40000000  # its numbers begin here


@dataclass(frozen=True)
class Node:
    """A step of a filter: `code` and `value` of its instruction, and what comes next (`no`: of a failed comparison)."""

    code: int
    value: int
    then: Node | None = None
    no: Node | None = None


@dataclass
class _ProgramSteps:
    """Steps out of a program, each made once, without those that decide nothing."""

    program: bytes
    made: dict[Node, Node] = field(default_factory=dict)
    read: dict[int, Node] = field(default_factory=dict)

    def node(self, at: int) -> Node:
        if at not in self.read:
            code, yes, no, value = STATEMENT.unpack_from(self.program, at * STATEMENT.size)
            if code == RETURN:
                self.read[at] = self.one(Node(code, value))
            elif code == ALWAYS:
                self.read[at] = self.node(at + 1 + value)
            elif code in {LOAD, AND}:
                self.read[at] = self._step(code, value, self.node(at + 1))
            else:
                self.read[at] = self.compare(code, value, self.node(at + 1 + yes), self.node(at + 1 + no))
        return self.read[at]

    def one(self, node: Node) -> Node:
        return self.made.setdefault(node, node)

    def compare(self, code: int, value: int, yes: Node, no: Node) -> Node:
        return yes if yes is no else self.one(Node(code, value, yes, no))

    def _step(self, code: int, value: int, then: Node) -> Node:
        if (code, value) == (AND, 0) and (then.code, then.value) == (EQUAL, 0):
            then = _next(then)  # 0 is 0: libseccomp's look at a half of which the mask leaves nothing
        forgets = then.code in {LOAD, RETURN}
        return then if forgets else self.one(Node(code, value, then))


def _next(node: Node) -> Node:
    if node.then is None:
        raise ValueError("the filter goes on after an answer")
    return node.then


def compact(program: bytes, newest: int, later: int) -> bytes:
    """The filter as libseccomp exports it for one architecture, over ranges of numbers, and shorter.

    System calls after number `newest` get the answer `later`; those of x32 and other architectures what they had.
    ValueError when the program looks at the number where it is not expected to.
    """
    reader = _ProgramSteps(program)
    first = reader.node(0)
    check = first.then
    if (first.code, first.value) != (LOAD, _ARCHITECTURE) or check is None or check.no is None:
        raise ValueError("the filter does not begin with its architecture")
    native = _next(check)
    starts = [(0, _answer(native, 0))]
    for number in range(1, newest + 1):
        answer = _answer(native, number)
        if answer is not starts[-1][1]:
            starts.append((number, answer))
    starts.append((newest + 1, reader.one(Node(RETURN, later))))
    starts.append((_X32, _answer(native, _X32)))
    tree = Node(LOAD, _NUMBER, _tree(reader, starts))
    return _written(Node(LOAD, _ARCHITECTURE, Node(EQUAL, check.value, tree, check.no)))


def _answer(node: Node, number: int) -> Node:
    """The first step for a number that does not depend on it: an answer, or a look at an argument."""
    loaded = None
    while node.code != RETURN and not (node.code == LOAD and node.value != _NUMBER):
        if node.code == LOAD:
            loaded, node = number, _next(node)
            continue
        if loaded is None or node.code not in {EQUAL, GREATER, AT_LEAST} or node.no is None:
            raise ValueError("the filter does not decide by the number alone before it looks at arguments")
        value = node.value
        holds = {EQUAL: loaded == value, GREATER: loaded > value, AT_LEAST: loaded >= value}[node.code]
        node = _next(node) if holds else node.no
    return node


def _tree(reader: _ProgramSteps, starts: list[tuple[int, Node]]) -> Node:
    """A search among ranges, each given by its first number."""
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    upper, lower = _tree(reader, starts[middle:]), _tree(reader, starts[:middle])
    return reader.compare(AT_LEAST, starts[middle][0], upper, lower)


def _written(first: Node) -> bytes:
    """The program, written from its end, as jumps go forward only."""
    written: list[tuple[int, int, int, int]] = []  # from the last instruction to the first
    places: dict[Node, int] = {}  # the number of instructions that lie at and after a node's

    def near(node: Node, room: int) -> None:
        """Make a node reachable by a conditional jump that follows within `room` instructions."""
        if len(written) + room - places[node] > _FARTHEST:
            again = (RETURN, 0, 0, node.value) if node.code == RETURN else (ALWAYS, 0, 0, len(written) - places[node])
            written.append(again)
            places[node] = len(written)

    def write(node: Node) -> None:
        if node in places:
            return
        if node.code == RETURN:
            written.append((node.code, 0, 0, node.value))
        elif node.no is None:
            then = _next(node)
            write(then)
            if places[then] != len(written):
                distance = len(written) - places[then]
                written.append((RETURN, 0, 0, then.value) if then.code == RETURN else (ALWAYS, 0, 0, distance))
            written.append((node.code, 0, 0, node.value))
        else:
            yes, no = _next(node), node.no
            write(yes)
            write(no)
            near(yes, 1)
            near(no, 0)
            written.append((node.code, len(written) - places[yes], len(written) - places[no], node.value))
        places[node] = len(written)

    write(first)
    return b"".join(STATEMENT.pack(*one) for one in reversed(written))
