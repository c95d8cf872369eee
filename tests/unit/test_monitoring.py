"""Alerts and dashboards against the metrics that there are; each alert is tried by promtool, Prometheus' own."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "roles/judge_monitor/files/judge.rules.yml"
TESTS = ROOT / "tests/monitoring/judge.rules.test.yml"
BOARDS = sorted((ROOT / "docs/monitoring").glob("*.json"))
SUFFIXES = {"Counter": ("_total",), "Gauge": ("",), "Histogram": ("_bucket", "_sum", "_count"), "Metric": ("_total",)}
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")


def metrics() -> set[str]:
    """The names of all series that the code makes, by its own declarations."""
    found: set[str] = set()
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
                    base = str(name.value).removesuffix("_total") if node.func.id != "Gauge" else str(name.value)
                    found |= {base + suffix for suffix in SUFFIXES[node.func.id]}
    return found


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


def test_what_is_asked_for_is_there() -> None:
    known = metrics()
    assert {"judge_queue", "judge_tasks_completed_total", "judge_rpc_seconds_bucket"} <= known
    for where, expression in expressions():
        missing = set(re.findall(r"\bjudge_\w+", expression)) - known
        assert not missing, (where, missing)


def test_every_alert_is_tried_both_ways() -> None:
    names = [str(rule["alert"]) for rule in alerts()]
    tests = yaml.safe_load(TESTS.read_text())["tests"]
    quiet = {one["alertname"] for test in tests for one in test.get("alert_rule_test", []) if not one.get("exp_alerts")}
    firing = set(re.findall(r'alertname="(\w+)"', TESTS.read_text()))
    assert sorted(names) == sorted(quiet) == sorted(firing)
    for rule in alerts():
        assert rule["annotations"].keys() == {"summary", "what"} and rule["labels"]  # type: ignore[attr-defined]


@promtool
def test_the_alerts_fire_when_they_should() -> None:
    done = subprocess.run(["promtool", "test", "rules", str(TESTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("board", BOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_one_source_and_has_room_for_all(board: Path) -> None:
    found = json.loads(board.read_text())
    assert found["uid"].startswith("judge-") and [one["name"] for one in found["templating"]["list"]] == ["source"]
    taken: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        assert panel["datasource"]["uid"] == "${source}" and panel["title"] and panel["targets"]
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and max(x for x, _ in cells) < 24
        taken |= cells
