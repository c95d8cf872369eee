"""The entry point of judgectl: `--version` alone is answered before anything else is imported."""

from __future__ import annotations

import sys

import judge


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"judgectl {judge.__version__}\n")
        return
    from judge.ctl.main import main as run  # noqa: PLC0415 - this takes most of a start

    run()


if __name__ == "__main__":
    main()
