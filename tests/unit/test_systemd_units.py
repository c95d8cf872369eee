"""The unit files: clean for systemd, hardened, and in step with the daemons' own settings."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from judge.boot.systemd import unit_name
from judge.config import MODELS, BootConfig, BootService, CheckSettings, Daemon

UNITS = Path(__file__).resolve().parents[2] / "systemd"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "units.md"
# The most that `systemd-analyze security` may say; above 2.0 only with a reason in the unit and in docs/units.md.
EXPOSURE = {
    "boot": 2.0, "etcd": 1.5, "etcd-proxy": 1.5, "mongodb": 1.5, "judicator": 1.5, "gateway": 1.5, "executor": 4.0,
}  # fmt: skip
SERVICES = sorted(set(EXPOSURE) - {"boot"})
# Those of the controller, which no host has.
CONTROLLER = sorted((UNITS / "controller").iterdir())
# Started by a timer; no daemon, and boot knows nothing of it.
BACKUP = UNITS / "judge-backup.service"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing; scripts/install-packages test"
)


def unit(name: str) -> dict[str, list[str]]:
    settings: dict[str, list[str]] = {}
    for line in (UNITS / unit_name(name)).read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(key, []).append(value)
    return settings


def seconds(text: str) -> float:
    """WatchdogSec= and the like are plain seconds in our units."""
    return float(text)


def test_there_is_a_unit_for_every_kind_and_no_other():
    assert {path.name for path in UNITS.glob("*.service")} == {unit_name(name) for name in EXPOSURE} | {BACKUP.name}
    assert {name.removesuffix("-proxy") for name in EXPOSURE} == set(MODELS)


@needs_systemd
def test_systemd_finds_no_fault(tmp_path):
    root = tmp_path / "root"
    target = root / "etc" / "systemd" / "system"
    target.mkdir(parents=True)
    programs = re.findall(r"^Exec\w+=[-+!]*/(\S+)", "".join(path.read_text() for path in CONTROLLER), re.MULTILINE)
    hosts = ["opt/judge/current/bin/judge", "opt/judge/current/bin/python", "usr/bin/chgrp", "usr/bin/chmod"]
    for program in (*hosts, *programs):
        (root / program).parent.mkdir(parents=True, exist_ok=True)
        (root / program).write_text("#!/bin/sh\n")
        (root / program).chmod(0o755)
    # The targets that ours name; with --root the machine's own are not looked at.
    for name in ("sysinit", "basic", "network-online", "multi-user", "shutdown", "timers", "time-set", "time-sync"):
        (target / f"{name}.target").write_text(f"[Unit]\nDescription={name}\nDefaultDependencies=no\n")
    files = [path for path in UNITS.rglob("*") if path.suffix in {".service", ".slice", ".target", ".timer", ".socket"}]
    assert set(CONTROLLER) < set(files)
    for path in files:
        shutil.copy(path, target)
    units = sorted(path.name.replace("@.", "@mine.") for path in target.glob("judge*"))
    process = subprocess.run(
        ["systemd-analyze", "verify", f"--root={root}", "--man=no", *units], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout + process.stderr) == (0, "")


def test_each_timer_of_the_controller_runs_a_playbook_and_its_page_says_how() -> None:
    timers = [path for path in CONTROLLER if path.suffix == ".timer"]
    assert {path.stem for path in timers} == {"judge-renew@", "judge-backup@", "judge-drill@"}
    for path in timers:
        service = path.with_suffix(".service").read_text()
        (program,) = re.findall(r"^ExecStart=.*?((?:playbooks|scripts)/\S+)(?: %i)?$", service, re.MULTILINE)
        assert (UNITS.parent / program).is_file()
        assert "OnFailure=judge-failed@%n.service" in service and (path.parent / "judge-failed@.service").is_file()
        (documented,) = set(re.findall(r"Documentation=file:///srv/judge/(\S+)", service + path.read_text()))
        page = (UNITS.parent / documented).read_text()
        assert f"systemctl enable --now {path.stem}NAME.timer" in page
        assert f"cp systemd/controller/{path.stem}.* systemd/controller/judge-failed@.* /etc/systemd/system/" in page


def test_a_shutdown_ends_boot_before_its_services():
    """systemd ends units in the reverse of their start order: boot, the barrier, the services."""
    after = set(re.findall(r"^After=(.*)$", (UNITS / "judge.target").read_text(), re.MULTILINE))
    assert {name for names in after for name in names.split()} == {
        unit_name(name) for name in EXPOSURE if name != "boot"
    }
    boot = (UNITS / "judge-boot.service").read_text()
    assert re.search(r"^After=.*\bjudge[.]target$", boot, re.MULTILINE)
    assert re.search(r"^Wants=.*\bjudge[.]target$", boot, re.MULTILINE)


def test_a_backup_runs_as_the_judicator_does_and_behind_everything_else():
    """Its hardening is the judicator's, whose way to the database it uses; what differs is that it is no daemon."""
    backup, theirs = unit("backup"), unit("judicator")
    hardening = [key for key in theirs if key.startswith(("Protect", "Restrict", "Private", "System", "Capab", "No"))]
    assert {key: backup.get(key) for key in hardening if key != "NotifyAccess"} == {
        key: theirs[key] for key in hardening if key != "NotifyAccess"
    }
    assert (backup["Type"], backup["User"], backup["StateDirectory"]) == (["oneshot"], ["judge"], ["judge/backup"])
    assert backup["IOSchedulingClass"] == ["idle"] and "WantedBy" not in backup


