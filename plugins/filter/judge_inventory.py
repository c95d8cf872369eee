"""Tells templates about other hosts: from the inventory only, sorted, so that its order means nothing."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ansible import context
from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this project need not be installed beside Ansible
from judge.common import endpoint, files
from judge.common.kinds import METRICS_PORTS
from plugins.module_utils.judge_findings import report as judge_precheck_findings  # noqa: F401 - a filter
from plugins.module_utils.judge_names import host_pattern as judge_host  # noqa: F401 - a filter
from plugins.module_utils.judge_observe import newer_kernel as judge_newer_kernel  # noqa: F401 - a filter

_IPV4 = re.compile(r"^\d{1,3}(\.\d{1,3}){3}$")


def judge_addresses(hostvars: Mapping[str, Any], names: Iterable[str]) -> dict[str, str]:
    """Address of each host by name, sorted by name: `judge_address`, else `ansible_host`, else the name itself."""
    return {name: _address(hostvars[name], name) for name in sorted(names)}


def _address(host: Mapping[str, Any], name: str) -> str:
    return str(host.get("judge_address") or host.get("ansible_host") or name)


def judge_endpoints(addresses: Mapping[str, str], port: int, first: str = "") -> list[str]:
    """`address:port` of each; that of host `first` leads, so that a host asks its own member before others."""
    names = sorted(addresses, key=lambda name: (name != first, name))
    return [f"{addresses[name]}:{port}" for name in names]


def judge_listen(address: str) -> str:
    """The address that a server binds to: its own, or everything when that is a name."""
    return address if _IPV4.match(address) else "0.0.0.0"


def judge_beside(sources: Iterable[str], kind: str) -> str:
    """The directory for a cluster's `kind` beside its inventory (judge.common.files.beside); AnsibleFilterError."""
    path = files.beside([str(source) for source in sources], kind)
    if path is None:
        name = {"secrets": "judge_secrets_dir", "bundle": "judge_bundle"}[kind]
        raise AnsibleFilterError(f"this inventory is no file or directory, so there is no place beside it; set {name}")
    return str(path)


def judge_public(host: Mapping[str, Any], address: str) -> dict[str, Any]:
    """The way by which people reach a gateway (judge.common.endpoint.public_address), from its variables."""
    return endpoint.public_address(host, str(address))._asdict()


def judge_unit_item(unit: str, sources: str) -> dict[str, str]:
    """The item of judge_place that installs one of the project's units."""
    return {"dest": f"/etc/systemd/system/{unit}", "src": f"{sources}/{unit}", "then": "systemctl daemon-reload"}


def judge_faults_without(faults: Iterable[str], addresses: Mapping[str, str]) -> list[str]:
    """Those of a cluster's faults that name none of these hosts, by name or by address (judge_addresses)."""
    names = {*addresses, *(f"[{address}]" if ":" in address else address for address in addresses.values())}
    if not names:
        return list(faults)
    named = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, sorted(names)))})(?![\w-]|\.\w)")
    return [fault for fault in faults if not named.search(fault)]


def judge_answer(reply: Mapping[str, Any]) -> str:
    """What a gateway has answered to a request of ansible.builtin.uri, for the operator, without the request."""
    status, body = reply.get("status", -1), reply.get("json") or {}
    if status < 0:
        return f"does not answer: {reply.get('msg', 'no reason given')}"
    reason = body.get("error") or (f"the submission is {body['status']}" if "status" in body else reply.get("msg", ""))
    return f"answers {status}: {reason}"


SERVICES = {
    "judicators": ("boot", "etcd", "mongodb", "judicator"),
    "executors": ("boot", "etcd", "executor"),
    "gateways": ("boot", "etcd", "gateway"),
}


def judge_metrics_targets(hostvars: Mapping[str, Any], groups: Mapping[str, Iterable[str]]) -> list[dict[str, Any]]:
    """Each daemon that serves metrics (judge_metrics, judge_*_metrics), once, as Prometheus reads lists of targets."""
    targets: dict[tuple[str, str], dict[str, Any]] = {}
    for group, services in SERVICES.items():
        for host in groups.get(group, []):
            variables = hostvars[host]
            address = _address(variables, host)
            all_serve = boolean(variables.get("judge_metrics", False))
            for service in services:
                # Defaults of roles are no variables of other hosts.
                default = METRICS_PORTS[service] if all_serve else ""
                port = str(variables.get(f"judge_{service}_metrics", default) or "").rpartition(":")[2]
                target = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
                if port:
                    labels = {"service": service, "host": host}
                    targets.setdefault((host, service), {"targets": [target], "labels": labels})
    return list(targets.values())


