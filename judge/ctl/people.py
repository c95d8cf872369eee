"""`judgectl user`, `judgectl token`, `judgectl passwd`: accounts, their tokens and passwords.

A password is asked for, or read from standard input; never an argument, which others on this machine could read.
"""

from __future__ import annotations

import contextlib
import getpass
import html
import itertools
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar, cast

import typer
from pydantic import ValidationError

from judge.common.errors import JudgeError, UsageError
from judge.common.text import decimal, several
from judge.config.allowance import Quota, Role
from judge.ctl import context as contexts
from judge.ctl import show, text
from judge.ctl.api import Api, connect
from judge.ctl.options import TABLE, Output, check_choice
from judge.model import messages as m
from judge.model import newcomers
from judge.model import people as p
from judge.model.base import first_fault
from judge.model.overview import Whoami

M = TypeVar("M", p.UsersReply, p.TokensReply)
B = TypeVar("B", p.UserAdd, p.UserFields)
_PAGE = 500
_GENERATED = 18  # bytes
_IMPORT = 120.0  # seconds: hashing a thousand passwords takes a while
# A page to print: a card for each new account, with what its person needs to log in.
_SHEET = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Accounts</title>
<style>
body {{ font: 12pt sans-serif; display: grid; grid-template-columns: 1fr 1fr; gap: 4mm; margin: 8mm; }}
section {{ border: 1px dashed; padding: 5mm; break-inside: avoid; overflow-wrap: anywhere; }}
h2 {{ font-size: 14pt; margin: 0 0 3mm; }}
p {{ margin: 1mm 0; }}
code {{ font-size: 13pt; }}
</style>
{}
</html>
"""
_CARD = """<section>
<h2><bdi>{title}</bdi></h2>
<p>{server}/login</p>
<p>User: <code>{user}</code></p>
<p>Password: <code>{password}</code></p>
</section>"""

users = typer.Typer(help="The accounts of the cluster: who may come in, in which role.", no_args_is_help=True)
tokens = typer.Typer(help="Tokens: one's own, or as an admin anybody's.", no_args_is_help=True)

DisplayName = Annotated[str | None, typer.Option("--name", help="The person's name, in any script; '' for none.")]
Email = Annotated[str | None, typer.Option(help="The person's e-mail address; '' for none.")]
Groups = Annotated[list[str] | None, typer.Option("--group", "-g", help="A group; repeatable.")]
RoleOption = Annotated[str | None, typer.Option("--role", help="user, judge or admin.")]
PerMinute = Annotated[int | None, typer.Option(help="Submissions a minute, in place of the role's; 0: no limit.")]
Waiting = Annotated[int | None, typer.Option(help="Submissions that wait at once; 0: no limit.")]
SlotShare = Annotated[float | None, typer.Option(help="Part of all slots, up to 1; 0: no limit.")]
Stored = Annotated[str | None, typer.Option(help="Stored bytes, such as 500M; 0: no limit.")]
Issuer = Annotated[str | None, typer.Option(help="The OpenID Connect provider that vouches for the user; its URL.")]
Subject = Annotated[str | None, typer.Option(help="Who the user is there: the `sub` of an ID token.")]
FromStdin = Annotated[bool, typer.Option("--stdin", help="Read the password from standard input, one line.")]
Generate = Annotated[bool, typer.Option("--generate", help="Make a password, and show it this once.")]


# --- accounts ----------------------------------------------------------------------------------------------------


@users.command("add")
def add(
    name: str,
    display_name: DisplayName = None,
    email: Email = None,
    role: RoleOption = None,
    group: Groups = None,
    password: Annotated[bool, typer.Option("--password", help="Ask for a password.")] = False,
    stdin: FromStdin = False,
    generate: Generate = False,
    issuer: Issuer = None,
    subject: Subject = None,
    per_minute: PerMinute = None,
    waiting: Waiting = None,
    slot_share: SlotShare = None,
    stored: Stored = None,
    output: Output = TABLE,
) -> None:
    """Make an account. Without a password or identity, a token is the only way in."""
    secret = _password(stdin=stdin, generate=generate) if password or stdin or generate else None
    body = validated(
        p.UserAdd,
        name=_name(name),
        display_name=display_name or "",
        email=email or "",
        role=_role(role) or "user",
        groups=group or [],
        password=secret,
        identity=_identity(issuer, subject),
        quota=_quota(per_minute, waiting, slot_share, stored) or Quota(),
    )
    with connect() as api:
        user = api.call(p.User, "POST", "/users", body=body)
    _tell_user(user, output, secret if generate else None)


@users.command("import")
def import_users(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="CSV; its first line names the columns.")],
    sheet: Annotated[Path | None, typer.Option(help="Write a page to print, with a card for each person.")] = None,
    output: Output = TABLE,
) -> None:
    """Make all accounts of a list, or none, and show their passwords; the same file again shows the same ones.

    Columns: user, name, email, group, password.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(newcomers.BYTES + 1)
    except OSError as exc:
        raise UsageError(f"{file}: cannot be read: {exc.strerror}") from None
    context = contexts.current()
    body = newcomers.adding(data, str(file), context.token.encode())
    # Before the call: no password is lost because the page cannot be written.
    with contextlib.ExitStack() as files:
        page = None if sheet is None else files.enter_context(new_file(sheet))
        with Api(context, timeout=_IMPORT) as api:
            try:
                api.call(p.UsersAdded, "POST", "/users/batch", body=body)
            except (JudgeError, KeyboardInterrupt) as exc:
                if sheet is not None:
                    sheet.unlink()
                exc.args = (f"{file}: {exc}",)
                raise
            if page is not None:
                page.write(cards(body.users, context.page or context.server))
    table = show.grid("user", "name…", "password!")
    for person in body.users:
        table.add_row(person.name, person.display_name or "-", person.password or "")
    show.tell(output, newcomers.credentials(body.users), table)


