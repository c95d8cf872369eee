"""Archives of Debian packages that stand in for those of MongoDB and etcd: signed by a key of the test's own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from judge.bundle import debs
from judge.bundle.files import describe


class Maker:
    """Somebody who publishes packages: an archive, and the key that signs it."""

    def __init__(self, work: Path, name: str = "maker") -> None:
        """`work` is a directory of its own; nothing is published yet."""
        self.name, self.work = name, work
        self.archive = work / "archive"
        self.key = work / f"{name}.asc"
        self.home = work / "gpg"
        self.home.mkdir(mode=0o700, parents=True)
        self.archive.mkdir()
        self._gpg("--passphrase", "", "--quick-gen-key", name, "ed25519", "sign", "never")
        self._gpg("--armor", "--output", str(self.key), "--export", name)

    def _gpg(self, *arguments: str) -> None:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--yes", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def build(self, package: str, version: str, files: Mapping[str, Path] | None = None, needs: str = "") -> Path:
        """Make a package with these files, executable, by their places on a host."""
        tree = self.work / f"{package}-{version}"
        for place, source in (files or {}).items():
            target = tree / place.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
            target.chmod(0o755)
        control = tree / "DEBIAN/control"
        control.parent.mkdir(parents=True)
        about = f"Package: {package}\nVersion: {version}\nArchitecture: all\nMaintainer: m <m@example.org>\n"
        depends = f"Depends: {needs}\n" if needs else ""
        control.write_text(f"{about}{depends}Description: none\n")
        return self._pack(tree, f"{package}_{version.replace(':', '%3a')}_all.deb")

    def rebuild(self, deb: Path, version: str, changed: str) -> Path:
        """Another maker's package with a newer version and one file that differs, at its end only."""
        tree = self.work / f"{deb.stem}-{version}"
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True, capture_output=True)
        control = tree / "DEBIAN/control"
        lines = control.read_text().splitlines()
        control.write_text("".join(f"Version: {version}\n" if x.startswith("Version:") else f"{x}\n" for x in lines))
        with (tree / changed.lstrip("/")).open("ab") as file:
            file.write(b"\0newer")
        return self._pack(tree, f"{deb.name.partition('_')[0]}_{version}_amd64.deb")

    def _pack(self, tree: Path, name: str) -> Path:
        made = self.archive / name
        command = ["dpkg-deb", "-Znone", "--root-owner-group", "--build", str(tree), str(made)]
        # No time of its making: in a later run the bundle's cache takes one of this name for the same one.
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "SOURCE_DATE_EPOCH": "0"})
        return made

    def publish(self) -> None:
        """Write and sign the lists of all packages that are in the archive."""
        found = [
            debs.Deb("", path.name, known["size"], known["sha256"])
            for path in sorted(self.archive.glob("*.deb"))
            for known in [describe(path)]
        ]
        debs.publish(self.archive, debs.index(self.archive, found, "amd64"))
        self.sign(self.archive)

    def publish_suite(self, suite: str) -> None:
        """Write and sign the lists as a distribution's archive has them: in dists/, with one component, `main`."""
        self.publish()
        data = (self.archive / "Packages").read_bytes()
        place = self.archive / "dists" / suite
        (place / "main/binary-amd64").mkdir(parents=True)
        (place / "main/binary-amd64/Packages").write_bytes(data)
        (place / "Release").write_text(
            f"Suite: {suite}\nCodename: {suite}\nArchitectures: amd64 all\nComponents: main\nSHA256:\n"
            f" {hashlib.sha256(data).hexdigest()} {len(data)} main/binary-amd64/Packages\n"
        )
        self.sign(place)

    def sign(self, archive: Path) -> None:
        """Sign an archive's lists with this maker's key."""
        signed, release = str(archive / "InRelease"), str(archive / "Release")
        self._gpg("--local-user", self.name, "--output", signed, "--clearsign", release)

    @property
    def line(self) -> str:
        """The archive as a line of sources.list, with the key's file."""
        return f"deb [signed-by={self.key}] copy:{self.archive} ./"