def judge_unread(targets: Iterable[Mapping[str, Any]]) -> list[str]:
    """Those of Prometheus' targets that it could not read, or has not yet: which service of which host, and why."""
    return sorted(
        f"{target['labels']['service']} of {target['labels']['host']} ({target.get('lastError') or 'not tried yet'})"
        for target in targets
        if target["health"] != "up"
    )


def judge_whole(hosts: str, skipped: Iterable[str]) -> str:
    """The `hosts` of the first play of a run, unless an option would skip its lock and gates; AnsibleFilterError."""
    unsafe = sorted({"all", "always", "tagged"} & set(skipped))
    # site.yml tells hosts of the parts that it leaves out; an upgrade without its release would look done.
    if skipped and not unsafe and {Path(name).stem.rpartition(".")[2] for name in context.CLIARGS["args"]} != {"site"}:
        raise AnsibleFilterError(
            "nothing was changed: --skip-tags would leave out a part of a playbook that does all or nothing; "
            "run it without --skip-tags, which is for site.yml"
        )
    if unsafe:
        raise AnsibleFilterError(
            f"nothing was changed: --skip-tags {unsafe[0]} would skip the deploy lock and the health gates; "
            "name the parts of a host to skip, such as executor"
        )
    # No variable tells a play of these two.
    for option in ("start_at_task", "step"):
        if context.CLIARGS.get(option):
            raise AnsibleFilterError(
                f"nothing was changed: --{option.replace('_', '-')} could skip the deploy lock and the health gates; "
                "run the playbook without it, what is done already is not done again"
            )
    return hosts


def judge_unlimited(hosts: str) -> str:
    """The `hosts` of the first play of a run that needs all judicators; AnsibleFilterError for any --limit.

    A play whose hosts are all left out is skipped, with its gates and its question, and the others run.
    """
    if context.CLIARGS.get("subset"):
        raise AnsibleFilterError(
            "nothing was changed: with --limit this playbook would not see the whole cluster; run it without --limit"
        )
    return hosts


def judge_emptied(groups: Mapping[str, Iterable[str]], hosts: Iterable[str]) -> list[str]:
    """Those of the groups whose work nobody does while these hosts are stopped."""
    return [group for group in ("executors", "gateways") if groups.get(group) and set(groups[group]) <= set(hosts)]


def judge_lock_fault(results: Iterable[Mapping[str, Any]], dead: Iterable[str]) -> str:
    """A sentence if a run does not hold the deploy lock: another run has it, or too few judicators answer; else empty.

    `results`: of judge_deploy_lock, for each judicator of the inventory. `dead`: judicators that the run has looked at
    and found dead.
    """
    answers = list(results)
    problems = [str(answer["problem"]) for answer in answers if answer.get("problem")]
    if problems:
        return (
            f"{'; '.join(problems)}. Wait until that run ends; if it has ended without freeing the cluster, run again "
            "with -e judge_lock_take_over=true"
        )
    if not answers:
        return "the inventory has no judicators, which keep the deploy lock; check -i and the group judicators"
    away = {str(answer["judge_common_at"]): str(answer["unreached"]) for answer in answers if answer.get("unreached")}
    if 2 * (len(answers) - len(away)) > len(answers) or not away.keys() - set(dead):
        return ""
    reasons = "; ".join(f"{name}: {reason}" for name, reason in sorted(away.items()))
    return (
        f"nothing was changed: the deploy lock needs a majority of the {len(answers)} judicators, and "
        f"{len(away)} cannot be reached ({reasons}); bring them back, correct ansible_host and the SSH key, or raise "
        "judge_lock_connect_seconds"
    )


def judge_bundle_conflicts(bundles: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """One sentence for each directory that two hosts want different bundles in, or that has one of another release.

    `bundles`: by host, `directory`, `release` and `command` of its bundle.
    """
    sentences, first = [], dict[str, str]()
    for host, bundle in bundles.items():
        directory = str(bundle["directory"])
        first_host = first.setdefault(directory, host)
        if bundles[first_host]["command"] != bundle["command"]:
            sentences.append(
                f"{first_host} and {host} have one directory for two different bundles, {directory}; set another "
                "judge_bundle for one of them, or give them the same judge_bundle_* and judge_languages"
            )
    for directory, host in first.items():
        release = bundles[host]["release"]
        try:
            manifest = json.loads(Path(directory).expanduser().joinpath("manifest.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # there is none, or a damaged one, which is made anew
        if manifest.get("release", release) != release:
            sentences.append(
                f"{directory} has a bundle for {manifest['release']}, and {host} wants one for {release}; set "
                "judge_bundle_release for the hosts that name this directory, or remove it"
            )
    return sentences


class FilterModule:
    def filters(self) -> dict[str, Any]:
        return {name: function for name, function in globals().items() if name.startswith("judge_")}
