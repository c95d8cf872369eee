"""Faults of a cluster before it is deployed: from the inventory and from what was seen on hosts, to sentences. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

_NAME = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62})$")
_ADDRESS = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$")
_RELEASES = {"bookworm": "Debian 12", "trixie": "Debian 13"}
_VOTERS = 7
_SERVER = "mongodb-org-server"
_AUTHORITY_DAYS = 30  # as `verify.yml` warns of certificates
_LISTENER = "judge-precheck"  # of a precheck that was cut off; it ends by itself
_REJECTED = (
    "somebody listens there, and the connection is refused, as by a firewall; open this port between them "
    "(docs/deploy.md, Ports)"
)
_NGINX = "nginx.service"


class HostFinding(NamedTuple):
    """One sentence about a host (or about the cluster, with an empty host), and whether it stops the deployment."""

    host: str
    text: str
    fatal: bool = True

    def line(self) -> str:
        about = f"{self.host}: " if self.host else ""
        return f"{'FAULT' if self.fatal else 'warning'}: {about}{self.text}"


def _is_six(address: str) -> bool:
    try:
        ipaddress.IPv6Address(address.strip("[]"))
    except ValueError:
        return False
    return True


def _facts(host: dict[str, Any]) -> dict[str, Any]:
    """What was seen on a host; empty where it could not be looked at."""
    return (host.get("result") or {}).get("seen") or {}


def _addresses(hosts: dict[str, dict[str, Any]]) -> Iterator[HostFinding]:
    names: dict[str, str] = {}
    for name, host in sorted(hosts.items()):
        address = str(host.get("address") or "")
        if not _NAME.match(name):
            yield HostFinding(name, "this name cannot be a host's; use letters, digits, '.', '_' and '-'")
        if not address:
            yield HostFinding(name, "it has no address; set ansible_host (or judge_address) in the inventory")
        elif _is_six(address):
            fault = f"'{address}' is an IPv6 address, and hosts reach each other by IPv4"
            yield HostFinding(name, f"{fault}; set judge_address to its IPv4 address, ansible_host may stay")
        elif not _ADDRESS.match(address):
            fault = f"'{address}' is no IPv4 address or host name"
            yield HostFinding(name, f"{fault}; correct ansible_host in the inventory")
        elif (other := names.setdefault(address, name)) != name:
            yield HostFinding(name, f"it has the same address as {other}, {address}; correct one in the inventory")


def _numbers(groups: dict[str, list[str]]) -> Iterator[HostFinding]:
    number = len(groups.get("judicators", []))
    if not number:
        text = "the inventory has no judicators; name one, three or five hosts in the group 'judicators'"
        yield HostFinding("", text)
    elif number > _VOTERS:
        text = f"there are {number} judicators and at most {_VOTERS} can vote; leave {_VOTERS} or fewer in the group"
        yield HostFinding("", text)
    elif number % 2 == 0:
        text = f"{number} judicators bear no more failures than {number - 1}; use {number - 1} or {number + 1}"
        yield HostFinding("", text, fatal=False)
    for group, consequence in (("executors", "nothing will be judged"), ("gateways", "nobody can hand in anything")):
        if not groups.get(group):
            text = f"the inventory has no {group}, so {consequence}; name a host in the group '{group}'"
            yield HostFinding("", text, fatal=False)


def _system(facts: dict[str, Any], host: dict[str, Any]) -> Iterator[str]:
    system = facts["os"]
    system_name = f"{system['id'] or 'unknown'} {system['codename']}".strip()
    if system["id"] != "debian" or system["codename"] not in _RELEASES:
        releases = " or ".join(f"{text} ({code})" for code, text in _RELEASES.items())
        yield f"its system is {system_name}; install {releases}"
    if not facts["systemd"]:
        yield "systemd does not run there; boot the host with systemd"
    if not facts["root"]:
        yield "the tasks do not run as root; let the inventory's user use sudo, and set ansible_become"
    bundle = host.get("bundle") or {}
    if not bundle:
        return
    if system["codename"] in _RELEASES and bundle["release"] != system["codename"]:
        yield (
            f"the bundle is for {bundle['release']} and the host is {system['codename']}; "
            f"make another with playbooks/bundle.yml -e judge_bundle_release={system['codename']} "
            "and name it as the host's judge_bundle"
        )
    elif bundle["python"] != facts["python"]:
        yield (
            f"the bundle's wheels are for Python {bundle['python']} and /usr/bin/python3 is "
            f"{facts['python'] or 'missing'}; install the release's own python3"
        )
    if bundle["architecture"] != facts["architecture"]:
        yield (
            f"the bundle is for {bundle['architecture']} and the host is {facts['architecture']}; make a bundle on a "
            f"{facts['architecture']} controller and name it as the host's judge_bundle"
        )


def _ability(facts: dict[str, Any], host: dict[str, Any], away: set[str], open_ports: set[str]) -> Iterator[str]:
    """Tell what the machine and the network between hosts cannot do.

    `away`: addresses of hosts that are not there; `open_ports`: `address:port` where judge_precheck_listen listened.
    """
    if host.get("judicator") and not facts.get("mongod_can_run", True):
        yield (
            "its processor lacks AVX (on arm64: ARMv8.2-A), which mongod needs; give a virtual machine the processor "
            "type 'host', or use another machine"
        )
    if host.get("executor"):
        for lack in facts.get("sandbox_lacks", []):
            yield f"the sandbox needs {lack}; boot with another kernel or other parameters, or correct the setting"
    if host.get("gateway") and host.get("ipv6") and not facts.get("ipv6", True):
        yield "its kernel has no IPv6, so nginx could not start; set judge_gateway_ipv6: false for this host"
    if fault := facts.get("https", {}).get("fault"):
        yield fault
    for peer in facts.get("unreachable", []):
        if peer.rpartition(":")[0] not in away:
            yield f"it cannot reach {peer}: nothing comes back; open this port between them (docs/deploy.md, Ports)"
    for peer in facts.get("refused", []):
        if peer in open_ports:
            yield f"it cannot reach {peer}: {_REJECTED}"


def _rejected(facts: dict[str, Any], listening: set[str]) -> Iterator[str]:
    """Refused connections to services that run; `listening`: their `address:port`. They may be just starting."""
    for peer in facts.get("refused", []):
        if peer in listening:
            yield f"it cannot reach {peer}: {_REJECTED}, unless its service was just starting"


def _habits(facts: dict[str, Any], host: dict[str, Any]) -> Iterator[str]:
    """What a host does besides, and how it is kept: nothing that stops a deployment."""
    if host.get("gateway") and facts.get("sites"):
        yield (
            f"nginx has sites of its own ({', '.join(facts['sites'])}), and the role replaces /etc/nginx/nginx.conf "
            "(a copy stays in nginx.conf.before-judge); move them to another host, or see that they work with ours"
        )
    if facts.get("upgrades_itself") and not host.get("held_back"):
        yield (
            "unattended-upgrades changes etcd, nginx and compilers by itself, on each host at another time; name them "
            "in judge_common_held_back, or switch it off and upgrade by maintain.yml (docs/precheck.md, Upgrades)"
        )
    if not facts.get("keeps_time", True):
        yield "no time service runs, so its clock will drift; install systemd-timesyncd or chrony"
    if newer := facts.get("newer_kernel"):
        yield f"a newer kernel, {newer}, is installed and does not run; run playbooks/reboot.yml for this host"


def _is_own(holder: dict[str, str], use: str, facts: dict[str, Any]) -> bool:
    """Whether Judge runs the holder of a port, or replaces it: an nginx without sites of somebody else."""
    if holder["unit"] == _NGINX and use.startswith("HTTP"):
        return bool(facts.get("deployed")) or not facts.get("sites")
    return holder["unit"].startswith("judge-") or holder["program"] == _LISTENER


def _ports(facts: dict[str, Any], host: dict[str, Any]) -> Iterator[str]:
    uses: dict[int, str] = {}
    for port, use in host.get("ports", []):
        if port in uses and uses[port] != use:
            yield f"port {port} is meant for {uses[port]} and for {use}; give one of them another port"
        uses[port] = use
        holder = facts["ports"].get(str(port))
        if holder is None or _is_own(holder, use, facts):
            continue
        occupant = holder["unit"] or holder["program"] or "another program"
        yield f"port {port}, which {use} needs, is taken by {occupant}; stop it, or set another port"


def _disks(facts: dict[str, Any], host: dict[str, Any]) -> Iterator[str]:
    needs: dict[int, list[tuple[str, int]]] = {}
    space = dict(host.get("space", {}))
    if not facts.get("deployed"):
        for path, megabytes in host.get("first_space", []):
            space[path] = space.get(path, 0) + megabytes
    for path, megabytes in space.items():
        needs.setdefault(facts["disks"][path]["device"], []).append((path, megabytes))
    for amounts in needs.values():
        path, total = amounts[0][0], sum(megabytes for _, megabytes in amounts)
        free = facts["disks"][path]["free"] // 1_000_000
        if free < total:
            paths = " and ".join(path for path, _ in amounts)
            yield f"{paths}: {free} MB are free and {total} MB are needed; free space or enlarge the disk"


def _old_data(name: str, facts: dict[str, Any], host: dict[str, Any], token: str) -> Iterator[str]:
    if not host.get("judicator"):
        return
    etcd = facts["etcd"]
    directory = host["etcd_path"]
    if etcd["token"] is not None:
        if etcd["token"] == "":
            yield f"{directory}/membership.json is unreadable; restore it, or move {directory} away to join anew"
        elif etcd["token"] != token:
            yield f"{directory} holds another cluster's data; move it away, or use that cluster's judge_secrets_dir"
        elif etcd["name"] != name:
            yield f"{directory} is the data of member '{etcd['name']}'; move it away, or give the host its name back"
    elif etcd["data"]:
        yield f"{directory} holds the data of an etcd that judge did not start; move it away"
    mongodb, directory = facts["mongodb"], host["mongodb_path"]
    if mongodb["data"] and not mongodb["marked"]:
        yield f"{directory} holds a database that judge did not make; move it away"
    elif mongodb["data"] and (not token or etcd["token"] not in {None, token}):
        yield f"{directory} holds another cluster's database; move it away, or restore etcd's data with it"


def _series(facts: dict[str, Any], host: dict[str, Any]) -> Iterator[str]:
    """A member's data go from one series of MongoDB to the next only."""
    host_series = re.match(r"(\d+)\.", str(facts.get("mongod") or ""))
    bundle_series = re.match(r"(\d+)\.", str((host.get("bundle") or {}).get("versions", {}).get(_SERVER, "")))
    if (
        host.get("judicator")
        and facts["mongodb"]["data"]
        and host_series
        and bundle_series
        and int(bundle_series[1]) > int(host_series[1]) + 1
    ):
        yield (
            f"its data are those of MongoDB {facts['mongod']} and the bundle has "
            f"{host['bundle']['versions'][_SERVER]}, which cannot read them; make the bundle "
            f"with {int(host_series[1]) + 1}.0 first (docs/bundle.md)"
        )


