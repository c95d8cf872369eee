"""The cluster that judgectl talks to, and its token: flags, environment, then the first client.yml that is found.

An inventory will do as well: the gateways are in it, and the token and the CA in the secrets directory beside it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from judge.common import endpoint, files
from judge.common.errors import ConfigError, UsageError
from judge.common.text import one_line
from judge.config import Model, Url, parse_text
from judge.config.sections import PageUrl
from judge.ctl.fleet import ansible
from judge.ctl.fleet.ansible import Sources
from judge.ctl.fleet.inventory import Host
from judge.ctl.options import GlobalOptions

PLACES = (Path(".judge/client.yml"), Path("~/.config/judge/client.yml"), Path("/etc/judge/client.yml"))
# The variables that are read here; the roles' defaults are the ones that stand beside them below.
_OF_GATEWAYS = (
    "judge_secrets_dir", "judge_pki_directory", "judge_gateway_certificate", "judge_address",
    "ansible_host", "ansible_ssh_host", "judge_https_port", "judge_gateway_public_url", "judge_pki_https_sans",
    "judge_gateway_judge0",
)  # fmt: skip


class ClientConfig(Model):
    """client.yml. Relative paths are taken from the file's own directory."""

    server: Url
    page: PageUrl | None = None
    token_file: Path
    ca: Path | None = None
    run_dir: Path | None = None


@dataclass(frozen=True)
class Context:
    """One cluster and the person's token; `run_dir` is set on a host whose boot can be held and released.

    `page` is the address to tell people, where it is not `server`.
    """

    server: str
    token: str
    ca: Path | None = None
    run_dir: Path | None = None
    source: str = "JUDGE_SERVER"
    alternatives: tuple[str, ...] = ()  # more gateways of the same cluster, for when the first does not answer
    page: str = ""
    name: str = ""  # in the certificates of `alternatives`, if it is not the host of their URL


def _read(path: Path, label: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8 text"
        raise ConfigError(f"{path}: {label} cannot be read: {reason}") from exc


def from_file(path: Path) -> Context:
    """Read one client.yml and the token it names; raises ConfigError."""
    config = parse_text(ClientConfig, _read(path, "client config"), str(path))
    base = path.parent
    token = _read(base / config.token_file, "token file").strip()
    return Context(
        server=config.server,
        page=config.page or "",
        token=token,
        ca=base / config.ca if config.ca else None,
        run_dir=base / config.run_dir if config.run_dir else None,
        source=str(path),
    )


def sources(inventories: list[str] | None = None, vault_files: list[Path] | None = None) -> Sources | None:
    """The inventories that a command names, else those of the root command, else of the environment; or None."""
    inventory_path = os.environ.get("JUDGE_INVENTORY")
    paths = inventories or GlobalOptions.inventory or ([inventory_path] if inventory_path else [])
    return Sources(tuple(paths), tuple(vault_files or GlobalOptions.vault_files or ())) if paths else None


def from_inventory(inventory_sources: Sources, token: str | None = None) -> Context:
    """The cluster that inventories describe, as its admin unless a token is given; raises ConfigError, UsageError."""
    gateways = ansible.load(inventory_sources).members("gateways")
    if not gateways:
        raise ConfigError(
            f"{inventory_sources}: there are no hosts in the group gateways, so there is nobody to talk to; add one"
        )
    gateways = ansible.filled(inventory_sources, gateways, _OF_GATEWAYS)
    path = str(inventory_sources)
    first = gateways[0]
    secrets = _path(
        first.text("judge_secrets_dir") or str(files.beside(inventory_sources.inventories, "secrets") or "secrets")
    )
    public = endpoint.public_address(first.variables, first.text("judge_address") or first.address)
    # A certificate of another authority is one that this machine trusts already.
    authority = None if public.own else _path(first.text("judge_pki_directory") or str(secrets / "pki")) / "ca.crt"
    if authority and not authority.exists():
        raise ConfigError(_undeployed(path, authority))
    if token is None:
        if not (secrets / "admin.token").exists():
            raise ConfigError(_undeployed(path, secrets / "admin.token"))
        token = _read(secrets / "admin.token", "token file").strip()
        if token.startswith("$ANSIBLE_VAULT"):
            msg = f"{secrets / 'admin.token'}: is encrypted; set JUDGE_TOKEN to what 'ansible-vault view' shows of it"
            raise ConfigError(msg)
    urls = [_url(host) for host in gateways]
    alternatives = tuple(url for url in urls if url != public.server)
    # Gateways are asked by their addresses, too: the name may lead nowhere from here, or to one of them only.
    name = public.name if public.server not in urls else ""
    return Context(public.server, token, authority, source=path, alternatives=alternatives, name=name)


def _path(text: str) -> Path:
    return Path(os.path.expandvars(text)).expanduser()


def _undeployed(inventory: str, missing: Path) -> str:
    deploy = f"ansible-playbook -i {inventory} site.yml"
    return f"{missing} does not exist; '{deploy}' makes it, or judge_secrets_dir in the inventory says where it is"


def _url(host: Host) -> str:
    """As role gateway has it: judge_address, else ansible_host, else the name."""
    address = host.text("judge_address") or host.address
    port = host.number("judge_https_port") or 443
    return f"https://{f'[{address}]' if ':' in address else address}" + (f":{port}" if port != 443 else "")


def current() -> Context:
    """The context that the global options name. Called by every command that talks to the cluster."""
    return find(GlobalOptions.context, GlobalOptions.server, sources() if GlobalOptions.inventory else None)


def find(explicit: Path | None, server: str | None, inventory: Sources | None = None) -> Context:
    """The context to use; UsageError tells how to make one when there is none.

    A flag goes before its variable, and a server or token that is named takes the place of the context's own.
    """
    if explicit and inventory:
        raise UsageError("--context and --inventory both name a cluster; give one of them")
    for name, value in (("--server", server), ("JUDGE_SERVER", os.environ.get("JUDGE_SERVER"))):
        if value and (fault := endpoint.url(value.rstrip("/"))):
            raise UsageError(f"{name}: {fault}, not '{one_line(value)[:100]}'")
    url = (server or os.environ.get("JUDGE_SERVER") or "").rstrip("/")
    token = os.environ.get("JUDGE_TOKEN")
    file = explicit or (Path(os.environ["JUDGE_CONTEXT"]) if os.environ.get("JUDGE_CONTEXT") else None)
    # A client.yml that is named goes before an inventory that only the environment names.
    inventory = inventory or (None if file else sources())
    usual_files = [place.expanduser() for place in PLACES]
    if inventory:
        context = from_inventory(inventory, token)
    elif file:
        context = from_file(file)
    elif url and token:
        context = Context(url, token)
    elif usual_file := next((path for path in usual_files if path.exists()), None):
        context = from_file(usual_file)
    else:
        raise UsageError(
            f"no cluster to talk to: none of {', '.join(map(str, PLACES))} exists and JUDGE_SERVER with JUDGE_TOKEN is "
            "not set; start one with 'judge up', or name a client.yml with --context or an inventory with --inventory"
        )
    if url:
        context = replace(context, server=url, alternatives=(), source="--server" if server else "JUDGE_SERVER")
    return replace(context, token=token or context.token)


def secrets_directory(sources: Sources, hosts: Sequence[Host]) -> Path | None:
    """The directory of this inventory's secrets; None when it has no hosts, or the place cannot be told."""
    if not hosts:
        return None
    try:
        place = ansible.filled(sources, hosts[:1], ("judge_secrets_dir",))[0].text("judge_secrets_dir")
    except ConfigError:
        return None
    return _path(place) if place else files.beside(sources.inventories, "secrets")
