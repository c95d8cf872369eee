"""boot's systemd backend against a real systemd: the hardened units, with small services in place of the daemons."""

import json
import time

import pytest
import yaml

from tests.support import lab
from tests.support.boot import QUICK
from tests.support.servers import wait_for

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(bool(lab.missing()), reason=lab.missing() or "possible"),
]

SERVICES = ("etcd", "mongodb", "executor")  # of three users; the last one has no address
PORTS = {"etcd": 2379, "mongodb": 27017}


class Host(lab.SystemdHost):
    def __init__(self, directory) -> None:
        super().__init__(directory)
        program = (lab.ROOT / "tests/support/processes/unit_service.py").read_text()
        self.write("/opt/judge/unit_service.py", program)
        for name in SERVICES:
            self.drop_in(
                name, "program",
                f"ExecStart=\nExecStart={lab.python()} /opt/judge/unit_service.py /etc/judge/{name}.json",
            )  # fmt: skip

    def drop_in(self, name: str, section: str, text: str) -> None:
        self.write(f"/etc/systemd/system/judge-{name}.service.d/{section}.conf", f"[Service]\n{text}\n")
        self.run("systemctl", "daemon-reload")

    def fresh(self) -> None:
        """Nothing runs, nothing is remembered."""
        for name in ("boot", *SERVICES):
            self.run("systemctl", "unmask", "--quiet", f"judge-{name}")
            self.run("systemctl", "kill", "--signal=SIGKILL", f"judge-{name}", check=False)
            self.run("systemctl", "stop", f"judge-{name}")
            self.run("systemctl", "reset-failed", f"judge-{name}", check=False)
        for name in ("boot", *SERVICES):
            self.run("rm", "-f", f"/etc/systemd/system/judge-{name}.service.d/test.conf")
        self.run("systemctl", "daemon-reload")
        self.run("sh", "-c", "rm -rf /run/judge/*")
        self.names = list(SERVICES)
        self.settings = {}
        for name in SERVICES:
            self.control(name, **({"port": PORTS[name]} if name in PORTS else {}))
            self.config(name)

    def control(self, name: str, **values) -> None:
        self.write(f"/etc/judge/{name}.json", json.dumps(values))

    def config(self, name: str, **extra) -> None:
        tls = dict.fromkeys(("ca", "cert", "key"), "/etc/judge/none")
        etcd = {"endpoints": ["127.0.0.1:2379"]}
        document = {
            "etcd": {
                "mode": "proxy", "proxy_listen": "127.0.0.1:2379",
                "cluster": {
                    "token": "token-of-tests",
                    "members": [{"name": "m", "peer": "http://127.0.0.1:1", "client": "http://127.0.0.1:2"}],
                },
            },
            "mongodb": {"data_dir": "/var/lib/judge/mongodb", "address": "127.0.0.1:27017", "etcd": etcd},
            "executor": {"work_dir": "/var/lib/judge/executor", "tls": tls, "etcd": etcd},
        }[name]  # fmt: skip
        self.write(f"/etc/judge/{name}.yml", yaml.safe_dump({"name": name, **document, **extra}), 0o600)

    def start(self, **states: str) -> None:
        services = [
            {
                "name": name, "kind": name, "config": f"/etc/judge/{name}.yml", **QUICK,
                **({"serving": f"127.0.0.1:{PORTS[name]}"} if name in PORTS else {}), **self.settings.get(name, {}),
            }
            for name in self.names
        ]  # fmt: skip
        boot = {"name": "host", "backend": "systemd", "interval": 0.2, "services": services}
        self.write("/etc/judge/boot.yml", yaml.safe_dump(boot))
        self.run("systemctl", "start", "judge-boot")
        self.wait(**(states or dict.fromkeys(self.names, "RUNNING")))

    def state(self) -> dict:
        return {service["name"]: service for service in json.loads(self.read("/run/judge/boot.json"))["services"]}

    def wait(self, **states: str) -> dict:
        def reached() -> dict | None:
            try:
                services = self.state()
            except (OSError, ValueError):
                return None
            return services if all(services[name]["state"] == state for name, state in states.items()) else None

        return self.wait_for(reached, str(states))

    def wait_new(self, name: str, pid: int) -> dict:
        def reached() -> dict | None:
            service = self.state()[name]
            return service if service["state"] == "RUNNING" and service["pid"] not in {None, pid} else None

        return self.wait_for(reached, f"{name} runs again")

    def wait_for(self, condition, text: str) -> dict:
        try:
            return wait_for(condition, what=text)
        except AssertionError:
            print(self.log())
            raise

    def pid(self, name: str) -> int:
        return int(self.show(f"judge-{name}", "MainPID"))

    def log(self) -> str:
        return self.run("journalctl", "--no-pager", "--output=cat", "--unit=judge-boot")

    def hold(self, *command: str) -> None:
        code = (
            "import sys; from pathlib import Path; from judge.boot import holds; run = Path('/run/judge');"
            "holds.hold(run, sys.argv[2], 'a test', 60, 'tester') if sys.argv[1] == 'hold' "
            "else holds.release(run, sys.argv[2])"
        )
        packages = "PYTHONPATH=/opt/judge/source:/opt/judge/packages"
        self.run("env", packages, "PYTHONDONTWRITEBYTECODE=1", str(lab.python()), "-c", code, *command)


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    host = Host(tmp_path_factory.mktemp("systemd"))
    yield host
    host.close()


