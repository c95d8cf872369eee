"""judge-cli: its commands. Errors are one sentence on stderr; exit codes are those of judgectl."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from judge_cli import VERSION, screen
from judge_cli.errors import EXIT_FAILED, EXIT_INTERRUPTED, ClientError, UsageError

if TYPE_CHECKING:
    from judge_cli.gateway import Gateway

# Modules that a command needs are imported by it, so that all others start sooner.

Arguments = argparse.Namespace


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; '{self.prog} --help' shows what is expected")


def _gateway() -> Gateway:
    from judge_cli import access
    from judge_cli.gateway import Gateway

    return Gateway(access.current())


def login(arguments: Arguments) -> int:
    """Store the address of a gateway and a token."""
    from judge_cli import access
    from judge_cli.gateway import Gateway

    server = access.checked_server(arguments.server)
    new_access = access.Access(server, access.ask_token(server, arguments.token_file), arguments.ca)
    user = Gateway(new_access).json("GET", "/whoami")["user"]
    file = access.store(new_access)
    screen.say(f"logged in at {server} as {user}; {file} says so")
    return 0


def problems(arguments: Arguments) -> int:
    """List the problems."""
    reply = _gateway().json("GET", "/problems")
    rows = [
        [problem["name"], problem["title"], f"{problem['limits']['cpu']:g} s", problem["kind"]]
        for problem in reply["problems"]
    ]
    _tell(arguments, reply, lambda: screen.table(["problem", "title…", "time limit", "type"], rows))
    return 0


def download(arguments: Arguments) -> int:
    """Write statement and samples of problems into folders."""
    from judge_cli import problems as folders

    gateway = _gateway()
    names = arguments.problem
    if arguments.all:
        names = gateway.problem_names()
    if not names:
        raise UsageError("name the problems to download, or --all")
    for name in names:
        screen.say(f"{folders.download(gateway, name, arguments.to)} written")
    return 0


def test(arguments: Arguments) -> int:
    """Compile and run a program here, on the samples of its problem."""
    from judge_cli import project, running

    settings = project.project_at(*arguments.file[:1])
    files = list(project.program_files(arguments.file, settings).values())
    language = running.guess_language(files, arguments.language or settings.language)
    return running.test(files, language, settings)


def submit(arguments: Arguments) -> int:
    """Submit a program and follow it to the verdict."""
    from judge_cli import project

    settings = project.project_at(*arguments.file[:1])
    files = project.program_files(arguments.file, settings)
    contents = [(name, project.read_bytes(path)) for name, path in files.items()]
    gateway = _gateway()
    problem = arguments.problem or settings.problem
    if not problem:
        place = arguments.file[0] if arguments.file else settings.folder
        problem = project.guess_problem(place, gateway.problem_names())
    language, entry = arguments.language or settings.language, arguments.entry or settings.entry
    fields = {"problem": problem, "language": language, "entry": entry}
    try:
        task = gateway.submit({key: value for key, value in fields.items() if value}, contents)
    except KeyboardInterrupt:
        screen.note("it may have been submitted; look with: judge-cli list")
        raise
    if arguments.no_wait:
        _tell(arguments, task, lambda: screen.say(task["id"]))
        return 0
    return _follow(arguments, gateway, task["id"])


def follow(arguments: Arguments) -> int:
    """Follow a submission to the verdict, and show its result."""
    gateway = _gateway()
    return _follow(arguments, gateway, gateway.whole_id(arguments.id))


def _follow(arguments: Arguments, gateway: Gateway, task_id: str) -> int:
    from judge_cli import following

    task = following.follow(gateway, task_id)
    if task is not None:
        _tell(arguments, task, lambda: following.show(gateway, task))
    return following.exit_code(task)


def list_own(arguments: Arguments) -> int:
    """List one's own submissions, newest first."""
    from judge_cli.following import row

    gateway = _gateway()
    query = {"user": gateway.json("GET", "/whoami")["user"], "limit": str(arguments.limit)}
    query |= {"problem": arguments.problem} if arguments.problem else {}
    reply = gateway.json("GET", "/submissions", query=query)
    head = ["id", "what…", "language", "verdict!", "cpu", "memory", "created (UTC)"]
    _tell(arguments, reply, lambda: screen.table(head, map(row, reply["tasks"])))
    return 0


