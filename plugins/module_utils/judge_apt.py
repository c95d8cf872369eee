"""Installing Debian packages, out of a bundle or from the host's own sources. Runs on hosts: standard library only."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .judge_writing import put

# Names of the packages that deployments have brought to this host; playbooks/reset.yml takes them away again.
INSTALLED = Path("/var/lib/judge/packages")
POLICY = Path("/usr/sbin/policy-rc.d")
UNITS = Path("/etc/systemd/system")
_MARK = "# judge: no service starts by being installed"
_SIMULATED = re.compile(r"^Inst (\S+)", re.MULTILINE)
_CANDIDATE = re.compile(r"^  Candidate: (?!\(none\))", re.MULTILINE)
_OPTIONS = {"APT::Install-Recommends": "false", "DPkg::Lock::Timeout": "120"}
_KEEP = ["--force-confdef", "--force-confold"]  # dpkg's: nobody is asked, a host's own configuration stays


class AptError(Exception):
    """Packages that cannot be installed; the text is one sentence for the person who runs the playbook."""


def simulated(output: str) -> list[str]:
    return sorted(set(_SIMULATED.findall(output)))


def not_installed(status: str, names: list[str]) -> list[str]:
    """Of `names`, those that dpkg-query's `Package Status` lines do not show as installed; `a|b` is either of them."""
    installed = {line.split()[0] for line in status.splitlines() if line.split()[1:] == ["installed"]}
    return sorted({name for name in names if not installed & set(name.split("|"))})


def recorded_packages() -> list[str]:
    return sorted(set(INSTALLED.read_text(encoding="utf-8").split())) if INSTALLED.is_file() else []


def note_installed(names: list[str]) -> None:
    """Add to them; called before an installation, since one that is cut off has installed some."""
    packages = sorted({*recorded_packages(), *names})
    if packages != recorded_packages():
        INSTALLED.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        put(INSTALLED, "".join(f"{name}\n" for name in packages).encode(), 0o644)


class HostApt:
    """apt-get with the host's own sources, or with a bundle as its only archive: those are left as they are then."""

    def __init__(self, bundle: Path | None = None) -> None:
        """`bundle` is the host's copy of it; apt's lists of it are kept beside it."""
        self.bundle = bundle
        self.options = dict(_OPTIONS)
        self.environment = {
            **os.environ,
            "DEBIAN_FRONTEND": "noninteractive",
            "NEEDRESTART_SUSPEND": "1",
            "LC_ALL": "C.UTF-8",
        }
        if bundle:
            self.state = bundle.parent / "apt"
            self.options |= {
                "Dir::Etc::SourceList": f"{self.state}/sources.list",
                "Dir::Etc::SourceParts": "/dev/null",
                "Dir::State::Lists": f"{self.state}/lists",
                # The cache of parsed lists must not be shared with the host's own lists.
                "Dir::Cache::pkgcache": "",
                "Dir::Cache::srcpkgcache": "",
                "Acquire::Languages": "none",
                "APT::Sandbox::User": "root",
            }

    def _run(self, program: str, *arguments: str) -> str:
        command = [program, "-q"]
        for key, value in self.options.items():
            command += ["-o", f"{key}={value}"]
        done = subprocess.run([*command, *arguments], env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("E:")]
            unmet = [line.strip() for line in done.stdout.splitlines() if "Depends:" in line][:1]
            reason = "; ".join([*unmet, errors[0].removeprefix("E: ") if errors else f"exit code {done.returncode}"])
            whence, advice = ("the host's package sources", "correct them")
            if self.bundle:
                whence, advice = (str(self.bundle), "make a newer bundle")
            msg = f"{program} could not install from {whence}: {reason}; {advice}, or see /var/log/apt/term.log"
            raise AptError(msg)
        return done.stdout

    def update(self) -> None:
        """Read the lists. A bundle's needs no signature, as every byte was compared with the manifest."""
        if self.bundle:
            (self.state / "lists/partial").mkdir(parents=True, exist_ok=True)
            source = f"deb [trusted=yes] file:{self.bundle}/debs ./\n"
            listed = self.state / "sources.list"
            if not listed.is_file() or listed.read_text(encoding="utf-8") != source:
                listed.write_text(source, encoding="utf-8")
        self._run("apt-get", "update")

    def choose(self, names: list[str]) -> list[str]:
        """Of each `a|b` the first that apt knows; AptError when it knows neither."""
        return [self._first_known(name.split("|")) if "|" in name else name for name in names]

    def knows(self, name: str) -> bool:
        return _CANDIDATE.search(self._run("apt-cache", "policy", name)) is not None

    def _first_known(self, names: list[str]) -> str:
        for name in names:
            if self.knows(name):
                return name
        msg = f"apt knows no package {' or '.join(names)}; add it to the bundle, or check the host's package sources"
        raise AptError(msg)

    def plan(self, names: list[str], *, upgrade: bool) -> list[str]:
        return simulated(self._run("apt-get", "--simulate", *self._install(names, upgrade=upgrade)))

    def install(self, names: list[str], *, upgrade: bool) -> None:
        """Install; packages that are there stay at their version unless `upgrade`."""
        # A host that lost its power in the middle of an installation needs this; apt only says so.
        finish = ["dpkg", *_KEEP, "--configure", "-a"]
        subprocess.run(finish, env=self.environment, capture_output=True, check=False)
        self._run("apt-get", *self._install(names, upgrade=upgrade))

    @staticmethod
    def _install(names: list[str], *, upgrade: bool) -> list[str]:
        config_options = [word for option in _KEEP for word in ("-o", f"Dpkg::Options::={option}")]
        return ["-y", *config_options, "install", *([] if upgrade else ["--no-upgrade"]), *names]


