"""`judgectl delete` and `judgectl purge`: say what goes and what stays, ask, delete."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from judge.ctl import show
from judge.ctl.api import Api, connect, whole_ids
from judge.ctl.options import Output
from judge.errors import ConflictError, NotFoundError, UsageError
from judge.model.deleting import Deleted, DeletionPreview, Purged
from judge.text import size

app = typer.Typer(help="Delete submissions or a problem, after saying what goes with it.", no_args_is_help=True)
TABLE = show.OutputFormat.TABLE
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go, and what stays.")]


@app.command("submission")
def submission(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Finished submissions.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = TABLE,
) -> None:
    """Delete finished submissions with all that is known about them."""
    run([("submission", one) for one in whole_ids(ids)], yes=yes, dry_run=dry_run, output=output)


@app.command("problem")
def problem(name: str, yes: Yes = False, dry_run: DryRun = False, output: Output = TABLE) -> None:
    """Delete a problem; finished submissions to it stay readable."""
    run([("problem", name)], yes=yes, dry_run=dry_run, output=output)


def purge(
    user: Annotated[str, typer.Option("--user", help="Whose data.")],
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = TABLE,
) -> None:
    """Delete all data of a user: submissions, results, outputs, keys. What is under way is cancelled first."""
    run([("user", user)], yes=yes, dry_run=dry_run, output=output)


def run(what: list[tuple[str, str]], *, yes: bool, dry_run: bool, output: show.OutputFormat) -> None:
    """Preview all, ask once, delete each; nothing is deleted when any of them is refused."""
    for_program = not output.for_people
    if not (dry_run or yes) and (for_program or not sys.stdin.isatty()):
        raise UsageError("--yes: is missing, and there is nobody to ask; look with --dry-run first, then give --yes")
    with connect() as api:
        seen = [_preview(api, kind, name) for kind, name in what]
        if not for_program:
            for (kind, name), one in zip(what, seen, strict=True):
                _print(kind, name, one)
        refusal = next((one.refusal for one in seen if one.refusal), None)
        if dry_run:
            if for_program:
                show.print_data(output, seen)
            return
        if refusal is not None:
            raise ConflictError(refusal)
        if not yes:
            typer.confirm("Delete this for good?", abort=True)
        done = [_delete(api, kind, name) for kind, name in what]
    if for_program:
        show.print_data(output, done)
    else:
        total = sum(one.deleted for one in done)
        freed = size(sum(one.bytes for one in done))
        show.out.say(f"{total} deleted, {freed} of the database; blobs of their own go with a later pass of retention")


def _preview(api: Api, kind: str, name: str) -> DeletionPreview:
    return DeletionPreview.received(api.request("POST", "/deletions/preview", json={kind: name}).content)


def _print(kind: str, name: str, seen: DeletionPreview) -> None:
    stored = f", {size(seen.bytes)}" if seen.bytes else ""
    show.out.say(f"{kind} {name}{stored}", "bold")
    for sentence in seen.goes:
        show.out.say(f"  goes:  {sentence}")
    for sentence in seen.stays:
        show.out.say(f"  stays: {sentence}", "dim")
    if seen.refusal:
        show.out.say(f"  not now: {seen.refusal}", "yellow")


def _delete(api: Api, kind: str, name: str) -> Deleted:
    """Delete one; its preview has just found it, so "not found" says that a try whose answer was lost had done it."""
    if kind == "user":
        return _purge(api, name)
    try:
        return api.call(Deleted, "DELETE", f"/{kind}s/{name}")
    except NotFoundError:
        return Deleted(deleted=1)


def _purge(api: Api, user: str) -> Deleted:
    params: dict[str, Any] | None = None
    deleted = freed = 0
    while True:
        one = api.call(Purged, "DELETE", f"/users/{user}/data", params=params)
        deleted, freed, params = deleted + one.deleted, freed + one.bytes, {"until": one.until}
        if not one.left:
            return Deleted(deleted=deleted, bytes=freed)
        show.err.say(f"{deleted} deleted, {one.left} left", "dim")
