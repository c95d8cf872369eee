"""A slot: one single-threaded process, pinned to one core, that judges one task at a time (docs/executor.md).

Started by the executor's main process as `python -m judge.executor.slot.main FD SETTINGS`; ends with it (parent-death
signal, and the end of its channel). Keeps a sandbox prepared, so that starting a run costs about an exec.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys

from judge.common.errors import EXIT_FAILED, EXIT_USAGE, JudgeError, SandboxError
from judge.daemon.heap import keep_loaded
from judge.daemon.log import catch, setup
from judge.executor.channel import Broken, Cancel, Help, MessageReader, Ready, Settings, send
from judge.executor.slot.parallel.helper import help_out
from judge.executor.slot.parallel.shared_queue import Sharing
from judge.executor.slot.pipeline import Pipeline
from judge.executor.slot.run_lock import RunLock
from judge.languages.table import extra_paths, load_table
from judge.model.messages import Limits
from judge.sandbox import SandboxPool
from judge.sandbox.types import Command

log = logging.getLogger("judge.slot")

# The limits of the run that shows that sandboxes work.
_TRIAL = Limits(cpu=5, wall=30, memory=64 * 1024**2)
# Seconds that a sandbox that served its task is left alone: a job that follows sooner compiles meanwhile.
HOLD = 0.005


def serve(sock: socket.socket, settings: Settings) -> int:
    """Take jobs until main is gone; returns the process's exit code."""
    table = load_table(settings.languages)
    with SandboxPool(
        f"{settings.executor}-{settings.index}",
        settings.cgroup,
        core=settings.core,
        makers=settings.makers,
        paths=extra_paths(table.values()),
        weak=settings.weak,
    ) as pool:
        pool.prepare()
        pipeline = Pipeline(
            take=pool.take,
            tell=lambda progress: send(sock, progress),
            table=table,
            outputs=settings.outputs,
            cancel_fd=sock.fileno(),
            weak=pool.weak,
            where=f"slot {settings.index}" + ("" if settings.core is None else f", core {settings.core}"),
            prepare=pool.prepare,
            leave=pool.leave,
            builds=settings.builds,
            run_lock=RunLock(settings.run_lock),
            sharing=None if settings.sharing is None else Sharing(settings.sharing),
            memory=settings.memory,
        )
        _try_out(pool)
        send(sock, Ready())
        reader = MessageReader(sock)
        keep_loaded()  # else the collector would look at it for every job
        while True:
            if not pool.prepared or not reader.soon(HOLD):
                pool.prepare()
            message = reader.for_slot()
            if message is None:
                return 0
            if isinstance(message, Cancel):
                continue  # its job ended while the message was on its way
            answer = help_out(pipeline, message) if isinstance(message, Help) else pipeline.execute(message)
            if answer.broken:
                # A sandbox failed. If others work, that task is at fault, and the slot goes on.
                _try_out(pool)
            send(sock, answer)


def _try_out(pool: SandboxPool) -> None:
    """Run a program in a sandbox; SandboxError if sandboxes do not work here. The slot takes tasks only after that."""
    with pool.take() as box, box.run(Command(["/bin/true"], _TRIAL)) as outcome:
        if outcome.exit_code != 0 or outcome.killed:
            raise SandboxError(f"/bin/true cannot be run in a sandbox: {outcome.exit_code}, {sorted(outcome.killed)}")
    pool.prepare()


def main(arguments: list[str]) -> int:
    """Pin this process, serve, and tell main why when the sandbox fails."""
    if len(arguments) != 2:
        print("usage: python -m judge.executor.slot.main FD SETTINGS (started by the executor)", file=sys.stderr)  # noqa: T201 - a usage line
        return EXIT_USAGE
    settings = Settings.model_validate_json(arguments[1])
    setup(settings.log_level, journal="JOURNAL_STREAM" in os.environ, form=settings.log_format)
    catch()
    # Handlers and not SIG_IGN: programs that are run would inherit that. Main ends its slots by itself.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    with socket.socket(fileno=int(arguments[0])) as sock:
        try:
            return serve(sock, settings)
        except (BrokenPipeError, ConnectionResetError):
            return 0  # main is gone
        except (JudgeError, OSError) as exc:
            kind = "" if isinstance(exc, SandboxError) else f"{type(exc).__name__}: "
            log.warning("slot %d ends: %s%s", settings.index, kind, exc)
            try:
                send(sock, Broken(reason=f"{kind}{exc}"))
            except OSError:
                log.debug("main is gone as well")
            return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
