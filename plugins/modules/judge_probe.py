#!/usr/bin/python
"""Have small programs judged, by one executor if need be, and compare the verdicts with those of before."""

from __future__ import annotations

DOCUMENTATION = r"""
module: judge_probe
short_description: Have a set of small programs judged through a gateway
description:
  - Hands in each program and waits for its verdict. With O(executor) each is handed in until that executor has judged
    one of them, as nobody can choose who judges.
  - A program whose language no executor has is passed over.
  - An O(executor) that judges wrongly, or not at all, is drained, so that nobody else gets its verdicts; with the next
    probe it takes work again.
  - Runs on a gateway; needs nothing but the standard library.
options:
  server: {description: "The gateway's URL, as a program on its host asks.", type: str, required: true}
  token: {description: The token to hand in with., type: str, required: true}
  probes:
    description: Programs, each with C(name), C(language), C(source) and C(verdict), the right one.
    type: list
    elements: dict
    required: true
  executor: {description: Who has to judge them; anybody where it is empty., type: str, default: ""}
  expected: {description: What the verdicts were before; compared where it is given., type: dict, default: {}}
  timeout: {description: Seconds for all of them., type: int, default: 180}
author: [judge]
"""

RETURN = r"""
verdicts: {description: The verdict of each program that was judged., type: dict, returned: success}
passed_over: {description: Programs whose language nobody has., type: list, returned: success}
"""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule

_COPIES = 8  # of a program that are under way at a time while a certain executor is to get one
_PASSING = {429, 500, 502, 503, 504}
_UNKNOWN = 422

Ask = Callable[[str, str, "dict[str, Any] | None"], "dict[str, Any]"]


_DRAIN_PREFIX = "an upgrade was stopped: "  # the reasons begin so for which this module drains an executor


class ProbeError(Exception):
    """Programs that were not judged as they should be; the text is one sentence for the operator."""


class RefusedProgramError(Exception):
    """The cluster does not take this program."""


def verdict_faults(
    verdicts: Mapping[str, str], probes: Sequence[Mapping[str, Any]], expected: Mapping[str, str]
) -> list[str]:
    """One sentence for each verdict that is not the right one, or not the one of before."""
    faults = []
    for probe in probes:
        name = probe["name"]
        now, right, before = verdicts.get(name), probe["verdict"], expected.get(name)
        if expected and before is not None and now is None:
            faults.append(f"'{name}' was {before} and is not judged any more")
        elif now is not None and now != right:
            faults.append(f"'{name}' is {now} instead of {right}" + (f", it was {before}" if before else ""))
    return faults


def judged(probe: Mapping[str, Any], ask: Ask, executor: str, deadline: float) -> str:
    """The verdict of one program, by that executor; ProbeError when time is over, RefusedProgramError when refused."""
    body = {
        "source": probe["source"],
        "language": probe["language"],
        "tests": [{"name": "1", "input": "20 22\n", "answer": "42\n"}],
        "limits": {"cpu": probe.get("cpu", 10), "wall": 60},
    }
    while True:
        ids = [ask("POST", "/submissions", body)["id"] for _ in range(_COPIES if executor else 1)]
        verdict = ""
        for info in ids:
            task = ask("GET", f"/submissions/{info}?wait=20", None)
            while not task["done"] and time.monotonic() < deadline:
                task = ask("GET", f"/submissions/{info}?wait=20", None)
            if task["done"] and (not executor or task.get("judged_by") == executor):
                verdict = verdict or str(task.get("verdict") or task.get("status"))
        if verdict:
            return verdict
        if time.monotonic() > deadline:
            judge = f"executor {executor}" if executor else "anybody"
            raise ProbeError(f"'{probe['name']}' was not judged by {judge} in time; see judgectl status")