@users.command("list")
def list_users(
    group: Annotated[str | None, typer.Option("--group", "-g", help="Of this group.")] = None,
    role: RoleOption = None,
    disabled: Annotated[bool | None, typer.Option("--disabled/--enabled", help="Only those.")] = None,
    prefix: Annotated[str | None, typer.Option(help="Whose names begin so.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="At most so many; default: all.")] = None,
    output: Output = TABLE,
) -> None:
    """List accounts by name. People who are in tokens.yml only are not among them."""
    conditions = {"group": group, "role": _role(role), "prefix": prefix, "disabled": disabled}
    with connect() as api:
        every_user = (user for page in _pages(api, p.UsersReply, "/users", conditions) for user in page.users)
        listed_users = list(itertools.islice(every_user, limit))
    show.tell(output, listed_users, users_table(listed_users))


@users.command("show")
def show_user(name: str, output: Output = TABLE) -> None:
    """Show one account."""
    with connect() as api:
        user = api.call(p.User, "GET", f"/users/{_name(name)}")
    _tell_user(user, output)


@users.command("change")
def change(
    name: str,
    display_name: DisplayName = None,
    email: Email = None,
    role: RoleOption = None,
    group: Groups = None,
    no_groups: Annotated[bool, typer.Option("--no-groups", help="Take the user out of all groups.")] = False,
    issuer: Issuer = None,
    subject: Subject = None,
    no_identity: Annotated[bool, typer.Option("--no-identity", help="No log-in with a provider any more.")] = False,
    per_minute: PerMinute = None,
    waiting: Waiting = None,
    slot_share: SlotShare = None,
    stored: Stored = None,
    no_quota: Annotated[bool, typer.Option("--no-quota", help="What the role may, and nothing of their own.")] = False,
    output: Output = TABLE,
) -> None:
    """Change an account. What is not named stays; groups that are named replace the present ones."""
    if group and no_groups:
        raise UsageError("--group and --no-groups exclude each other; give one of them")
    if issuer and no_identity:
        raise UsageError("--issuer and --no-identity exclude each other; give one of them")
    quota = _quota(per_minute, waiting, slot_share, stored)
    if quota is not None and no_quota:
        raise UsageError("--no-quota goes with none of the figures; give it alone")
    with connect() as api:
        if quota is not None:
            present = api.call(p.User, "GET", f"/users/{_name(name)}").quota
            quota = present.model_copy(update=quota.model_dump(exclude_none=True))
        fields = validated(
            p.UserFields,
            display_name=display_name,
            email=email,
            role=_role(role),
            groups=[] if no_groups else group,
            identity=_identity(issuer, subject),
            unlink=no_identity,
            quota=Quota() if no_quota else quota,
        )
        if fields == p.UserFields():
            raise UsageError("nothing is named that should change; give --name, --role, --group, a figure, or --issuer")
        user = _put(api, name, fields)
    _tell_user(user, output)


@users.command("disable")
def disable(names: Annotated[list[str], typer.Argument(metavar="NAME...")], output: Output = TABLE) -> None:
    """Shut users out: their sessions end, and within seconds no gateway takes their tokens."""
    _set_disabled(names, output, disabled=True)


@users.command("enable")
def enable(names: Annotated[list[str], typer.Argument(metavar="NAME...")], output: Output = TABLE) -> None:
    """Let disabled users in again. Tokens that were not revoked are in force again."""
    _set_disabled(names, output, disabled=False)


def _set_disabled(names: list[str], output: show.OutputFormat, *, disabled: bool) -> None:
    with connect() as api:
        changed = [_put(api, name, p.UserFields(disabled=disabled)) for name in names]
    show.tell(output, changed, users_table(changed))


@users.command("passwd")
def passwd(name: str, stdin: FromStdin = False, generate: Generate = False, output: Output = TABLE) -> None:
    """Set a user's password; all their sessions end. One's own: `judgectl passwd`."""
    secret = _password(stdin=stdin, generate=generate)
    with connect() as api:
        api.request("PUT", f"/users/{_name(name)}/password", json={"password": secret})
    _tell_password(name, secret if generate else None, output)


@users.command("delete")
def delete(name: str, output: Output = TABLE) -> None:
    """Forget an account whose submissions are gone, with its tokens."""
    with connect() as api:
        api.request("DELETE", f"/users/{_name(name)}")
    show.tell(output, {"name": name, "deleted": True}, f"{name} is deleted")


def own_passwd(
    stdin: Annotated[bool, typer.Option("--stdin", help="Two lines: the present password, the new one.")] = False,
    output: Output = TABLE,
) -> None:
    """Change one's own password; one's sessions of the pages end."""
    with connect() as api:
        user = api.call(Whoami, "GET", "/whoami").user
        old = _line("the present password") if stdin else getpass.getpass(f"present password of {user}: ")
        api.request("PUT", "/password", json={"old": old, "password": _password(stdin=stdin, generate=False)})
    _tell_password(user, None, output)


# --- tokens ------------------------------------------------------------------------------------------------------


@tokens.command("create")
def create_token(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Whose; admins only. Default: one's own.")] = None,
    label: Annotated[str, typer.Option(help="A description for its owner.")] = "",
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", "-s", help="read, submit, account, judge, admin; repeatable; default: read, submit."),
    ] = None,
    expires: Annotated[str, typer.Option(help="In 30d, 12h …; never: without an end.")] = "90d",
    output: Output = TABLE,
) -> None:
    """Make a token and show it this once: on standard output the token and nothing else."""
    scopes = scope or list(p.USUAL)
    for scope_name in scopes:
        if scope_name not in p.SCOPES:
            raise UsageError(f"--scope: '{scope_name}' is not known; choose among {', '.join(p.SCOPES)}")
    days = None if expires == "never" else text.duration(expires, "--expires") / 86400
    body = p.TokenWanted(label=label, scopes=cast("list[p.Scope]", scopes), days=days, user=user and _name(user))
    with connect() as api:
        token = api.call(p.TokenMade, "POST", "/tokens", body=body)
    end = f"until {token.expires[:16].replace('T', ' ')} UTC" if token.expires else "without an end"
    about = f"token {token.id} of {token.user}, for {', '.join(token.scopes)}, {end}"

    def print_token() -> None:
        show.err.say(f"{about}; it is shown only once", "dim")
        show.out.verbatim(token.token)

    show.tell(output, token, print_token)


@tokens.command("list")
def list_tokens(
    user: Annotated[str | None, typer.Option("--user", "-u", help="Whose; admins only.")] = None,
    everybody: Annotated[bool, typer.Option("--all", "-a", help="Everybody's; admins only.")] = False,
    output: Output = TABLE,
) -> None:
    """List tokens, newest first: what they are for, when they end, and when they were last used."""
    if user and everybody:
        raise UsageError("--user and --all exclude each other; give one of them")
    with connect() as api:
        owner = None if everybody else user or api.call(Whoami, "GET", "/whoami").user
        listed_tokens = [
            token for page in _pages(api, p.TokensReply, "/tokens", {"user": owner}) for token in page.tokens
        ]
    show.tell(output, listed_tokens, tokens_table(listed_tokens))


@tokens.command("revoke")
def revoke_token(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="As `token list` shows them.")],
    output: Output = TABLE,
) -> None:
    """Revoke tokens: within seconds no gateway takes them, and sessions that were begun with them end."""
    with connect() as api:
        for token_id in ids:
            api.request("DELETE", f"/tokens/{token_id}")
    show.tell(output, [{"id": token_id, "revoked": True} for token_id in ids], f"revoked: {', '.join(ids)}")