def listen(arguments: Arguments) -> int:
    """Take problems from the browser extension Competitive Companion, and write their samples into folders."""
    from judge_cli import access, companion

    try:
        server = access.current().server
    except UsageError:  # samples of other sites need no cluster
        server = ""
    companion.listen(arguments.port, arguments.to, server)
    return 0


def _tell(arguments: Arguments, data: Any, in_words: Any) -> None:
    if arguments.output == "json":
        import json

        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    elif arguments.output == "csv":
        from judge_cli import sheets

        sheets.write(data, sys.stdout)
    else:
        in_words()


def parser() -> Parser:
    main_parser = Parser(
        prog="judge-cli",
        description="Submit to a Judge cluster, follow the verdict, run samples locally. Errors are one sentence on "
        "stderr; exit codes are those of judgectl.",
    )
    main_parser.add_argument("--version", action="version", version=f"judge-cli {VERSION}")
    commands = main_parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: Any, *, output: bool = False) -> Parser:
        parser: Parser = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        parser.set_defaults(run=run)
        if output:
            words = "json for programs, csv for spreadsheets"
            parser.add_argument("--output", "-o", choices=["table", "json", "csv"], default="table", help=words)
        return parser

    subparser = command("login", login)
    subparser.add_argument(
        "server", metavar="URL", help="the address of the gateway, such as https://judge.example.org"
    )
    subparser.add_argument(
        "--token-file", type=Path, help="a file with the token; default: asked for, or read from a pipe"
    )
    subparser.add_argument("--ca", type=Path, help="trust only this CA; default: the authorities of this machine")
    command("problems", problems, output=True)
    subparser = command("download", download)
    subparser.add_argument("problem", nargs="*", help="names of problems")
    subparser.add_argument("--all", action="store_true", help="all problems")
    subparser.add_argument("--to", type=Path, default=Path(), help="write their folders into this one; default: here")
    subparser = command("test", test)
    _add_program(subparser)
    subparser = command("submit", submit, output=True)
    _add_program(subparser)
    subparser.add_argument("--problem", "-p", help="default: judge.toml, else what file or folder are called like")
    subparser.add_argument("--entry", help="of several files: the one to start, or the class with main")
    subparser.add_argument("--no-wait", action="store_true", help="print the id and do not follow it")
    subparser = command("follow", follow, output=True)
    subparser.add_argument("id", help="the id of a submission; the last 7 characters are enough")
    subparser = command("list", list_own, output=True)
    subparser.add_argument("--problem", "-p", help="only those to this problem")
    subparser.add_argument("--limit", "-n", type=int, default=20, help="at most so many; default: 20")
    subparser = command("listen", listen)
    subparser.add_argument("--port", type=int, default=10043, help="of 127.0.0.1; default: 10043")
    subparser.add_argument("--to", type=Path, default=Path(), help="write the folders into this one; default: here")
    return main_parser


def _add_program(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument(
        "file", nargs="*", type=Path, help="a file, several, or a folder; default: `files` of judge.toml"
    )
    subparser.add_argument("--language", "-l", help="default: judge.toml, else what the file's suffix says")


def run(argv: list[str]) -> int:
    try:
        arguments = parser().parse_args(argv)
        code: int = arguments.run(arguments)
        sys.stdout.flush()
    except ClientError as exc:
        screen.note(f"judge-cli: {exc}")
        return exc.exit_code
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of standard output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_FAILED
    except Exception as exc:
        if os.environ.get("JUDGE_TRACEBACK"):
            raise
        screen.note(
            f"judge-cli: unexpected error: {type(exc).__name__}: {exc}; "
            "with JUDGE_TRACEBACK=1 in the environment it shows where"
        )
        return EXIT_FAILED
    return code


def main() -> None:
    screen.prepare()
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
