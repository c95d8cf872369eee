"""Debian packages for a bundle: which ones, out of which archive, and the index that apt reads.

apt does the resolving, in a root of its own with an empty list of installed packages: the answer is the whole closure,
the same on every controller, and this machine's own packages and lists are neither read nor touched.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from judge.common.files import replace
from judge.deploy.bundle.files import BundleError, describe

_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<name>\S+) (?P<size>\d+) SHA256:(?P<sha256>[0-9a-f]{64})$")
_INDEX = ("Packages", "Release")
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_TARGETS = ["apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages"]


@dataclass(frozen=True)
class Deb:
    """One package to fetch; `cached` is apt's name of the file, `file` the bundle's."""

    cached: str
    file: str
    size: int
    sha256: str


def parse_uris(text: str) -> list[Deb]:
    """The packages out of `apt-get --print-uris`; other lines are apt's talk."""
    debs = (
        Deb(match["name"], unquote(urlsplit(match["uri"]).path).rpartition("/")[2], int(match["size"]), match["sha256"])
        for match in filter(None, map(_URI.match, text.splitlines()))
    )
    return sorted(debs, key=lambda deb: deb.file)


def own_release(os_release: str) -> str:
    match = re.search(r"^VERSION_CODENAME=\"?(\w+)", os_release, re.MULTILINE)
    return match[1] if match else ""


def own_architecture() -> str:
    done = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def derive_sources(targets: str, architecture: str, release: str) -> list[str]:
    """Lines for sources.list: this machine's own Debian archive, as apt tells it, for another release.

    `targets` has one `REPO_URI|RELEASE|COMPONENT` per line. Only suites of the machine's own release count, so that
    a third party's archive is never taken for Debian's. BundleError when there is none.
    """
    lines = []
    for line in targets.splitlines():
        uri, _, fields = line.partition("|")
        suite, _, component = fields.partition("|")
        if architecture and component == "main" and re.fullmatch(rf"{architecture}(-updates|-security)?", suite):
            lines.append(f"deb [signed-by={_KEYRING}] {uri} {release}{suite.removeprefix(architecture)} main")
    if not lines:
        msg = "this controller's apt knows no Debian archive; set judge_bundle_apt_sources to the lines of one"
        raise BundleError(msg)
    return sorted(set(lines))


