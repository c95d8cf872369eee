"""Parts of boot without processes of its own: files, pid files, holds, rendering, checks of serving, log rotation."""

import asyncio
import contextlib
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from judge.boot import backend, backend_process, holds, pidfile, procs, serving, status
from judge.common import clock, procfs
from judge.common.errors import ConfigError, FieldError, NotFoundError, RefusedError, UnavailableError, UsageError
from judge.config import BootConfig, BootService, EtcdConfig, rendering
from judge.daemon.main import ALIVE_FD, keep_private
from judge.daemon.notify import notify
from tests.support.servers import free_port, wait_for

# --- pid files and processes -------------------------------------------------------------------------------------


def test_pid_file_survives_any_truncation(work):
    path = work / "one.pid"
    assert pidfile.read(path) == pidfile.PidRecord()
    long = pidfile.PidRecord(4194304, 999999999, "a" * 32, "b" * 64)
    pidfile.write(path, long)
    assert pidfile.read(path) == long
    text = path.read_text()
    for end in range(len(text) - 1):
        path.write_text(text[:end])
        assert pidfile.read(path) == pidfile.PidRecord(), end
    short = pidfile.PidRecord(7, 1, "c" * 32, "d")
    path.write_text("7\nstart=1\nincarnation=" + "c" * 32 + "\nfingerprint=d\nend\n" + text[60:])
    assert pidfile.read(path) == short
    path.write_text("x\nstart=1\nincarnation=a\nfingerprint=b\nend\n")
    assert pidfile.read(path) == pidfile.PidRecord()


def test_locks(work):
    path = work / "lock"
    assert not pidfile.is_locked(path)
    descriptor = pidfile.try_lock(path)
    assert descriptor is not None and pidfile.try_lock(path) is None and pidfile.is_locked(path)
    assert pidfile.holder(path).startswith(f"process {os.getpid()} (")
    with pidfile.locked(path) as locked:
        assert not locked
    os.close(descriptor)
    with pidfile.locked(path) as locked:
        assert locked and pidfile.is_locked(path)
    assert not pidfile.is_locked(path)
    assert pidfile.holder(path) == "another process"
    path.unlink()
    path.mkdir()
    with pidfile.locked(path) as locked:
        assert not locked
    assert pidfile.holder(path) == "nobody, it cannot be opened: Is a directory"


@pytest.mark.parametrize("fault", ["text", "directory", "loop", "mode"])
def test_a_hold_that_cannot_be_read_holds(run_dir, fault):
    path = run_dir / "etcd.hold"
    if fault == "text":
        path.write_text("{")
    elif fault == "directory":
        path.mkdir()
    elif fault == "loop":
        path.symlink_to(path)
    else:
        path.touch(0)
        if os.geteuid() == 0:
            pytest.skip("root may read every file")
    hold = holds.read_one(run_dir, "etcd")
    assert hold is not None and "cannot be read" in hold.reason and "etcd" in holds.read(run_dir)
    holds.forget_expired(run_dir, "etcd")
    assert path.is_symlink() or path.exists()
    if not path.is_dir():
        holds.release(run_dir, "etcd")
        assert holds.read(run_dir) == {}


def test_boot_lock(work):
    lock = pidfile.BootLock(work)
    assert pidfile.read_pid(work / "boot.pid") == os.getpid()
    with pytest.raises(RefusedError, match=rf"is already managed by boot, process {os.getpid()} \("):
        pidfile.BootLock(work)
    lock.close()
    lock.close()
    assert pidfile.read_pid(work / "boot.pid") is None
    pidfile.BootLock(work).close()


def test_boot_lock_waits_for_the_child_of_a_killed_boot(work):
    pidfile.write(work / "boot.pid", pidfile.PidRecord(os.getpid(), 1, "boot", ""))
    descriptor = pidfile.try_lock(work / "boot.pid")
    timer = threading.Timer(0.2, os.close, [descriptor])
    timer.start()
    pidfile.BootLock(work).close()
    timer.join()


def test_keep_private(monkeypatch):
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    monkeypatch.setenv(ALIVE_FD, str(reading))
    keep_private()
    assert not os.get_inheritable(reading) and ALIVE_FD not in os.environ
    keep_private()
    os.close(reading)
    os.close(writing)


