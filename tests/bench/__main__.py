"""`make bench`: what judging costs over the bare commands. Every line is measured in this one run."""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    bench_channels,
    bench_cluster,
    bench_gateway,
    bench_import,
    bench_listeners,
    bench_queue,
    bench_releases,
    bench_sandbox,
)
from tests.bench.ledger import Ledger

Part = Callable[[Ledger, Path, argparse.Namespace], None]


def _throughput(ledger: Ledger, work: Path, options: argparse.Namespace) -> None:
    alone = bench_cluster.one_slot(ledger, work, options.count)
    bench_cluster.two_slots(ledger, work, options.count, alone)


PARTS: dict[str, Part] = {
    "sandbox": lambda ledger, *_: bench_sandbox.measure(ledger),
    "channels": lambda ledger, *_: bench_channels.measure(ledger),
    "latency": lambda ledger, work, options: bench_cluster.latency(ledger, work, options.rounds),
    "throughput": _throughput,
    "rejudge": lambda ledger, work, options: bench_cluster.rejudge(ledger, work, options.old),
    "queue": lambda ledger, work, options: bench_queue.measure(ledger, work, options.waiting, options.rounds),
    "import": lambda ledger, work, _: bench_import.measure(ledger, work),
    "listeners": lambda ledger, work, _: bench_listeners.measure(ledger, work),
    "gateway": lambda ledger, work, _: bench_gateway.measure(ledger, work),
}
# Parts that are run when they are asked for only: they need minutes, and gigabytes of disk.
MORE: dict[str, Part] = {
    "import-large": lambda ledger, work, _: bench_import.measure_large(ledger, work),
    "releases": lambda ledger, work, options: bench_releases.measure(ledger, work, options.release, rounds=3),
}


def main() -> int:
    """Run the parts asked for, all by default; 1 when a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all these), {', '.join(MORE)}"
    )
    parser.add_argument("--count", type=int, default=200, help="submissions in the throughput part")
    parser.add_argument("--rounds", type=int, default=40, help="rounds in the latency part")
    parser.add_argument("--old", type=int, default=10_000, help="old submissions in the rejudge part")
    parser.add_argument(
        "--waiting", type=int, nargs="+", default=bench_queue.SIZES, help="lengths of the queue in the queue part"
    )
    parser.add_argument("--release", type=Path, help="a checkout of an older release, set up, for the releases part")
    options = parser.parse_args()
    wrong = sorted(set(options.parts) - {*PARTS, *MORE})
    if wrong:
        parser.error(f"there is no part '{wrong[0]}'; there are: {', '.join((*PARTS, *MORE))}")
    parts = options.parts or PARTS
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that its clusters are stopped
    ledger = Ledger()
    with tempfile.TemporaryDirectory(prefix="judge-bench-") as name:
        work = Path(name)
        for part, run in (PARTS | MORE).items():
            if part in parts:
                run(ledger, work, options)
    if ledger.missed:
        print(f"{len(ledger.missed)} targets missed: {'; '.join(ledger.missed)}")
    return 1 if ledger.missed else 0


if __name__ == "__main__":
    sys.exit(main())
