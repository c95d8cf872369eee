"""Print as JSON what a deployed host looks like from inside: listeners, units, files. Changes nothing."""

from __future__ import annotations

import grp
import json
import pwd
import stat
import subprocess
import sys
from pathlib import Path

LISTENING = "0A"  # state of a TCP socket in /proc/net/tcp
UNCONNECTED = "07"  # a UDP socket that takes datagrams from anybody
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
PROPERTIES = "Id,ActiveState,SubState,StatusText,UnitFileState,NRestarts"
# All that the deployment makes: the whole of /etc/judge, the first level of the big trees, its part of the system's.
PLACES = (
    "/etc/judge", "/etc/judge/**/*", "/var/lib/judge", "/var/lib/judge/*", "/opt/judge", "/opt/judge/*",
    "/etc/sysctl.d/*judge*", "/etc/tmpfiles.d/*judge*", "/etc/systemd/*.d/*judge*", "/etc/systemd/system/judge*",
    "/etc/systemd/system/*.d/*judge*", "/etc/nginx/nginx.conf", "/etc/nginx/conf.d/*", "/etc/nginx/sites-enabled/*",
)  # fmt: skip
RUN = Path("/run/judge")


def listeners() -> list[str]:
    """`tcp/443`, or `tcp/8080 on loopback` where no other address listens on that port."""
    found: dict[str, bool] = {}
    for protocol in ("tcp", "udp"):
        for version in ("", "6"):
            table = Path(f"/proc/net/{protocol}{version}")
            for line in table.read_text().splitlines()[1:] if table.exists() else []:
                _, local, _, state, *_ = line.split()
                if state != (LISTENING if protocol == "tcp" else UNCONNECTED):
                    continue
                address, _, port = local.partition(":")
                name = f"{protocol}/{int(port, 16)}"
                found[name] = found.get(name, True) and address in LOOPBACK
    return sorted(name + (" on loopback" if local else "") for name, local in found.items())


def systemctl(*arguments: str) -> str:
    """What systemctl answers."""
    return subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=True).stdout


def units() -> dict[str, dict[str, str]]:
    """The properties of every judge service that systemd has a file of, or has loaded."""
    names = [line.split()[0] for line in systemctl("list-unit-files", "judge-*.service", "--no-legend").splitlines()]
    found = {}
    for name in names:
        shown = systemctl("show", name, f"--property={PROPERTIES}")
        found[name.removesuffix(".service")] = dict(line.split("=", 1) for line in shown.splitlines())
    return found


def enabled() -> list[str]:
    """Units of judge, of any kind, that start with the machine."""
    states = "--state=enabled,enabled-runtime,linked,alias"
    return [line.split()[0] for line in systemctl("list-unit-files", "judge*", states, "--no-legend").splitlines()]


def user(uid: int) -> str:
    """Its name, or the number where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group(gid: int) -> str:
    """Its name, or the number where it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def described(path: Path) -> str:
    """`/etc/judge/tokens.yml 0640 root:judge`."""
    told = path.stat()
    return f"{path} {stat.S_IMODE(told.st_mode):04o} {user(told.st_uid)}:{group(told.st_gid)}"


def files() -> list[str]:
    """Every file and directory of PLACES; links are left out, as they have no mode."""
    paths = {found for place in PLACES for found in Path("/").glob(place.lstrip("/"))}
    return sorted(described(path) for path in paths if not path.is_symlink())


def readable() -> list[str]:
    """Configs in boot's directory that anybody may read: they come and go with services, so only that is a fault."""
    return sorted(str(path) for path in RUN.glob("*.yml") if path.stat().st_mode & stat.S_IROTH)


def main() -> None:
    """Look, and tell."""
    failed = systemctl("list-units", "--failed", "--plain", "--no-legend").splitlines()
    told = {
        "listeners": listeners(),
        "units": units(),
        "enabled": enabled(),
        "failed": [line.split()[0] for line in failed if line.split()],
        "system": subprocess.run(
            ["systemctl", "is-system-running"], capture_output=True, text=True, check=False
        ).stdout.strip(),
        "files": files(),
        "readable": readable(),
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
