"""`python -m tests.fuzz --minutes N [--target T]… [--engine E]`: look for input that is neither taken nor refused.

With atheris installed (`pip install '.[fuzz]'`) the search is guided by coverage, else hypothesis mutates the corpus.
The minutes are shared by the targets. Whatever makes a target fail is written to the directory of findings; exit 1.
`api` and `rpc` are no targets of bytes: schemathesis makes requests to a cluster, and to a judicator, that run here.
"""

import argparse
import hashlib
import importlib.util
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENGINES = ("atheris", "hypothesis")
WEB = ("api", "rpc")


def known() -> list[str]:
    """All targets: the functions of bytes (`requests` needs root), and those that schemathesis searches."""
    from tests.fuzz import targets

    return [*targets.ALL, *WEB]


def _atheris(target: str, seconds: int, findings: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["judge"]):
        from tests.fuzz import targets
    corpus = findings / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={seconds}", f"-artifact_prefix={findings}/{target}-", "-max_len=8192", "-timeout=30"]
    for data in targets.seeds(target):
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)
    arguments = [sys.argv[0], str(corpus), "-rss_limit_mb=4096", "-print_final_stats=1"]
    atheris.Setup([*arguments, *options], targets.ALL[target])
    atheris.Fuzz()


def _hypothesis(target: str, seconds: int, findings: Path) -> None:
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis import strategies as st

    from tests.fuzz import targets

    function, corpus = targets.ALL[target], targets.seeds(target)
    edits = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 64), st.binary(max_size=40)), max_size=6)
    end = time.monotonic() + seconds
    runs = 0

    def attempt(data: bytes) -> None:
        nonlocal runs
        runs += 1
        try:
            function(data)
        except Exception:
            path = findings / f"{target}-{hashlib.sha256(data).hexdigest()[:16]}"
            path.write_bytes(data)
            print(f"{target}: {path}", file=sys.stderr)
            raise

    def search(start: bytes, changes: list[tuple[int, int, bytes]]) -> None:
        data = start
        for place, length, new in changes:
            cut = place % (len(data) + 1)
            data = data[:cut] + new + data[cut + length :]
        attempt(data)

    quiet = settings(
        max_examples=2000, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    number = 0
    while time.monotonic() < end:
        # A fresh function each time: settings and a seed go onto it once.
        seed(number)(quiet(given(st.sampled_from([b"", *corpus]), edits)(search)))()
        number += 1
    print(f"{target}: {runs} inputs, nothing found")


def _web(target: str, seconds: int, findings: Path) -> None:
    """Search the API of a cluster, or the RPC of a judicator, that run for as long."""
    from tests.fuzz import web
    from tests.support.cluster import running
    from tests.support.judicators import World
    from tests.support.servers import etcd_server, mongod_server

    with tempfile.TemporaryDirectory(prefix="fuzz-") as work:
        directory = Path(work)
        if target == "api":
            with running(directory / "cluster") as cluster:
                faults = web.api(cluster, web.Effort(seconds=max(1, seconds // 4)))
        else:
            for name in ("etcd", "mongod", "world"):
                (directory / name).mkdir()
            with etcd_server(directory / "etcd") as etcd, mongod_server(directory / "mongod") as mongod:
                world = World(directory / "world", etcd, mongod)
                try:
                    faults = web.rpc(world, directory, web.Effort(seconds=max(1, seconds // 3)))
                finally:
                    world.close()
    for number, text in enumerate(faults):
        (findings / f"{target}-{number}").write_text(text)
        print(text, file=sys.stderr)
    if faults:
        sys.exit(1)


def main() -> int:
    """Share the time among the targets, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    guided = importlib.util.find_spec("atheris") is not None
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--target", action="append", metavar="TARGET", help="may be repeated; default: all")
    parser.add_argument("--engine", choices=ENGINES, default=ENGINES[0] if guided else ENGINES[1])
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--here", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.findings.mkdir(parents=True, exist_ok=True)
    if options.here is not None:
        chosen = options.target
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that its clusters are stopped
        engine = _web if chosen[0] in WEB else {"atheris": _atheris, "hypothesis": _hypothesis}[options.engine]
        engine(chosen[0], options.here, options.findings)
        return 0
    # Only here: atheris has to see the first import of what it is to be guided by.
    chosen = options.target or known()
    if wrong := sorted(set(chosen) - set(known())):
        parser.error(f"there is no target '{wrong[0]}'; there are: {', '.join(known())}")
    seconds = max(1, int(options.minutes * 60 / len(chosen)))
    failed = []
    for target in chosen:
        print(f"{target}: {'schemathesis' if target in WEB else options.engine}, {seconds} s", flush=True)
        command = [sys.executable, "-m", "tests.fuzz", "--engine", options.engine, "--target", target]
        completed = subprocess.run([*command, "--findings", str(options.findings), "--here", str(seconds)], check=False)
        if completed.returncode != 0:
            failed.append(target)
    print(f"found something in: {', '.join(failed)}; see {options.findings}" if failed else "nothing found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
