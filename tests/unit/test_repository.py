"""MongoDB's repository on a host: its key is the right one or none, apt can read what is written, and only once."""

from __future__ import annotations

import base64
import contextlib
import http.server
import platform
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.ansible_plugins import module_utils, run_module

openpgp = module_utils("judge_openpgp")
# Debian's own, on every Debian; published at https://ftp-master.debian.org/keys.html
KEY = Path("/usr/share/keyrings/debian-archive-bookworm-automatic.gpg")
FINGERPRINT = "B8B80B5B623EAB6AD8775C45B7C5D7D6350947F8"


def armored(data: bytes) -> str:
    text = base64.encodebytes(data).decode()
    return f"-----BEGIN PGP PUBLIC KEY BLOCK-----\nVersion: 1\n\n{text}=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n"


ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
PACKAGES = "\n".join(
    f"Package: {name}\nVersion: {version}\nArchitecture: {ARCHITECTURE}\nSize: 1\nFilename: {name}_{version}.deb\n"
    for name, version in (("mongodb-org-server", "8.0.12"), ("mongodb-org-server", "8.2.1"), ("etcd-server", "9.9"))
)


needs_key = pytest.mark.skipif(not KEY.exists(), reason=f"no {KEY}: not a Debian, or an old one")


@needs_key
def test_the_fingerprint_is_the_published_one() -> None:
    assert openpgp.fingerprint(armored(KEY.read_bytes())) == FINGERPRINT


@pytest.mark.parametrize(
    "text", ["", "<html>not found</html>", armored(b""), armored(b"\x99\x02\x0d\x04abc"), armored(b"\xb4\x01a")]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(openpgp.KeyFormatError):
        openpgp.fingerprint(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_key_or_refused(data: bytes) -> None:
    with contextlib.suppress(openpgp.KeyFormatError):
        assert len(openpgp.fingerprint(armored(data))) == 40


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A web server with a key."""
    (tmp_path / "www").mkdir()
    if KEY.exists():
        (tmp_path / "www/key.asc").write_text(armored(KEY.read_bytes()))

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "www"))

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()
        thread.join()


def wanted(server: str, root: Path, **other: Any) -> dict[str, Any]:
    return {
        "name": "judge-mongodb",
        "url": "https://repo.example.org/apt/debian",
        "suite": "bookworm/mongodb-org/8.0",
        "component": "main",
        "key_url": f"{server}/key.asc",
        "fingerprint": FINGERPRINT,
        "packages": ["mongodb-org-server"],
        "version": "8.0.*",
        "root": str(root),
        **other,
    }


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@needs_key
def test_it_is_written_once_and_check_mode_foretells_it(server: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    first = run_module("judge_repository", wanted("http://127.0.0.1:1", root), check=True)
    assert first["changed"] and len(first["written"]) == 3 and not root.exists(), "check mode fetches nothing"
    assert run_module("judge_repository", wanted(server, root))["written"] == first["written"]
    assert len(files(root)) == 3
    again = run_module("judge_repository", wanted("http://127.0.0.1:1", root))
    assert not again["changed"], "and the key is not fetched again"
    assert run_module("judge_repository", wanted(server, root, version="8.0.12"))["written"] == [
        "/etc/apt/preferences.d/judge-mongodb"
    ]


@needs_key
@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"fingerprint": "0" * 40}, f"has the fingerprint {FINGERPRINT} instead of 0000"),
        ({"key_url": "http://127.0.0.1:1/key.asc"}, "cannot be fetched"),
    ],
)
def test_another_key_is_refused_and_nothing_is_written(
    server: str, tmp_path: Path, other: dict[str, str], told: str
) -> None:
    root = tmp_path / "root"
    result = run_module("judge_repository", wanted(server, root, **other))
    assert result["failed"] and told in result["msg"]
    assert not root.exists()


@needs_key
@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt here")
def test_apt_reads_what_is_written(server: str, tmp_path: Path) -> None:
    """apt itself: where it would look for packages, and which of them it would take from there."""
    root = tmp_path / "root"
    run_module("judge_repository", wanted(server, root))
    for directory in ("etc/apt/apt.conf.d", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial"):
        (root / directory).mkdir(parents=True)
    settings = ["-o", f"Dir={root}", "-o", f"Dir::State::status={root}/status"]
    (root / "status").touch()
    lists = subprocess.run(["apt-get", *settings, "update", "--print-uris"], capture_output=True, text=True, check=True)
    assert lists.stderr == ""
    assert "'https://repo.example.org/apt/debian/dists/bookworm/mongodb-org/8.0/InRelease'" in lists.stdout
    name = "repo.example.org_apt_debian_dists_bookworm_mongodb-org_8.0"
    for suffix, text in ((f"main_binary-{ARCHITECTURE}_Packages", PACKAGES), ("InRelease", "Codename: bookworm\n")):
        (root / f"var/lib/apt/lists/{name}_{suffix}").write_text(text)
    command = ["apt-cache", *settings, "policy", "mongodb-org-server", "etcd-server"]
    policy = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split()[1] for line in policy.stdout.splitlines() if "Candidate:" in line] == ["8.0.12", "(none)"]
