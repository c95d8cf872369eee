"""What nobody may bring in by the way: ignored errors, skipped rules, unchecked downloads, tasks that show a secret."""

import configparser
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.ansible import NAMES, options, plugin

ROOT = Path(__file__).resolve().parents[2]
DEPLOYMENT = ("roles", "playbooks", "molecule", "inventory/example", "plugins", "systemd", "lab", "site.yml")
FORBIDDEN = [
    r"\bignore_errors\s*:", r"\bignore_unreachable\s*:", r"failed_when:\s*(false|no|\[\])\s*$",
    r"no_log:\s*(false|no)\b", r"run_once:\s*(false|no)\b",
    r"validate_certs:\s*(false|no)\b", r"state:\s*latest\b", r"allow_unauthenticated",
    r"curl[^\n]*\|\s*(ba)?sh\b", r"\[?trusted=yes", r"StrictHostKeyChecking[ =]+(no|accept-new)",
]  # fmt: skip
# apt takes the bundle's own index without a signature: every file of it has been compared with the manifest.
EXCEPT = {
    ("judge_apt.py", r"\[?trusted=yes"),
    # They work with the hosts that are left, or refuse the run, and say which do not answer.
    *(
        (f"{verb}.yml", r"\bignore_unreachable\s*:")
        for verb in ("absent", "answers", "backup", "recover", "remove", "replace", "stop")
    ),
}


