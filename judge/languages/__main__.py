"""`python -m judge.languages`: the Debian packages of all languages, for this machine's release (the Makefile asks)."""

from __future__ import annotations

import argparse
import platform
import sys

from judge.common import terminal
from judge.languages.table import load_table


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m judge.languages", description=(__doc__ or "").split(":")[0])
    parser.add_argument("--release", default=platform.freedesktop_os_release().get("VERSION_CODENAME", ""))
    release = parser.parse_args(arguments).release
    rows = [row for row in load_table().values() if release in row.releases]
    sys.stdout.write(" ".join(sorted({package for row in rows for package in row.packages})) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(terminal.guard("judge.languages", lambda: main(sys.argv[1:])))
