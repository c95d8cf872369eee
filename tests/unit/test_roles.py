"""The roles' promises that need no host: documented variables, generated tables, valid configs, secrets never shown."""

import importlib.machinery
import importlib.util
import re
import sys
import tomllib
from pathlib import Path

import jinja2.nativetypes
import pytest
import yaml

from judge.config import MODELS, BootConfig, EtcdConfig, JudicatorConfig, parse_text
from judge.config.sections import setting as config_setting
from tests.support.ansible import GROUPS, NAMES, ROLES, options, plugin, read, render, value, variables

ROOT = Path(__file__).resolve().parents[2]


def load_script(path: Path):
    loader = importlib.machinery.SourceFileLoader(f"tested_{path.stem.replace('-', '_')}", str(path))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("role", NAMES)
def test_defaults_are_the_documented_ones(role):
    defaults = read(ROLES / role / "defaults/main.yml") or {}
    documented = options(role)
    assert defaults == {
        name: option.get("default") for name, option in documented.items() if not option.get("required")
    }
    assert all(name.startswith("judge_") for name in documented)
    assert all(option.get("description") and option.get("type") for option in documented.values())


class Names(yaml.SafeLoader):
    """Takes Ansible's own tags, such as !unsafe, whose values hold no names."""


Names.add_multi_constructor("!", lambda *_: None)


def assigned_names(node) -> set[str]:
    """The variables that tasks register, set as facts, or have as their own."""
    if isinstance(node, list):
        return set().union(*map(assigned_names, node))
    if not isinstance(node, dict):
        return set()
    sets = [node.get(key) or {} for key in ("vars", "ansible.builtin.set_fact")]
    own = {name for mapping in sets if isinstance(mapping, dict) for name in mapping}
    return own | ({node["register"]} if "register" in node else set()).union(*map(assigned_names, node.values()))


def test_every_role_has_the_prefix():
    assert [path.name for path in ROLES.iterdir() if path.is_dir() and not path.name.startswith("judge_")] == []


def test_all_names_have_the_prefix():
    pages = [*ROLES.rglob("tasks/*.yml"), *ROLES.rglob("vars/*.yml"), *(ROOT / "playbooks").rglob("*.yml")]
    names = set().union(*(assigned_names(yaml.load(page.read_text(), Names)) for page in pages))
    names |= {path.stem for kind in ("action", "modules", "filter") for path in (ROOT / "plugins" / kind).glob("*.py")}
    names |= set().union(
        *(plugin("filter", path.stem).FilterModule().filters() for path in (ROOT / "plugins/filter").glob("*.py"))
    )
    assert len(names) > 100
    assert [name for name in sorted(names) if not name.startswith(("judge_", "ansible_"))] == []


def test_a_variable_means_the_same_in_every_role():
    defaults: dict = {}
    for role in NAMES:
        for name, option in options(role).items():
            assert defaults.setdefault(name, option.get("default")) == option.get("default"), name


def test_a_config_is_checked_by_the_release_that_will_read_it():
    """Not by the current one, which would refuse the keys of a newer release and so stop every upgrade."""
    for path in (ROOT / "roles").glob("*/tasks/*.yml"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert "validate:" not in line or "judge_common_python" not in line, (path, line)


def test_misspelt_variables_are_named_with_the_nearest():
    action = plugin("action", "judge_variables")
    documented = {name: role for name, (role, _) in action.documented().items()}
    names = {"judge_executr_slots", "ansible_user", "mongodb_exporter_port", "common_packages", "judge_version"}
    assert action.faults(names, documented) == [
        "unknown variable 'judge_executr_slots'; did you mean 'judge_executor_slots' (role judge_executor)?"
    ]


def test_client_yml_names_the_authority_where_the_role_pki_keeps_it():
    """judgectl reads it right after site.yml, so its `ca` must lead to judge_pki_directory's default."""
    config = plugin("action", "judge_cluster").client_config("https://192.0.2.1", "pki/ca.crt")
    assert config == {"server": "https://192.0.2.1", "token_file": "admin.token", "ca": "pki/ca.crt"}
    assert read(ROLES / "judge_pki/defaults/main.yml")["judge_pki_directory"] == "{{ judge_secrets_dir }}/pki"
    assert "ca" not in plugin("action", "judge_cluster").client_config("https://192.0.2.1", "")
    assert plugin("action", "judge_cluster").client_config("", "pki/ca.crt") is None


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("judge_log_level", "loud", "value of judge_log_level must be one of: debug, info, warning, error, got: loud"),
        ("judge_rpc_port", "seventy", "judge_rpc_port"),
        ("judge_rpc_port", "7400", ""),
        ("judge_executor_cores", ["first"], "judge_executor_cores"),
        ("judge_executor_slots", 4, ""),
        ("judge_gateway_tokens", [{"user": "a"}], "missing required arguments: sha256 found in judge_gateway_tokens"),
        ("judge_gateway_tokens", [{"user": "a", "sha256": "0", "rolle": "user"}], "rolle"),
        ("judge_common_sysctl", {"vm.swappiness": 1}, ""),
        ("site_name", "mine", ""),
    ],
)
def test_wrong_values_are_found_before_anything_is_changed(name, value, sentence):
    """The whole of a role's argument_specs counts, also of roles that come late in site.yml."""
    action = plugin("action", "judge_variables")
    sentences = action.wrong_values({name: value}, action.documented())
    assert len(sentences) == bool(sentence)
    assert not sentence or (sentence in sentences[0] and "; correct it as the table in roles/" in sentences[0])


