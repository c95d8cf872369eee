"""The tables of docs/deploy.md say what roles, units and plug-ins do: ports, users, files, certificates."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from judge.backup import secrets
from tests.support.ansible import module_utils, plugin

ROOT = Path(__file__).resolve().parents[2]
ROLES = ROOT / "roles"
PAGE = (ROOT / "docs/deploy.md").read_text(encoding="utf-8")
GROUPS = ("judicators", "executors", "gateways")
PLACES = {
    key: value
    for key, value in yaml.safe_load((ROLES / "judge_common/vars/main.yml").read_text()).items()
    if isinstance(value, str) and value.startswith("/")
}


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its own head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_ports_are_the_defaults_of_the_roles() -> None:
    defaults = {
        name: option["default"]
        for role in ("judge_common", "judge_gateway")
        for name, option in read(ROLES / role / "meta/argument_specs.yml")["argument_specs"]["main"]["options"].items()
        if name.endswith("_port")
    }
    ports = {quoted(variable)[0]: int(port.split()[0]) for port, variable, *_ in rows("Ports") if quoted(variable)}
    assert ports == defaults


def test_every_host_of_a_group_has_the_ports_that_the_precheck_looks_for() -> None:
    """`judge_precheck_ports_of` is what is taken on a host; the table's column `to` says on which hosts."""
    expected = {
        (group, re.findall(r"judge_\w+_port", port)[0])
        for group, table_ports in read(ROLES / "judge_precheck/vars/main.yml")["judge_precheck_ports_of"].items()
        for port, _ in table_ports
    }
    table_ports, variable = set(), ""
    for _, cell, _, to, *_ in rows("Ports"):
        variable = quoted(cell)[0] if quoted(cell) else variable
        table_ports |= {(group, variable) for group in GROUPS if group in to}
    assert table_ports - {(group, "") for group in GROUPS} == expected


def test_every_metrics_setting_is_named() -> None:
    specs = {path.parents[1].name: read(path)["argument_specs"] for path in ROLES.glob("*/meta/argument_specs.yml")}
    metrics = {name for spec in specs.values() for entry in spec.values() for name in entry.get("options", {})}
    assert {name for name in metrics if name.endswith("_metrics")} == set(re.findall(r"`(\w+_metrics)`", PAGE))


def test_users_are_those_of_the_units() -> None:
    labels = {"etcd-proxy": "proxy", "etcd": "etcd member", "mongodb": "mongod"}
    table = {quoted(user)[0] if quoted(user) else user.split(",")[0]: runs for user, runs, _ in rows("Users")}
    units_of: dict[str, list[str]] = {}
    for path in sorted((ROOT / "systemd").glob("judge-*.service")):
        user = re.search(r"^User=(\S+)", path.read_text(), re.MULTILINE)
        unit = path.stem.removeprefix("judge-")
        units_of.setdefault(user[1] if user else "root", []).append(labels.get(unit, unit))
    assert units_of.keys() == table.keys()
    for user, units in units_of.items():
        assert all(unit in table[user] for unit in units), (user, units, table[user])
    (users,) = {
        tuple(mapping["users"])
        for mapping in dictionaries(read(ROLES / "judge_common/tasks/main.yml"))
        if "users" in mapping
    }
    assert set(users) == units_of.keys() - {"root"}


def dictionaries(tree: Any) -> Iterator[dict[str, Any]]:
    """Every mapping inside of a YAML document."""
    if isinstance(tree, dict):
        yield tree
    for inner in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []:
        yield from dictionaries(inner)


def placed_files() -> dict[str, dict[str, str]]:
    """Every file that a role puts on a host: owner, group and mode by path, with `*` for what varies."""
    files: dict[str, dict[str, str]] = {
        "/opt/judge/bundle": {},
        "/etc/systemd/system/judge-etcd.service": {"mode": "0644"},
    }
    for path in [*ROLES.glob("*/tasks/*.yml"), *ROLES.glob("*/vars/*.yml")]:
        for item in dictionaries(read(path)):
            place = str(item.get("dest") or "")
            if not place.startswith(("/", "{{ judge_common_")) or "src" not in item or item["src"] == "/dev/null":
                continue
            for key, value in (PLACES | {"judge_etcd_service": "etcd"}).items():  # or etcd-proxy
                place = place.replace("{{ " + key + " }}", value)
            attributes = {key: item[key] for key in ("owner", "group", "mode") if key in item}
            files[re.sub(r"\{\{.*?\}\}", "*", place)] = {"owner": "root", "group": "root", "mode": "0644"} | attributes
    return files