def _variables(hosts: dict[str, dict[str, Any]]) -> Iterator[HostFinding]:
    """Misspelt and wrong variables; one that many hosts share, as from group_vars, is said once."""
    hosts_of: dict[str, list[str]] = {}
    for name, host in sorted(hosts.items()):
        for text in host.get("variables", []):
            hosts_of.setdefault(text, []).append(name)
    for text, names in hosts_of.items():
        yield HostFinding(", ".join(names), text)


def _mixed(hosts: dict[str, dict[str, Any]]) -> Iterator[HostFinding]:
    """Executors with different releases of Debian have different compilers."""
    releases: dict[str, list[str]] = {}
    for name, host in sorted(hosts.items()):
        facts = _facts(host)
        if host.get("executor") and facts and facts["os"]["codename"] in _RELEASES:
            releases.setdefault(facts["os"]["codename"], []).append(name)
    if len(releases) > 1:
        systems = "; ".join(f"{_RELEASES[code]}: {', '.join(names)}" for code, names in sorted(releases.items()))
        text = f"executors have different compilers ({systems}), so verdicts may depend on where a submission is judged"
        yield HostFinding("", f"{text}; install the same release on all executors", fatal=False)


def _clocks(hosts: dict[str, dict[str, Any]], limit: float) -> Iterator[HostFinding]:
    """Hosts whose clock is off from the middle one by more than the limit, however the measurement erred."""
    clocks = {name: clock for name, host in hosts.items() if (clock := _facts(host).get("clock"))}
    if len(clocks) < 2:
        return
    ranked = sorted(clocks.values(), key=lambda clock: clock["ahead"])
    middle = ranked[(len(ranked) - 1) // 2]
    for name, clock in sorted(clocks.items()):
        off = clock["ahead"] - middle["ahead"]
        if abs(off) - clock["unsure"] - middle["unsure"] > limit:
            way = "ahead of" if off > 0 else "behind"
            text = f"its clock is {abs(off):.1f} s {way} the others; correct its time synchronisation (timedatectl)"
            yield HostFinding(name, text)


def tolerated(hosts: dict[str, dict[str, Any]], percent: int) -> list[str]:
    """Executors that cannot be reached and are no more than this share of all: nothing is lost with them.

    Of several executors one may always be away, unless the share is 0.
    """
    executors = {name: host for name, host in hosts.items() if host.get("executor")}
    dead = [
        name
        for name, host in executors.items()
        if "unreached" in (host.get("result") or {}) and not host.get("judicator") and not host.get("gateway")
    ]
    most = max(len(executors) * percent // 100, 1 if percent and len(executors) > 1 else 0)
    return sorted(dead) if len(dead) <= most else []


def _authority(days: int | None) -> Iterator[HostFinding]:
    """Of an authority that signs and ends soon; one that has expired is a fault, which others find."""
    if days is not None and days < _AUTHORITY_DAYS:
        advice = "replace it by playbooks/rotate.yml -e judge_rotate=ca, which lets the cluster go on"
        yield HostFinding("", f"the cluster's CA expires in {days} days; {advice}", fatal=False)


def _listening(hosts: dict[str, dict[str, Any]]) -> tuple[set[str], set[str]]:
    """Where somebody listens, as `address:port`: judge_precheck_listen; services of the cluster."""
    open_ports = {f"{host.get('address')}:{port}" for host in hosts.values() for port in host.get("listening", [])}
    listening = {
        f"{host.get('address')}:{port}"
        for host in hosts.values()
        for port, holder in _facts(host).get("ports", {}).items()
        if holder["unit"].startswith("judge-")
    }
    return open_ports, listening


def findings(state: dict[str, Any]) -> list[HostFinding]:
    """All that is wrong, about the cluster first.

    `state`: `hosts` (by name: address, ports, space, bundle, ipv6, judicator, etcd_path, mongodb_path, `variables`
    (sentences about its variables) and `result`, what judge_precheck_host returned, where it ran), `groups`, `problems`
    (sentences that other checks found), `token` (of this cluster; empty before the first deployment), `clock_limit`
    in seconds; `missing_percent`: how many executors may be away; `authority_days`: until the CA ends. A host is
    `judicator`, `executor`, `gateway`.
    """
    hosts = state["hosts"]
    left_out = tolerated(hosts, state.get("missing_percent", 0))
    away = {str(host.get("address")) for host in hosts.values() if "seen" not in (host.get("result") or {})}
    open_ports, listening = _listening(hosts)
    collected = [
        *(HostFinding("", text) for text in state.get("problems", []) if text),
        *_authority(state.get("authority_days")),
        *_numbers(state["groups"]),
        *_addresses(hosts),
        *_variables(hosts),
        *_clocks(hosts, state["clock_limit"]),
        *_mixed(hosts),
    ]
    for name, host in sorted(hosts.items()):
        result = host.get("result") or {}
        address = host.get("address") or "it"
        texts = []
        if "unreached" in result and host.get("address"):  # without one that is the fault, and said already
            reason = result["unreached"].removesuffix(".")
            text = f"{address} cannot be reached ({reason}); switch it on, or correct ansible_host and the SSH key"
            if name in left_out:
                text += "; it is left out, run site.yml again when it is back"
                collected.append(HostFinding(name, text, fatal=False))
            else:
                texts.append(text)
        if "broken" in result:
            reason = result["broken"].removesuffix(".")
            texts.append(f"it cannot be looked at ({reason}); it needs /usr/bin/python3 and a user who may become root")
        if facts := _facts(host):
            texts += [*_system(facts, host), *_ports(facts, host), *_disks(facts, host)]
            texts += [*_ability(facts, host, away, open_ports), *_series(facts, host)]
            hints = [*_rejected(facts, listening), *_habits(facts, host)]
            collected += [HostFinding(name, text, fatal=False) for text in hints]
            texts += _old_data(name, facts, host, state.get("token") or "")
            collected += [HostFinding(name, text, fatal=False) for text in facts.get("https", {}).get("warnings", [])]
            if facts["address"] is False:
                texts.append(f"{address} is not an address of this host; correct ansible_host (or set judge_address)")
            elif facts["address"] is None and host.get("address"):
                text = f"it cannot resolve its own address {address}; use an IPv4 address, or add it to its /etc/hosts"
                texts.append(text)
        collected += [HostFinding(name, text) for text in texts]
    return list(dict.fromkeys(collected))


def explicit_address(name: str, host: Mapping[str, Any]) -> str:
    """The address that the inventory gives a host; a full domain name is one, a short name alone is none."""
    return str(host.get("judge_address") or host.get("ansible_host") or (name if "." in name else ""))


def report(
    hostvars: Mapping[str, Any],
    groups: Mapping[str, list[str]],
    bundles: Mapping[str, Any],
    problems: list[str],
    token: str,
    clock_limit: float,
    missing_percent: int = 0,
    authority_days: int | None = None,
) -> dict[str, Any]:
    """`lines` to print, how many are `faults`, and hosts that are `left_out`: from what the role found.

    Hosts outside of this run (`--limit`) count with what the inventory says of them.
    """
    kinds = {kind: list(groups.get(kind, [])) for kind in ("judicators", "executors", "gateways")}
    hosts = {}
    for name in sorted({name for names in kinds.values() for name in names}):
        host = hostvars[name]
        plan = dict(host.get("judge_precheck_plan") or {})
        plan["address"] = explicit_address(name, host)
        plan |= {kind.removesuffix("s"): name in names for kind, names in kinds.items()}
        plan["result"] = host.get("judge_precheck_observation")
        plan["listening"] = (host.get("judge_precheck_listening") or {}).get("ports", [])
        plan["variables"] = (host.get("judge_precheck_variables") or {}).get("problems", [])
        plan["bundle"] = bundles.get(plan.get("bundle_path", ""))
        hosts[name] = plan
    collected = findings(
        {"hosts": hosts, "groups": kinds, "problems": problems, "token": token, "clock_limit": clock_limit,
         "missing_percent": missing_percent, "authority_days": authority_days}
    )  # fmt: skip
    ranked = [item for item in collected if item.fatal] + [item for item in collected if not item.fatal]
    return {
        "lines": [item.line() for item in ranked],
        "faults": sum(item.fatal for item in collected),
        "left_out": tolerated(hosts, missing_percent),
    }
