"""What copies of a host's keys open: every judicator's RPC, etcd and mongod are tried with them, over the network.

Runs as a program inside of a lab's network: `python -m tests.support.thief DIRECTORY ADDRESS…` prints, by address and
door, "open" or why not.
"""

from __future__ import annotations

import http.client
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from judge.config import EtcdClient, Tls
from judge.errors import JudgeError
from judge.etcd.client import Etcd
from judge.mongodb.store import tls_options
from judge.rpc import pki

RPC, ETCD, MONGOD = 7400, 2379, 27017
OPEN = "open"
TIMEOUT = 10.0  # seconds


def rpc(address: str, tls: Tls) -> str:
    """A call that every role of the RPC may make."""
    connection = http.client.HTTPSConnection(address, RPC, timeout=TIMEOUT, context=pki.client_context(tls))
    try:
        connection.request("POST", "/rpc/ping", b"{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        told = answer.read().decode()
        return OPEN if answer.status == http.client.OK else f"{answer.status} {told}"
    except OSError as exc:
        return f"no answer: {exc}"
    finally:
        connection.close()


def etcd(address: str, tls: Tls) -> str:
    """What executors, gateways and judicators may read."""
    try:
        with Etcd(EtcdClient(endpoints=[f"{address}:{ETCD}"], tls=tls, timeout=TIMEOUT)) as client:
            client.list("judicator/service/")
    except JudgeError as exc:
        return str(exc)
    return OPEN


def mongod(address: str, tls: Tls) -> str:
    """Any document, without a password, which only judicators have."""
    with tls_options(tls) as options:
        client: pymongo.MongoClient[dict[str, object]] = pymongo.MongoClient(
            address, MONGOD, directConnection=True, serverSelectionTimeoutMS=TIMEOUT * 1000, **options
        )
        with client:
            try:
                client.judge.tasks.find_one()
            except OperationFailure as exc:
                return f"{exc.code} {exc.details.get('codeName') if exc.details else exc}"
            except PyMongoError as exc:
                return f"no answer: {exc}"
    return OPEN


DOORS: dict[str, Callable[[str, Tls], str]] = {"rpc": rpc, "etcd": etcd, "mongod": mongod}


def knock(directory: Path, name: str, addresses: Sequence[str]) -> dict[str, dict[str, str]]:
    """By address and door, "open" or the refusal; the pair `name` and ca.crt are in `directory`."""
    tls = Tls(ca=directory / "ca.crt", cert=directory / f"{name}.crt", key=directory / f"{name}.key")
    return {address: {door: tried(address, tls) for door, tried in DOORS.items()} for address in addresses}


if __name__ == "__main__":
    print(json.dumps(knock(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])))
