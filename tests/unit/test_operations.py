"""What judgectl versions, drift and support make of hosts' answers, and what certificates and upgrades are told of."""

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from judge.common import clock
from judge.common.errors import ConfigError, JudgeError
from judge.common.pki.authority import Authority
from judge.config import Tls
from judge.ctl.fleet import drift, hosts, redaction, support, versions
from judge.daemon import metrics
from judge.mongodb.features import Features, number
from judge.rpc import pki
from plugins.action.judge_upgrade import decided, way_back
from tests.support.ansible import ansible, plugin

probe = plugin("modules", "judge_probe")
SECRET = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=90)


def test_a_stale_running_version_is_named() -> None:
    text = (
        "installed.kernel=6.12.2\nrunning.kernel=6.12.1\ninstalled.release=0.2.0-aa\nrunning.release.boot=0.2.0-aa\n"
        "running.release.executor=0.1.0-bb\ninstalled.mongod=8.0.4\nrunning.mongod=8.0.4\nreplaced.mongod=yes\n"
        "installed.gcc=14.2.0\nnonsense\n"
    )
    rows = versions.parse(text, "j1")
    assert {row.what: row.stale for row in rows} == {
        "kernel": True, "release": False, "release of executor": True, "mongod": True, "gcc": False,
    }  # fmt: skip
    sentences = versions.sentences(rows)
    assert any("kernel 6.12.2 is installed and 6.12.1 runs; restart the host" in sentence for sentence in sentences)
    assert any("release of executor: 0.2.0-aa is installed and 0.1.0-bb runs" in sentence for sentence in sentences)


@given(st.text())
def test_odd_answers_of_hosts_are_no_faults(text: str) -> None:
    versions.sentences(versions.parse(text, "j1"))
    drift.parse(text, "j1")
    assert hosts.parse(text, "j1", (), "").name == "j1"


def test_the_room_of_a_directory_is_a_metric(tmp_path: Path) -> None:
    def value(name: str, directory: Path) -> float | None:
        return REGISTRY.get_sample_value(name, {"directory": str(directory)})

    metrics.watch_disk(tmp_path)
    metrics.watch_disk(tmp_path / "not made yet")
    metrics.watch_disk(None)
    free, size = value("judge_disk_free_bytes", tmp_path), value("judge_disk_bytes", tmp_path)
    assert free is not None and size is not None and 0 <= free <= size
    assert value("judge_disk_bytes", tmp_path / "not made yet") is None


def test_every_file_of_a_tmpfiles_pattern_is_compared(tmp_path: Path) -> None:
    """As the governors, one file for each core: `[ -w` of the pattern itself is false."""
    for core, governor in enumerate(("performance", "powersave")):
        (tmp_path / f"cpu{core}").mkdir()
        (tmp_path / f"cpu{core}/scaling_governor").write_text(f"{governor}\n")
    (tmp_path / "judge-cpu.conf").write_text(f"w {tmp_path}/cpu*/scaling_governor - - - - performance\n")
    script = ["/bin/sh", "-c", drift.SCRIPT]
    environment = {"PATH": os.defpath, "JUDGE_TMPFILES": str(tmp_path)}
    answer = subprocess.run(script, env=environment, capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t")[1:4] for line in answer.splitlines() if str(tmp_path) in line]
    assert [(target, value) for _, target, value in rows] == [
        ("performance", "performance"),
        ("performance", "powersave"),
    ]


def test_values_of_the_kernel_are_compared_as_the_kernel_shows_them() -> None:
    lines = [
        ("vm.swappiness", "1", "60"),
        ("net.ipv4.tcp_rmem", "4096 87380 6291456", "4096\t87380\t6291456".replace("\t", " ")),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "never", "always madvise [never]"),
        ("/sys/kernel/mm/transparent_hugepage/defrag", "never", "always [madvise] never"),
    ]
    text = "".join(f"kernel\t{key}\t{target}\t{actual}\t/etc/sysctl.d/90-judge.conf\n" for key, target, actual in lines)
    assert [difference.what for difference in drift.parse(text, "j1")] == [lines[0][0], lines[3][0]]


