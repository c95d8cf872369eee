"""Runs pytest on a lab host with a kernel of its own (scripts/test-cgroup2), and says what kind of place that is.

`python -m tests.support.processes.own_kernel [pytest arguments …]`: in a unit with Delegate=yes, as root, in the
machine's files.
"""

import ctypes
import os
import platform
import sys
from pathlib import Path

from judge.sandbox import cgroup_v2, drivers
from tests.support.sandbox import fork_cost, no_32_bit_calls

MODULES = Path("/usr/lib/uml/modules")
# Socket families that no program may use: where the kernel has none of them, their refusal would prove nothing.
FAMILIES = ("ipv6", "af_alg", "algif_hash", "vsock", "vsock_loopback", "tipc", "af_key", "llc2", "x25", "appletalk")
_SYS_FINIT_MODULE = 313


def load(names: tuple[str, ...], directory: Path) -> list[str]:
    """Load kernel modules, each after those that it needs; returns the ones that could not be loaded, with reasons.

    There is no modprobe on most test machines, as they have no modules.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    needs, paths = {}, {}
    for line in (directory / "modules.dep").read_text().splitlines():
        path, _, needed = line.partition(":")
        needs[path] = needed.split()
        paths[Path(path).stem.replace("-", "_")] = path
    failed = []
    for name in names:
        if name not in paths:
            failed.append(f"{name} (not there)")
            continue
        for path in (*reversed(needs[paths[name]]), paths[name]):
            with (directory / path).open("rb") as file:
                if libc.syscall(_SYS_FINIT_MODULE, file.fileno(), b"", 0) != 0 and ctypes.get_errno() != 17:
                    failed.append(f"{name} ({Path(path).stem}: {os.strerror(ctypes.get_errno())})")
                    break
    return failed


def main(arguments: list[str]) -> None:
    """Describe the place, then become pytest. Exits with a sentence where it is not what was asked for."""
    driver, own = drivers.find(), cgroup_v2.own_path()
    if driver is None or driver.version != "v2" or not own.endswith(".service"):
        sys.exit(f"expected a unit with control groups of version 2 delegated to it, not {driver} in {own}")
    failed = load(FAMILIES, MODULES / platform.release())
    print(f"kernel {platform.release()}, control groups {driver.version} in {own}")
    print(f"a small process comes and goes in {fork_cost() * 1000:.1f} ms")
    for lack in (no_32_bit_calls(), f"socket families that it has not: {', '.join(failed)}" if failed else ""):
        if lack:
            print(f"cannot be tried: {lack}")
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
