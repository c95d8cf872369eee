"""Without cgroups, or without root: the same containers, limits by looking; and everybody can see that it is weak."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge.common.errors import SandboxError
from judge.model.messages import Limits
from judge.sandbox import Killed, Sandbox, SandboxPool, available, drivers
from tests.support.sandbox import MIB, cgroups, need_sandbox, pool, run_c, shell, text

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    need_sandbox()
    with pool("weak", weak=True) as sandboxes, sandboxes.take() as box:
        assert sandboxes.weak and cgroups() == []
        yield box


def test_cpu_is_limited_and_counted(sandbox):
    with shell(sandbox, "while :; do :; done", Limits(cpu=0.2, wall=10)) as outcome:
        assert Killed.CPU in outcome.killed and 0.2 < outcome.cpu < 0.4
    children = "for i in 1 2 3; do (i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done) & done; wait"
    with shell(sandbox, children, Limits(cpu=5)) as outcome:
        assert not outcome.killed and outcome.cpu > 0.02


def test_wall_and_output_are_limited(sandbox):
    with shell(sandbox, "sleep 20", Limits(cpu=1, wall=0.2)) as outcome:
        assert Killed.WALL in outcome.killed and outcome.wall < 0.3
    with shell(sandbox, "cat /dev/zero", Limits(cpu=2, output=1000)) as outcome:
        assert Killed.OUTPUT in outcome.killed and outcome.read_stdout() == bytes(1000)


def test_memory_is_limited_and_counted(sandbox):
    source = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int size = atoi(argv[1]) << 20; char *p = malloc(size);
    for (int i = 0; i < size; i += 1 << 20) { memset(p + i, 1, 1 << 20); usleep(1000); }
    usleep(50000); return 0;
}
"""
    with run_c(sandbox, source, Limits(cpu=5, memory=64 * MIB), "200") as outcome:
        assert Killed.MEMORY in outcome.killed
    with run_c(sandbox, source, Limits(cpu=5, memory=64 * MIB), "40") as outcome:
        assert not outcome.killed and 40 * MIB <= outcome.memory <= 48 * MIB


def test_the_isolation_is_the_same(sandbox):
    out = text(
        shell(sandbox, "id -u; ls /home /root; cat /proc/1/environ; touch /usr/x; exec grep CapEff /proc/self/status")
    )
    assert out.startswith("1000\n") and out.count("No such file") == 3 and "Read-only" in out
    with shell(sandbox, "setsid sleep 1000 & sleep 0.02") as outcome:
        assert outcome.exit_code == 0
    assert text(shell(sandbox, "set -- /proc/[0-9]*; echo $#")) == "1\n"


def test_a_full_sandbox_is_refused_with_the_reason(monkeypatch):
    need_sandbox()
    monkeypatch.setattr(drivers, "find", lambda: None)
    with pytest.raises(SandboxError, match="no cgroups for memory"):
        SandboxPool("none")
    reason = available()
    assert reason is not None and "controllers memory, pids" in reason
    monkeypatch.undo()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxError, match="not running as root"):
        SandboxPool("none")
    reason = available()
    assert reason is not None and "root" in reason


USER = """
from judge.model.messages import (Limits)
from judge.sandbox import Command, SandboxPool
with SandboxPool("user", weak=True) as pool, pool.take() as box:
    box.put("main.c", b"int main(){return 42;}")
    env = {"PATH": "/usr/bin:/bin"}
    build = Command(["/usr/bin/gcc", "-o", "/box/run", "/box/main.c"], Limits(cpu=10), env, writable=True)
    with box.run(build) as outcome:
        assert outcome.exit_code == 0, outcome.read_stderr()
    with box.run(Command(["/box/run"], Limits(cpu=1))) as outcome:
        print(outcome.exit_code)
    script = "kill -9 1; cat /proc/1/environ; rm -f /box/run; echo x > /etc/passwd; exec grep Cap /proc/self/status"
    with box.run(Command(["/bin/sh", "-c", script], Limits(cpu=1))) as outcome:
        print(outcome.read_stdout().decode(), outcome.read_stderr().decode())
    with box.run(Command(["/bin/sh", "-c", "echo x > /scratch/x; echo x > /tmp/x"], Limits(cpu=1))) as outcome: pass
    with box.run(Command(["/bin/sh", "-c", "ls /scratch /tmp"], Limits(cpu=1))) as outcome:
        print(outcome.read_stdout())
"""


def test_a_user_without_privileges(work):
    need_sandbox()
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", sys.executable, "-c", USER]
    root = Path(__file__).parents[2]
    reachable = subprocess.run([*command[:4], "test", "-r", str(root / "judge/sandbox/agent")], check=False)
    if reachable.returncode != 0:
        pytest.skip("an unprivileged user cannot read this checkout")
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("42\n") and "CapEff:\t0000000000000000" in result.stdout
    assert "CapBnd:\t0000000000000000" in result.stdout and "/proc/1/environ: No such file" in result.stdout
    assert result.stdout.count("Read-only file system") == 2 and "b'/scratch:\\n\\n/tmp:\\n'" in result.stdout
