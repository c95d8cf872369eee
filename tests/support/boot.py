"""A boot of its own process with small services, for boot's tests."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import yaml

from judge.boot import pidfile, procs, status
from tests.support.servers import free_port, wait_for

RUNNER = Path(__file__).parent / "processes/boot_runner.py"
QUICK = {
    "serving_timeout": 1, "serving_failures": 2, "start_timeout": 5, "restart_min": 0.05, "restart_max": 0.4,
    "start_retries": 2, "healthy_after": 0.5, "stop_grace": 2,
}  # fmt: skip


class BootHarness:
    """One run directory, its boot.yml and control files, and boots started on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run_dir = root / "run"
        self.log_dir = root / "log"
        self.control = root / "control"
        self.control.mkdir()
        self.services: list[dict] = []
        self.boots: list[subprocess.Popen] = []
        self.config = {"name": "host", "run_dir": str(self.run_dir), "log_dir": str(self.log_dir), "interval": 0.1}

    def service(self, name: str, *, serving: str | None = "tcp", control: dict | None = None, **settings) -> int:
        """Add a service; returns its port."""
        port = free_port()
        target = {None: None, "tcp": f"127.0.0.1:{port}", "http": f"http://127.0.0.1:{port}/health"}[serving]
        config = self.root / f"{name}.yml"
        self.write_config(name)
        self.services.append(
            {"name": name, "kind": "etcd", "config": str(config), "serving": target, **QUICK, **settings}
        )
        self.set_control(name, **({"port": port} if serving else {}), **(control or {}))
        return port

    def write_config(self, name: str, **extra) -> Path:
        path = self.root / f"{name}.yml"
        member = {"name": name, "peer": "http://127.0.0.1:1", "client": "http://127.0.0.1:2"}
        port = 10000 + sum(map(ord, name)) * 7
        settings = {
            "name": name, "mode": "proxy", "proxy_listen": f"127.0.0.1:{port}",
            "cluster": {"token": "token-of-tests", "members": [member]}, **extra,
        }  # fmt: skip
        path.write_text(yaml.safe_dump(settings, sort_keys=False))
        return path

    def set_control(self, name: str, **values) -> None:
        path = self.control / f"{name}.json"
        old = json.loads(path.read_text()) if path.exists() else {}
        new = {key: value for key, value in (old | values).items() if value is not None}
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(new))
        temporary.replace(path)

    @property
    def boot_yml(self) -> Path:
        path = self.root / "boot.yml"
        path.write_text(yaml.safe_dump({**self.config, "services": self.services}, sort_keys=False))
        return path

    def start(self, *arguments: str, failpoint: str | None = None) -> subprocess.Popen:
        environment = {**os.environ, "SECRET": "not for services"}
        if failpoint:
            environment["JUDGE_FAILPOINT"] = failpoint
        with (self.root / "boot.out").open("ab") as out:
            boot = subprocess.Popen(
                [sys.executable, str(RUNNER), str(self.boot_yml), str(self.control), *arguments],
                stdout=out, stderr=out, env=environment, cwd=Path(__file__).parents[2],
            )  # fmt: skip
        self.boots.append(boot)
        return boot

    def running(self, *names: str, **settings) -> subprocess.Popen:
        """Boot these services, and wait until they run."""
        for name in names:
            self.service(name, **settings)
        boot = self.start()
        self.wait_states(**dict.fromkeys(names, "RUNNING"))
        return boot

    def kill(self, boot: subprocess.Popen) -> None:
        boot.kill()
        boot.wait()

    @property
    def output(self) -> str:
        path = self.root / "boot.out"
        return path.read_text() if path.exists() else ""

    def states(self) -> dict[str, str]:
        with contextlib.suppress(Exception):
            return {service.name: str(service.state) for service in status.read(self.run_dir).services}
        return {}

    def of(self, name: str) -> status.ServiceStatus:
        return next(service for service in status.read(self.run_dir).services if service.name == name)

    def wait_states(self, timeout: float = 60, **states: str) -> None:
        def reached() -> bool:
            now = self.states()
            return all(now.get(name) == state for name, state in states.items())

        try:
            wait_for(reached, timeout=timeout)
        except AssertionError:
            raise AssertionError(f"wanted {states}, have {self.states()}\n{self.output}") from None

    def starts(self, name: str) -> list[int]:
        """Pids of all starts so far; fails when two ever lived at a time."""
        path = self.control / f"{name}.json.record"
        lines = path.read_text().splitlines() if path.exists() else []
        assert not [line for line in lines if line.startswith("double")], (lines, self.output)
        return [int(line.split()[1]) for line in lines]

    def marked(self, name: str) -> list[int]:
        """Living processes that carry the service's mark."""
        handles = procs.find_marked(procs.SERVICE, str(self.run_dir.resolve() / name))
        pids = [handle.pid for handle in handles]
        for handle in handles:
            handle.close()
        return pids

    def record(self, name: str) -> pidfile.PidRecord:
        return pidfile.read(self.run_dir / f"{name}.pid")

    def stop(self, boot: subprocess.Popen, sig: signal.Signals = signal.SIGTERM, timeout: float = 60) -> int:
        boot.send_signal(sig)
        return boot.wait(timeout)

    def close(self) -> None:
        for boot in self.boots:
            if boot.poll() is None:
                boot.terminate()  # an orderly stop, so that it reports its coverage
                with contextlib.suppress(subprocess.TimeoutExpired):
                    boot.wait(10)
                boot.kill()
            boot.wait()
        for service in self.services:
            name = service["name"]
            wait_for(
                lambda name=name: not procs.kill_marked(procs.SERVICE, str(self.run_dir.resolve() / name)),
                what=f"the end of {name}",
            )
