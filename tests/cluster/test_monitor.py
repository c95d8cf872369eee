"""Prometheus of Debian over a deployed cluster, its alerts, the trace of a submission, and logs for machines.

A small cluster of its own, whose inventory asks for all of that from the start, and a bare host for Prometheus.
"""

import json
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.lab import ROOT, Figure, Site, bare_hosts, bundle, lab_marks
from tests.support.receivers import SpanReceiver, receiving_spans
from tests.support.servers import wait_for
from tests.unit.test_monitoring import expressions

pytestmark = lab_marks(1800)
HOSTS = ("j1", "e1", "g1", "m1")
DAEMONS = {
    ("j1", "etcd"), ("j1", "mongodb"), ("j1", "judicator"), ("e1", "etcd"), ("e1", "executor"), ("g1", "etcd"),
    ("g1", "gateway"), ("j1", "boot"), ("e1", "boot"), ("g1", "boot"),
}  # fmt: skip
OTLP = 4318
HELLO = ROOT / "examples/problems/hello/submissions/accepted/hello.c"
PLAYBOOK = "playbooks/monitor.yml"


def settings(network: str) -> dict[str, object]:
    return {
        "judge_metrics": True,
        "judge_monitor_interval": "2s",
        "judge_otlp": f"http://{network}.1:{OTLP}/v1/traces",
        "judge_log_format": "json",
    }


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The cluster; $JUDGE_TEST_LAB names one that is kept."""
    work = tmp_path_factory.mktemp("site")
    inventory_file = work / "monitors.yml"
    inventory_file.write_text(json.dumps({"monitors": {"hosts": {"m1": {}}}}))
    with bare_hosts(HOSTS, work, software=bundle("monitors", "-i", str(inventory_file))) as hosts:
        inventory = hosts.lab.record.directory / "site"
        inventory.mkdir(exist_ok=True)
        tree = yaml.safe_load((Path(hosts.lab.record.inventory) / "hosts.yml").read_text())
        tree["all"]["vars"] |= settings(hosts.lab.record.network)
        (inventory / "hosts.yml").write_text(yaml.safe_dump(tree, sort_keys=False))
        site = Site(hosts.lab, work, inventory)
        if not (site.secrets / "client.yml").exists():
            site.first = site.site().check()
        yield site


@pytest.fixture(scope="module")
def monitored(site: Site) -> Site:
    if not site.lab.ssh("m1", "ls /etc/prometheus/judge 2>/dev/null; true"):
        site.play(PLAYBOOK).check()
    return site


def prometheus(site: Site, path: str, **parameters: str) -> Any:
    url = httpx.URL(f"http://127.0.0.1:9090/api/v1/{path}", params=parameters)
    program = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
    answer = json.loads(site.lab.ssh("m1", shlex.join(["python3", "-c", program, str(url)])))
    assert answer["status"] == "success", answer
    return answer["data"]


def up(site: Site) -> dict[tuple[str, str], str]:
    """(host, service) -> "1" where Prometheus could read it."""
    series = prometheus(site, "query", query='up{job="judge"}')["result"]
    return {(sample["metric"]["host"], sample["metric"]["service"]): sample["value"][1] for sample in series}


def firing(site: Site) -> set[tuple[str, str]]:
    """(alert, host) of all that fires."""
    alerts = prometheus(site, "alerts")["alerts"]
    return {(row["labels"]["alertname"], row["labels"].get("host", "")) for row in alerts if row["state"] == "firing"}


def submit(site: Site) -> dict[str, Any]:
    result = site.judgectl("submit", "--output", "json", str(HELLO))
    assert result.returncode == 0, result.stdout + result.stderr
    task: dict[str, Any] = json.loads(result.stdout)
    return task


# --- Prometheus ---------------------------------------------------------------------------------------------------


def test_a_bare_host_becomes_one_that_reads_every_daemon(site: Site, figure: Figure) -> None:
    if site.first:
        figure(f"site.yml on three bare hosts: {site.first.seconds:.0f} s")
        assert not site.lab.ssh("m1", "ls /opt/judge /etc/judge 2>/dev/null; true"), "site.yml leaves it alone"
    run = site.rehearsed(PLAYBOOK)
    figure(f"monitor.yml on a bare host: {run.seconds:.0f} s")
    # The other hosts are only asked: for the lock, and whether it may run.
    assert {host for host, *_ in run.changed} == {"m1"}
    again = site.play(PLAYBOOK).check()
    assert again.changed == set(), again.text
    assert up(site) == dict.fromkeys(DAEMONS, "1")
    with pytest.raises(httpx.ConnectError):
        site.within(lambda: httpx.get(f"http://{site.lab.record.address('m1')}:9090/", trust_env=False, timeout=30))


def test_a_change_is_foretold_and_taken_over_without_a_restart(monitored: Site) -> None:
    started = monitored.lab.ssh("m1", "systemctl show -p MainPID prometheus")
    change = ("-e", "judge_monitor_interval=3s")
    preview = monitored.play(PLAYBOOK, "--check", "--diff", *change).check()
    assert "+  scrape_interval: 3s" in preview.text
    assert preview.changed == monitored.play(PLAYBOOK, *change).check().changed
    wait_for(lambda: "scrape_interval: 3s" in prometheus(monitored, "status/config")["yaml"], 30, "the new interval")
    monitored.play(PLAYBOOK).check()
    assert monitored.lab.ssh("m1", "systemctl show -p MainPID prometheus") == started


def test_every_metric_of_dashboards_and_alerts_is_served(monitored: Site) -> None:
    """Names, and the values of labels that are asked for by name, also of what has never happened."""
    submit(monitored)
    assert monitored.judgectl("get", "0" * 24).returncode != 0  # for judge_rpc_errors_total

    def missing() -> set[str]:
        queries: set[str] = set()
        for _, expression in expressions():
            queries |= set(re.findall(r"\bjudge_\w+", expression))
            queries |= set(re.findall(r'judge_\w+\{\w+="[^"]*"\}', expression))
        return {expression for expression in queries if not prometheus(monitored, "query", query=expression)["result"]}

    wait_for(lambda: not missing(), 60, f"all of them; missing: {missing()}")
    for _, expression in expressions():
        prometheus(monitored, "query", query=expression)  # it can be evaluated
    rules = prometheus(monitored, "rules")["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} == {"ok"}


def test_an_alert_fires_when_a_service_stops_and_clears(monitored: Site, figure: Figure) -> None:
    wait_for(lambda: not firing(monitored), 120, "silence")
    monitored.lab.ssh("e1", "systemctl stop judge-boot judge-executor")
    began = time.monotonic()
    try:
        refused = monitored.play(PLAYBOOK)
        assert refused.code != 0 and re.search("Prometheus on m1 cannot read: .*executor of e1 [(]", refused.text)
        wait_for(lambda: ("JudgeServiceDown", "e1") in firing(monitored), 420, "the alert")  # after five minutes
        figure(f"the alert of a stopped executor: after {time.monotonic() - began:.0f} s")
        assert {daemon for daemon, read in up(monitored).items() if read == "0"} == {
            ("e1", name) for name in ("boot", "etcd", "executor")
        }
    finally:
        monitored.lab.ssh("e1", "systemctl start judge-boot")
    wait_for(lambda: not any(name == "JudgeServiceDown" for name, _ in firing(monitored)), 120, "its end")
    submit(monitored)


# --- the trace ----------------------------------------------------------------------------------------------------


def test_a_submission_is_one_trace_of_three_hosts(site: Site) -> None:
    receiver = site.within(lambda: SpanReceiver("0.0.0.0", OTLP))
    names = ["POST /api/v1/submissions", "hand in", "queue", "judge", "attempt", "run in the sandbox"]
    with receiving_spans(receiver):
        trace = submit(site)["trace"]

        def of_it() -> dict[str, tuple[str, Any]]:
            spans = [entry for entry in list(receiver.spans) if entry[1].trace_id.hex() == trace]
            return {span.name: (service, span) for service, span in spans}

        wait_for(lambda: of_it().keys() >= set(names), 90, "all spans")
        entries = of_it()
    of = {name: entries[name][0].removeprefix("judge-") for name in names}
    assert of == dict(zip(names, ["gateway"] * 2 + ["judicator"] * 2 + ["executor"] * 2, strict=True))
    begun = [entries[name][1].span_id for name in names]
    parents = [entries[name][1].parent_span_id for name in names]
    assert parents[1:] == [begun[0], begun[1], begun[1], begun[3], begun[4]]


# --- logs for machines ----------------------------------------------------------------------------------------------


def lines(site: Site, host: str) -> dict[str, list[str]]:
    """All that the units of judge have written into a host's journal since it is there, by unit."""
    output = site.lab.ssh(host, "journalctl --output=json --output-fields=_SYSTEMD_UNIT,MESSAGE --no-pager")
    lines_of: dict[str, list[str]] = {}
    for entry in map(json.loads, output.splitlines()):
        if entry.get("_SYSTEMD_UNIT", "").startswith("judge-"):
            lines_of.setdefault(entry["_SYSTEMD_UNIT"].removesuffix(".service"), []).append(entry["MESSAGE"])
    return lines_of


