"""Alerts and dashboards against the metrics that there are; each alert is tried by promtool, Prometheus' own."""

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
import yaml

from plugins.filter.judge_inventory import judge_metrics_targets, judge_unread
from tests.support.ansible import LOCAL, ansible
from tests.support.servers import program

ROOT = Path(__file__).parents[2]
RULES = ROOT / "roles/judge_monitor/files/judge.rules.yml"
TESTS = ROOT / "tests/monitoring/judge.rules.test.yml"
DAYS = ROOT / "tests/monitoring/days.rules.test.yml"
BOARDS = sorted((ROOT / "docs/monitoring").glob("*.json"))
SUFFIXES = {
    "Counter": ("_total",), "Gauge": ("",), "GaugeMetricFamily": ("",), "Histogram": ("_bucket", "_sum", "_count"),
    "Metric": ("_total",),
}  # fmt: skip
PROMTOOL = program("promtool")
promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing; scripts/install-packages test")


def metrics() -> set[str]:
    names: set[str] = set()
    for path in (ROOT / "judge").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in SUFFIXES
                and node.args
            ):
                name = node.args[0]
                if isinstance(name, ast.Constant) and str(name.value).startswith("judge_"):
                    base = str(name.value).removesuffix("_total") if "Gauge" not in node.func.id else str(name.value)
                    names |= {base + suffix for suffix in SUFFIXES[node.func.id]}
    return names


