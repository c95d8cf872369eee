"""The uWSGI daemon with the real uWSGI (seed: Uwsgi.run)."""

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
from prometheus_client import REGISTRY

from judge.common.errors import ConfigError, RefusedError
from judge.config import CheckSettings
from judge.config.services import Judge0
from judge.gateway import assets, daemon, nginx
from tests.support.gateway import (
    ADMIN,
    USER,
    Prepared,
    alive,
    gateway_config,
    healthy,
    make_task,
    running_gateway,
    write_config,
)
from tests.support.servers import free_port, wait_for


@pytest.fixture(scope="module")
def judicator(tmp_path_factory, etcd_endpoint):
    with Prepared(tmp_path_factory.mktemp("judicator"), etcd_endpoint).serving() as judicator:
        judicator.answers |= {"status": healthy(), "cancel": make_task(status="cancelled", done=True)}
        judicator.tasks(make_task())
        yield judicator


@pytest.fixture
def settings(judicator, work):
    # A directory with every character that uWSGI's ini would expand or split at.
    return gateway_config(
        judicator,
        work / "a %d $(HOME) b:c",
        threads=4,
        limits={"body_bytes": 2_000_000, "blob_bytes": 4_000_000},
        check=CheckSettings(interval=0.2, tries=50),
    )


def run_with(settings, action):
    """daemon.run() in this thread and `action(base address)` in another, which then stops it; returns both results."""
    results, stop = [], threading.Event()

    def neighbour():
        try:
            wait_for(lambda: alive(f"http://{settings.listen}"), what="a serving gateway")
            results.append(action(f"http://{settings.listen}"))
        except BaseException as exc:  # noqa: BLE001 - it is raised below, in the test's own thread
            results.append(exc)
        finally:
            stop.set()

    thread = threading.Thread(target=neighbour)
    thread.start()
    code = daemon.run(settings, stop)
    thread.join()
    if isinstance(results[0], BaseException):
        raise results[0]
    return code, results[0]


def children_of(pid):
    children = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    children.append(int(entry.name))
    return children


def running(pid):
    with contextlib.suppress(OSError):
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.parametrize("form", ["text", "json"])
def test_workers_write_into_the_daemons_log(settings, work, form):
    """In its form, a line each, beside what uWSGI itself says and the daemon passes on."""
    with running_gateway(settings.model_copy(update={"log_format": form}), work) as base:
        path = f"{base}/api/v1/submissions/{make_task().id}/cancel"
        answer = httpx.post(path, headers={"Authorization": f"Bearer {ADMIN}"}, trust_env=False)
        assert answer.status_code == 200, answer.text
        lines = (work / "gateway.log").read_text().splitlines()
    [cancelled] = [line for line in lines if f"cancelled submission {make_task().id}" in line]
    [spawned] = [line for line in lines if "spawned uWSGI worker 1" in line]
    if form == "json":
        log = json.loads(cancelled)
        assert (log["logger"], log["level"], log["task"]) == ("judge.gateway.api.handlers", "info", make_task().id)
        assert json.loads(spawned)["logger"] == "judge.uwsgi.server"
    else:
        assert "Z INFO judge.gateway.api.handlers: " in cancelled
        assert "Z INFO judge.uwsgi.server: " in spawned


@pytest.mark.parametrize("proxied", [False, True])
def test_only_a_proxy_says_that_a_client_came_by_https(settings, work, proxied):
    with running_gateway(settings.model_copy(update={"proxied": proxied}), work) as base:

        def https(**headers: str) -> bool:
            answer = httpx.get(f"{base}/login", headers=headers, trust_env=False)
            return "Strict-Transport-Security" in answer.headers

        assert https(**{"X-Forwarded-Proto": "https"}) is proxied
        assert not https(**{"X-Forwarded-Ssl": "on"})
        assert not https(**{"X-Forwarded-Proto": "http", "x-forwarded-ssl": "on"})


def test_a_gateway_that_starts_without_etcd_asks_the_judicators_that_it_knew(settings, work):
    file = settings.run_dir / f"{settings.name}-judicators"
    file.unlink(missing_ok=True)

    def ask(base):
        path = f"{base}/api/v1/submissions/{make_task().id}/cancel"
        return httpx.post(path, headers={"Authorization": f"Bearer {ADMIN}"}, trust_env=False, timeout=30)

    with running_gateway(settings, work) as base:
        assert ask(base).status_code == 200
        wait_for(file.exists, what="the file of judicators")
    etcd = settings.etcd.model_copy(update={"endpoints": [f"127.0.0.1:{free_port()}"]})
    with running_gateway(settings.model_copy(update={"etcd": etcd}), work) as base:
        answer = ask(base)
        assert answer.status_code == 200, answer.text