@needs_systemd
@pytest.mark.parametrize("name", [*sorted(EXPOSURE), "backup"])
def test_exposure(name):
    limit = {**EXPOSURE, "backup": 1.5}[name]
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={10 * limit:.0f}"]
    process = subprocess.run([*command, str(UNITS / unit_name(name))], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    score = re.search(r"Overall exposure level for \S+: (\d+\.\d)", process.stdout)
    row = re.search(rf"^\| judge-{name} \|.*\| (\d\.\d) \|$", PAGE.read_text(), re.MULTILINE)
    assert score is not None
    assert row is not None, f"docs/units.md has no row for judge-{name}"
    # Versions of systemd weigh a little differently; the page has those of 252.
    assert abs(float(row[1]) - float(score[1])) <= 0.3


def test_only_the_executor_is_exposed_and_says_why():
    """Above 2.0 is only what makes sandboxes; every setting that it does without is named with its reason."""
    assert {name for name, limit in EXPOSURE.items() if limit > 2.0} == {"executor"}
    text = (UNITS / unit_name("executor")).read_text()
    reasons = text.partition("# Not here, since sandboxes would not start:")[2].partition("\nAmbientCapabilities=")[0]
    left_out = set(unit("boot")) - set(unit("executor"))
    hardening = {key for key in left_out if key.startswith(("Protect", "Restrict", "Private", "Memory", "Proc"))}
    assert hardening - {"MemoryHigh"} <= set(re.findall(r"\b([A-Z]\w+)=", reasons))
    assert "above 2.0 because" in PAGE.read_text()


def test_the_executor_has_nothing_that_keeps_sandboxes_from_starting():
    """Each was tried, on systemd 252 or 257; the unit says why."""
    masks = {"ProtectKernelTunables", "ProtectKernelLogs", "ProtectProc", "ProcSubset"}
    further = {"RestrictNamespaces", "RestrictSUIDSGID", "User", "ProtectHostname", "MemoryDenyWriteExecute"}
    assert not (masks | further) & set(unit("executor"))


@pytest.mark.parametrize("name", sorted(EXPOSURE))
def test_common_settings_of_all_units(name):
    settings = unit(name)
    assert settings["Type"] == ["notify"]
    assert settings["NotifyAccess"] == ["main"]
    assert settings["StartLimitIntervalSec"] == ["0"]
    assert settings["KillMode"] == ["mixed"]
    assert settings["Slice"] == ["judge.slice"]
    assert settings["NoNewPrivileges"] == ["yes"]
    assert {"LimitNOFILE", "TasksMax", "WatchdogSec", "TimeoutStopSec"} <= set(settings)
    kind = name.removesuffix("-proxy")
    config = "/etc/judge/boot.yml" if name == "boot" else f"/run/judge/{name}.yml"
    assert settings["ExecStart"] == [f"/opt/judge/current/bin/judge {kind} --config {config}"]


def test_only_boot_is_enabled_and_only_boot_is_restarted_by_systemd():
    assert unit("boot")["WantedBy"] == ["multi-user.target"]
    assert unit("boot")["Restart"] == ["always"]
    for name in SERVICES:
        assert not {"WantedBy", "RequiredBy", "Also"} & set(unit(name))
        assert unit(name)["Restart"] == ["no"]


@pytest.mark.parametrize("name", SERVICES)
def test_systemd_is_more_patient_than_boot_and_the_daemon(name):
    grace = Daemon.model_fields["stop_grace"].default
    boot_grace = BootService.model_fields["stop_grace"].default
    assert seconds(unit(name)["TimeoutStopSec"][0]) > boot_grace > grace
    assert unit(name)["TimeoutStartSec"] == ["infinity"]
    # A check thread that counts to `tries` ends its server by itself first.
    assert seconds(unit(name)["WatchdogSec"][0]) > CheckSettings().interval * CheckSettings().tries


def test_boot_has_the_time_to_stop_all_services_of_a_host():
    # A host that is judicator, gateway and executor at once.
    longest = 5 * BootService.model_fields["stop_grace"].default
    assert seconds(unit("boot")["TimeoutStopSec"][0]) > longest
    assert seconds(unit("boot")["WatchdogSec"][0]) > 10 * BootConfig.model_fields["interval"].default


@pytest.mark.parametrize("name", SERVICES)
def test_a_unit_of_a_user_gets_its_config_by_its_group(name):
    settings = unit(name)
    if name == "executor":
        assert "ExecStartPre" not in settings
        return
    assert settings["ExecStartPre"] == [
        f"+/usr/bin/chgrp {settings['Group'][0]} /run/judge/{name}.yml", f"+/usr/bin/chmod 0640 /run/judge/{name}.yml",
    ]  # fmt: skip
    assert settings["CapabilityBoundingSet"] == [""]


def test_every_user_of_a_unit_is_made():
    users = set(re.findall(r"^u\s+(\S+)", (UNITS / "judge.sysusers.conf").read_text(), re.MULTILINE))
    assert users == {unit(name).get("User", ["root"])[0] for name in EXPOSURE} - {"root"}


def test_units_are_plain_ini_without_a_key_twice_but_lists():
    for name in EXPOSURE:
        parser = configparser.RawConfigParser(strict=False)
        parser.optionxform = str
        parser.read_string((UNITS / unit_name(name)).read_text())
        assert set(parser.sections()) <= {"Unit", "Service", "Install"}
        twice = {key for key, values in unit(name).items() if len(values) > 1}
        assert twice <= {"SystemCallFilter", "ExecStartPre"}
