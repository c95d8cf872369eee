"""The sandboxes of one slot, one being made ready while another is in use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from judge.common.errors import SandboxError
from judge.sandbox import cgroup as cgroups
from judge.sandbox import drivers
from judge.sandbox.box import Sandbox
from judge.sandbox.container import NICE, Container, Sizes, visible
from judge.sandbox.weak import WeakDriver


class SandboxPool:
    """One per slot process, which must have a single thread: the containers die with the thread that made them."""

    def __init__(
        self,
        name: str,
        cgroup: str = "judge",
        *,
        core: int | None = None,
        makers: Sequence[int] = (),
        paths: Sequence[str] = (),
        weak: bool = False,
        sizes: Sizes | None = None,
    ) -> None:
        """Raises SandboxError when a full sandbox is impossible and `weak` is not set; the text says why.

        - `name`: executor and slot. `cgroup`: the root of all pools (`config.cgroup`).
        - `core`: this process and its containers are pinned to it, ahead of other processes.
        - `makers`: cores without a slot. The pool makes containers on them while this core judges.
        - `paths`: globs of what the containers see, read-only, beside /usr. `weak`: work without cgroups.

        The trees of dead pools are removed, with the processes in them.
        """
        self._core = core
        self._makers = frozenset(makers if core is not None else ())
        if core is not None:
            os.sched_setaffinity(0, {core})
            # Ahead of what it judges on this core, or it would end runs late; the programs start at 0 again.
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, 0, -NICE)
        self._cores = len(os.sched_getaffinity(0))
        self._paths = visible(paths)
        self._sizes = sizes or Sizes()
        self._privileged = os.geteuid() == 0
        self.weak = weak
        driver: cgroups.Driver | None = WeakDriver() if weak else drivers.find()
        if driver is None or not (weak or self._privileged):
            reason = "not running as root" if driver else "no cgroups for memory, pids and CPU time"
            raise SandboxError(f"no full sandbox is possible here: {reason}; allow_weak_sandbox accepts a weak one")
        self._tree = driver.tree(cgroup, name)
        self._next: Container | None = None
        self._unused: list[Sandbox] = []

    def prepare(self) -> None:
        """Start the next container without waiting for it, and end the old ones.

        The slot calls it while it is idle or a compiler runs, since the work is done on the makers' cores.
        """
        with self._elsewhere():
            if self._next is None:
                self._next = self._start()
            self._end_unused()

    @property
    def prepared(self) -> bool:
        return self._next is not None

    def _start(self) -> Container:
        return Container(self._tree, self._paths, self._sizes, privileged=self._privileged, core=self._core)

    def _end_unused(self) -> None:
        while self._unused:
            self._unused.pop().close()

    @contextlib.contextmanager
    def _elsewhere(self) -> Iterator[None]:
        """Move this thread to the makers' cores, if there are any. Processes that it starts there stay there."""
        affinity = os.sched_getaffinity(0)
        if self._makers:
            with contextlib.suppress(OSError):  # without them the containers are made on this core
                os.sched_setaffinity(0, self._makers)
        try:
            yield
        finally:
            if self._makers:
                os.sched_setaffinity(0, affinity)

    def take(self) -> Sandbox:
        """A sandbox for one submission, usually a prepared one; the caller closes it. SandboxError."""
        if self._next is None:
            with self._elsewhere():
                self._next = self._start()
        container, self._next = self._next, None
        try:
            container.ready()
        except SandboxError:
            container.kill()
            raise
        return Sandbox(container, self._cores)

    def leave(self, sandbox: Sandbox) -> None:
        """Let `prepare` close a sandbox in which nothing runs: closing takes time, and a result waits."""
        self._unused.append(sandbox)

    def close(self) -> None:
        """End the prepared container and the old ones, and remove the cgroups. Sandboxes in use are closed before."""
        self._end_unused()
        if self._next is not None:
            self._next.close()
            self._next = None
        self._tree.close()

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