@pytest.mark.parametrize("role", NAMES)
def test_defaults_pass_their_own_check(role):
    """A default that its own specification refuses would stop everybody; templates are evaluated by Ansible only."""
    action = plugin("action", "judge_variables")
    plain = {
        name: option["default"]
        for name, option in options(role).items()
        if "{{" not in str(option.get("default", "{{"))
    }
    assert action.wrong_values(plain, action.documented()) == []


class TestRecord:
    plan = staticmethod(plugin("action", "judge_cluster").plan)
    three = ("j1", "j2", "j3")

    def first(self):
        return self.plan(None, "judge", list(self.three), [*self.three, "e1"])

    def test_the_first_deployment_decides(self):
        record = self.first()
        assert record["initial_members"] == list(self.three)
        assert record["formed"] is False
        assert len(record["token"]) == 32

    def test_it_is_decided_once(self):
        record = self.first()
        assert self.plan(record, "judge", list(self.three), list(self.three)) == record

    def test_a_part_of_the_judicators_cannot_form_a_cluster(self):
        with pytest.raises(ValueError, match="j2, j3 is not part of this run"):
            self.plan(None, "judge", list(self.three), ["j1"])

    def test_others_may_be_prepared_before(self):
        assert self.plan(None, "judge", list(self.three), ["e1"])["formed"] is False

    def test_an_unfinished_deployment_keeps_its_members(self):
        with pytest.raises(ValueError, match="is not finished"):
            self.plan(self.first(), "judge", ["j1", "j2"], ["j1", "j2"])

    def test_a_formed_cluster_grows_and_is_limited_freely(self):
        record = self.first() | {"formed": True}
        assert self.plan(record, "judge", [*self.three, "j4", "j5"], ["j4"]) == record

    def test_a_cluster_whose_data_are_lost_is_formed_anew_under_another_token(self):
        record = self.first() | {"formed": True}
        anew = self.plan(record, "judge", ["j1", "j4", "j5"], ["j1", "j4", "j5"], anew=True)
        assert (anew["formed"], anew["initial_members"]) == (False, ["j1", "j4", "j5"])
        assert anew["token"] != record["token"]
        # A run that was cut off goes on with what it has decided, said again or not.
        for again in (True, False):
            assert self.plan(anew, "judge", ["j1", "j4", "j5"], ["j1", "j4", "j5"], anew=again) == anew
        with pytest.raises(ValueError, match="cluster 'judge'"):
            self.plan(record, "other", ["j1"], ["j1"], anew=True)

    def test_another_clusters_directory_is_refused(self):
        with pytest.raises(ValueError, match="cluster 'judge'"):
            self.plan(self.first(), "other", list(self.three), list(self.three))


class TestGates:
    may_stop = staticmethod(plugin("module_utils", "judge_members").may_stop)

    @pytest.mark.parametrize(
        ("healthy", "voters", "allowed"),
        [
            ("abc", "abc", True),
            ("ab", "abc", False),
            ("a", "abc", False),
            ("bc", "abc", True),
            ("a", "a", True),
            ("ab", "ab", True),
            ("a", "ab", False),
            ("abcd", "abcde", True),
            ("abc", "abcde", False),
            ("bc", "bcd", True),
        ],
    )
    def test_a_majority_must_be_left(self, healthy, voters, allowed):
        assert (self.may_stop("a", set(healthy), set(voters)) == "") is allowed


