"""The directory of an embedded cluster, and what `judge up` shows; the cluster itself: tests/integration/test_up.py."""

import io
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from judge import config
from judge.boot.backend import Unit
from judge.boot.embedded import cluster as embedded
from judge.boot.embedded import up
from judge.boot.plan import Phase
from judge.boot.status import BootStatus, ServiceStatus
from judge.common import files
from judge.common.errors import ConfigError, RefusedError, UsageError
from judge.config import rendering


@pytest.fixture
def directory(work):
    place = embedded.ClusterDirectory(work / "cluster")
    yield place
    place.close()


def test_first_start_decides_once(directory):
    first = directory.open_cluster(0)
    assert directory.open_cluster(None) == first == directory.open_cluster(0)
    ports = list(first.ports.model_dump().values())
    assert len(set(ports)) == 5 and all(20000 <= port < 61000 for port in ports)
    moved = directory.open_cluster(8099)
    assert moved.ports.gateway == 8099 and moved.ports.etcd == first.ports.etcd
    assert directory.open_cluster(None) == moved


def test_no_port_is_chosen_that_is_taken(directory):
    occupied = [port for port in range(20000, 61000) if port % 16]
    assert all(port % 16 == 0 for port in directory.open_cluster(0, occupied).ports.model_dump().values())


def test_metrics_take_as_many_ports_as_services_serve_them(directory):
    cluster = directory.open_cluster(0)
    directory.secrets()
    services = embedded.configs(directory, cluster, slots=1, cores=[], weak=False)
    served, boot = embedded.with_metrics(directory, services, 30000)
    addresses = [*(config.metrics for config in served.values()), boot[0]]
    assert addresses == [f"127.0.0.1:{port}" for port in embedded.metrics_ports(30000)]
    assert not embedded.metrics_ports(None)


def test_default_port(directory):
    assert directory.open_cluster(None).ports.gateway == embedded.DEFAULT_PORT


def test_secrets_are_made_once_and_private(directory):
    token = directory.secrets()
    assert token and directory.secrets() is None
    assert directory.token_file.read_text().strip() == token
    tokens = yaml.safe_load((directory.etc / "tokens.yml").read_text())["tokens"]
    assert [entry["role"] for entry in tokens] == ["admin"] and token not in str(tokens)
    directory.tls("one", "executor")
    private = [directory.token_file, directory.mongodb_key, directory.mongodb_password]
    before = [path.read_bytes() for path in private]
    assert directory.secrets() is None and [path.read_bytes() for path in private] == before
    for path in (*private, directory.etc / "session.key", directory.pki / "ca.key", directory.path):
        assert path.stat().st_mode & 0o077 == 0, path
    (directory.etc / "tokens.yml").unlink()
    assert directory.secrets() is None
    assert yaml.safe_load((directory.etc / "tokens.yml").read_text())["tokens"] == tokens


def test_configs_are_good_and_stay_the_same(directory):
    cluster = directory.open_cluster(0)
    directory.secrets()
    services = embedded.configs(directory, cluster, slots=1, cores=[0], weak=True)
    assert services["judicator"].model_dump()["webhooks"]["callback_networks"] == [], (
        "no user has a server of this machine called"
    )
    boot = embedded.boot_config(directory, cluster, services)
    rendered = rendering.render_all(boot, {})
    assert [entry.service.name for entry in rendered] == ["etcd", "mongodb", "judicator", "executor", "gateway"]
    assert {entry.service.name: entry.config for entry in rendered} == services
    assert config.load(config.BootConfig, directory.etc / "boot.yml") == boot
    # A start that adopts must not find changed configs: they would make it replace what runs.
    later = cluster.model_copy(update={"initialised": True})
    assert embedded.configs(directory, later, slots=1, cores=[0], weak=True) == services


def test_directory_in_use(directory):
    with pytest.raises(RefusedError, match="is already managed by boot"):
        embedded.ClusterDirectory(directory.path)


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"version": "9.9.0"}, RefusedError, "was made by judge 9.9.0, this is"),
        ({"format": 2}, RefusedError, "was made by judge"),
        ({"initialised": True}, RefusedError, "data/etcd is gone or empty though this cluster has data"),
        ({"token": "x"}, ConfigError, "cluster.yml:3: token: "),
        ({"extra": "x"}, ConfigError, "unknown key 'extra'"),
    ],
)
def test_other_directories(directory, changes, error, sentence):
    cluster = directory.open_cluster(0)
    text = yaml.safe_dump(cluster.model_dump() | changes, sort_keys=False)
    files.replace(directory.path / "cluster.yml", text, durable=False)
    before = (directory.path / "cluster.yml").read_text()
    with pytest.raises(error, match=sentence):
        directory.open_cluster(None)
    assert (directory.path / "cluster.yml").read_text() == before


def test_places_that_are_no_cluster(work):
    (work / "file").touch()
    with pytest.raises(UsageError, match="is a file"):
        embedded.ClusterDirectory(work / "file")
    (work / "old" / "data" / "etcd").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"has .*data/etcd but no cluster.yml"):
        embedded.ClusterDirectory(work / "old")
    with pytest.raises(UsageError, match="cannot be used: Not a directory"):
        embedded.ClusterDirectory(work / "file" / "below")


def test_port_in_use(directory):
    cluster = directory.open_cluster(0)
    directory.check_ports(cluster)
    other_advice = {"gateway": "choose another with --port", "mongodb": "stop the program"}
    for name, advice in other_advice.items():
        sentence = rf"\({name}\) is in use by another program; {advice}"
        with (
            socket.create_server(("127.0.0.1", getattr(cluster.ports, name))),
            pytest.raises(UsageError, match=sentence),
        ):
            directory.check_ports(cluster)


