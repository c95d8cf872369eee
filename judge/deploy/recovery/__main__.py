"""`python -m judge.deploy.recovery`: what playbooks/recover.yml runs on judicators."""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
from pathlib import Path

from judge.common import terminal
from judge.common.errors import JudgeError
from judge.deploy.recovery.deciding import decide

ETC = Path("/etc/judge")


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(
        prog="python -m judge.deploy.recovery", description=(__doc__ or "").splitlines()[0]
    )
    argument_parser.add_argument("verb", choices=["look", "decide", "etcd", "mongodb"])
    argument_parser.add_argument("--etc", type=Path, default=ETC, help="where the configs of this host are")
    argument_parser.add_argument(
        "--gone", action="append", default=[], help="a judicator that is not coming back with its data"
    )
    argument_parser.add_argument("--survivor", default="", help="the judicator that becomes all that there is")
    return argument_parser


def _decided(survivor: str) -> str:
    """The decision about what standard input has: by judicator the answer of `look`, empty where there is none."""
    answers = json.load(sys.stdin)
    remains = {name: json.loads(text) if text else None for name, text in answers.items()}
    return json.dumps(dataclasses.asdict(decide(remains, survivor)))


def _done(options: argparse.Namespace) -> str:
    """Do on this host what the arguments ask for, and return the answer."""
    from judge import config as configs  # noqa: PLC0415 - a controller that decides needs none of these
    from judge.config import EtcdConfig, MongodbConfig  # noqa: PLC0415
    from judge.deploy.recovery import alone, looking  # noqa: PLC0415

    if options.verb == "look":
        return json.dumps(looking.look(options.etc).dumped())
    if options.verb == "etcd":
        return alone.etcd(configs.load(EtcdConfig, options.etc / "etcd.yml"))
    return alone.mongodb(configs.load(MongodbConfig, options.etc / "mongodb.yml"), options.gone)


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; one sentence and the error's exit code when it cannot be done."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    options = parser().parse_args(arguments)
    try:
        answer = _decided(options.survivor) if options.verb == "decide" else _done(options)
    except JudgeError as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    sys.stdout.write(f"{answer}\n")
    return 0


if __name__ == "__main__":
    sys.exit(terminal.guard("judge.deploy.recovery", main))
