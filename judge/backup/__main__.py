"""`python -m judge.backup`: write, check and restore backups. Playbooks and the timer run it; so can a person.

A key never stands on a command line: it comes from a file, or from standard input (`-`).
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import judge
from judge.backup import secrets, sending
from judge.backup.keys import ControllerKey, HostKey, OperatorKey
from judge.backup.repository import PieceReader, Repository
from judge.backup.retention import Keep
from judge.common import clock, files, terminal
from judge.common.errors import EXIT_USAGE, JudgeError, RefusedError, UsageError
from judge.daemon import log as logs

log = logging.getLogger("judge.backup")

# Seconds for one call of a restore: comparing reads everything again.
_LONG = 6 * 3600.0


def _text(path: str) -> str:
    """A file's text, or standard input's for `-`."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not text"
        raise UsageError(f"{path}: cannot be read: {reason}; name the file with the key, or - and send it") from None


def _key(options: argparse.Namespace) -> OperatorKey:
    return OperatorKey.parse(_text(options.key))


def _print_lines(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def write(options: argparse.Namespace) -> None:
    """Make a backup now."""
    from judge.backup.config import BackupConfig  # noqa: PLC0415 - a controller needs no driver of MongoDB
    from judge.backup.writing import back_up  # noqa: PLC0415
    from judge.config import load  # noqa: PLC0415

    settings = load(BackupConfig, options.config)
    if settings.log_format == "text":
        _print_lines(back_up(settings).line())
        return
    logs.setup("info", journal="JOURNAL_STREAM" in os.environ, form=settings.log_format)
    try:
        log.info("%s", back_up(settings).line())
    except (JudgeError, OSError) as exc:
        log.error("%s", exc)  # noqa: TRY400 - one sentence for a person
        sys.exit(exc.exit_code if isinstance(exc, JudgeError) else EXIT_USAGE)


def config(options: argparse.Namespace) -> None:
    """Check a host's config."""
    from judge.backup.config import BackupConfig  # noqa: PLC0415
    from judge.config import load  # noqa: PLC0415

    load(BackupConfig, options.config)


def listing(options: argparse.Namespace) -> None:
    """Show all backups of a directory, or their manifests."""
    repository = Repository(options.directory)
    manifests = [repository.manifest(name) for name in repository.ids()]
    if options.json:
        _print_lines(json.dumps([dataclasses.asdict(manifest) for manifest in manifests], indent=1))
    else:
        _print_lines(
            *(manifest.line() for manifest in manifests)
            if manifests
            else [f"{options.directory}: there is no backup yet"]
        )


def needs(options: argparse.Namespace) -> None:
    """Show the files that a backup needs, its manifest last: in this order they are copied."""
    repository = Repository(options.directory)
    manifest = repository.manifest(options.id)
    paths = [repository.pack(name) for name in sorted(manifest.packs)]
    paths += [repository.secrets / manifest.secrets] if manifest.secrets else []
    paths.append(repository.backups / f"{manifest.id}.json")
    _print_lines(*(str(path.relative_to(repository.root)) for path in paths))


def size(options: argparse.Namespace) -> None:
    """Say how many free bytes a judicator needs for a backup."""
    _print_lines(str(Repository(options.directory).manifest(options.id).room))


def room(options: argparse.Namespace) -> None:
    """Check that the disk of this host's mongod has so many free bytes."""
    from judge.config import MongodbConfig, load  # noqa: PLC0415 - as above

    place = load(MongodbConfig, options.config).data_dir
    status = os.statvfs(place)
    free = status.f_bavail * status.f_frsize
    if free < options.bytes:
        raise RefusedError(f"{place} has {free} free bytes and the backup needs {options.bytes}; make room there first")


def check(options: argparse.Namespace) -> None:
    """Check that a backup is whole; with a key also that every piece of it opens."""
    repository = Repository(options.directory)
    key = _key(options) if options.key else None
    manifest = repository.manifest(options.id, key.host_key() if key else None)
    repository.check(manifest, secrets=not options.data)
    opened = f", {PieceReader(repository, manifest, key).check()} pieces open" if key else ""
    _print_lines(f"{manifest.id} is whole: {len(manifest.packs)} packs{opened}")


def prune(options: argparse.Namespace) -> None:
    """Remove the backups of a copy that need not be kept."""
    removed, packs = Repository(options.directory).prune(
        Keep(options.last, options.daily, options.weekly, options.monthly),
        clock.wall() if options.dry_run else None,
    )
    action = "would have removed" if options.dry_run else "removed"
    _print_lines(f"{action} {len(removed)} backups and {packs} packs" if removed or packs else "nothing had to go")


def send(options: argparse.Namespace) -> None:
    """Mirror the backups of a copy at another place, with rsync or rclone."""
    sending.send(options.directory, options.destination)


def keys(options: argparse.Namespace) -> None:
    """Make the keys of a cluster's backups on its controller, unless it has them."""
    files.secret_directory(options.secrets)
    key_path, hosts = options.secrets / secrets.KEY, options.secrets / secrets.HOST_KEY
    signs = options.secrets / secrets.CONTROLLER_KEY
    if hosts.exists():
        HostKey.parse(_text(str(hosts)))
    opened = _text(options.key).strip() if options.key else ""
    new_paths = []
    if not key_path.exists() and not hosts.exists():
        files.replace(key_path, OperatorKey.new().text(), durable=True)
        new_paths.append(key_path)
    # Of a cluster whose operator keeps the key elsewhere the others cannot be made; `seal` says so.
    if key_path.exists() and not (hosts.exists() and signs.exists()):
        key = OperatorKey.parse(opened or _text(str(key_path)))
        for path, text in ((hosts, key.host_key().text()), (signs, key.controller_key().text())):
            if not path.exists():
                files.replace(path, text, durable=True)
                new_paths.append(path)
    if new_paths:
        _print_lines(f"made {', '.join(map(str, new_paths))}")


def seal(options: argparse.Namespace) -> None:
    """Put the controller's secrets, signed and encrypted, into a directory of backups."""
    path = options.secrets / secrets.CONTROLLER_KEY
    if options.key is None and not path.exists():
        raise RefusedError(
            f"{path}: is missing, and signs the secrets; put {secrets.KEY} there for a moment and run "
            f"`python -m judge.backup keys --secrets {options.secrets}`, which makes it"
        )
    key = ControllerKey.parse(_text(options.key or str(path)))
    folders = {"pki": options.pki} if options.pki and options.pki != options.secrets / "pki" else {}
    name, content = secrets.sealed(key, secrets.archive(options.secrets, folders))
    repository = Repository(options.directory)
    if options.dry_run:
        _print_lines(*([] if repository.has_secrets(name) else [f"the secrets of {options.secrets} would be stored"]))
    elif repository.put_secrets(name, content):
        _print_lines(f"stored the secrets of {options.secrets}")


def unseal(options: argparse.Namespace) -> None:
    """Write the secrets of a backup into an empty directory."""
    repository, key = Repository(options.directory), _key(options)
    manifest = repository.manifest(options.id, key.host_key())
    if not manifest.secrets:
        raise RefusedError(f"backup {manifest.id} has no secrets with it; playbooks/backup.yml puts them there")
    names = secrets.unpack(key, repository.secrets / manifest.secrets, options.into, unsigned=options.unsigned)
    files.replace(options.into / secrets.KEY, key.text(), durable=True)
    files.replace(options.into / secrets.HOST_KEY, key.host_key().text(), durable=True)
    _print_lines(f"{options.into}: {', '.join(names)}")
    authority = options.into / "pki/ca.crt"
    if authority.exists():
        _print_lines(
            f"fingerprint of {authority}: {secrets.fingerprint(authority.read_bytes())}",
            "compare it with a host that you trust: openssl x509 -noout -fingerprint -sha256 -in /etc/judge/tls/ca.crt",
        )


def restore(options: argparse.Namespace) -> None:
    """Restore a backup into an empty cluster, or show what that would do."""
    from judge.backup import restoring  # noqa: PLC0415
    from judge.config import JudicatorConfig, load  # noqa: PLC0415
    from judge.mongodb import store  # noqa: PLC0415

    repository, key = Repository(options.directory), _key(options)
    manifest = repository.manifest(options.id, key.host_key())
    manifest.needs(judge.__version__)
    mongodb = load(JudicatorConfig, options.config).mongodb
    with store.connect(mongodb.model_copy(update={"timeout": _LONG}), asynchronous=False) as client:
        plan = restoring.describe(client, mongodb.database, manifest)
        if options.finish:
            restoring.finish(client, mongodb.database)
        elif not options.plan:
            # A pack that was cut short or changed on its way is found here, before anything is written.
            repository.check(manifest, secrets=False)
            reader = PieceReader(repository, manifest, key)
            started = clock.monotonic()
            restoring.restore(client, mongodb.database, manifest, reader)
            plan += f"; it took {clock.monotonic() - started:.1f} s"
    _print_lines(plan)


VERBS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    "list": listing,
    **{
        verb.__name__: verb
        for verb in (write, config, needs, size, room, check, prune, send, keys, seal, unseal, restore)
    },
}


