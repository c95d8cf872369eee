"""MongoDB's repository on a host: apt reads what the role writes, and takes nothing from there but the server."""

import platform
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import jinja2
import pytest
import yaml

from tests.support.lab import ROOT

ROLE = ROOT / "roles/judge_mongodb"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PACKAGES = "\n".join(
    f"Package: {name}\nVersion: {version}\nArchitecture: {ARCHITECTURE}\nSize: 1\nFilename: {name}_{version}.deb\n"
    for name, version in (("mongodb-org-server", "8.0.12"), ("mongodb-org-server", "8.2.1"), ("etcd-server", "9.9"))
)


def rendered(name: str) -> str:
    """A template of the role with the defaults of the role, and a mirror."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    environment.filters["urlsplit"] = lambda url, part: getattr(urlsplit(url), part)
    defaults = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    mirror = {"judge_mongodb_repository": "https://repo.example.org:8443/apt/debian"}
    return environment.from_string((ROLE / "templates" / name).read_text()).render(defaults | mirror)


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt here")
def test_apt_reads_what_is_written(tmp_path: Path) -> None:
    directories = (
        "etc/apt/apt.conf.d",
        "etc/apt/preferences.d",
        "var/lib/apt/lists/partial",
        "var/cache/apt/archives/partial",
    )
    for directory in (*directories, "etc/apt/sources.list.d"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "etc/apt/sources.list.d/judge-mongodb.sources").write_text(rendered("repository.sources.j2"))
    (tmp_path / "etc/apt/preferences.d/judge-mongodb").write_text(rendered("repository.pref.j2"))
    (tmp_path / "status").touch()
    settings = ["-o", f"Dir={tmp_path}", "-o", f"Dir::State::status={tmp_path}/status"]
    lists = subprocess.run(["apt-get", *settings, "update", "--print-uris"], capture_output=True, text=True, check=True)
    assert lists.stderr == ""
    assert "'https://repo.example.org:8443/apt/debian/dists/bookworm/mongodb-org/8.0/InRelease'" in lists.stdout
    name = "repo.example.org:8443_apt_debian_dists_bookworm_mongodb-org_8.0"
    for suffix, text in ((f"main_binary-{ARCHITECTURE}_Packages", PACKAGES), ("InRelease", "Codename: bookworm\n")):
        (tmp_path / f"var/lib/apt/lists/{name}_{suffix}").write_text(text)
    command = ["apt-cache", *settings, "policy", "mongodb-org-server", "etcd-server"]
    policy = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split()[1] for line in policy.stdout.splitlines() if "Candidate:" in line] == ["8.0.12", "(none)"]
