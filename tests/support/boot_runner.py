"""Runs boot with small services instead of the daemons: `boot_runner.py BOOT_YML CONTROL_DIR`, as its own process."""

import sys
from pathlib import Path

from judge import log
from judge.boot import main, render
from judge.cli import guarded
from judge.config import BootConfig, load

TINY = Path(__file__).with_name("tiny_service.py")


def run(**_):
    config = load(BootConfig, Path(sys.argv[1]))
    log.setup("debug")
    control = Path(sys.argv[2])
    overrides = render.parse_overrides(sys.argv[3:], [one.name for one in config.services])
    return main.run(
        config,
        overrides=overrides,
        command=lambda unit: [sys.executable, "-I", "-S", str(TINY), str(control / f"{unit.name}.json")],
    )


if __name__ == "__main__":
    sys.exit(guarded(run))