class Apt:
    """apt in a root of its own; its lists and archives stay there for the next run."""

    def __init__(self, root: Path, architecture: str) -> None:
        self.root = root
        for name in ("state/lists/partial", "cache/archives/partial", "none/partial", "etc/apt.conf.d", "log"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "status").write_text("", encoding="utf-8")
        conf = root / "apt.conf"
        conf.write_text(
            f'Dir "{root}/";\nDir::State "state"; Dir::State::status "{root}/status"; Dir::Cache "cache";\n'
            f'Dir::Etc "etc"; Dir::Etc::sourcelist "{root}/sources.list"; Dir::Etc::sourceparts "/dev/null";\n'
            'Dir::Etc::trusted "/dev/null"; Dir::Etc::trustedparts "/dev/null"; Dir::Etc::preferences "/dev/null";\n'
            f'Dir::Etc::preferencesparts "/dev/null"; Dir::Log "log"; APT::Architecture "{architecture}";\n'
            f'APT::Architectures {{ "{architecture}"; }}; APT::Sandbox::User ""; APT::Install-Recommends "false";\n'
            'Acquire::Languages "none"; Acquire::ForceHash "SHA256"; Acquire::Retries "3";\n',
            encoding="utf-8",
        )
        self.environment = {**os.environ, "APT_CONFIG": str(conf), "LC_ALL": "C.UTF-8"}

    def _run(self, *arguments: str) -> str:
        """apt-get's output; BundleError with its own first complaint."""
        done = subprocess.run(
            ["apt-get", "-q", *arguments], env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            complaints = [line for line in done.stderr.splitlines() if line.startswith(("E:", "W:"))]
            complaints.sort(key=lambda line: line[0])  # errors first
            reason = complaints[0].removeprefix("E: ") if complaints else f"exit code {done.returncode}"
            raise BundleError(f"apt-get {arguments[0]} could not make the bundle's packages: {reason}")
        return done.stdout

    def update(self, sources: list[str]) -> None:
        """Fetch the archive's lists; a list that could not be fetched is an error, not a warning."""
        (self.root / "sources.list").write_text("\n".join(sources) + "\n", encoding="utf-8")
        self._run("update", "-o", "APT::Update::Error-Mode=any")

    def resolve(self, packages: list[str]) -> list[Deb]:
        """The closure of the packages; asked with an empty cache, as apt names only what it would have to fetch."""
        output = self._run("install", "-y", "--print-uris", "-o", f"Dir::Cache::archives={self.root}/none", *packages)
        result = parse_uris(output)
        unknown = sum(line.startswith("'") for line in output.splitlines()) - len(result)
        if unknown or not result:
            raise BundleError(
                f"apt told no address and SHA-256 for {unknown or 'any'} of the packages; set judge_bundle_apt_sources"
            )
        return result

    def fetch(self, packages: list[str], debs: list[Deb], target: Path) -> None:
        """Put the packages that are wanted into `target`; apt has verified each one."""
        self._run("install", "-y", "--download-only", *packages)
        for deb in debs:
            fresh = target / f".{deb.file}.new"
            shutil.copyfile(self.root / "cache/archives" / deb.cached, fresh)
            fresh.replace(target / deb.file)


def is_right(path: Path, deb: Deb) -> bool:
    return path.is_file() and describe(path) == {"size": deb.size, "sha256": deb.sha256}


def index(directory: Path, debs: list[Deb], architecture: str) -> dict[str, str]:
    stanzas = []
    for deb in debs:
        control = subprocess.run(
            ["dpkg-deb", "--field", str(directory / deb.file)], capture_output=True, text=True, check=True
        ).stdout.rstrip("\n")
        stanzas.append(f"{control}\nFilename: ./{deb.file}\nSize: {deb.size}\nSHA256: {deb.sha256}\n")
    packages = "\n".join(stanzas)
    data = packages.encode()
    release = (
        "Origin: judge\nLabel: judge bundle\nSuite: bundle\n"
        f"Architectures: {architecture} all\nSHA256:\n {hashlib.sha256(data).hexdigest()} {len(data)} Packages\n"
    )
    return {"Packages": packages, "Release": release}


def versions(packages: str, names: list[str]) -> dict[str, str]:
    """The version of each named package out of a `Packages` text; what only others provide is left out."""
    collected = dict(re.findall(r"^Package: (\S+)\n(?:(?!\n\n)[\s\S])*?^Version: (\S+)$", packages, re.MULTILINE))
    return {name: collected[name] for name in names if name in collected}


def publish(directory: Path, texts: dict[str, str]) -> bool:
    changed = False
    for name in _INDEX:
        path, data = directory / name, texts[name].encode()
        if not path.is_file() or path.read_bytes() != data:
            replace(path, data, 0o644, durable=True)
            changed = True
    return changed


def prune(directory: Path, debs: list[Deb]) -> list[str]:
    files = {deb.file for deb in debs} | set(_INDEX)
    return sorted(path.name for path in directory.iterdir() if path.name not in files)


def collect(
    directory: Path,
    cache: Path,
    packages: list[str],
    *,
    release: str,
    architecture: str,
    sources: list[str],
    further: Sequence[str] = (),
) -> tuple[list[str], dict[str, str]]:
    """Bring the packages in a directory up to date: (a line for each change, the version of each wanted package).

    `cache` keeps apt's root for the next run. `sources` are lines of a sources.list; without any, this machine's own
    Debian archive is used; `further` are those of others' archives beside it. BundleError when they have not what is
    wanted.
    """
    apt = Apt(cache, architecture)
    if not sources:
        output = subprocess.run(_TARGETS, capture_output=True, text=True, check=True).stdout
        sources = derive_sources(output, own_release(Path("/etc/os-release").read_text(encoding="utf-8")), release)
    apt.update([*sources, *further])
    debs = apt.resolve(packages)
    directory.mkdir(parents=True, exist_ok=True)
    missing = [deb for deb in debs if not is_right(directory / deb.file, deb)]
    extra = prune(directory, debs)
    if missing:
        apt.fetch(packages, missing, directory)
    for name in extra:
        (directory / name).unlink()
    for deb in missing:
        if not is_right(directory / deb.file, deb):
            raise BundleError(f"{deb.file} is not what its archive says it is; empty {cache} and try again")
    texts = index(directory, debs, architecture)
    changes = [f"fetched {deb.file}" for deb in missing] + [f"removed {name}" for name in extra]
    if publish(directory, texts):
        changes.append("wrote the index of the packages")
    return changes, versions(texts["Packages"], packages)