@functools.cache
def files() -> list[Path]:
    return sorted(
        path
        for top in DEPLOYMENT
        for path in ([ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )


def yaml_files() -> list[Path]:
    return [path for path in files() if path.suffix in {".yml", ".yaml"}]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_nothing_is_ignored_or_left_unchecked(pattern: str) -> None:
    matches = [
        f"{name(path)}: {match[0]}"
        for path in files()
        if (path.name, pattern) not in EXCEPT
        for match in re.finditer(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert matches == []


def looked_at(tasks: list[dict[str, Any]], fatal: bool) -> Iterator[tuple[str, bool]]:
    """The names of results, each with whether the run ends where its host does not answer."""
    for task in tasks:
        ends = task.get("any_errors_fatal", fatal)
        if "register" in task:
            yield task["register"], ends
        for part in ("block", "rescue", "always"):
            yield from looked_at(task.get(part, []), ends)


def test_a_host_that_may_be_missing_ends_no_run() -> None:
    """Ansible ends a play whose errors are fatal for a host that does not answer, also where that is ignored."""
    checked = 0
    for path in yaml_files():
        text = path.read_text(encoding="utf-8")
        names = set(re.findall(r"\b(\w+) is (?:not )?unreachable\b", text))
        if not names:
            continue
        content = yaml.safe_load(text)
        plays = content if "hosts" in content[0] else [{"tasks": content, "any_errors_fatal": True}]
        for play in plays:
            for result, ends in looked_at(play.get("tasks", []), play.get("any_errors_fatal", False)):
                checked += result in names
                assert not (result in names and ends), f"{name(path)}: {result}"
    assert checked >= 5


def files_with_secrets(item: Any) -> Iterator[dict[str, Any]]:
    if isinstance(item, dict):
        if item.get("secret") is True and "mode" in item:
            yield item
        item = list(item.values())
    for part in item if isinstance(item, list) else []:
        yield from files_with_secrets(part)


def test_no_file_with_a_secret_can_be_read_by_everybody_on_its_host() -> None:
    items = [item for path in yaml_files() for item in files_with_secrets(yaml.safe_load(path.read_text("utf-8")))]
    assert len(items) >= 8
    assert [item for item in items if not re.fullmatch("0?[0-7][0-7]0", item["mode"])] == []


def test_no_rule_of_the_linters_is_switched_off() -> None:
    """The strictest profile, no rule skipped or only warned of, and no file or line that excepts itself."""
    settings = yaml.safe_load((ROOT / ".ansible-lint").read_text())
    assert (settings["profile"], settings["strict"]) == ("production", True)
    assert settings["skip_list"] == [] == settings["warn_list"]
    assert not {"enable_list", "mock_roles", "mock_modules", "rulesdir"} & settings.keys()
    assert not {"roles/", "playbooks/", "site.yml", "inventory/"} & set(settings["exclude_paths"])
    assert not list(ROOT.glob("**/.ansible-lint-ignore"))
    assert yaml.safe_load((ROOT / ".yamllint").read_text())["extends"] == "default"
    for path in yaml_files():
        assert not re.search(r"#\s*(noqa|yamllint)\b", path.read_text(encoding="utf-8")), name(path)


def test_host_keys_are_checked_and_nobody_hides_a_warning() -> None:
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(ROOT / "ansible.cfg")
    for option in ("host_key_checking", "deprecation_warnings", "system_warnings", "no_log", "display_args_to_stdout"):
        assert not settings.has_option("defaults", option), f"{option} keeps its default"


def tasks(items: Any) -> Iterator[dict[str, Any]]:
    for item in items if isinstance(items, list) else []:
        inner = [item.get(key) for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers")]
        if not any(inner):
            yield item
        for part in inner:
            yield from tasks(part)


def secret_words() -> re.Pattern[str]:
    """Whatever holds a secret: the files that the controller makes, those of the hosts, and the digests of tokens."""
    names = [re.escape(name) for name in plugin("action", "judge_cluster").SECRETS]
    return re.compile("|".join([*names, r"ca\.passphrase", r"ca\.key", r"\.password\b", r"tokens\.yml", r"Bearer"]))


def test_a_task_that_touches_a_secret_says_nothing() -> None:
    """By its words, wherever it is: a task that names a secret has `no_log: true`, an item of judge_place `secret`."""
    word, touched = secret_words(), 0
    for path in [*(ROOT / "roles").glob("*/tasks/*.yml"), *(ROOT / "playbooks").rglob("*.yml")]:
        for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8"))):
            placed = task.get("judge_place", {}).get("items", [])
            for item in placed if isinstance(placed, list) else []:
                if word.search(yaml.safe_dump(item)):
                    touched += 1
                    assert item.get("secret") is True, f"{name(path)}: {item['path']}"
            arguments = {key: value for key, value in task.items() if key not in {"name", "vars", "register"}}
            if word.search(yaml.safe_dump(arguments)) and not placed:
                touched += 1
                assert task.get("no_log") is True, f"{name(path)}: {task['name']}"
    assert touched >= 7, "the search still finds those that there are"


def test_the_search_for_such_tasks_finds_one_in_a_block() -> None:
    text = "- block:\n    - name: x\n      copy: {src: '{{ judge_secrets_dir }}/session.key'}\n- name: y\n"
    matching = [task for task in tasks(yaml.safe_load(text)) if secret_words().search(yaml.safe_dump(task))]
    assert [task["name"] for task in matching] == ["x"]


@pytest.mark.parametrize("role", sorted(path.name for path in (ROOT / "roles").iterdir()))
def test_every_role_says_what_it_takes(role: str) -> None:
    """Specification, defaults and a page; names of its own begin with its own name."""
    home = ROOT / "roles" / role
    for file in ("meta/argument_specs.yml", "meta/main.yml", "defaults/main.yml", "README.md"):
        assert (home / file).is_file(), f"{role}: {file}"
    for path in (home / "vars").glob("*.yml"):
        assert all(key.startswith(f"{role}_") for key in yaml.safe_load(path.read_text())), path
    for path in (home / "tasks").glob("*.yml"):
        for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8"))):
            assert task.get("register", f"{role}_").startswith(f"{role}_"), f"{name(path)}: {task['name']}"


def test_no_variable_is_documented_and_used_nowhere() -> None:
    documented = {option for role in NAMES for option in options(role)}
    used: set[str] = set()
    for path in [*(ROOT / "roles").rglob("*"), *(ROOT / "playbooks").rglob("*.yml")]:
        if path.is_file() and path.parent.name not in {"meta", "defaults"} and path.name != "README.md":
            used |= set(re.findall(r"\b[a-z]+_[a-z0-9_]+\b", path.read_text(encoding="utf-8")))
    assert documented - used == set()