def alerts() -> list[dict[str, object]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    """(where, what) of every expression that people see."""
    for rule in alerts():
        yield str(rule["alert"]), str(rule["expr"])
    for board in BOARDS:
        for panel in json.loads(board.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{board.name}: {panel['title']}", target["expr"]


def test_every_expression_names_existing_metrics() -> None:
    series = metrics()
    assert {"judge_queue", "judge_tasks_completed_total", "judge_rpc_seconds_bucket"} <= series
    for place, expression in expressions():
        missing = set(re.findall(r"\bjudge_\w+", expression)) - series
        assert not missing, (place, missing)


def test_every_alert_is_tried_both_ways() -> None:
    names = [str(rule["alert"]) for rule in alerts()]
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    quiet = {
        case["alertname"] for test in tests for case in test.get("alert_rule_test", []) if not case.get("exp_alerts")
    }
    firing = set(re.findall(r'alertname="(\w+)"', TESTS.read_text() + DAYS.read_text()))
    assert sorted(names) == sorted(quiet) == sorted(firing)
    for rule in alerts():
        assert rule["labels"]


def test_every_alert_leads_to_a_section_that_says_what_to_do() -> None:
    page = (ROOT / "docs/runbook.md").read_text()
    sections = {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): text
        for title, text in re.findall(r"^## ([^\n]+)\n(.+?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    }
    assert len(sections) > 15
    for rule in alerts():
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        assert annotations.keys() == {"summary", "description", "runbook_url"} and all(annotations.values())
        place, _, anchor = annotations["runbook_url"].partition("#")
        assert place == "docs/runbook.md"
        assert f"`{rule['alert']}`" in sections[anchor], rule["alert"]
    assert set(re.findall(r"`(Judge[A-Z]\w+)`", page)) == {rule["alert"] for rule in alerts()}
    table = (ROOT / "docs/monitoring.md").read_text()
    assert set(re.findall(r"`(Judge[A-Z]\w+)`", table)) == {rule["alert"] for rule in alerts()}


def check_with_promtool(*words: str | Path) -> None:
    process = subprocess.run([PROMTOOL, *words], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


@promtool
def test_the_alerts_fire_when_they_should() -> None:
    check_with_promtool("test", "rules", TESTS, DAYS)


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_one_source_and_has_room_for_all(board: Path) -> None:
    dashboard = json.loads(board.read_text())
    assert dashboard["uid"].startswith("judge-") and [
        variable["name"] for variable in dashboard["templating"]["list"]
    ] == ["source"]
    occupied: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        assert panel["datasource"]["uid"] == "${source}" and panel["title"] and panel["targets"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & occupied and max(x for x, _ in cells) < 24
        occupied |= cells


def rendered(directory: Path, **variables: object) -> str:
    """prometheus.yml of a cluster of two hosts, one of them with an IPv6 address; its files are empty ones."""
    template = ROOT / "roles/judge_monitor/templates/prometheus.yml.j2"
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, autoescape=False)
    environment.filters |= {"to_json": json.dumps, "judge_metrics_targets": judge_metrics_targets}
    for name in ("ca.crt", "monitor.crt", "monitor.key"):
        (directory / name).touch()
    (directory / "judge.rules.yml").write_text(RULES.read_text())
    hostvars: dict[str, dict[str, str]] = {
        "j1": {"ansible_host": "fd00::1", "judge_judicator_metrics": "[::]:9401", "judge_etcd_metrics": "0.0.0.0:9402"},
        "e1": {
            "judge_address": "10.0.0.2",
            "judge_executor_metrics": "0.0.0.0:9403",
            "judge_etcd_metrics": "",
            "judge_boot_metrics": "0.0.0.0:9404",
        },
    }
    values = {
        "judge_monitor_interval": "15s",
        "judge_monitor_directory": str(directory),
        "judge_monitor_alertmanagers": [],
        "judge_monitor_scrape_configs": [],
        "groups": {"judicators": ["j1"], "executors": ["e1", "j1"]},
        "hostvars": hostvars,
        **variables,
    }
    return environment.from_string(template.read_text()).render(values)


def test_one_switch_makes_all_daemons_serve_metrics_on_fixed_ports(tmp_path: Path) -> None:
    hosts = {
        "j1": {"ansible_host": "10.0.0.1", "judge_metrics": True},
        "e1": {"ansible_host": "10.0.0.2", "judge_metrics": "yes", "judge_executor_metrics": "10.0.0.2:9000"},
        "g1": {"ansible_host": "10.0.0.3", "judge_metrics": True, "judge_etcd_metrics": ""},
        "g2": {"ansible_host": "10.0.0.4"},
    }
    groups = {"judicators": ["j1"], "executors": ["e1"], "gateways": ["g1", "g2"]}
    job = yaml.safe_load(rendered(tmp_path, hostvars=hosts, groups=groups))["scrape_configs"][0]
    targets = {tuple(entry["labels"].values()): entry["targets"] for entry in job["static_configs"]}
    assert targets == {
        ("boot", "j1"): ["10.0.0.1:9400"],
        ("etcd", "j1"): ["10.0.0.1:9401"],
        ("mongodb", "j1"): ["10.0.0.1:9402"],
        ("judicator", "j1"): ["10.0.0.1:9403"],
        ("boot", "e1"): ["10.0.0.2:9400"],
        ("etcd", "e1"): ["10.0.0.2:9401"],
        ("executor", "e1"): ["10.0.0.2:9000"],
        ("boot", "g1"): ["10.0.0.3:9400"],
        ("gateway", "g1"): ["10.0.0.3:9405"],
    }


@pytest.mark.parametrize("extended", [False, True])
def test_the_role_names_every_daemon_that_serves_metrics_once(tmp_path: Path, *, extended: bool) -> None:
    extra = {"job_name": "node", "static_configs": [{"targets": ["10.0.0.2:9100"]}]}
    settings = (
        {"judge_monitor_alertmanagers": ["10.0.0.9:9093"], "judge_monitor_scrape_configs": [extra]} if extended else {}
    )
    config = yaml.safe_load(rendered(tmp_path, **settings))
    job = config["scrape_configs"][0]
    assert job["scheme"] == "https" and job["tls_config"]["cert_file"].endswith("monitor.crt")
    assert [(target["targets"], target["labels"]["service"]) for target in job["static_configs"]] == [
        (["[fd00::1]:9402"], "etcd"),
        (["[fd00::1]:9401"], "judicator"),
        (["10.0.0.2:9404"], "boot"),
        (["10.0.0.2:9403"], "executor"),
    ]
    assert (config["scrape_configs"][1:] == [extra]) == extended


@promtool
def test_prometheus_takes_what_the_role_writes(tmp_path: Path) -> None:
    config = tmp_path / "prometheus.yml"
    config.write_text(rendered(tmp_path))
    # The files of the certificate are looked at, so these are empty and the syntax alone counts.
    check_with_promtool("check", "config", "--syntax-only", config)


@pytest.mark.parametrize(("address", "listens"), [("10.0.0.9:9090", "10.0.0.9:9090"), ("", "127.0.0.1:9090")])
def test_prometheus_answers_on_the_address_of_the_inventory_alone(address: str, listens: str) -> None:
    template = ROOT / "roles/judge_monitor/templates/prometheus.service.conf.j2"
    text = jinja2.Template(template.read_text()).render(judge_monitor_address=address)
    assert text.splitlines()[2:] == [
        "ExecStart=",
        f"ExecStart=/usr/bin/prometheus $ARGS --web.listen-address={listens}",
    ]
    assert yaml.safe_load((ROOT / "roles/judge_monitor/defaults/main.yml").read_text())["judge_monitor_address"] == (
        "127.0.0.1:9090"
    )


def test_unread_targets_are_named() -> None:
    def target(service: str, health: str, fault: str = "") -> dict[str, object]:
        return {"labels": {"service": service, "host": "e1"}, "health": health, "lastError": fault}

    targets = [target("executor", "down", "connection refused"), target("etcd", "up"), target("boot", "unknown")]
    assert judge_unread(targets) == ["boot of e1 (not tried yet)", "executor of e1 (connection refused)"]


@promtool
def test_a_prometheus_of_one_s_own_takes_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/playbooks/monitor.md").read_text()
    (block,) = (text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if "file_sd_configs" in text)
    (tmp_path / "prometheus.yml").write_text(block)
    check_with_promtool("check", "config", "--syntax-only", tmp_path / "prometheus.yml")


def test_a_prometheus_of_one_s_own_keeps_its_config(tmp_path: Path) -> None:
    hosts = {"judicators": {"hosts": {"j1": {"judge_judicator_metrics": "0.0.0.0:9401", "ansible_host": "10.0.0.1"}}}}
    (tmp_path / "hosts.yml").write_text(json.dumps({**hosts, "monitors": {"hosts": {"m1": LOCAL}}}))
    tasks = yaml.safe_load((ROOT / "roles/judge_monitor/tasks/main.yml").read_text())
    (place,) = (task for task in tasks if task.get("register") == "judge_monitor_placed")
    (tmp_path / "files").mkdir()
    (tmp_path / "files/judge.rules.yml").write_text(RULES.read_text())
    (tmp_path / "templates").symlink_to(ROOT / "roles/judge_monitor/templates")
    (tmp_path / "play.yml").write_text(json.dumps([{"hosts": "monitors", "gather_facts": False, "tasks": [place]}]))
    variables = {
        "judge_monitor_config": "",
        "judge_monitor_directory": str(tmp_path / "judge"),
        "judge_monitor_runbook": "https://docs.example.org/runbook.html",
    }
    options = ["--check", "--diff", "-e", json.dumps(variables)]
    process = ansible("playbook", "-i", tmp_path / "hosts.yml", tmp_path / "play.yml", *options)
    assert process.returncode == 0, process.stdout + process.stderr
    paths = re.findall(rf"^\+\+\+ after: (?:{tmp_path}/)?(.+)$", process.stdout, re.MULTILINE)
    assert paths == ["judge/judge.rules.yml", "judge/judge.targets.json"], process.stdout
    links = re.findall(r"^\+ *runbook_url: (.+)#", process.stdout, re.MULTILINE)
    assert links == ["https://docs.example.org/runbook.html"] * len(alerts())
    (targets,) = re.findall(r"^\+(\[.*\])$", process.stdout, re.MULTILINE)
    assert json.loads(targets) == [
        {"targets": ["10.0.0.1:9401"], "labels": {"service": "judicator", "host": "j1"}}
    ]  # fmt: skip
