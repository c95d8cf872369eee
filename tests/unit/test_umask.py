"""Hosts with an umask of 027 or 077: what the modules make for services can be read by services."""

import base64
import getpass
import grp
import json
import os
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from plugins.module_utils.judge_files import FORMAT
from plugins.module_utils.judge_lock import one_at_a_time
from tests.support.ansible import ROOT, read, run_module

MINE = {"owner": getpass.getuser(), "group": grp.getgrgid(os.getgid()).gr_name}
PIP = Path("/usr/share/python-wheels")


@pytest.fixture(params=[0o027, 0o077], ids=["027", "077"], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def run(name: str, parameters: dict[str, Any]) -> None:
    result = run_module(name, parameters)
    assert not result.get("failed"), result


def closed(directory: Path) -> list[str]:
    """Files that another user cannot read, and directories and programs that another user cannot enter or run."""
    paths = []
    for path in [directory, *directory.rglob("*")]:
        if path.is_symlink():
            continue
        mode = path.stat().st_mode
        runs = path.is_dir() or mode & stat.S_IXUSR
        if not mode & stat.S_IROTH or (runs and not mode & stat.S_IXOTH):
            paths.append(f"{stat.filemode(mode)} {path.relative_to(directory)}")
    return paths


def wheel(directory: Path) -> Path:
    directory.mkdir()
    path = directory / "judge-9.9.9-py3-none-any.whl"
    info = "judge-9.9.9.dist-info"
    files = {
        "judge/__init__.py": "def main():\n    print('judge 9.9.9')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: judge\nVersion: 9.9.9\nProvides-Extra: otel\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\njudge = judge:main\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"]))
    return path


@pytest.mark.skipif(not any(PIP.glob("pip-*.whl")), reason="the package python3-venv is not installed")
def test_a_release_can_be_run_by_every_user(tmp_path: Path) -> None:
    source = wheel(tmp_path / "wheels").parent
    releases, current = tmp_path / "releases", tmp_path / "current"
    releases.mkdir(mode=0o755)
    releases.chmod(0o755)
    places = {"source": str(source), "releases": str(releases), "current": str(current)}
    run("judge_release", {"version": "9.9.9", **places})
    assert (current / "bin/judge").is_file()
    assert closed(releases) == []


def test_a_directory_has_its_mode_and_so_have_those_above(tmp_path: Path) -> None:
    items = [
        {"dest": str(tmp_path / "etc/deep/judge"), "state": "directory", **MINE},
        {
            "dest": str(tmp_path / "etc/deep/judge/a.yml"),
            "state": "file",
            "content": base64.b64encode(b"a").decode(),
            **MINE,
        },
    ]
    assert run_module("judge_place", {"items": items, "diff": False})["changed"]
    assert closed(tmp_path / "etc") == []
    secret = {**items[1], "dest": str(tmp_path / "etc/secret"), "mode": "0640"}
    assert run_module("judge_place", {"items": [secret], "diff": False})["changed"]
    assert stat.S_IMODE((tmp_path / "etc/secret").stat().st_mode) == 0o640


def test_programs_of_a_bundle_can_be_run_by_every_user(tmp_path: Path) -> None:
    """The copy of a bundle, and the way back to the one before."""
    dest = tmp_path / "opt/bundle"
    for version, text in (("1", b"#!/bin/sh\n"), ("2", b"#!/bin/sh\nexit 0\n")):
        files = {"bin/etcd": {"sha256": sha256(text).hexdigest(), "size": len(text)}}
        about = {"release": "trixie", "architecture": "amd64", "python": "3.13", "versions": {"judge": version}}
        manifest = json.dumps({"format": FORMAT, "files": files, **about})
        program = tmp_path / "etcd"
        program.write_bytes(text)
        with tarfile.open(tmp_path / "sent.tar", "w") as archive:
            archive.add(program, "bin/etcd")
        parameters = {"src": "bundle", "dest": str(dest), "manifest": manifest, "archive": str(tmp_path / "sent.tar")}
        run("judge_bundle_sync", parameters)
        assert (dest / "bin/etcd").read_bytes() == text
        assert closed(tmp_path / "opt") == []


def test_a_certificate_is_for_everybody_and_its_key_is_not(tmp_path: Path) -> None:
    certificates = [{"name": "https", **MINE}]
    parameters = {"path": str(tmp_path / "etc/tls"), "ca": "an authority\n", "certificates": certificates}
    run("judge_pki_certificates", parameters)
    assert stat.S_IMODE((tmp_path / "etc").stat().st_mode) == 0o755
    assert stat.S_IMODE((tmp_path / "etc/tls/ca.crt").stat().st_mode) == 0o644
    keys = list((tmp_path / "etc/tls").glob("*.key*"))
    assert keys
    assert [path for path in keys if path.stat().st_mode & 0o077] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts are changed by root only")
def test_commands_of_a_module_make_files_for_everybody(tmp_path: Path) -> None:
    """As apt, whose packages make files in their scripts."""
    with one_at_a_time(tmp_path / "locks"):
        subprocess.run(["/bin/sh", "-c", f"mkdir {tmp_path}/made && touch {tmp_path}/made/file"], check=True)
    assert closed(tmp_path / "made") == []


def test_gos_library_is_compiled_for_everybody() -> None:
    (task,) = (entry for entry in read(ROOT / "roles/judge_executor/tasks/go.yml") if "compiled" in entry["name"])
    script = task["ansible.builtin.command"]["argv"][2]
    assert script.startswith("umask 022")
