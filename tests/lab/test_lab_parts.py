"""The lab's own rules, without a lab: names, addresses, sizes, mirrors, and what it says when something is missing."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lab import cgroups, cluster, image, inventory, shell, state, uml
from lab import host as hosts
from lab.errors import LabError, UsageError
from lab.state import Record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """State and cache of this test's own."""
    monkeypatch.setenv("JUDGE_LAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("JUDGE_LAB_CACHE", str(tmp_path / "cache"))
    return tmp_path


def record(**fields: object) -> Record:
    return Record(**({"name": "lab", "index": 3, "release": "trixie", "base": "/b", "inventory": "/i"} | fields))


def test_addresses_go_by_letter_and_number() -> None:
    lab = record()
    lab.add_hosts(["j1", "j2", "e1", "e60", "g1", "gw", "e61", "j10"])
    lab.add_hosts(["j1", "e2", "u9"])
    assert {name: lab.address(name) for name in lab.hosts} == {
        "j1": "10.77.3.11", "j2": "10.77.3.12", "e1": "10.77.3.31", "e60": "10.77.3.90", "g1": "10.77.3.21",
        "gw": "10.77.3.100", "e61": "10.77.3.101", "j10": "10.77.3.102", "e2": "10.77.3.32",
        "u9": "10.77.3.99",
    }  # fmt: skip
    lab.add_hosts([f"ex{number}" for number in range(152)])
    assert len(set(lab.hosts.values())) == len(lab.hosts)
    with pytest.raises(UsageError, match="no address left for eone"):
        lab.add_hosts(["eone"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no host"),
        ("j1,x1", "host name 'x1'"),
        ("j1,J2", "host name 'J2'"),
        ("j-1", "host name 'j-1'"),
        ("j123456789012", "host name"),
        ("j1,e1,j1", "j1 twice"),
    ],
)
def test_bad_host_lists(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        state.parse_hosts(text)


def test_good_host_lists() -> None:
    assert state.parse_hosts(state.DEFAULT_HOSTS) == ["j1", "j2", "j3", "e1", "e2", "g1"]
    assert state.parse_hosts(" j1, e1,") == ["j1", "e1"]


@pytest.mark.parametrize("name", ["", "a-b", "Lab", "1a", "../x", "averylongname", "ä"])
def test_bad_lab_names(name: str) -> None:
    with pytest.raises(UsageError, match="lab name"):
        state.check_name(name)


def test_sizes() -> None:
    assert [hosts.parse_size(text) for text in ("0", "1048576", "1024k", "16M", "2G")] == [
        0, 1 << 20, 1 << 20, 16 << 20, 2 << 30,
    ]  # fmt: skip
    for text in ("", "-1M", "1T", "512K", "M", "1.5G"):
        with pytest.raises(UsageError, match="size"):
            hosts.parse_size(text)


@pytest.mark.parametrize("path", ["data", "/", "/a/../b", "/proc/1", "/run/x", "/a b", "/a:b", "/a;b", ""])
def test_bad_directories(path: str) -> None:
    with pytest.raises(UsageError, match="directory"):
        hosts.check_directory(path)


def test_records_survive_and_networks_differ(place: Path) -> None:
    assert state.all_names() == [] and state.free_index() == 0
    first = record(name="one", index=0)
    first.add_hosts(["j1"])
    first.save()
    assert state.read("one") == first
    assert state.free_index() == 1
    record(name="three", index=1).save()
    (place / "state/torn").mkdir()
    (place / "state/torn/lab.json").write_text('{"name": "to')
    assert state.all_names() == ["one", "three", "torn"]
    assert state.read("torn") is None and state.read("nosuch") is None
    assert state.free_index() == 2
    with pytest.raises(LabError, match=r"there is no lab 'two'.* there is one, three"):
        cluster.Lab.open("two")
    with pytest.raises(UsageError, match="no host 'e7' in lab 'one': it has j1"):
        cluster.Lab.open("one").check("j1", "e7")


def test_the_lock_is_for_one(place: Path) -> None:
    order: list[str] = []
    started = threading.Event()

    def second() -> None:
        started.set()
        with state.lock("x"):
            order.append("second")

    with state.lock("x") as path:
        with pytest.raises(LabError, match="lab 'x' is busy"), state.lock("x", timeout=0.05):
            pass
        thread = threading.Thread(target=second)
        thread.start()
        started.wait()
        order.append("first")
        path.unlink()  # as `down` does; the one that waits must not be content with a lock on a removed file
    thread.join()
    assert order == ["first", "second"]
    assert path.exists()


def test_inventory(place: Path) -> None:
    lab = record(inventory=str(place / "inventory"))
    lab.add_hosts(["j1", "e1"])
    key = lab.host_directory("j1") / "host_key.pub"
    key.parent.mkdir(parents=True)
    key.write_text("ssh-ed25519 AAAA root@j1\n")
    inventory.write(lab)
    file = place / "inventory/hosts.yml"
    before = file.stat().st_ino
    inventory.write(lab)
    assert file.stat().st_ino == before, "written only when it changes"
    assert (lab.directory / "known_hosts").read_text() == "10.77.3.11 ssh-ed25519 AAAA\n"
    children = inventory.tree(lab)["all"]["children"]
    assert children["executors"]["hosts"] == {"e1": {"ansible_host": "10.77.3.31"}}
    assert children["gateways"]["hosts"] == {}
    (place / "inventory/secrets").mkdir()
    (place / "inventory/README.md").write_text("kept")
    inventory.remove(place / "inventory")
    assert [path.name for path in (place / "inventory").iterdir()] == ["README.md"]


def test_mirrors_are_the_machines_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JUDGE_LAB_MIRROR", raising=False)
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    with pytest.raises(LabError, match=r"no Debian mirror in .*JUDGE_LAB_MIRROR"):
        image.sources("trixie", tmp_path)
    (parts / "a.sources").write_text(
        "Types: deb\nURIs: https://example.org/node\nSuites: nodistro\n\n"
        "# a comment\nTypes: deb deb-src\nURIs: http://off.example/debian\nSuites: bookworm\nEnabled: no\n\n"
        "Types: deb\nURIs: http://mirror.example/debian\nSuites:\n bookworm bookworm-updates\nComponents: main\n\n"
        "Types: deb\nURIs: http://sec.example/debian-security\nSuites: bookworm-security\n"
    )
    assert image.sources("trixie", tmp_path).splitlines() == [
        "deb http://mirror.example/debian trixie main",
        "deb http://mirror.example/debian trixie-updates main",
        "deb http://sec.example/debian-security trixie-security main",
    ]
    (tmp_path / "sources.list").write_text(
        "# deb http://no.example/debian trixie main\ndeb-src http://src.example/debian trixie main\n"
        "deb [arch=amd64 signed-by=/x.gpg] http://line.example/debian trixie main contrib # near\n"
    )
    assert "deb http://line.example/debian bookworm main" in image.sources("bookworm", tmp_path)
    monkeypatch.setenv("JUDGE_LAB_MIRROR", "http://given.example/debian")
    assert image.sources("trixie", tmp_path).splitlines() == [
        "deb http://given.example/debian trixie main",
        "deb http://given.example/debian trixie-updates main",
    ]


def test_a_failed_build_is_one_sentence_and_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("building an image needs root")
    try:
        shell.prepare()
    except LabError as exc:
        pytest.skip(f"no lab here: {exc}")
    monkeypatch.setenv("JUDGE_LAB_MIRROR", "file:///nonexistent/debian")
    lines: list[str] = []
    with pytest.raises(LabError, match=r"mmdebstrap could not make a trixie image: .*nonexistent"):
        image.ensure("trixie", lines.append)
    assert len(lines) == 1 and "base image" in lines[0]
    assert [path.name for path in (place / "cache").iterdir()] == [".trixie.lock"]


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(shell, "SBIN", "/nonexistent")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(LabError, match=r"missing .*mmdebstrap.*apt-get install .*systemd-container"):
        shell.prepare()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root"):
        shell.prepare()


def test_a_missing_kernel_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LabError, match=r"missing linux\.uml.*names begin with u.*apt-get install user-mode-linux"):
        uml.prepare()


def test_a_machine_without_the_old_hierarchies_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda *_: "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    with pytest.raises(LabError, match="no cgroup v1 hierarchy for memory"):
        cgroups.hierarchies()


def test_a_failing_program_is_one_sentence() -> None:
    with pytest.raises(LabError, match=r"`sh -c echo a >&2; echo b >&2; exit 3` ended with 3: b"):
        shell.call("sh", "-c", "echo a >&2; echo b >&2; exit 3")
    assert shell.call("sh", "-c", "cat; exit 3", text="x", ok=(3,)) == "x"


def test_help_needs_nothing() -> None:
    for arguments in (["--help"], ["up", "--help"], ["cut", "--help"]):
        command = [sys.executable, "-m", "lab", *arguments]
        completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert completed.returncode == 0 and "Usage" in completed.stdout, completed.stderr
    wrapper = subprocess.run([str(ROOT / "lab/lab"), "--help"], cwd="/", capture_output=True, text=True, check=False)
    assert wrapper.returncode == 0 and "freeze" in wrapper.stdout