@pytest.fixture
def host(machine):
    machine.fresh()
    since = time.time()
    yield machine
    machine.run("journalctl", "--rotate")
    machine.run("journalctl", f"--vacuum-time={max(1, int(time.time() - since))}s", check=False)


def test_starts_in_order_and_stops_in_reverse(host):
    host.start()
    log = host.log()
    assert log.index("etcd: serves") < log.index("mongodb: starting") < log.index("mongodb: serves")
    assert log.index("mongodb: serves") < log.index("executor: starting") < log.index("executor: serves")
    assert "unit judge-etcd.service, log: journalctl -u judge-etcd.service" in log
    for name, service in host.state().items():
        assert service["pid"] == host.pid(name)
        assert service["status"].startswith("turning as ")
    assert "3 of 3 services run" in host.show("judge-boot", "StatusText")
    host.run("systemctl", "stop", "judge-boot")
    log = host.log()
    assert log.index("executor: stopped") < log.index("mongodb: stopping") < log.index("mongodb: stopped")
    assert log.index("mongodb: stopped") < log.index("etcd: stopping") < log.index("etcd: stopped")
    assert all(host.show(f"judge-{name}", "ActiveState") in {"inactive", "failed"} for name in SERVICES)


def test_the_config_reaches_its_user_and_nobody_else(host):
    host.start()
    modes = host.run("stat", "-c", "%U %G %a", *(f"/run/judge/{name}.yml" for name in SERVICES)).splitlines()
    assert modes == ["root judge-etcd 640", "root judge-mongodb 640", "root root 600"]
    assert host.run("stat", "-c", "%U %a", "/var/lib/judge/mongodb", "/var/lib/judge/executor").splitlines() == [
        "judge-mongodb 700", "root 700",
    ]  # fmt: skip


def test_a_killed_service_is_started_again(host):
    host.start()
    pid = host.pid("mongodb")
    host.run("systemctl", "kill", "--signal=SIGKILL", "judge-mongodb")
    assert host.wait_new("mongodb", pid)["restarts"] == 1
    assert "mongodb: was killed by SIGKILL" in host.log()
    assert host.state()["etcd"]["restarts"] == 0


def test_a_refusal_is_fatal_with_its_last_line_until_released(host):
    host.control("etcd", exit=3, say="data of another cluster; name an empty directory")
    host.start(etcd="FATAL")
    service = host.wait(etcd="FATAL", mongodb="RUNNING")["etcd"]
    assert service["reason"] == "ended with exit code 3: data of another cluster; name an empty directory"
    host.control("etcd", port=2379)
    host.hold("release", "etcd")
    host.wait(etcd="RUNNING")


def test_too_many_ends_are_fatal(host):
    host.control("executor", exit=1, say="no luck today")
    host.start(executor="FATAL")
    assert (
        host.state()["executor"]["reason"] == "gave up after 3 failures in a row: ended with exit code 1: no luck today"
    )


def test_an_end_without_a_fault_is_restarted_too(host):
    host.control("executor", exit=0)
    host.start(executor="FATAL")
    assert host.state()["executor"]["restarts"] == 2


def test_a_stuck_loop_is_ended_by_systemd_and_counted(host):
    host.drop_in("executor", "test", "WatchdogSec=1")
    host.start()
    pid = host.pid("executor")
    host.control("executor", beat=False)
    wait_for(lambda: host.state()["executor"]["restarts"] >= 1, what="the watchdog")
    host.control("executor")
    host.wait_new("executor", pid)
    assert "executor: was killed by SIGABRT: systemd's watchdog ended it, as its loop made no progress" in host.log()


def test_a_service_that_does_not_serve_is_killed_and_restarted(host):
    host.start()
    pid = host.pid("etcd")
    host.control("etcd", port=2379, serve=False)
    wait_for(lambda: host.pid("etcd") != pid, what="the kill")
    host.control("etcd", port=2379)
    host.wait_new("etcd", pid)
    assert "2 of 2 checks: killing it" in host.log()


def test_a_restart_by_a_person_may_take_its_time(host):
    """Slow to end, and slow to serve: both longer than a service that serves may be silent."""
    host.control("etcd", port=2379, linger=1.5, late=1.5)
    host.start()
    pid = host.pid("etcd")
    host.run("systemctl", "restart", "judge-etcd")
    fresh = host.pid("etcd")
    assert host.show("judge-etcd", "NRestarts") == "0"
    host.wait_new("etcd", pid)
    wait_for(lambda: host.log().count("etcd: serves, ") == 2, what="that it serves again")
    assert host.pid("etcd") == fresh != pid and "killing it" not in host.log()
    assert "etcd: was started anew, not by boot" in host.log()


