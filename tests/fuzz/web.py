"""Looking for requests that the gateway's API or the judicators' RPC neither take nor refuse: schemathesis.

It makes requests from the OpenAPI document that the gateway serves, and from one that is made here of the table of RPC
methods: good ones, damaged ones, and series in which one answer gives the next request its identifiers.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic.json_schema import models_json_schema

from judge.config import Tls
from judge.gateway.auth import token_digest
from judge.model.messages import ErrorBody
from judge.rpc.methods import METHODS
from tests.support.cluster import Cluster, processes_of
from tests.support.judicators import World

# Checks that complain of what is so on purpose: something is refused although a schema allows it (a language and a
# command together), or taken although it does not (an empty value in a query counts as not given), or made without
# everything below it being there (a submission that is not judged yet has no output); another path's parameter matches
# a path as well; strangers are told to come back later instead of that they are strangers.
_NOT_OURS = (
    "positive_data_acceptance",
    "negative_data_rejection",
    "ensure_resource_availability",
    "allow_header_conformance",
    "ignored_auth",
)
# Somebody who has nothing to say waits so long at most, in seconds; the models allow a minute.
_WAIT = 0.2
# Statuses that any call may be answered with; the rest stands in its row.
_ERRORS = (400, 403, 413, 503, 504)


@dataclass(frozen=True)
class Effort:
    """How long to look: so many `examples` a route, or so many `seconds`; with `seed` the same ones in every run.

    With examples only random ones, alone and in series; with seconds every bound of every field as well.
    """

    examples: int | None = None
    seconds: int | None = None
    seed: int | None = None


def search(location: str, *arguments: str, effort: Effort, without: Sequence[str] = ()) -> str:
    """What schemathesis has found, in its words, `without` some of its checks; empty when nothing."""
    examples, seconds, seed = effort.examples, effort.seconds, effort.seed
    command = [str(Path(sys.executable).with_name("schemathesis")), "--no-color", "run", location, *arguments]
    command += ["--continue-on-failure", "--request-timeout", "40", "--warnings", "off"]
    command += ["--exclude-checks", ",".join((*_NOT_OURS, *without))]
    command += [] if examples is None else ["--max-examples", str(examples), "--phases", "fuzzing,stateful"]
    command += [] if seconds is None else ["--max-time", str(seconds)]
    repeatable = ["--generation-deterministic", "--seed", str(seed)]
    command += ["--generation-database", "none"] if seed is None else repeatable
    with tempfile.TemporaryDirectory() as directory:  # it keeps notes there for its next run
        completed = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    if completed.returncode == 0:
        return ""
    output = "\n".join(line for line in completed.stdout.splitlines() if line.strip())
    return f"{' '.join(arguments)}\n{output}\n{completed.stderr}"


def bearer(token: str) -> Sequence[str]:
    """The arguments that make every request one of the person with this token."""
    return ["--header", f"Authorization: Bearer {token}"]


def with_certificate(tls: Tls) -> Sequence[str]:
    """The arguments that make every request one of the host with this certificate."""
    return ["--request-cert", str(tls.cert), "--request-cert-key", str(tls.key), "--tls-verify", str(tls.ca)]


def rpc_document(executor: str) -> dict[str, Any]:
    """The RPC methods as an OpenAPI document, for callers who say that they are `executor`."""
    models = [(method.request, "validation") for method in METHODS.values()]
    models += [(method.reply, "serialization") for method in METHODS.values()]
    refs, definitions = models_json_schema(
        list(dict.fromkeys([*models, (ErrorBody, "serialization")])),  # type: ignore[arg-type]
        ref_template="#/components/schemas/{model}",
    )
    schemas = definitions["$defs"]
    schemas["ReportRequest"]["properties"]["executor"] = {"const": executor}
    schemas["ReportRequest"]["properties"]["hold"]["maximum"] = _WAIT
    schemas["GetRequest"]["properties"]["wait"]["maximum"] = _WAIT
    error = {"content": {"application/json": {"schema": refs[ErrorBody, "serialization"]}}}
    paths: dict[str, Any] = {}
    for name, method in METHODS.items():
        good = {"content": {"application/json": {"schema": refs[method.reply, "serialization"]}}}
        refusals = {*_ERRORS, *(refusal.http_status for refusal in method.errors)}
        paths[f"/rpc/{name}"] = {
            "post": {
                "operationId": name,
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": refs[method.request, "validation"]}},
                },
                "responses": {
                    "200": {"description": "done", **good},
                    **{str(status): {"description": "refused", **error} for status in refusals},
                },
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "RPC", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas},
    }


def write_rpc_document(path: Path, executor: str) -> Path:
    path.write_text(json.dumps(rpc_document(executor)))
    return path


# --- whole searches --------------------------------------------------------------------------------------------

# Patterns in a daemon's log of something that was not foreseen.
_UNFORESEEN = re.compile(r"Traceback|internal error|CRITICAL|harakiri|segmentation fault", re.IGNORECASE)
# By so much a daemon may have grown since it was warm: bytes of memory as a part of them and beside it, descriptors.
_GROWTH, _MEMORY, _DESCRIPTORS = 0.15, 24 * 1024**2, 24
_DAEMONS = ("judicator", "gateway", "executor")
USER = "token-of-a-user-who-looks-for-faults"


@dataclass(frozen=True)
class _Size:
    """One process: resident bytes and open descriptors."""

    memory: int
    descriptors: int


def _sizes(marker: str) -> dict[tuple[int, str], _Size]:
    """The daemons of Python among the processes that name `marker`, by process id and kind."""
    sizes = {}
    for pid, command in processes_of(marker).items():
        kind = next((kind for kind in _DAEMONS if f"judge {kind}" in command or f"judge-{kind}" in command), None)
        with contextlib.suppress(OSError):
            if kind is not None:
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                sizes[pid, kind] = _Size(
                    pages * os.sysconf("SC_PAGE_SIZE"), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
                )
    return sizes


def _grown(before: dict[tuple[int, str], _Size], after: dict[tuple[int, str], _Size]) -> list[str]:
    """Who grew, one sentence each."""
    sentences = []
    for (pid, kind), old in before.items():
        new = after.get((pid, kind), old)
        if new.memory > old.memory * (1 + _GROWTH) + _MEMORY:
            sentences.append(f"{kind} {pid} grew from {old.memory / 1e6:.0f} to {new.memory / 1e6:.0f} MB")
        if new.descriptors > old.descriptors + _DESCRIPTORS:
            sentences.append(f"{kind} {pid} had {old.descriptors} descriptors open and has {new.descriptors}")
    return sentences


def api(cluster: Cluster, effort: Effort) -> list[str]:
    """Every route of a running cluster's gateway, as an admin and as a user; what was found, empty when nothing.

    The first part of the time warms the daemons up; what they grow by after it is a leak.
    """
    _let_in(cluster)
    url = yaml.safe_load((cluster.directory / "client.yml").read_text())["server"]
    admin = (cluster.directory / "admin.token").read_text().strip()
    faults = []
    before, warm = _sizes(str(cluster.directory)), {}
    # The same few examples again would find nothing; those of a long search are others each time.
    rounds = 1 if effort.examples is not None else 2
    for token in (USER, admin) * rounds:
        output = search(f"{url}/api/v1/openapi.json", *bearer(token), effort=effort)
        faults += [output] if output else []
        if token == admin and not warm:
            warm = _sizes(str(cluster.directory))
    after = _sizes(str(cluster.directory))
    faults += [f"the {kind} with process id {pid} has ended" for pid, kind in before.keys() - after.keys()]
    faults += _grown(warm, after)
    for log in sorted((cluster.directory / "log").glob("*.log")):
        faults += [f"{log.name}: {line}" for line in log.read_text().splitlines() if _UNFORESEEN.search(line)]
    return faults


def _let_in(cluster: Cluster) -> None:
    tokens = cluster.directory / "etc" / "tokens.yml"
    document = yaml.safe_load(tokens.read_text())
    document["tokens"].append({"user": "ada", "role": "user", "sha256": token_digest(USER)})
    tokens.write_text(yaml.safe_dump(document))


def rpc(world: World, directory: Path, effort: Effort) -> list[str]:
    """Every method of a judicator, with certificates of each role; what was found, empty when nothing."""
    judicator = world.judicator()
    faults = []
    for name, role in (("e1", "executor"), ("g1", "gateway"), ("j1", "judicator")):
        document = write_rpc_document(directory / f"{role}.json", "e1")
        target = ["--url", f"https://{judicator.address}", *with_certificate(world.tls(name, role))]
        # The server takes POST only, and refuses all else in its own way.
        output = search(str(document), *target, effort=effort, without=["unsupported_method"])
        faults += [output] if output else []
    if judicator.judicator.crashed() is not None:
        faults.append(f"the judicator has ended: {judicator.judicator.crashed()}")
    return faults