# --- what they have in common ------------------------------------------------------------------------------------


def users_table(listed_users: Iterable[p.User]) -> show.Grid:
    table = show.grid("user", "name…", "role!", "groups…", "e-mail…", "logs in by…", "quota…", "since (UTC)", "state!")
    for user in listed_users:
        table.add_row(
            user.name,
            user.display_name or "-",
            user.role,
            " ".join(user.groups) or "-",
            user.email or "-",
            _ways(user),
            ", ".join(f"{name} {value or 'unlimited'}" for name, value in user.quota if value is not None) or "-",
            user.created[:16].replace("T", " "),
            "disabled" if user.disabled else "enabled",
        )
    return table


def tokens_table(listed_tokens: Iterable[p.TokenInfo]) -> show.Grid:
    table = show.grid("token", "user…", "label…", "for…", "made (UTC)", "ends (UTC)", "last used (UTC)", "from")
    for token in listed_tokens:
        times = [token.created, token.expires, token.used]
        created, ends, last_use = (moment[:16].replace("T", " ") if moment else "never" for moment in times)
        table.add_row(
            token.id, token.user, token.label or "-", ", ".join(token.scopes), created,
            "expired" if token.expired else ends, last_use, token.used_from or "-",
        )  # fmt: skip
    return table


def _ways(user: p.User) -> str:
    identity = f"{user.identity.issuer} ({user.identity.subject})" if user.identity else ""
    ways = ["password" if user.password else "", identity, several(user.tokens, "token") if user.tokens else ""]
    return ", ".join(filter(None, ways)) or "nothing yet"


