"""Runs boot with small services instead of the daemons: `boot_runner.py BOOT_YML CONTROL_DIR`, as its own process."""

import os
import sys
import time
from pathlib import Path

from judge.boot import main
from judge.boot.backend_process import ProcessBackend
from judge.cli import guarded
from judge.config import BootConfig, load
from judge.config.rendering import parse_overrides
from judge.daemon import log

TINY = Path(__file__).with_name("tiny_service.py")


class SlowBackend(ProcessBackend):
    """A system that takes its time for each look, as one that is short of memory does."""

    def refresh(self):
        print("a slow look", flush=True)
        time.sleep(float(os.environ["JUDGE_TEST_SLOW_LOOK"]))
        super().refresh()


def run(**_):
    if "JUDGE_TEST_SLOW_LOOK" in os.environ:
        main.ProcessBackend = SlowBackend
    config = load(BootConfig, Path(sys.argv[1]))
    log.setup("debug")
    control = Path(sys.argv[2])
    overrides = parse_overrides(sys.argv[3:], [service.name for service in config.services])
    return main.run(
        config,
        overrides=overrides,
        command=lambda unit: [sys.executable, "-I", "-S", str(TINY), str(control / f"{unit.name}.json")],
    )


if __name__ == "__main__":
    sys.exit(guarded(run))