def drain(ask: Ask, executor: str, reason: str) -> str:
    """Drain an executor: it gets no more work; a sentence that says so, or why it could not be."""
    try:
        ask("POST", f"/executors/{executor}/drain", {"reason": f"{_DRAIN_PREFIX}{reason}"[:500]})
    except (ProbeError, RefusedProgramError) as exc:
        return f"{executor} could not be drained ({exc}); stop it"
    return f"{executor} is drained until the next run of upgrade.yml or rollback.yml"


def let_in(ask: Ask, executor: str) -> bool:
    """Let an executor take work that `rest` has drained; whether it had. ProbeError when a person has drained it."""
    for info in ask("GET", "/executors", None)["executors"]:
        if info["name"] != executor or not info["drain"]:
            continue
        if not info["drain_reason"].startswith(_DRAIN_PREFIX):
            raise ProbeError(
                f"executor {executor} is drained ({info['drain_reason'] or 'no reason given'}); judgectl resume "
                f"{executor}, or name another one by judge_upgrade_canary"
            )
        ask("POST", f"/executors/{executor}/resume", {})
        return True
    return False


def nobody_else(ask: Ask) -> bool:
    """Return whether an executor that `rest` has drained is the only one that could judge."""
    alive = [info for info in ask("GET", "/executors", None)["executors"] if info["alive"]]
    return all(info["drain"] for info in alive) and any(
        info["drain_reason"].startswith(_DRAIN_PREFIX) for info in alive
    )


def asking(server: str, token: str, deadline: float) -> Ask:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def ask(method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        while True:
            request = urllib.request.Request(f"{server}/api/v1{path}", data, headers, method=method)  # noqa: S310
            try:
                with opener.open(request, timeout=40) as reply:
                    answer: dict[str, Any] = json.load(reply)
                    return answer
            except urllib.error.HTTPError as exc:
                message = exc.read(4096).decode(errors="replace")
                if exc.code == _UNKNOWN:
                    raise RefusedProgramError(message) from None
                if exc.code not in _PASSING or time.monotonic() > deadline:
                    raise ProbeError(f"the gateway answers {exc.code} to {method} {path}: {message.strip()}") from None
            except OSError as exc:
                if time.monotonic() > deadline:
                    raise ProbeError(f"the gateway does not answer: {exc}") from None
            time.sleep(0.5)

    return ask


def main() -> None:
    text = {"type": "str", "required": True}
    module = AnsibleModule(
        {
            "server": text,
            "token": {**text, "no_log": True},
            "probes": {"type": "list", "elements": "dict", "required": True},
            "executor": {"type": "str", "default": ""},
            "expected": {"type": "dict", "default": {}},
            "timeout": {"type": "int", "default": 180},
        },
        supports_check_mode=True,
    )
    params = module.params
    if module.check_mode:
        module.exit_json(changed=False, verdicts={}, passed_over=[])
    deadline = time.monotonic() + params["timeout"]
    executor, resumed = params["executor"], False
    verdicts: dict[str, str] = {}
    passed_over = []
    ask = asking(params["server"], params["token"], deadline)
    try:
        if executor:
            resumed = let_in(ask, executor)
        elif nobody_else(ask):
            module.exit_json(changed=False, verdicts={}, passed_over=[probe["name"] for probe in params["probes"]])
    except (ProbeError, RefusedProgramError, OSError) as exc:
        module.fail_json(msg=str(exc))
    try:
        for probe in params["probes"]:
            if params["expected"] and probe["name"] not in params["expected"]:
                continue
            try:
                verdicts[probe["name"]] = judged(probe, ask, executor, deadline)
            except RefusedProgramError:
                passed_over.append(probe["name"])
        faults = verdict_faults(verdicts, params["probes"], params["expected"])
    except (ProbeError, OSError) as exc:
        faults = [str(exc)]
    if faults:
        sentences = [*faults, drain(ask, executor, faults[0])] if executor else faults
        module.fail_json(msg="; ".join(sentences), verdicts=verdicts)
    module.exit_json(changed=resumed, verdicts=verdicts, passed_over=passed_over)


if __name__ == "__main__":
    main()