class TestInventory:
    module = plugin("filter", "judge_inventory")

    def test_addresses(self):
        hosts = {
            "b": {"ansible_host": "10.0.0.2"},
            "a": {"ansible_host": "10.0.0.1", "judge_address": "a.lan"},
            "c": {},
        }
        addresses = self.module.judge_addresses(hosts, ["c", "b", "a"])
        assert list(addresses.items()) == [("a", "a.lan"), ("b", "10.0.0.2"), ("c", "c")]

    def test_the_own_member_is_asked_first(self):
        assert self.module.judge_endpoints({"a": "1", "b": "2"}, 9, "b") == ["2:9", "1:9"]

    def test_a_name_is_listened_for_everywhere(self):
        assert self.module.judge_listen("10.0.0.1") == "10.0.0.1"
        assert self.module.judge_listen("host.lan") == "0.0.0.0"


@pytest.mark.parametrize("host", ["j1", "j2", "e1", "g1"])
def test_rendered_configs_are_good(host):
    values = variables(host, GROUPS, formed=False)
    for service in values["judge_boot_services"]:
        kind = service.removesuffix("-proxy")
        parse_text(MODELS[kind], render(kind, f"{service}.yml.j2", values), service)
    boot = parse_text(BootConfig, render("boot", "boot.yml.j2", values), "boot")
    assert [service.name for service in boot.services] == values["judge_boot_services"]


TABLES = load_script(ROOT / "scripts/role-tables")


def changed_value(value, kind):
    if "choices" in kind:
        return next(choice for choice in kind["choices"] if choice != value)
    if kind["type"] == "bool":
        return not value
    return value + 1


@pytest.mark.parametrize("host", ["j1", "e1", "g1"])
def test_a_variable_of_a_role_reaches_its_key(host):
    values = variables(host, GROUPS, formed=True)
    reached = 0
    for service in values["judge_boot_services"]:
        if service not in MODELS:
            continue
        for setting in TABLES.settings_of(service, MODELS[service]):
            kind = TABLES.type_of(setting.annotation)
            if not setting.template or not (kind["type"] in {"int", "float", "bool"} or "choices" in kind):
                continue
            value = changed_value(setting.default, kind)
            config = parse_text(
                MODELS[service], render(service, f"{service}.yml.j2", values | {setting.variable: value}), "x"
            )
            for key in setting.path:
                config = getattr(config, key)
            assert config == value, setting.variable
            reached += 1
    assert reached > 5


class OneMore(JudicatorConfig):
    patience: int = config_setting(7, "Seconds of patience.", ge=1)


def test_a_new_setting_is_one_line(monkeypatch):
    monkeypatch.setitem(TABLES.MODELS, "judicator", OneMore)
    files = {str(path.relative_to(ROLES)): text for path, text in TABLES.generated()}
    specs = yaml.safe_load(files["judge_judicator/meta/argument_specs.yml"])["argument_specs"]["main"]["options"]
    assert specs["judge_judicator_patience"] == {"type": "int", "default": 7, "description": "Seconds of patience."}
    assert yaml.safe_load(files["judge_judicator/defaults/main.yml"])["judge_judicator_patience"] == 7
    assert "| `judge_judicator_patience` | int | `7` | Seconds of patience. |" in files["judge_judicator/README.md"]
    assert "\npatience: {{ judge_judicator_patience }}\n" in files["judge_judicator/templates/judicator.yml.j2"]


@pytest.mark.parametrize("ipv6", [True, False])
def test_nginx_answers_on_both_kinds_of_addresses_unless_the_kernel_has_one(ipv6):
    """With a listener for IPv6 it would not start there."""
    values = variables("g1", GROUPS, formed=True)
    assert values["judge_gateway_ipv6"] is True, "what is public is asked by both"
    lines = render("gateway", "nginx.conf.j2", values | {"judge_gateway_ipv6": ipv6}).splitlines()
    listening = [line.split()[1] for line in lines if line.strip().startswith("listen ")]
    assert listening == ["443", *(["[::]:443"] if ipv6 else []), "80", *(["[::]:80"] if ipv6 else [])]


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        (f"packs/aa/{'0' * 64}", True),
        (f"secrets/{'0' * 64}", True),
        ("backups/20261130T090000Z-01234567.json", True),
        ("../admin.token", False),
        ("backups/../../pki/ca.json", False),
        (f"packs/aa/{'0' * 64}\n../x", False),
        ("/etc/passwd", False),
    ],
)
def test_a_judicator_does_not_choose_where_the_controller_writes(name, accepted):
    """The controller copies what a judicator names as the files of a backup."""
    pattern = read(ROLES / "judge_backup/vars/main.yml")["judge_backup_file_name"]
    assert bool(re.match(pattern, name)) is accepted
    names = [task["name"] for task in read(ROLES / "judge_backup/tasks/write.yml")]
    assert names.index("Every name is one of a backup's files") < names.index("The rest is copied to the controller")