def _tell_user(user: p.User, output: show.OutputFormat, password: str | None = None) -> None:
    data = user.model_dump(mode="json") | ({"password_made": password} if password else {})
    show.tell(output, data, users_table([user]))
    if password and output == TABLE:
        show.out.verbatim(password)


def _tell_password(name: str, password: str | None, output: show.OutputFormat) -> None:
    data = {"name": name, **({"password_made": password} if password else {})}
    show.tell(output, data, lambda: show.out.verbatim(password) if password else show.out.say(f"{name} has it"))


def _put(api: Api, name: str, fields: p.UserFields) -> p.User:
    return api.call(p.User, "PUT", f"/users/{_name(name)}", body=cast("m.Message", fields))


def _pages(api: Api, reply: type[M], path: str, conditions: dict[str, Any]) -> Iterator[M]:
    after = None
    while True:
        page = api.call(reply, "GET", path, params={**conditions, "limit": _PAGE, "after": after})
        yield page
        after = page.next
        if after is None:
            return


def validated(model: type[B], **fields: Any) -> B:
    """These fields as a message; UsageError names the option that is wrong."""
    try:
        return model(**fields)
    except ValidationError as exc:
        fault = first_fault(exc)
        option = {"display_name": "--name"}.get(fault.field, f"--{fault.field}")
        raise UsageError(f"{option}: {fault.text}") from None


