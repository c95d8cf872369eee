"""`judgectl delete` and `judgectl purge`: say what goes and what stays, ask, delete."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from judge.common.errors import ConflictError, NotFoundError
from judge.common.text import size
from judge.ctl import completing, show
from judge.ctl.api import Api, connect, whole_ids
from judge.ctl.options import TABLE, Output, Yes, check_confirmation
from judge.model.deleting import Deleted, DeletionPreview, Purged

app = typer.Typer(help="Delete submissions or a problem, after saying what goes with it.", no_args_is_help=True)
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would go, and what stays.")]


@app.command("submission")
def submission(
    ids: Annotated[
        list[str], typer.Argument(metavar="ID...", help="Finished submissions.", autocompletion=completing.submissions)
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = TABLE,
) -> None:
    """Delete finished submissions with all that is known about them."""
    run([("submission", task_id) for task_id in whole_ids(ids)], yes=yes, dry_run=dry_run, output=output)


@app.command("problem")
def problem(
    name: Annotated[str, typer.Argument(autocompletion=completing.problems)],
    yes: Yes = False,
    dry_run: DryRun = False,
    output: Output = TABLE,
) -> None:
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


def run(objects: list[tuple[str, str]], *, yes: bool, dry_run: bool, output: show.OutputFormat) -> None:
    """Preview all, ask once, delete each; nothing is deleted when any of them is refused."""
    for_program = not output.for_people
    check_confirmation(output, unasked=dry_run or yes)
    with connect() as api:
        previews = [_preview(api, kind, name) for kind, name in objects]
        if not for_program:
            for (kind, name), preview in zip(objects, previews, strict=True):
                _print(kind, name, preview)
        refusal = next((preview.refusal for preview in previews if preview.refusal), None)
        if dry_run:
            if for_program:
                show.print_data(output, previews)
            return
        if refusal is not None:
            raise ConflictError(refusal)
        if not yes:
            typer.confirm("Delete this for good?", abort=True)
        deletions = [_delete(api, kind, name) for kind, name in objects]
    total = sum(deletion.deleted for deletion in deletions)
    freed = size(sum(deletion.bytes for deletion in deletions))
    sentence = f"{total} deleted, {freed} of the database; blobs of their own go with a later pass of retention"
    show.tell(output, deletions, sentence)


def _preview(api: Api, kind: str, name: str) -> DeletionPreview:
    return DeletionPreview.received(api.request("POST", "/deletions/preview", json={kind: name}).content)


def _print(kind: str, name: str, preview: DeletionPreview) -> None:
    stored = f", {size(preview.bytes)}" if preview.bytes else ""
    show.out.say(f"{kind} {name}{stored}", "bold")
    for sentence in preview.goes:
        show.out.say(f"  goes:  {sentence}")
    for sentence in preview.stays:
        show.out.say(f"  stays: {sentence}", "dim")
    if preview.refusal:
        show.out.say(f"  not now: {preview.refusal}", "yellow")


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
        purged = api.call(Purged, "DELETE", f"/users/{user}/data", params=params)
        deleted, freed, params = deleted + purged.deleted, freed + purged.bytes, {"until": purged.until}
        if not purged.left:
            return Deleted(deleted=deleted, bytes=freed)
        show.err.say(f"{deleted} deleted, {purged.left} left", "dim")