def test_a_changed_task_is_reported_by_its_files() -> None:
    entry: dict[str, Any] = {
        "event": "changed", "host": "e1", "task": "Configs", "paths": ["/etc/judge/executor.yml", "/etc/judge/secret"],
        "diff": [{"after_header": "/etc/judge/executor.yml", "before": "a", "after": "b"}],
    }  # fmt: skip
    first, second = drift.differences(entry)
    assert (first.kind, first.what, first.diff[0]["after"]) == ("file", "/etc/judge/executor.yml", "b")
    assert second.diff == []
    (service,) = drift.differences({"event": "changed", "host": "e1", "task": "t", "restarted": ["etcd"]})
    assert (service.kind, service.what) == ("service", "etcd")
    assert drift.differences({"event": "changed", "host": "e1", "task": "t"})[0].kind == "task"


@given(SECRET, st.text(max_size=30))
def test_no_form_of_a_secret_is_left(secret: str, around: str) -> None:
    needles = {form for line in redaction.lines(secret) for form in redaction.forms(line)}
    for form in redaction.forms(next(iter(redaction.lines(secret)))):
        cleaned = redaction.masked(f"{around} {form} {around}", needles)
        assert form not in cleaned or form in around * 2


def test_a_secret_that_is_part_of_another_one_leaves_nothing_of_it() -> None:
    assert redaction.masked("x secret-of-all-hosts y", ["secret-of", "secret-of-all-hosts"]) == f"x {redaction.MASK} y"


def test_texts_like_secrets_are_masked() -> None:
    text = (
        "Authorization: Bearer abcdefghijk\nurl: mongodb://judge:hunter22@h/db\npassword: correct-horse\n"
        "password_file: /etc/judge/mongodb.password\n-----BEGIN PRIVATE KEY-----\nMIGH\n-----END PRIVATE KEY-----\n"
    )
    cleaned = redaction.masked(text, [])
    for secret in ("abcdefghijk", "hunter22", "correct-horse", "MIGH"):
        assert secret not in cleaned
    assert "/etc/judge/mongodb.password" in cleaned


def test_the_archive_has_no_secret_of_the_controller(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/admin.token").write_text("t0ken-of-the-operator-in-person\n")
    (tmp_path / "secrets/mongodb.password").write_text("judge.a1b2c3 the-password-of-all-judicators\n")
    texts = {"j1/journal.txt": "a t0ken-of-the-operator-in-person b the-password-of-all-judicators c\n"}
    cleaned = support.clean(texts, tmp_path / "secrets")
    assert cleaned == {"j1/journal.txt": f"a {redaction.MASK} b {redaction.MASK} c\n"}
    path = tmp_path / "case.tar.gz"
    support.write(path, cleaned, {"j2": "it did not answer"})
    with tarfile.open(path) as archive:
        assert sorted(archive.getnames()) == ["case/j1/journal.txt", "case/silent.txt"]
    assert path.stat().st_mode & 0o077 == 0


def test_an_archive_that_would_show_a_secret_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "masked", lambda text, _: text)
    with pytest.raises(JudgeError, match="still shows a secret"):
        support.clean({"j1/a": "the-whole-secret-of-the-cluster"}, None, ["the-whole-secret-of-the-cluster"])