def test_run_serves_and_leaves_nothing(settings, work):
    metrics = free_port()
    settings = settings.model_copy(update={"metrics": f"127.0.0.1:{metrics}"})

    def action(base):
        ini = settings.run_dir / "gateway-uwsgi.ini"
        assert stat.S_IMODE(ini.stat().st_mode) == 0o600
        app = settings.run_dir / "gateway-app.yml"
        assert stat.S_IMODE(app.stat().st_mode) == 0o600
        with httpx.Client(base_url=base, headers={"Authorization": f"Bearer {ADMIN}"}, trust_env=False) as http:
            assert http.get("/api/v1/status").json()["leader"] == "judicator-1"
            assert http.head("/api/v1/blobs/" + "0" * 64).status_code == 404
            answer = http.post("/api/v1/submissions", content=b"x" * 3_000_000)
            assert answer.status_code == 413 and answer.json()["code"] == "too_large"
            answer = http.post(
                "/api/v1/submissions", content=b"{" * 3_000_000, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 413 and "too large" in answer.json()["error"]
            answer = http.post("/submit", content=b"x" * 3_000_000)
            assert answer.status_code == 413 and answer.headers["Content-Type"] == "text/html; charset=utf-8"
            assert "<p>The body is too large; " in answer.text and "Content-Security-Policy" in answer.headers
            answer = http.post("/api/v1/submissions", content=b"x" * 1_500_000, headers={"Authorization": "Bearer no"})
            assert answer.status_code == 401
            answer = http.post(
                "/api/v1/submissions", content=iter([b"{}"]), headers={"Content-Type": "application/json"}
            )
            plain = http.post("/api/v1/submissions", content=b"{}", headers={"Content-Type": "application/json"})
            assert (answer.status_code, answer.json()) == (plain.status_code, plain.json()), "a body in chunks is taken"
            sha = http.put("/api/v1/blobs/" + "0" * 64, content=b"y" * 3_500_000)
            assert sha.status_code == 400 and "arrived damaged" in sha.json()["error"]
            sheet = http.get(assets.address("app.css"))
            assert sheet.text.startswith("/*") and sheet.headers["Content-Encoding"] == "gzip"
            assert sheet.headers["Content-Type"] == "text/css" and "immutable" in sheet.headers["Cache-Control"]
            assert (
                "Content-Encoding" not in http.get(assets.address("app.css"), headers={"Accept-Encoding": ""}).headers
            )
            assert http.get("/static/app.css").status_code == 404
        return httpx.get(f"http://127.0.0.1:{metrics}/metrics", trust_env=False).text

    before = set(children_of(os.getpid()))
    code, counted = run_with(settings, action)
    assert code == 0
    assert 'judge_gateway_requests_total{route="api.status",status="200"} 1.0' in counted
    assert "judge_gateway_serving 1.0" in counted
    assert set(children_of(os.getpid())) <= before
    # What it keeps: the judicators, for a start while etcd is away.
    assert [file.name for file in settings.run_dir.iterdir()] == [f"{settings.name}-judicators"]
    assert not alive(f"http://{settings.listen}")
    for collector in list(REGISTRY._collector_to_names):
        if type(collector).__name__ == "MultiProcessCollector":
            REGISTRY.unregister(collector)


def test_waiting_calls_do_not_hold_up_the_end(settings, judicator):
    waiting = threading.Event()

    def action(base):
        def wait():
            waiting.set()
            with contextlib.suppress(httpx.TransportError):
                httpx.get(
                    f"{base}/api/v1/submissions/{make_task().id}?wait=30",
                    headers={"Authorization": f"Bearer {USER}"}, timeout=40, trust_env=False,
                )  # fmt: skip

        release.clear()
        threading.Thread(target=wait, daemon=True).start()
        wait_for(lambda: [call for call in judicator.asked if call[0] == "get" and call[1].wait], what="a held call")

    release = threading.Event()
    release.set()
    code, _ = run_with(settings, action)
    assert code == 0


def test_a_port_in_use_is_refused_in_one_sentence(settings, work):
    with socket.socket() as listener:
        host, _, port = settings.listen.partition(":")
        listener.bind((host, int(port)))
        listener.listen()
        with pytest.raises(RefusedError, match=f"address {settings.listen} cannot be used: Address already in use"):
            daemon.check_port(settings.listen, wait=0.3)
        path = write_config(settings, work / "gateway.yml")
        code = subprocess.run(
            [sys.executable, "-m", "judge.cli", "gateway", "--config", str(path)],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert code.returncode == 3
    assert "cannot be used" in code.stderr and "Traceback" not in code.stderr


def test_a_port_that_becomes_free_is_waited_for(settings):
    listener = socket.socket()
    host, _, port = settings.listen.partition(":")
    listener.bind((host, int(port)))
    listener.listen()
    timer = threading.Timer(0.5, listener.close)
    timer.start()
    daemon.check_port(settings.listen)
    timer.join()


@pytest.mark.parametrize("program", [b"uwsgi", b"nginx"])
def test_a_server_that_dies_ends_the_daemon(settings, program, caplog):
    def action(_):
        (master,) = [pid for pid in children_of(os.getpid()) if program in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(master, signal.SIGKILL)
        wait_for(lambda: not alive(f"http://{settings.listen}"), what="the end of the server")

    results = []
    thread = threading.Thread(
        target=lambda: (wait_for(lambda: alive(f"http://{settings.listen}")), results.append(action(None)))
    )
    thread.start()
    assert daemon.run(settings, threading.Event()) == 1
    thread.join()
    assert results == [None]
    assert "ended by itself with code -9" in caplog.text


def test_a_uwsgi_that_hangs_is_killed(settings, caplog):
    """The check thread: not serving for `tries` times `interval` means kill it, and the daemon ends for boot to see."""
    settings = settings.model_copy(update={"check": CheckSettings(interval=0.3, tries=20)})

    def freeze():
        wait_for(lambda: alive(f"http://{settings.listen}"))
        children = children_of(os.getpid())
        for pid in [*children, *(child for child_pid in children for child in children_of(child_pid))]:
            if b"uwsgi" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGSTOP)

    thread = threading.Thread(target=freeze)
    thread.start()
    assert daemon.run(settings, threading.Event()) == 1
    thread.join()
    assert "has not answered for 6 s, killing it" in caplog.text


def test_kill_dash_nine_of_the_daemon_leaves_no_server_and_a_new_one_can_start(settings, work):
    path = write_config(settings, work / "gateway.yml")
    command = [sys.executable, "-m", "judge.cli", "gateway", "--config", str(path)]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: alive(f"http://{settings.listen}"))
        masters = children_of(first.pid)
        workers = [pid for master in masters for pid in children_of(master)]
        assert masters and workers
    finally:
        first.kill()
        first.wait()
    with running_gateway(settings, work) as base:
        assert alive(base)
        wait_for(lambda: not any(running(pid) for pid in [*masters, *workers]), what="the end of nginx and uWSGI")


def test_a_second_gateway_on_the_same_port_does_not_harm_the_first(settings, work, judicator):
    with running_gateway(settings, work) as base:
        second_settings = settings.model_copy(update={"name": "second"})
        with pytest.raises(RefusedError):
            daemon.check_port(second_settings.listen, wait=0.1)
        assert alive(base)


def test_unusable_settings_are_refused_before_uwsgi_starts(settings, work):
    with pytest.raises(ConfigError, match=r"none\.yml: cannot be read"):
        daemon.run(settings.model_copy(update={"tokens": work / "none.yml"}), threading.Event())
    with pytest.raises(ConfigError, match="none: cannot be read"):
        daemon.run(settings.model_copy(update={"session_key": work / "none"}), threading.Event())
    with pytest.raises(RefusedError, match="program '/no/uwsgi' was not found"):
        daemon.run(settings.model_copy(update={"binary": "/no/uwsgi"}), threading.Event())
    (work / "file").write_text("")
    with pytest.raises(ConfigError, match=r"run_dir .* cannot be written"):
        daemon.run(settings.model_copy(update={"run_dir": work / "file"}), threading.Event())


def test_a_configured_binary_is_used_unchanged(work):
    own = work / "my-uwsgi"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert daemon.find_uwsgi(str(own)) == own
    assert daemon.find_uwsgi("uwsgi") == Path(sys.executable).parent / "uwsgi"


def test_another_server_on_the_port_is_not_taken_for_uwsgi(work):
    path = work / "x.sock"
    assert not daemon.answers(path)
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(str(path))
        assert not daemon.answers(path)
        odd.listen()

        def babble():
            connection, _ = odd.accept()
            with connection:
                connection.sendall(b"hello\r\n\r\n")

        thread = threading.Thread(target=babble)
        thread.start()
        assert not daemon.answers(path)
        thread.join(10)


def test_the_end_of_the_events_loop_ends_the_daemon(settings, monkeypatch, caplog):
    """Its loop beats; without the beat the gateway does not serve, whatever uWSGI says."""
    settings = settings.model_copy(update={"check": CheckSettings(interval=0.3, tries=20)})
    started = []
    original = daemon.EventServer.start
    monkeypatch.setattr(daemon.EventServer, "start", lambda self: (original(self), started.append(self)))

    def end():
        wait_for(lambda: alive(f"http://{settings.listen}"), what="a serving gateway")
        started[0]._loop.call_soon_threadsafe(started[0]._stop.set)

    thread = threading.Thread(target=end)
    thread.start()
    assert daemon.run(settings, threading.Event()) == 1
    thread.join()
    assert "has not answered for 6 s, killing it" in caplog.text


def test_nginx_accepts_every_configuration(settings):
    settings.run_dir.mkdir(parents=True, exist_ok=True)
    for changes in (
        {},
        {"proxied": True, "listen": f"[::1]:{free_port()}"},
        {"judge0": Judge0(enabled=False)},
        {"judge0": Judge0(prefix="/a.b/c", hosts=["judge0.example.org"], origins=["https://ide.example:8443"])},
        {"judge0": Judge0(guest="visitor", origins=["*"])},
    ):
        config = settings.model_copy(update=changes)
        try:
            command = nginx.command(daemon.find_nginx("nginx"), nginx.prepare(config, 100))
            test = subprocess.run([*command, "-t"], cwd=config.run_dir, capture_output=True, text=True, check=False)
            assert test.returncode == 0, test.stderr
        finally:
            nginx.remove(config)
    assert not [path for path in settings.run_dir.iterdir() if "judicators" not in path.name]