def installed_status() -> str:
    """The packages as dpkg has them, one `Package Status` per line."""
    form = "${Package} ${db:Status-Status}\n"
    return subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout


def compared(names: list[str], relation: str, versions: dict[str, str]) -> list[str]:
    """Those of the installed packages that are older (`lt`) or newer (`gt`) here than these versions.

    `a|b` is either of them.
    """
    versions_by_name = {name: versions[name] for group in names for name in group.split("|") if name in versions}
    if not versions_by_name:
        return []
    form = "${Package} ${db:Status-Status} ${Version}\n"
    output = subprocess.run(
        ["dpkg-query", "-W", "-f", form, *versions_by_name], capture_output=True, text=True, check=False
    ).stdout  # one that dpkg does not know is an error, and said beside the others
    installed = {line.split()[0]: line.split()[2] for line in output.splitlines() if line.split()[1:2] == ["installed"]}
    return sorted(
        name
        for name, version in installed.items()
        if subprocess.run(
            ["dpkg", "--compare-versions", version, relation, versions_by_name[name]], check=False
        ).returncode
        == 0
    )


@contextmanager
def no_service_starts(policy: Path = POLICY) -> Iterator[None]:
    """Keep Debian's packages from starting their services (invoke-rc.d asks this program), and put back what was there.

    A policy that an interrupted run of ours left behind is recognised and goes.
    """
    former = policy.with_name(policy.name + ".before-judge")
    if policy.is_file() and _MARK not in policy.read_text(encoding="utf-8", errors="replace"):
        policy.replace(former)
    policy.write_text(f"#!/bin/sh\n{_MARK}\nexit 101\n", encoding="utf-8")
    policy.chmod(0o755)
    try:
        yield
    finally:
        remove_leftover_policy(policy)


def remove_leftover_policy(policy: Path = POLICY) -> None:
    """Remove what an interrupted run of ours left behind, and put back what was there: else no service starts."""
    former = policy.with_name(policy.name + ".before-judge")
    if policy.is_file() and _MARK in policy.read_text(encoding="utf-8", errors="replace"):
        policy.unlink()
        if former.is_file():
            former.replace(policy)


def unmasked(units: list[str], directory: Path = UNITS) -> list[str]:
    """The units of the list that nobody has masked or replaced yet."""
    return [unit for unit in units if not (directory / unit).is_symlink() and not (directory / unit).exists()]


def mask(units: list[str], directory: Path = UNITS) -> None:
    """Mask units, also those that are not installed yet: the packages' scripts then enable nothing."""
    directory.mkdir(parents=True, exist_ok=True)
    for unit in units:
        (directory / unit).symlink_to("/dev/null")