def parser() -> argparse.ArgumentParser:
    argument_parser = argparse.ArgumentParser(prog="python -m judge.backup", description=__doc__.splitlines()[0])
    verbs = argument_parser.add_subparsers(dest="verb", required=True)
    parsers = {name: verbs.add_parser(name, help=(verb.__doc__ or "").rstrip(".")) for name, verb in VERBS.items()}
    configs = {"write": "backup.yml", "config": "backup.yml", "restore": "judicator.yml", "room": "mongodb.yml"}
    for name, file in configs.items():
        parsers[name].add_argument("--config", type=Path, required=True, help=f"{file} of this host")
    parsers["room"].add_argument("bytes", type=int, help="what `size` says")
    for name in ("list", "needs", "size", "check", "prune", "send", "seal", "unseal", "restore"):
        parsers[name].add_argument("directory", type=Path, help="the directory of the backups")
    parsers["send"].add_argument(
        "destination", help="/DIRECTORY, USER@HOST:/DIRECTORY (rsync over SSH), or rclone:REMOTE:PATH"
    )
    for name in ("needs", "size", "check", "unseal", "restore"):
        parsers[name].add_argument("--id", default="latest", help="which backup, as `list` shows it; else the newest")
    parsers["list"].add_argument("--json", action="store_true", help="the manifests, for programs")
    for name, required in (("unseal", True), ("restore", True), ("check", False)):
        parsers[name].add_argument("--key", required=required, help="the file with the operator's key; - for stdin")
    for name in ("keys", "seal"):
        parsers[name].add_argument("--secrets", type=Path, required=True, help="the controller's directory of secrets")
    for name, owner in (("keys", "operator"), ("seal", "controller")):
        # ansible-vault may have encrypted a file, which Ansible alone can read then.
        text = f"the file with the {owner}'s key, else that of the secrets; - for stdin"
        parsers[name].add_argument("--key", help=text)
    parsers["seal"].add_argument("--pki", type=Path, help="the authority's directory, when it is elsewhere")
    parsers["unseal"].add_argument("--into", type=Path, required=True, help="an empty directory")
    parsers["unseal"].add_argument(
        "--unsigned",
        action="store_true",
        help="take secrets without a signature too, which any host could have written",
    )
    parsers["check"].add_argument("--data", action="store_true", help="not the controller's secrets")
    phase = parsers["restore"].add_mutually_exclusive_group()
    phase.add_argument("--plan", action="store_true", help="only say what would be done")
    phase.add_argument("--finish", action="store_true", help="judicators run again: the restore is over")
    for name, count in (("last", 2), ("daily", 7), ("weekly", 4), ("monthly", 6)):
        parsers["prune"].add_argument(f"--{name}", type=int, default=count, help="how many of these stay")
    parsers["seal"].add_argument("--dry-run", action="store_true", help="only say whether something would be stored")
    parsers["prune"].add_argument(
        "--dry-run", action="store_true", help="only say what would go if another backup were made now"
    )
    return argument_parser


def main(arguments: list[str] | None = None) -> int:
    """Run one verb; one sentence and the error's exit code when it cannot be done."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    options = parser().parse_args(arguments)
    try:
        VERBS[options.verb](options)
    except JudgeError as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    except OSError as exc:
        sys.stderr.write(f"{exc.filename or options.verb}: {exc.strerror}\n")
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(terminal.guard("judge.backup", main))