@pytest.mark.parametrize(
    ("settings", "address"), [({"judge_metrics": "yes"}, "10.0.0.1:9400"), ({"judge_metrics": False}, "")]
)
def test_one_switch_makes_a_daemon_serve_metrics(settings, address):
    assert value("judge_boot", "judge_boot_metrics", judge_address="10.0.0.1", **settings) == address


@pytest.mark.parametrize("metrics", ["", "0.0.0.0:9406"])
def test_boot_serves_its_metrics_with_a_certificate_of_its_own(metrics):
    """It has neither where nobody asks for them; no other certificate's key is root's on every host."""
    values = variables("g1", GROUPS, formed=True) | {"judge_boot_metrics": metrics}
    boot = parse_text(BootConfig, render("boot", "boot.yml.j2", values), "boot")
    assert boot.metrics == (metrics or None)
    assert (boot.metrics_tls and str(boot.metrics_tls.key)) == ("/etc/judge/tls/boot.key" if metrics else None)
    of_host = read(ROLES / "judge_pki/vars/main.yml")
    environment = jinja2.nativetypes.NativeEnvironment()
    environment.filters |= {
        "bool": bool,
        "extract": lambda key, within: within[key],
        "flatten": lambda lists: [entry for entries in lists for entry in entries],
        "unique": list,
    }
    certificates = environment.from_string(of_host["judge_pki_certificates"]).render(
        of_host | {"group_names": ["gateways"], "judge_boot_metrics": metrics}
    )
    owners = [(item["name"], item["owner"]) for item in certificates]
    assert (
        owners
        == [("gateway", "judge"), ("https", "root"), ("etcd", "judge-etcd"), ("boot", "root")][: 4 if metrics else 3]
    )


def test_the_order_of_the_inventory_changes_nothing():
    shuffled = {"judicators": ["j3", "j1", "j2"], "executors": ["j1", "e1"], "gateways": ["j1", "g1"]}
    for role, template in [("etcd", "etcd.yml.j2"), ("judicator", "judicator.yml.j2"), ("mongodb", "mongodb.yml.j2")]:
        first, second = (render(role, template, variables("j2", groups, formed=True)) for groups in (GROUPS, shuffled))
        assert first == second


@pytest.mark.parametrize(("formed", "bootstrap"), [(False, "initialise"), (True, "join")])
def test_a_formed_cluster_is_joined(formed, bootstrap):
    """docs/etcd.md: render `join` on every host once the cluster stands."""
    text = render("etcd", "etcd.yml.j2", variables("j1", GROUPS, formed=formed))
    assert parse_text(EtcdConfig, text, "etcd").cluster.bootstrap == bootstrap


def test_a_truth_value_may_come_as_text():
    """`-e name=false` and inventories in INI give the text `false`, which templates and conditions take for true."""
    names = {name for role in NAMES for name, option in options(role).items() if option["type"] == "bool"}
    assert names
    use = re.compile(rf"\b({'|'.join(sorted(names))})\b(?! \| (?:default\(\w+\) \| )?bool\b)")
    files = [path for place in ("playbooks", "roles") for path in (ROOT / place).rglob("*") if path.is_file()]
    wrong = []
    for path in files:
        if path.name == "argument_specs.yml" or path.suffix not in {".yml", ".j2"}:
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            # A name that is set, and one in a sentence for people, are no uses.
            used = use.sub("", line) != line and not re.search(rf"(?:^\s*(?:- )?|-e )({'|'.join(names)})[:=]", line)
            wrong += [f"{path.relative_to(ROOT)}:{number}: {line.strip()}"] if used else []
    assert wrong == [], "add `| bool`"


def test_mongod_s_cache_leaves_an_executor_its_memory() -> None:
    """Slots share out seven eighths of the memory of their host."""
    for host, cache in (("j1", 0.25), ("j2", "auto")):  # j1 is an executor as well
        text = render("mongodb", "mongodb.yml.j2", variables(host, GROUPS, formed=True))
        assert yaml.safe_load(text)["cache_gib"] == cache


def test_roles_have_the_project_s_licence() -> None:
    licence = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"]
    assert {read(path)["galaxy_info"]["license"] for path in ROLES.glob("*/meta/main.yml")} == {licence}