def test_the_script_for_hosts_needs_python_alone(tmp_path: Path) -> None:
    """Python alone, without this project; a secret below /etc/judge of this machine is not there, so a stand-in is."""
    source = Path(redaction.__file__).read_text()
    (tmp_path / "judge.key").write_text("the-secret-of-this-very-host\n")
    program = f"{source}\nprint(masked('x the-secret-of-this-very-host y', in_directories([{str(tmp_path)!r}])))"
    process = subprocess.run(["/usr/bin/python3", "-I", "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout == f"x {redaction.MASK} y\n"
    assert "/usr/bin/python3 -c" in support.script() and sys.version_info >= (3, 11)
    assert support.of_host("j1", json.dumps({"units.txt": "a", "else": "b"})) == {"j1/units.txt": "a"}


@pytest.mark.parametrize("answer", ["", "[]", "[" * 100_000, '{"units.txt": '])
def test_a_broken_answer_of_a_host_is_refused(answer: str) -> None:
    with pytest.raises(ConfigError, match="j1: its answer is no JSON of its files"):
        support.of_host("j1", answer)


def output_of(secrets: Path) -> str:
    """What the script that hosts run prints, with another directory for /etc/judge."""
    script = support.script().replace("/etc/judge", str(secrets))
    return subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True).stdout


def test_long_journals_are_cut_to_what_an_answer_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "journal").write_text("ü" * 30_000 + "the end")
    monkeypatch.setattr(support, "COMMANDS", {"journal.txt": f"cat {tmp_path}/journal", "units.txt": "echo up"})
    monkeypatch.setattr(support, "ANSWER_BYTES", 40_000)
    out = output_of(tmp_path / "absent")
    assert len(out) <= 40_000
    texts = support.of_host("e1", out)
    assert texts["e1/journal.txt"].endswith("the end") and len(texts["e1/journal.txt"]) > 1000
    assert texts["e1/units.txt"] == "up\n"


def test_planted_secrets_do_not_leave_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "etc"
    (own / "tls").mkdir(parents=True)
    planted = {
        "judicator.password": "Kurz-8!x",
        "session.key": 'a/b+c d=e&f<g>"h"',
        "tls/etcd.key": "Q" * 30 + "R" * 60,
    }
    for name, text in planted.items():
        (own / name).write_text(f"{text}\n")
    (own / "gateway.yml").write_text("oidc:\n  client_secret: 'shown in a config only'\nport: 443\n")
    secret = [*planted.values(), "shown in a config only"]
    lines = [f"x{form}y" for text in secret for form in redaction.forms(text)]
    lines += [
        "proxy http://al:s3cr3t-of-al@10.0.0.1:3128/",
        "Cookie: judge_session=of-somebody",
        "--password on-a-line go",
    ]
    lines += ["psk: correct horse battery", "Authorization=Token of-the-robot", "MONGO_PWD=not in the words"]
    lines += ['{"access_token": "of some other service"}', "Authorization: Basic dXNlcjpwYXNzd29yZA=="]
    journal = tmp_path / "journal"
    journal.write_text("\n".join([*lines, "0" * support.MOST, planted["session.key"], "the end"]) + "\n")
    monkeypatch.setattr(support, "COMMANDS", {"journal.txt": f"cat {journal}", "configs.txt": f"cat {own}/gateway.yml"})
    files = support.of_host("e1", output_of(own))
    archive = "".join(files.values())
    parts = [
        "s3cr3t-of-al",
        "of-somebody",
        "on-a-line",
        "horse",
        "of-the-robot",
        "not in",
        "of some other service",
        "dXNlcjpwYXNz",
        "R" * 32,
    ]
    assert [part for part in [*secret, *lines, *parts] if part in archive] == []
    assert "port: 443" in archive and archive.count("the end") == 1
    # A secret across the place where a long text is cut: its second half must not be left.
    journal.write_text(planted["session.key"] + "0" * (support.MOST - 10))
    assert '"h"' not in support.of_host("e1", output_of(own))["e1/journal.txt"]