@contextlib.contextmanager
def sleeper(**environment):
    child = subprocess.Popen(["sleep", "1000"], env={"PATH": os.environ["PATH"], **environment}, start_new_session=True)
    wait_for(lambda: procs.environment(child.pid))  # shows none for an instant after its exec
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def test_identity_needs_start_time_and_incarnation():
    with sleeper(JUDGE_INCARNATION="abc") as child:
        start = procfs.start_time(child.pid)
        right = pidfile.PidRecord(child.pid, start, "abc")
        assert right.matches(child.pid)
        assert not pidfile.PidRecord(child.pid, start + 1, "abc").matches(child.pid)
        assert not pidfile.PidRecord(child.pid, start, "abd").matches(child.pid)
        assert not pidfile.PidRecord(child.pid, start, "").matches(child.pid)
        handle = procs.open_verified(child.pid, right.matches)
        assert handle is not None and handle.alive
        assert procs.open_verified(child.pid, lambda _: False) is None
        child.kill()
        child.wait()
        assert not handle.alive and handle.send(signal.SIGTERM) is False
        procs.kill_session(handle)
        handle.close()
        handle.close()
        assert procs.open_verified(child.pid, lambda _: True) is None
        assert procfs.start_time(child.pid) is None
        assert procs.environment(child.pid) == {} and procs.command_of(child.pid) == "gone"
    assert procs.open_verified(1, lambda _: True) is None
    assert procs.open_verified(os.getpid(), lambda _: True) is None


def test_kill_marked_and_session_reach_only_their_own():
    with sleeper(JUDGE_SERVICE="/x/one") as marked, sleeper(JUDGE_SERVICE="/x/two") as unmarked, sleeper() as third:
        assert procs.kill_marked(procs.SERVICE, "/x/one") == [marked.pid]
        assert marked.wait() == -signal.SIGKILL
        handle = procs.Handle(third.pid)
        procs.kill_session(handle)
        handle.close()
        assert third.wait() == -signal.SIGKILL
        assert unmarked.poll() is None


def ending(count):
    """Pids of processes that end at about the moment at which they are yielded; each is reaped a little later."""
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        reaper = threading.Timer(0.001, os.waitpid, [pid, 0])
        reaper.start()
        yield pid
        reaper.join()


def test_reads_of_proc_survive_processes_that_end_meanwhile():
    for pid in ending(100):
        match = procs.Marked("JUDGE_SERVICE", "none")
        for _ in range(20):
            assert not match(pid)
            procfs.start_time(pid), procs.session(pid), procs.command_of(pid), procfs.children(pid)
    assert procs.find_marked("JUDGE_SERVICE", "none") == []


def test_reads_of_proc_survive_processes_of_others():
    """A user who may look at no other's process sees none of them as marked, and gets no error."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setresuid(65534, 65534, 65534)
            every = [(procs.environment(process), procfs.children(process)) for process in procfs.pids()]
            code = 0 if every and procs.find_marked("JUDGE_SERVICE", "none") == [] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_nothing_below_a_process_of_proc_is_read_but_by_procfs():
    reading = re.compile(r"(Path|open|exists|readlink|stat|listdir|iterdir)\(f?[\"']/proc/(\{|[\"'])")
    files = [path for path in Path(procfs.__file__).parent.rglob("*.py") if path.name != "procfs.py"]
    assert [str(path) for path in files if reading.search(path.read_text(encoding="utf-8"))] == []


# --- holds -------------------------------------------------------------------------------------------------------


@pytest.fixture
def run_dir(work):
    (work / "boot.json").write_text(json.dumps({"services": [{"name": "etcd"}, {"name": "judicator"}]}))
    return work


def test_hold_and_release(run_dir):
    hold = holds.hold(run_dir, "etcd", " disk swap ", 60, "ada")
    assert hold.reason == "disk swap" and 59 < hold.left <= 60 and hold.boot_id == holds.boot_id()
    assert holds.read(run_dir) == {"etcd": hold}
    assert hold.sentence == f"held by ada until {hold.ends}: disk swap"
    assert holds.release(run_dir, "etcd") is True
    assert holds.read(run_dir) == {} and holds.release(run_dir, "etcd") is False
    assert holds.take_release(run_dir, "etcd") is True and holds.take_release(run_dir, "etcd") is False


def test_hold_of_an_earlier_start_of_the_machine_is_over(run_dir):
    hold = holds.hold(run_dir, "etcd", "why", 60, "ada")
    (run_dir / "etcd.hold").write_text(hold.model_copy(update={"boot_id": "other"}).model_dump_json())
    assert holds.read(run_dir) == {}
    holds.forget_expired(run_dir, "etcd")
    assert not (run_dir / "etcd.hold").exists()
    (run_dir / "etcd.hold").write_text(hold.model_copy(update={"until": 0.0}).model_dump_json())
    assert holds.read(run_dir) == {}


@pytest.mark.parametrize(
    ("service", "reason", "seconds", "by", "error", "text"),
    [
        ("nginx", "why", 60, "ada", NotFoundError, "no service 'nginx' in .*; boot runs etcd, judicator there"),
        ("../etcd", "why", 60, "ada", FieldError, "service: '../etcd' is not a service's name"),
        ("etcd", "  ", 60, "ada", FieldError, "reason: must be one line"),
        ("etcd", "a\nb", 60, "ada", FieldError, "reason: must be one line"),
        ("etcd", "why", 60, "", FieldError, "by: must be one line"),
        ("etcd", "why", 0, "ada", FieldError, "seconds: must be above 0"),
        ("etcd", "why", float("nan"), "ada", FieldError, "seconds: must be above 0"),
        ("etcd", "why", 1e9, "ada", FieldError, "at most 2.592e"),
    ],
)
def test_bad_holds(run_dir, service, reason, seconds, by, error, text):
    with pytest.raises(error, match=text):
        holds.hold(run_dir, service, reason, seconds, by)
    assert holds.read(run_dir) == {}


def test_hold_without_a_boot(work):
    with pytest.raises(NotFoundError, match="is no run directory of a boot"):
        holds.release(work, "etcd")


def test_hold_waits_for_boots_act(run_dir, monkeypatch):
    monkeypatch.setattr(holds, "_LOCK_WAIT", 0.3)
    descriptor = pidfile.try_lock(run_dir / "etcd.pid")
    begin = clock.monotonic()
    holds.hold(run_dir, "etcd", "an operator has the lock as well", 60, "ada")
    assert clock.monotonic() - begin >= 0.3
    os.close(descriptor)


# --- rendering ---------------------------------------------------------------------------------------------------

ETCD = """name: etcd
mode: proxy
cluster:
  token: {{ token }}
  members:
    - {name: a, peer: "http://10.0.0.1:2380", client: "http://10.0.0.1:2379"}