def test_every_line_is_json_when_that_is_asked_for(site: Site, figure: Figure) -> None:
    """Also of starts and ends, of servers that were killed, and of what makes backups."""
    task = submit(site)
    site.lab.ssh("j1", "systemctl start judge-backup; pkill -9 -x mongod; pkill -9 -x etcd; true")
    site.lab.ssh("g1", "pkill -9 -x uwsgi; true")
    site.lab.ssh("e1", "systemctl restart judge-executor; systemctl restart judge-boot")
    wait_for(lambda: site.judgectl("submit", str(HELLO)).returncode == 0, 120, "a cluster that judges")
    logs = {host: lines(site, host) for host in HOSTS[:3]}
    assert logs["j1"].keys() == {"judge-boot", "judge-etcd", "judge-mongodb", "judge-judicator", "judge-backup"}
    assert logs["e1"].keys() == {"judge-boot", "judge-etcd-proxy", "judge-executor"}
    assert logs["g1"].keys() == {"judge-boot", "judge-etcd-proxy", "judge-gateway"}
    every = [(host, unit, line) for host, units in logs.items() for unit, texts in units.items() for line in texts]
    figure(f"{len(every)} lines")
    of_task = set()
    for host, unit, line in every:
        assert isinstance(line, str) and line.startswith("{"), (host, unit, line)
        entry = json.loads(line)
        assert entry.keys() >= {"time", "level", "logger", "message"}, (host, unit, line)
        assert "traceback" not in entry, (host, unit, entry["traceback"])
        if entry.get("task") == task["id"]:
            assert entry.get("trace") == task["trace"], line
            of_task.add(unit)
    assert of_task >= {"judge-judicator", "judge-executor"}