def test_a_start_that_does_not_get_ready_is_killed(host):
    host.settings["executor"] = {"start_timeout": 0.5}
    host.control("executor", ready=False)
    host.start(etcd="RUNNING", mongodb="RUNNING")
    wait_for(lambda: host.state()["executor"]["restarts"] >= 1, what="another start")
    assert "does not serve (it has not said yet that it is ready), 2 of 2 checks: killing it" in host.log()
    host.control("executor")
    host.wait(executor="RUNNING")


def test_a_service_deaf_to_sigterm_is_killed_after_its_grace(host):
    host.control("executor", deaf=True)
    host.start()
    host.run("systemctl", "stop", "judge-boot")
    assert "executor: did not end in time, killing it" in host.log()
    assert host.show("judge-executor", "Result") == "signal"


def test_a_killed_boot_comes_back_and_finds_its_services(host):
    host.start()
    pids = {name: host.pid(name) for name in SERVICES}
    boot = host.pid("boot")
    host.run("systemctl", "kill", "--signal=SIGKILL", "judge-boot")
    wait_for(lambda: host.pid("boot") not in {0, boot}, what="a new boot")
    wait_for(lambda: host.log().count("executor: found running from before, adopted") == 1, what="the adoption")
    host.wait(etcd="RUNNING", mongodb="RUNNING", executor="RUNNING")
    assert {name: host.pid(name) for name in SERVICES} == pids


def test_a_config_that_changed_while_boot_was_away_replaces_the_service(host):
    host.drop_in("boot", "test", "Restart=no")
    host.start()
    pids = {name: host.pid(name) for name in SERVICES}
    host.run("systemctl", "kill", "--signal=SIGKILL", "judge-boot")
    wait_for(lambda: host.show("judge-boot", "ActiveState") == "failed", what="the end of boot")
    host.config("mongodb", cache_gib=0.5)
    host.run("systemctl", "start", "judge-boot")
    host.wait_new("mongodb", pids["mongodb"])
    assert "mongodb: runs with an older config, replacing it" in host.log()
    assert (host.pid("etcd"), host.pid("executor")) == (pids["etcd"], pids["executor"])


def test_a_hold_keeps_boot_away_also_when_it_stops(host):
    host.start()
    host.hold("hold", "mongodb")
    host.wait(mongodb="HELD")
    host.run("systemctl", "stop", "judge-mongodb")
    assert "held by tester" in host.wait(mongodb="HELD", etcd="RUNNING")["mongodb"]["reason"]
    host.run("systemctl", "start", "judge-mongodb")
    host.run("systemctl", "stop", "judge-boot")
    assert host.show("judge-mongodb", "ActiveState") == "active"
    assert host.show("judge-etcd", "ActiveState") in {"inactive", "failed"}


def test_a_masked_unit_is_fatal_at_once(host):
    host.run("mv", "/etc/systemd/system/judge-executor.service", "/etc/judge/aside")
    host.run("systemctl", "mask", "--runtime", "--quiet", "judge-executor")
    try:
        host.start(executor="FATAL")
        assert "systemd does not start it: " in host.state()["executor"]["reason"]
        assert "masked" in host.state()["executor"]["reason"]
    finally:
        host.run("systemctl", "unmask", "--runtime", "--quiet", "judge-executor")
        host.run("mv", "/etc/judge/aside", "/etc/systemd/system/judge-executor.service")
        host.run("systemctl", "daemon-reload")


def test_a_program_that_cannot_be_started_says_where_to_look(host):
    host.drop_in("executor", "test", "ExecStart=\nExecStart=/opt/judge/nothing")
    host.start(executor="FATAL")
    assert "ended with exit code 203: systemd could not start its program" in host.state()["executor"]["reason"]


def test_a_stuck_boot_is_ended_and_restarted_by_systemd(host):
    host.drop_in("boot", "test", "WatchdogSec=1")
    host.start()
    boot, etcd = host.pid("boot"), host.pid("etcd")
    host.run("systemctl", "kill", "--signal=SIGSTOP", "judge-boot")
    wait_for(lambda: host.pid("boot") not in {0, boot}, what="a new boot")
    host.wait(etcd="RUNNING", mongodb="RUNNING", executor="RUNNING")
    assert host.pid("etcd") == etcd


def test_a_fault_in_boots_config_waits_for_a_person(host):
    host.write("/etc/judge/boot.yml", "name: host\nbackend: systemd\nservices: []\n")
    host.run("systemctl", "start", "judge-boot", check=False)
    wait_for(lambda: host.show("judge-boot", "ActiveState") == "failed", what="the end of boot")
    assert host.show("judge-boot", "ExecMainStatus") == "2"
    assert "boot.yml:3: services" in host.log()