def patterns() -> list[tuple[str, str]]:
    """(a regular expression for paths, the mode cell) of each path of the table."""
    rows_of = []
    for paths, mode, _ in rows("Files on a host"):
        folder = ""
        for text in quoted(paths):
            # a second name of a cell is in the first one's directory
            folder, name = (str(Path(text).parent), text) if text.startswith("/") else (folder, f"{folder}/{text}")
            pattern = re.escape(name).replace(r"\{", "(").replace(r"\}", ")").replace(",", "|").replace(r"\*", ".*")
            pattern = pattern.replace("NAME", r"[\w-]+").replace("VERSION", ".*")
            rows_of.append((pattern + ("(/.*)?" if "." not in Path(name).name else ""), mode))
    return rows_of


def best(path: str) -> str | None:
    """The mode cell of the row that tells most about a path; None when there is no row."""
    fits = [(len(pattern), mode) for pattern, mode in patterns() if re.fullmatch(pattern, path)]
    return max(fits)[1] if fits else None


def test_the_table_has_every_file_that_a_role_writes_with_its_mode_and_owner() -> None:
    for path, arguments in placed_files().items():
        cell = best(path)
        assert cell is not None, f"{path} is not in the table"
        mode = re.match(r"0\d{3}", cell)
        if mode and "mode" in arguments:
            plain = path.rpartition("/")[2] in quoted(cell)  # "0640 root:GROUP; `boot.yml` 0644"
            expected = cell.rpartition(" ")[2] if plain else mode[0]
            assert arguments["mode"] == expected, (path, cell, arguments["mode"])
        owner = re.search(r"(?:^|\s)(root|judge-mongodb)(?::|$)", cell)
        if owner and "owner" in arguments:
            assert arguments["owner"] == owner[1], (path, cell, arguments["owner"])
        group = re.search(r":(judge[\w-]*)$", cell)
        if group:
            assert arguments["group"] == group[1], (path, cell, arguments["group"])


def test_keys_have_the_mode_of_the_table() -> None:
    (cell,) = [mode for paths, mode, _ in rows("Files on a host") if quoted(paths) == ["/etc/judge/tls/"]]
    assert cell == f"keys 0{module_utils('judge_keys')._KEY_MODE:o}"


def test_every_file_of_the_controller_is_named() -> None:
    cluster = plugin("action", "judge_cluster")
    names = set(quoted(PAGE.split("On the controller, in `judge_secrets_dir`")[1].split("\n\n")[0]))
    backups = {secrets.KEY, secrets.HOST_KEY, secrets.CONTROLLER_KEY}
    assert names == {*cluster.SECRETS, cluster.RECORD, cluster.CLIENT, "pki/"} | backups


OTHERS = {"others": {"executors", "gateways"}, "metrics": set(GROUPS)}


def test_certificates_are_those_that_hosts_get() -> None:
    groups_of: dict[str, set[str]] = {}
    for group, certificates in read(ROLES / "judge_pki/vars/main.yml")["judge_pki_certificates_of"].items():
        for certificate in certificates:
            groups_of.setdefault(certificate["name"], set()).add(group)
    # Hosts that are no judicators: those of the other groups.
    groups_of = {
        name: {other_group for group in on for other_group in OTHERS.get(group, {group})}
        for name, on in groups_of.items()
    }
    rows_of: dict[str, set[str]] = {}
    for name, on, _ in rows("Certificates"):
        rows_of.setdefault(quoted(name)[0], set()).update(group for group in GROUPS if group in on)
    assert rows_of == groups_of