def test_a_certificate_that_ends_soon_is_named_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.make("judge", 20)
    tls: Tls = pki.issue(tmp_path, "e1", "executor", ["localhost"])
    own, ca = metrics.expiring([tls.cert, tls.ca])
    assert own.startswith(f"the certificate {tls.cert} expires in ") and own.endswith("run playbooks/renew.yml")
    assert "rotate.yml" in ca and metrics.expiring([tls.cert, tmp_path / "none"], days=5) == []
    metrics.watch_certificates([tls.cert])
    sample = REGISTRY.get_sample_value("judge_certificate_expiry_timestamp_seconds", {"file": tls.cert.name})
    assert sample is not None and 18 < (sample - clock.wall().timestamp()) / 86400 < 21


def test_the_certificate_that_ends_first_is_named() -> None:
    soon = int(clock.wall().timestamp()) + 5 * 86400 + 60
    text = f"os=Debian\nends {soon + 10**7} /etc/judge/tls/ca.crt\nends {soon} /etc/judge/tls/etcd.crt\n"
    row = hosts.parse(text, "e1", (), "")
    assert row.certificate == "/etc/judge/tls/etcd.crt"
    assert any("etcd.crt expires in 5 days" in sentence for sentence in hosts.reasons([row]))


def test_an_upgrade_that_was_cut_off_still_goes_from_where_it_came_from() -> None:
    begun = decided(None, ["0.1.0", "0.1.0", "0.1.0"], "0.2.0", "e1")
    assert begun == {"from": "0.1.0", "to": "0.2.0", "first": "e1", "bundle": ""}
    assert decided(begun, ["0.2.0", "0.2.0", "0.1.0"], "0.2.0", "e1") == begun
    assert decided(begun, ["0.2.0", "0.2.0", "0.2.0"], "0.2.0", "e1") == begun
    assert decided(begun, ["0.2.0"] * 3, "0.3.0", "e2") == begun | {"from": "0.2.0", "to": "0.3.0", "first": "e2"}
    assert way_back(begun, "") == "0.1.0" and way_back(None, "0.0.9") == "0.0.9"
    with pytest.raises(ValueError, match="say which version"):
        way_back(None, "")
    with pytest.raises(ValueError, match=r"site\.yml"):
        decided(None, ["", ""], "0.2.0")


def test_another_bundle_of_the_same_release_is_an_upgrade_of_its_own() -> None:
    """Of etcd or mongod alone; in the midst of one the way back is still to where it came from."""
    begun = decided(None, ["0.1.0"], "0.2.0", "e1", "a")
    assert decided(begun, ["0.2.0"], "0.2.0", "e1", "a") == begun, "run again"
    assert decided(begun, ["0.2.0", "0.1.0"], "0.2.0", "e1", "b") == begun | {"bundle": "b"}
    own = decided(begun, ["0.2.0"], "0.2.0", "e1", "b")
    assert own == begun | {"from": "0.2.0", "bundle": "b"} and way_back(own, "") == "0.2.0"


def test_a_record_that_ansible_vault_has_encrypted_is_read_and_stays_so(tmp_path: Path) -> None:
    """All files of the secrets directory may be."""
    (key := tmp_path / "key").write_text("one\n")
    record = tmp_path / "upgrade.yml"
    record.write_text("{from: 0.1.0, to: 0.2.0, first: e1}\n")
    ansible("vault", "encrypt", f"--vault-password-file={key}", record).check_returncode()
    begin = {"directory": str(tmp_path), "state": "begin", "version": "0.3.0", "running": ["0.2.0"], "first": "e1"}
    playbook = tmp_path / "play.yml"
    tasks = [{"judge_upgrade": parameters} for parameters in (begin, {"directory": str(tmp_path), "state": "back"})]
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    run = ansible("playbook", "-i", "localhost,", "-v", f"--vault-password-file={key}", playbook)
    assert '"from": "0.2.0"' in run.stdout and '"version": "0.2.0"' in run.stdout
    assert record.read_text().startswith("$ANSIBLE_VAULT;")


