"""A submission's tests, shared among slots: who runs which one, and what it came to (docs/executor.md).

A directory that the slot which judges (the coordinator) makes and others (helpers) use:

- `taken`: byte i is locked by the slot that runs test i. The kernel frees the locks of a slot that dies, and another
  slot runs its tests;
- `candidates.json`: which tests are wanted, most urgent first; written by the coordinator;
- `I.json`: what test I came to, from a helper;
- `box.tar`: the coordinator's /box after compiling, when there was something to compile;
- `coordinator`: the test that the coordinator runs, -1 while it waits; `bell`: a pipe that wakes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from judge.common import files
from judge.model.messages import Message, TestResult, Verdict
from judge.problems.scoring import Judged

BOX = "box.tar"
_CANDIDATES, _TAKEN, _COORDINATOR, _BELL, _IDLE = "candidates.json", "taken", "coordinator", "bell", "idle"
_NUMBER = struct.Struct("=i")
NOBODY = -1


class JudgedTest(Message):
    """The result of a test. `runs` and `overhead` as in Finished; `seconds` is the part of its time that counts.

    `near`: it is near a time limit, so that the slot that judges may run it again.
    """

    test: TestResult
    score: float | None = None
    multiplier: float | None = None
    near: bool = False
    seconds: float = 0.0
    runs: int = 0
    overhead: float = 0.0

    @property
    def judged(self) -> Judged:
        return Judged(self.test.verdict, self.score, self.multiplier)


class Candidates(Message):
    """The tests that are wanted, by number; `stops`: a failure makes all tests after it useless."""

    tests: list[int]
    stops: bool


class _SharedQueue:
    """The part that both sides have. One per process and directory, since the locks are the process's."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._fds = contextlib.ExitStack()

    def _open(self, name: str, flags: int) -> int:
        fd = os.open(self.directory / name, flags | os.O_CLOEXEC, 0o600)
        self._fds.callback(os.close, fd)
        return fd

    def close(self) -> None:
        self._fds.close()

    def _lock(self, fd: int, index: int) -> bool:
        """Take a test, unless somebody runs it or it is done."""
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, index)
        except (BlockingIOError, PermissionError):
            return False
        if (self.directory / f"{index}.json").exists():
            self._unlock(fd, index)
            return False
        return True

    def _unlock(self, fd: int, index: int) -> None:
        fcntl.lockf(fd, fcntl.LOCK_UN, 1, index)

    def _write(self, name: str, message: Message) -> None:
        files.replace(self.directory / name, message.model_dump_json(), durable=False)


class CoordinatorQueue(_SharedQueue):
    """The side of the slot that judges. The tests that it ran itself stay locked until it closes."""

    def __init__(self, directory: Path, cancel_fd: int | None) -> None:
        """Makes `directory`; `cancel_fd` is what also ends the coordinator's runs."""
        super().__init__(directory)
        try:
            directory.mkdir(mode=0o700)
            self._fds.callback(shutil.rmtree, directory, ignore_errors=True)
            self._taken = self._open(_TAKEN, os.O_RDWR | os.O_CREAT)
            self._coordinator = self._open(_COORDINATOR, os.O_RDWR | os.O_CREAT)
            self._collected: set[str] = set()
            self._at(NOBODY)
            os.mkfifo(directory / _BELL, 0o600)
            # For writing as well: the end of a helper must not look like a ring.
            self._bell = self._open(_BELL, os.O_RDWR | os.O_NONBLOCK)
            self._both = select.epoll()
            self._fds.callback(self._both.close)
            for fd in (self._bell, cancel_fd):
                if fd is not None:
                    self._both.register(fd, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    @property
    def interrupt_fd(self) -> int:
        """Readable when the coordinator's run is to be ended: main asks for it, or a helper rang."""
        return self._both.fileno()

    def keep_box(self, archive: int) -> None:
        """Leave what the compiler made to the helpers."""
        with (self.directory / BOX).open("wb") as file:
            files.copy(archive, file.fileno())

    def publish(self, places: list[int], *, stops: bool) -> None:
        """Say which tests are to be run; those that are done may be left in."""
        self._write(_CANDIDATES, Candidates(tests=places, stops=stops))

    def take(self, indexes: Iterable[int]) -> int | None:
        """Take the first test that nobody runs. Results up to now may make it useless, so the caller collects them."""
        for index in indexes:
            if self._lock(self._taken, index):
                self._at(index)
                return index
        return None

    def give_up(self, index: int) -> None:
        """The test that was taken is not run, or not to its end."""
        self._unlock(self._taken, index)
        self._at(NOBODY)

    def rest(self) -> None:
        """The coordinator runs nothing now."""
        self._at(NOBODY)

    def collect(self) -> Iterator[JudgedTest]:
        """The results of helpers since the last call. It also answers their rings."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._bell, 1 << 16)
        for path in self.directory.glob("*.json"):
            if path.stem.isdigit() and path.stem not in self._collected:
                self._collected.add(path.stem)
                yield JudgedTest.model_validate_json(path.read_bytes())

    def _at(self, index: int) -> None:
        os.pwrite(self._coordinator, _NUMBER.pack(index), 0)


class HelperQueue(_SharedQueue):
    """The side of a slot that helps. FileNotFoundError from any method: the coordinator is done."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        try:
            self._taken = self._open(_TAKEN, os.O_RDWR)
            self._coordinator = self._open(_COORDINATOR, os.O_RDONLY)
            self._bell = self._open(_BELL, os.O_RDWR | os.O_NONBLOCK)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def box(self) -> Iterator[int]:
        """The archive of the files that the coordinator's compiler made."""
        with (self.directory / BOX).open("rb") as file:
            yield file.fileno()

    def candidates(self) -> Candidates:
        return Candidates.model_validate_json((self.directory / _CANDIDATES).read_bytes())

    def take(self) -> int | None:
        """Take the most urgent test that nobody runs; None when there is none."""
        return next((index for index in self.candidates().tests if self._lock(self._taken, index)), None)

    def put(self, index: int, judged: JudgedTest) -> None:
        """Hand in what a test came to; wakes the coordinator when it waits, or runs what is of no use any more."""
        self._write(f"{index}.json", judged)
        self._unlock(self._taken, index)
        (coordinator,) = _NUMBER.unpack(os.pread(self._coordinator, _NUMBER.size, 0))
        failed = judged.test.verdict is not Verdict.AC
        if coordinator == NOBODY or (failed and coordinator > index and self.candidates().stops):
            with contextlib.suppress(BlockingIOError):  # it has been rung often enough
                os.write(self._bell, b"!")


class Sharing:
    """The directory of all shared queues of an executor, and how many of its slots have nothing to do."""

    def __init__(self, directory: Path) -> None:
        """`directory` exists; see `clear`."""
        self.directory = directory
        self._fd = os.open(directory / _IDLE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def close(self) -> None:
        os.close(self._fd)

    def tell(self, idle: int) -> None:
        """Main's word on how many slots are idle."""
        os.pwrite(self._fd, _NUMBER.pack(idle), 0)

    def idle(self) -> int:
        """The number of slots that were idle lately; 0 when nobody has said."""
        data = os.pread(self._fd, _NUMBER.size, 0)
        return int(_NUMBER.unpack(data)[0]) if len(data) == _NUMBER.size else 0

    def queue(self, claim: str) -> Path:
        return self.directory / claim


def clear(directory: Path) -> None:
    """Make the directory of shared queues, empty; the executor calls it before it starts its slots."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(exist_ok=True, mode=0o700)