def test_an_address_for_other_machines_that_cannot_be_used(directory):
    cluster = directory.open_cluster(0)
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        sentence = rf"port {port} of 127\.0\.0\.2 \(gateway\) is in use by another program; choose another address"
        with pytest.raises(UsageError, match=sentence):
            directory.check_ports(cluster, config.Public(listen=[f"127.0.0.2:{port}"]))
    with pytest.raises(
        UsageError, match=r"port 80 of 192\.0\.2\.1 \(gateway\) cannot be used: Cannot assign requested"
    ):
        directory.check_ports(cluster, config.Public(listen=["192.0.2.1:80"]))


def test_cores():
    up.check_cores(up.UpOptions(cores=[0], slots=1))
    with pytest.raises(UsageError, match="--core 999: this machine has cores 0"):
        up.check_cores(up.UpOptions(cores=[999]))
    with pytest.raises(UsageError, match="--slots 2 with 1 cores"):
        up.check_cores(up.UpOptions(cores=[0], slots=2))


def test_only_the_executor_gets_the_pinned_cores(work):
    before = os.sched_getaffinity(0)
    executor, etcd = (
        Unit(config.BootService(name=kind, kind=kind, config=work), work) for kind in ("executor", "etcd")
    )
    try:
        up.keep_off([])
        assert os.sched_getaffinity(0) == before
        up.keep_off([max(before)])
        assert os.sched_getaffinity(0) == (before - {max(before)} or before)
        command = up.pinned([max(before)])
        everywhere = ",".join(map(str, sorted(before)))
        assert list(command(executor))[:3] == ["taskset", "-c", everywhere]
        assert "taskset" not in command(etcd)
        assert "taskset" not in up.pinned([])(executor)
    finally:
        os.sched_setaffinity(0, before)


def test_weak_sandbox_needs_consent(monkeypatch):
    monkeypatch.setattr("judge.sandbox.available", lambda: "no cgroups")
    up.check_sandbox(allow_weak=True)
    with pytest.raises(RefusedError, match=r"no full sandbox is possible: no cgroups; .*, or use --allow-weak-sandbox"):
        up.check_sandbox(allow_weak=False)
    monkeypatch.setattr("judge.sandbox.available", lambda: None)
    up.check_sandbox(allow_weak=False)


def screen_of(*, terminal: bool = False, quiet: bool = False):
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200, highlight=False)
    calls: list[int] = []
    screen = up.StatusScreen(up.UpOptions(quiet=quiet), "http://127.0.0.1:1", lambda: calls.append(1), console)
    return screen, console.file, calls


def status_of(state: str = "running", **phases: Phase) -> BootStatus:
    services = [ServiceStatus(name=name, kind="etcd", state=phase, reason="why") for name, phase in phases.items()]
    return BootStatus(name="x", version="0", backend="process", pid=1, state=state, since="", services=services)


def test_plain_lines():
    screen, out, calls = screen_of()
    assert screen.update(status_of(a=Phase.STARTING, b=Phase.STOPPED))
    assert screen.update(status_of(a=Phase.RUNNING, b=Phase.BACKOFF))
    assert screen.update(status_of(a=Phase.RUNNING, b=Phase.RUNNING))
    assert screen.update(status_of(a=Phase.RUNNING, b=Phase.FATAL)), "after it was ready boot goes on"
    lines = out.getvalue().splitlines()
    assert lines[:4] == ["a: STARTING", "a: RUNNING", "b: BACKOFF: why", "b: RUNNING"]
    assert lines[4].startswith("ready http://127.0.0.1:1 (after ")
    assert lines[5:] == ["b: FATAL: why"] and calls == [1]
    screen.close()


def test_failure_before_ready_stops():
    screen, out, calls = screen_of(quiet=True)
    assert screen.update(status_of(a=Phase.STARTING))
    assert not screen.update(status_of(a=Phase.FATAL))
    assert screen.failure == "a cannot run: why" and out.getvalue() == "a: FATAL: why\n" and not calls


def test_status_line():
    screen, out, _ = screen_of(terminal=True)
    screen.update(status_of(a=Phase.STARTING))
    screen.update(status_of(a=Phase.RUNNING))
    screen.update(status_of("stopping", a=Phase.STOPPING))
    screen.close()
    text = out.getvalue()
    assert "a starting" in text and "http://127.0.0.1:1" in text and "Ctrl-C again kills" in text


def test_a_full_output_does_not_end_the_process(tmp_path):
    """A full disk; the process ends as if all had been written."""
    program = (
        "import sys; from rich.console import Console; from judge.common import terminal\n"
        "terminal.forgive()\n"
        "console = Console(file=sys.stdout)\n"
        "for line in range(3): console.print('x' * 2000)\n"
        "print('said', file=sys.stderr)"
    )
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (process.returncode, process.stderr) == (0, "said\n")


def test_a_reserved_port_is_chosen_once():
    """Its server starts seconds later, so the port itself looks free until then."""
    port = embedded.free_port(set())
    program = f"""if True:
        from judge.boot.embedded import cluster
        offers = iter([{port}, {port} + 1, {port} + 2, {port} + 3])
        cluster.secrets.randbelow = lambda _: next(offers) - cluster._LOWEST_PORT
        print(cluster.free_port(set()))
    """
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert embedded.port_free(port)
    assert port < int(process.stdout) <= port + 3


def test_a_directory_without_room_for_reservations_is_one_sentence(work, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(work / "missing"))
    embedded._reservations.cache_clear()
    try:
        with pytest.raises(RefusedError, match=r"judge-ports.* cannot be opened: No such file.*set TMPDIR"):
            embedded.free_port(set())
    finally:
        embedded._reservations.cache_clear()