def test_a_wrong_or_changed_verdict_stops_an_upgrade() -> None:
    probes = [{"name": "a", "verdict": "AC"}, {"name": "b", "verdict": "WA"}]
    assert probe.verdict_faults({"a": "AC", "b": "WA"}, probes, {}) == []
    assert probe.verdict_faults({"a": "AC"}, probes, {}) == [], "nobody has the language"
    assert probe.verdict_faults({"a": "RTE", "b": "WA"}, probes, {"a": "AC", "b": "WA"}) == [
        "'a' is RTE instead of AC, it was AC"
    ]
    faults = probe.verdict_faults({"a": "AC"}, probes, {"a": "AC", "b": "WA"})
    assert faults == ["'b' was WA and is not judged any more"]


def test_a_program_is_handed_in_until_that_executor_has_judged_it() -> None:
    calls: list[str] = []

    def ask(method: str, path: str, _: object) -> dict[str, Any]:
        calls.append(method)
        if method == "POST":
            return {"id": str(len(calls))}
        executor = "e2" if int(path.split("/")[2].split("?", maxsplit=1)[0]) > 8 else "e1"
        return {"done": True, "judged_by": executor, "verdict": "AC"}

    assert probe.judged({"name": "a", "source": "", "language": "c"}, ask, "e2", time.monotonic() + 60) == "AC"
    assert calls.count("POST") == 16
    with pytest.raises(probe.ProbeError, match="not judged by executor e9"):
        probe.judged({"name": "a", "source": "", "language": "c"}, ask, "e9", time.monotonic() - 1)


def test_an_executor_with_a_wrong_verdict_is_drained() -> None:
    states: dict[str, dict[str, Any]] = {
        name: {"name": name, "alive": True, "drain": False, "drain_reason": ""} for name in ("e1", "e2")
    }

    def ask(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        if method == "POST":
            _, _, name, verb = path.split("/")
            states[name] |= {"drain": verb == "drain", "drain_reason": (body or {}).get("reason", "")}
        return {"executors": list(states.values())}

    assert not probe.let_in(ask, "e1") and not probe.nobody_else(ask)
    assert "e1 is drained until" in probe.drain(ask, "e1", "'a' is RTE" + "!" * 600)
    assert len(states["e1"]["drain_reason"]) == 500 and not probe.nobody_else(ask)
    states["e2"]["alive"] = False
    assert probe.nobody_else(ask)
    assert probe.let_in(ask, "e1") and not states["e1"]["drain"] and not probe.nobody_else(ask)
    states["e1"] |= {"drain": True, "drain_reason": "its fan is loud"}
    with pytest.raises(probe.ProbeError, match=r"is drained \(its fan is loud\)"):
        probe.let_in(ask, "e1")

    def unreachable(*_: object) -> dict[str, Any]:
        raise probe.ProbeError("the gateway does not answer")

    assert "could not be drained" in probe.drain(unreachable, "e1", "x")


def test_the_database_s_features_follow_when_all_members_do() -> None:
    assert Features("6.0", {"a": "7.0", "b": "7.0"}).may_be_raised
    mixed = Features("6.0", {"a": "7.0", "b": "6.0"})
    assert not mixed.may_be_raised and "not of one version (a 7.0, b 6.0)" in mixed.sentence
    assert Features("8.0", {"a": "8.0"}).sentence == "" and number("10.0") > number("9.0")


def test_a_kernel_value_is_reported_once() -> None:
    """site.yml would set it again, which is a change of its file; so it stands there as the value only."""
    kernel = drift.Difference("e1", "kernel", "vm.swappiness", "10", "60", "/etc/sysctl.d/91-judge-executor.conf")
    duplicate = drift.Difference("e1", "file", kernel.task, task="Kernel settings")
    edited = drift.Difference("e1", "file", kernel.task, task="Kernel settings", diff=[{"before": "a", "after": "b"}])
    elsewhere = drift.Difference("e2", "file", kernel.task, task="Kernel settings")
    assert drift.together([duplicate, elsewhere], [kernel]) == [elsewhere, kernel]
    assert drift.together([edited], [kernel]) == [edited, kernel]
