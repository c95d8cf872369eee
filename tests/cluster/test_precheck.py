"""Every fault that a precheck has to find, on real hosts, all at once: one sentence each, and nothing is written."""

import datetime
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from judge import __version__
from judge.common.pki import authority as ca
from judge.deploy.bundle.__main__ import write_manifest
from lab.cluster import Lab
from tests.support.lab import Deployment, bare_hosts, differences, files_below, lab_marks

pytestmark = lab_marks(900)
HOSTS = ("j1", "j2", "e1", "g1")


@dataclass
class Place:
    """The lab, and the controller's directory with inventory, bundle and secrets."""

    lab: Lab
    directory: Path
    hosts: Deployment

    @property
    def inventory(self) -> Path:
        return self.directory / "hosts.yml"


def make_bundle(path: Path) -> None:
    for name in ("debs/etcd-server_3.5.16_amd64.deb", f"wheels/judge-{__version__}-py3-none-any.whl", "bin/mongod"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(name.encode() * 1000)
    write_manifest(path, {"release": "trixie", "architecture": "amd64", "python": "3.13", "versions": {}})


def make_authority(path: Path, *, days: int) -> None:
    """An authority of the real module's making; with negative days one that has expired."""
    with pytest.MonkeyPatch.context() as patch:
        if days < 0:
            expiry = ca.now() + datetime.timedelta(days=2 * days)
            patch.setattr(ca, "now", lambda: expiry)
        ca.Authority(path).make("judge", abs(days))


def write_inventory(place: Place, tree: dict[str, Any]) -> None:
    place.inventory.write_text(yaml.safe_dump(tree))


def tree_of(place: Place) -> dict[str, Any]:
    """The lab's own inventory, of four hosts without a fault."""
    tree: dict[str, Any] = yaml.safe_load((Path(place.lab.record.inventory) / "hosts.yml").read_text())
    return tree


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("precheck")
    (directory / "lab").mkdir()
    with bare_hosts(HOSTS, directory / "lab") as bare:
        place = Place(
            bare.lab, directory, Deployment(bare.lab, tmp_path_factory.mktemp("said"), directory / "hosts.yml")
        )
        place.hosts.undisturbed()
        make_bundle(directory / "bundle")
        write_inventory(place, tree_of(place))
        yield place


def report_of(output: str) -> list[str]:
    """The sentences of a precheck's report."""
    start = output.index('"msg": [')
    sentences: list[str] = json.loads(output[start + len('"msg": ') :].partition("]")[0] + "]")
    return sentences


def the_one(sentences: list[str], *words: str) -> str:
    matches = [sentence for sentence in sentences if all(word in sentence for word in words)]
    assert len(matches) == 1, (words, matches, sentences)
    return matches[0]


def test_a_healthy_lab_has_only_the_warning_about_two_judicators(place: Place) -> None:
    run = place.hosts.play("playbooks/precheck.yml")
    assert run.code == 0, run.text
    assert report_of(run.text) == ["warning: 2 judicators bear no more failures than 1; use 1 or 3"]
    assert "changed=0" in run.text and "changed=1" not in run.text
    assert "[DEPRECATION" not in run.text and "[WARNING" not in run.text


def plant(place: Place) -> dict[str, Any]:
    """Damage hosts, bundle, authority and inventory; the inventory's tree is returned."""
    lab, tree = place.lab, tree_of(place)
    lab.fill("e1", "/opt/judge", "64M")  # restarts the host, so it comes first
    place.hosts.undisturbed()
    # e1: another system on a small disk
    lab.ssh("e1", "sed -i 's/^ID=.*/ID=ubuntu/; s/^VERSION_CODENAME=.*/VERSION_CODENAME=noble/' /etc/os-release")
    # j1: a squatter on a port, and what another cluster left
    lab.ssh("j1", "systemd-run --quiet --unit=squatter python3 -m http.server 7400")
    record = json.dumps({"token": "of-another-cluster", "name": "j1"})
    lab.ssh("j1", f"install -d /var/lib/judge/etcd/data/member && echo '{record}' >/var/lib/judge/etcd/membership.json")
    lab.ssh("j1", "install -d /var/lib/judge/mongodb && touch /var/lib/judge/mongodb/WiredTiger")
    # j2: Debian 12 by its own account, with a clock that is an hour ahead in every session
    lab.ssh("j2", "sed -i 's/^VERSION_CODENAME=.*/VERSION_CODENAME=bookworm/' /etc/os-release")
    settings = "FAKETIME=+3600s\\nFAKETIME_DONT_FAKE_MONOTONIC=1\\nFAKETIME_DISABLE_SHM=1\\n"
    lab.ssh("j2", f'printf "LD_PRELOAD=%s\\n{settings}" /usr/lib/*/faketime/libfaketime.so.1 >/etc/environment')
    lab.forget_connections("j2")  # a session that is open keeps its environment
    # the controller's: a flipped byte, an authority that has expired
    wheel = place.directory / f"bundle/wheels/judge-{__version__}-py3-none-any.whl"
    data = bytearray(wheel.read_bytes())
    data[500] ^= 1
    wheel.write_bytes(data)
    make_authority(place.directory / "secrets/pki", days=-3)
    # the inventory's: an address twice, none at all, a misspelt variable, and values that cannot be
    executors = tree["all"]["children"]["executors"]["hosts"]
    executors["e2"] = {"ansible_host": lab.record.address("j1")}
    executors["e3"] = {}
    executors["e1"] |= {"judge_executor_slotts": 3, "judge_executor_cores": "first"}
    tree["all"]["vars"] |= {"judge_log_level": "loud"}
    return tree


@pytest.fixture(scope="module")
def damaged(place: Place) -> Place:
    """The lab with every fault; its inventory is written, g1's cable is in."""
    write_inventory(place, plant(place))
    return place


def test_all_faults_come_in_one_run_and_nothing_is_written(damaged: Place) -> None:
    place, lab = damaged, damaged.lab
    before = {host: place.hosts.everything(host) for host in HOSTS}
    files = files_below(place.directory)
    lab.forget_connections("g1")
    lab.cut("g1")
    run = place.hosts.play("playbooks/precheck.yml")
    lab.heal()

    assert run.code == 2, run.text
    sentences = report_of(run.text)
    address = lab.record.address
    expected = [
        the_one(sentences, "warning: 2 judicators", "use 1 or 3"),
        the_one(sentences, "FAULT: e3: it has no address", "set ansible_host"),
        the_one(sentences, f"FAULT: j1: it has the same address as e2, {address('j1')}", "correct one"),
        the_one(sentences, f"FAULT: g1: {address('g1')} cannot be reached", "switch it on, or correct ansible_host"),
        the_one(sentences, "FAULT: e1: its system is ubuntu noble", "install Debian 12"),
        the_one(
            sentences, "FAULT: j2: the bundle is for trixie and the host is bookworm", "judge_bundle_release=bookworm"
        ),
        the_one(sentences, "FAULT: j1: port 7400, which the judicator needs, is taken by squatter.service", "stop it"),
        the_one(sentences, "FAULT: e1: /opt/judge:", "800 MB are needed", "enlarge the disk"),
        the_one(sentences, "FAULT: j2: its clock is 3", " s ahead of the others", "timedatectl"),
        the_one(sentences, f"wheels/judge-{__version__}-py3-none-any.whl has another SHA-256", "make it anew"),
        the_one(sentences, "FAULT: the cluster's CA", "expired on", "docs/playbooks/rotate.md"),
        the_one(sentences, "FAULT: j1: /var/lib/judge/etcd holds another cluster's data", "move it away"),
        the_one(sentences, "FAULT: j1: /var/lib/judge/mongodb holds a database that judge did not make", "move it"),
        the_one(sentences, "FAULT: e1: unknown variable 'judge_executor_slotts'; did you mean 'judge_executor_slots'"),
        the_one(sentences, "FAULT: e1:", "judge_executor_cores", "roles/judge_executor/README.md"),
        the_one(sentences, "FAULT: e1, e2, e3, g1, j1, j2: value of judge_log_level must be one of: debug"),
    ]
    assert sorted(expected) == sorted(sentences), "a sentence too many"
    assert re.search(r"its clock is 3[56]\d\d\.\d s ahead", run.text), "an hour, however long the way there was"
    faults = sum(sentence.startswith("FAULT") for sentence in sentences)
    assert f"{faults} faults found, listed above" in run.text

    assert files_below(place.directory) == files, "the controller's files are as before"
    for host in HOSTS:
        changed = differences(before[host], place.hosts.everything(host))
        assert changed == [], f"{host}: a precheck has written"


def test_too_many_judicators(place: Place) -> None:
    tree = tree_of(place)
    tree["all"]["children"]["judicators"]["hosts"] |= {
        f"j{number}": {"ansible_host": f"192.0.2.{number}"} for number in range(3, 10)
    }
    write_inventory(place, tree)
    run = place.hosts.play("playbooks/precheck.yml", "--limit", "e1")
    assert run.code != 0
    assert the_one(report_of(run.text), "there are 9 judicators and at most 7 can vote", "leave 7 or fewer")


def test_site_stops_at_the_same_faults(damaged: Place) -> None:
    """site.yml begins with the precheck: a fault keeps everything else from happening, also in check mode."""
    place = damaged
    write_inventory(place, tree_of(place))
    before = place.hosts.everything("g1")
    for mode in ([], ["--check", "--diff"]):
        run = place.hosts.site("--limit", "e1,g1", *mode)
        assert run.code != 0
        the_one(report_of(run.text), "e1: its system is ubuntu noble")
        assert "What every host has" not in run.text and "Groups of the daemons exist" not in run.text
    assert place.hosts.everything("g1") == before


def test_an_authority_that_is_kept_elsewhere_is_the_one_that_is_looked_at(place: Place) -> None:
    """`judge_pki_directory`: one beside the secrets is nobody's then, whatever has become of it."""
    write_inventory(place, tree_of(place))
    elsewhere = place.directory / "elsewhere"
    make_authority(elsewhere, days=-3)
    run = place.hosts.play("playbooks/precheck.yml", "-e", f"judge_pki_directory={elsewhere}")
    assert run.code != 0
    sentence = the_one(report_of(run.text), "FAULT: the cluster's CA", "expired on")
    assert str(elsewhere / "ca.crt") in sentence


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("judge_source=cdrom", "must be one of: bundle, online, got: cdrom"),
        ("judge_precheck_clock_skew=much", "judge_precheck_clock_skew"),
    ],
)
def test_a_wrong_setting_of_the_precheck_itself_is_named(place: Place, extra: str, message: str) -> None:
    run = place.hosts.play("playbooks/precheck.yml", "-e", extra)
    assert run.code != 0 and message in run.text and "Traceback" not in run.text