def _name(name: str) -> str:
    """The name of an account as a path may have it; UsageError."""
    if not name or not name.isascii() or not all(char.isalnum() or char in "._@+-" for char in name):
        raise UsageError(f"'{name[:60]}' is no name of a user; letters, digits and . _ @ + - are taken")
    return name


def _role(role: str | None) -> Role | None:
    if role is not None:
        check_choice("--role", role, "user", "judge", "admin")
    return cast("Role | None", role)


def _identity(issuer: str | None, subject: str | None) -> p.Identity | None:
    if (issuer is None) != (subject is None):
        raise UsageError("--issuer and --subject go together; give both")
    return None if issuer is None or subject is None else p.Identity(issuer=issuer, subject=subject)


def _quota(per_minute: int | None, waiting: int | None, share: float | None, stored: str | None) -> Quota | None:
    """The figures that were named; None without any. UsageError."""
    limits = (("--per-minute", per_minute, 10**6), ("--waiting", waiting, 10**9), ("--slot-share", share, 1))
    for name, value, most in limits:
        if value is not None and not 0 <= value <= most:
            raise UsageError(f"{name}: {decimal(value)} is out of range; expected 0 to {decimal(most)}")
    size = None if stored is None else text.size(stored, "--stored")
    quota = Quota(per_minute=per_minute, waiting=waiting, slot_share=share, stored_bytes=size)
    return None if quota == Quota() else quota


def _password(*, stdin: bool, generate: bool) -> str:
    """The new password: made, read, or asked for twice; UsageError."""
    if generate and stdin:
        raise UsageError("--generate and --stdin exclude each other; give one of them")
    if generate:
        return secrets.token_urlsafe(_GENERATED)
    if stdin:
        return _line("the new password")
    if not sys.stdin.isatty():
        raise UsageError("there is nobody to ask for a password; give --stdin, or --generate")
    first, repetition = getpass.getpass("new password: "), getpass.getpass("the same again: ")
    if first != repetition:
        raise UsageError("the two entries differ; nothing is changed")
    return first


def _line(label: str) -> str:
    line = sys.stdin.readline().rstrip("\n")
    if not line:
        raise UsageError(f"--stdin: {label} is missing; it is a line of standard input")
    return line


def cards(newcomers: Iterable[p.Newcomer], server: str) -> str:
    sections = (
        _CARD.format(
            title=html.escape(newcomer.display_name or newcomer.name),
            server=html.escape(server),
            user=html.escape(newcomer.name),
            password=html.escape(newcomer.password or ""),
        )
        for newcomer in newcomers
    )
    return _SHEET.format("\n".join(sections))


def new_file(path: Path) -> IO[str]:
    """A file that was not there before and that others may not read; UsageError."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be made: {exc.strerror}; name a file that does not exist") from None
    return os.fdopen(number, "w", encoding="utf-8")
