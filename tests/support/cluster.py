"""A whole embedded cluster (`judge up`), and judgectl inside the test's process."""

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import yaml

from judge.ctl import main
from judge.ctl.api import Api
from judge.ctl.context import from_file
from tests.support.servers import wait_for

BIN = Path(sys.executable).parent


@dataclass
class Cluster:
    directory: Path
    arguments: Sequence[str] = ()
    prefix: Sequence[str] = ()
    judge: Path = BIN / "judge"
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self, timeout: float = 200.0) -> None:
        ready = self.directory / "ready"
        ready.unlink(missing_ok=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [*self.prefix, str(self.judge), "up", "--dir", str(self.directory), "--port", "0"]
        with (self.directory / "up.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--wait-file", str(ready), *self.arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

        def up() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.log()
            return ready.exists()

        wait_for(up, timeout=timeout, what="a serving cluster")

    def stop(self, sig: signal.Signals = signal.SIGTERM) -> int:
        """End `judge up` by its own process id and wait for it."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(sig)
        return self.process.wait(timeout=60)

    def log(self) -> str:
        return (self.directory / "up.log").read_text(errors="replace")[-3000:]

    def api(self, timeout: float = 60.0) -> Api:
        return Api(from_file(self.directory / "client.yml"), timeout=timeout)

    def config(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = yaml.safe_load((self.directory / "etc" / f"{name}.yml").read_text())
        return document


@contextlib.contextmanager
def running(
    directory: Path, *arguments: str, prefix: Sequence[str] = (), judge: Path = BIN / "judge"
) -> Iterator[Cluster]:
    """A cluster for the length of a `with`; its logs stay in the directory. `judge` may be that of another release."""
    cluster = Cluster(directory, arguments, prefix, judge)
    try:
        cluster.start()
        yield cluster
        # Services outlive a `judge up` that has ended by itself, so that would show as processes that are left over.
        assert cluster.process is not None
        assert cluster.process.poll() is None, f"`judge up` ended with {cluster.process.returncode}: {cluster.log()}"
        assert cluster.stop() == 0, cluster.log()
    finally:
        if cluster.process is not None:
            cluster.stop()


def processes_of(marker: str) -> dict[int, str]:
    """Process id to command line of every live process whose command line or environment names `marker`."""
    commands = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes()
            if marker.encode() in command or marker.encode() in (entry / "environ").read_bytes():
                commands[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return {pid: command for pid, command in commands.items() if command}


class HasDirectory(Protocol):
    directory: Path


def judgectl_bytes(
    target: HasDirectory | Path, *arguments: str | Path, stdin: bytes = b"", code: int | None = 0, **environ: str
) -> subprocess.CompletedProcess[bytes]:
    """Run one command.

    Args:
        target: A cluster, or the path of a client.yml.
        arguments: The command line without `judgectl`.
        stdin: Standard input; it is no terminal.
        code: The expected exit code; None accepts any.
        environ: Further environment variables.
    """
    context = target if isinstance(target, Path) else target.directory / "client.yml"
    streams = [io.TextIOWrapper(io.BytesIO(data), encoding="utf-8") for data in (stdin, b"", b"")]
    status: object = 0
    with (
        mock.patch.dict(os.environ, {"JUDGE_CONTEXT": str(context), **environ}),
        mock.patch.object(sys, "argv", ["judgectl", *map(str, arguments)]),
        mock.patch.multiple(sys, stdin=streams[0], stdout=streams[1], stderr=streams[2]),
    ):
        try:
            main.main()
        except SystemExit as exc:
            status = exc.code
    outputs = []
    for stream in streams[1:]:
        stream.flush()
        outputs.append(stream.buffer.getvalue())  # type: ignore[attr-defined]
    returncode = status if isinstance(status, int) else int(status is not None)
    result = subprocess.CompletedProcess(list(map(str, arguments)), returncode, *outputs)
    assert code is None or returncode == code, result
    assert b"Traceback" not in result.stderr
    return result


def judgectl(
    target: HasDirectory | Path, *arguments: str | Path, stdin: str = "", code: int | None = 0, **environ: str
) -> subprocess.CompletedProcess[str]:
    """The same with text as standard input and output."""
    result = judgectl_bytes(target, *arguments, stdin=stdin.encode(), code=code, **environ)
    return subprocess.CompletedProcess(result.args, result.returncode, result.stdout.decode(), result.stderr.decode())