# --- what happens to a monitor later --------------------------------------------------------------------------------


def of_monitor(site: Site) -> dict[str, str]:
    directory = "/etc/prometheus/judge"
    return {name: site.lab.ssh("m1", f"cat {directory}/{name}") for name in ("ca.crt", "monitor.crt", "monitor.key")}


def test_certificates_of_monitors_are_renewed_with_the_others(monitored: Site) -> None:
    before = of_monitor(monitored)
    monitored.rehearsed("playbooks/renew.yml", "-e", "judge_pki_renew_all=true")
    after = of_monitor(monitored)
    assert after["ca.crt"] == before["ca.crt"] and after["monitor.crt"] != before["monitor.crt"]
    wait_for(lambda: up(monitored) == dict.fromkeys(DAEMONS, "1"), 60, "Prometheus reads on")


def test_monitors_follow_a_new_authority(monitored: Site) -> None:
    before = of_monitor(monitored)
    monitored.rehearsed("playbooks/rotate.yml", "-e", "judge_rotate=ca")
    after = of_monitor(monitored)
    assert after["ca.crt"].strip() == (monitored.secrets / "pki/ca.crt").read_text().strip() != before["ca.crt"].strip()
    assert after["monitor.crt"] != before["monitor.crt"]
    wait_for(lambda: up(monitored) == dict.fromkeys(DAEMONS, "1"), 60, "Prometheus reads on")
    assert monitored.play(PLAYBOOK).check().changed == set()


def test_a_reset_takes_monitors_away_too(monitored: Site) -> None:
    """The last test of this cluster."""
    monitored.rehearsed("playbooks/reset.yml", "-e", "confirm=judge")
    listing = "ls -d /etc/prometheus /var/lib/prometheus /opt/judge /etc/judge /var/lib/judge 2>/dev/null; true"
    assert monitored.lab.ssh("m1", listing) == ""
    assert monitored.lab.ssh("m1", "dpkg-query -W -f '${db:Status-Status}' prometheus 2>/dev/null; true") in {
        "",
        "not-installed",
    }