"""


def service_of(path: Path, kind: str = "etcd") -> BootService:
    return BootService.model_validate({"name": kind, "kind": kind, "config": path})


def test_template_is_filled_in(work):
    path = work / "etcd.yml.j2"
    path.write_text(ETCD)
    rendered = rendering.render(service_of(path), {"token": "secret-token"})
    assert isinstance(rendered.config, EtcdConfig) and rendered.config.cluster.token == "secret-token"
    assert "token: secret-token" in rendered.text
    target = backend.write_config(rendered, work)
    assert target == work / "etcd.yml" and target.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ETCD, r"etcd.yml.j2:4: template: 'token' is undefined"),
        ("name: etcd\n{% if %}\n", r"etcd.yml.j2:2: template: Expected an expression"),
        ("name: etcd\n\nmode: {{ 1 / 0 }}\n", r"etcd.yml.j2:3: template: division by zero"),
        ("a: {{ ''.__class__.__mro__ }}\n", r"etcd.yml.j2:1: template: access to attribute '__class__' .* is unsafe"),
        ("name: {{ 'x y' }}\n", r"etcd.yml.j2:1: .*name"),
    ],
)
def test_template_faults_have_lines(work, text, sentence):
    path = work / "etcd.yml.j2"
    path.write_text(text)
    with pytest.raises(ConfigError, match=sentence):
        rendering.render(service_of(path), {})


def test_overrides(work):
    path = work / "etcd.yml"
    path.write_text(ETCD.replace("{{ token }}", "token-token"))
    overrides = rendering.parse_overrides(["etcd.check.tries=7", "etcd.log_level=debug"], ["etcd"])
    rendered = rendering.render(service_of(path), {}, overrides["etcd"])
    assert isinstance(rendered.config, EtcdConfig) and rendered.config.check.tries == 7
    assert yaml.safe_load(rendered.text)["check"] == {"tries": 7}
    with pytest.raises(ConfigError, match=r"etcd.yml: --set check.tries: check.tries: .*, got 'many'"):
        rendering.render(service_of(path), {}, [(("check", "tries"), "many")])
    with pytest.raises(ConfigError, match=r"'name' is not a section, so 'name.first' cannot be set"):
        rendering.render(service_of(path), {}, [(("name", "first"), 1)])


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ("etcd", "expected SERVICE.KEY=VALUE"),
        ("etcd=3", "expected SERVICE.KEY=VALUE"),
        ("etcd..x=3", "expected SERVICE.KEY=VALUE"),
        ("etcdd.name=x", "no service 'etcdd'; there are etcd"),
        ("etcd.name=[", "the value is not YAML"),
    ],
)
def test_bad_overrides(item, sentence):
    with pytest.raises(UsageError, match=sentence):
        rendering.parse_overrides([item], ["etcd"])


def test_same_port_twice_is_found(work):
    services = []
    for name in ("one", "two"):
        path = work / f"{name}.yml"
        path.write_text(ETCD.replace("{{ token }}", "token-token"))
        services.append({"name": name, "kind": "etcd", "config": str(path)})
    boot = BootConfig.model_validate({"name": "host", "run_dir": str(work), "services": services})
    with pytest.raises(ConfigError, match=r"two.yml:1: address 127.0.0.1:2379 is already used by one"):
        rendering.render_all(boot, {})


# --- whether something serves ------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def answering(data: bytes):
    """A server that answers every request with `data`; yields its port."""
    handlers = set()

    async def handle(reader, writer):
        handlers.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    await asyncio.gather(*handlers)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", ""),
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "answered 503"),
        (b"HTTP/1.1\r\n", "something else than HTTP"),
        (b"220 smtp ready\r\n", "something else than HTTP"),
        (b"", "something else than HTTP"),
        (b"x" * 200000, "something else than HTTP"),
    ],
)
async def test_probe_of_a_page(data, sentence):
    async with answering(data) as port:
        assert await serving.probe(f"127.0.0.1:{port}", 2.0) == ""
        fault = await serving.probe(f"http://127.0.0.1:{port}/health?x=1", 2.0)
        assert fault.endswith(sentence) if sentence else fault == ""


async def test_probe_of_nothing():
    assert "refused" in (await serving.probe(f"127.0.0.1:{free_port()}", 2.0)).lower()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        fault = await serving.probe(f"http://127.0.0.1:{silent.getsockname()[1]}/", 0.05)
    assert fault.endswith("did not answer within 0.05 s")
    assert "127.0.0.1" in await serving.probe("https://127.0.0.1:1/", 2.0)


def test_listener_hears_services_by_their_pid(work, monkeypatch):
    listener = serving.NotifyListener(work)
    with pytest.raises(OSError, match="in use"):
        serving.NotifyListener(work)
    me = os.getpid()
    monkeypatch.setenv("NOTIFY_SOCKET", listener.address)
    assert listener.serving(me) == (None, "")
    notify("READY=1", "STATUS=fine", "MAINPID=12")
    assert listener.receive() is True
    assert listener.serving(me) == (True, "") and listener.word(me).status == "fine"
    notify("WATCHDOG=1")
    assert listener.receive() is False
    monkeypatch.setattr(serving, "SILENCE", -1.0)
    assert listener.serving(me)[0] is False
    subprocess.run(
        [sys.executable, "-c", "from judge.daemon.notify import notify; notify('READY=0')"], check=True, env=os.environ
    )
    listener.receive()
    assert listener.word(me).ready
    listener.forget_others(set())
    assert not listener.word(me).ready
    listener.vouch(me)
    assert listener.word(me).ready
    listener.close()
    notify("READY=1")


def test_a_process_that_never_stops_talking_does_not_hold_up_boot(work, monkeypatch):
    listener, messages = serving.NotifyListener(work), itertools.count()

    class Flooded:
        def recvmsg(self, size, room):
            assert next(messages) < 100_000, "boot listens for ever"
            return b"STATUS=x", [], 0, None

    with contextlib.closing(listener._socket):
        monkeypatch.setattr(listener, "_socket", Flooded())
        assert listener.receive() is False


# --- logs and status ---------------------------------------------------------------------------------------------


def test_rotation_keeps_three(work):
    log = work / "one.log"
    backend_process.rotate(log, limit=4)
    for number in range(6):
        log.write_text(f"log {number}")
        backend_process.rotate(log, limit=4)
    assert sorted(entry.name for entry in work.iterdir()) == ["one.log.1", "one.log.2", "one.log.3"]
    assert (work / "one.log.1").read_text() == "log 5" and (work / "one.log.3").read_text() == "log 3"
    log.write_text("x")
    backend_process.rotate(log, limit=4)
    assert log.read_text() == "x"


def test_rotation_of_a_log_that_is_written_to(work):
    log = work / "one.log"
    with log.open("ab", buffering=0) as writer:
        for number in range(5):
            writer.write(b"%d" % number * 8)
            assert backend_process.rotate(log, limit=8, copy=True) is True
            assert log.stat().st_size == 0
        writer.write(b"last")
        assert backend_process.rotate(log, limit=8, copy=True) is False
    assert log.read_text() == "last"
    assert [(work / f"one.log.{number}").read_text() for number in (1, 2, 3)] == ["4" * 8, "3" * 8, "2" * 8]
    assert not (work / "one.log.4").exists()


def test_a_log_whose_copy_cannot_be_kept_is_emptied_all_the_same(work, caplog):
    log = work / "one.log"
    log.write_text("x" * 8)
    (work / "one.log.1" / "kept").mkdir(parents=True)
    assert backend_process.rotate(log, limit=8, keep=1, copy=True) is True
    assert log.read_text() == ""
    assert "one.log.1 cannot be written: Is a directory; what was in one.log is lost" in caplog.text


def test_status_of_a_dead_boot(work):
    with pytest.raises(UnavailableError, match="cannot be read"):
        status.read(work)
    own = status.BootStatus(
        name="host", version="0", backend="process", pid=os.getpid(), state="running", since="now", services=[]
    )
    status.write(work, own)
    assert status.read(work).state == "dead"
    lock = pidfile.BootLock(work)
    assert status.read(work) == own
    lock.close()
