"""What copies of a host's keys open: every door of each judicator is tried with each of them, over the network.

Runs as a program inside of a lab's network: `python -m tests.support.processes.thief DIRECTORY ADDRESS…` prints, by
certificate, address and door, "open" or why not.
"""

import http.client
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from judge.common.errors import JudgeError
from judge.config import EtcdClient, Tls
from judge.etcd.client import Etcd
from judge.mongodb.store import tls_options
from judge.rpc import pki

RPC, ETCD, PEER, MONGOD = 7400, 2379, 2380, 27017
OPEN = "open"
TIMEOUT = 10.0  # seconds


def rpc(address: str, tls: Tls) -> str:
    """A call that every role of the RPC may make."""
    return _call(address, RPC, tls, "POST", "/rpc/ping")


def peer(address: str, tls: Tls) -> str:
    return _call(address, PEER, tls, "GET", "/members")


def _call(address: str, port: int, tls: Tls, method: str, path: str) -> str:
    connection = http.client.HTTPSConnection(address, port, timeout=TIMEOUT, context=pki.client_context(tls))
    try:
        connection.request(method, path, b"{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read().decode()
        return OPEN if answer.status == http.client.OK else f"{answer.status} {body}"
    except (OSError, http.client.HTTPException) as exc:
        return f"no answer: {exc}"
    finally:
        connection.close()


def etcd(address: str, tls: Tls) -> str:
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


DOORS: dict[str, Callable[[str, Tls], str]] = {"rpc": rpc, "etcd": etcd, "peer": peer, "mongod": mongod}


def knock(directory: Path, name: str, addresses: Sequence[str]) -> dict[str, dict[str, str]]:
    """By address and door, "open" or the refusal; the pair `name` and ca.crt are in `directory`."""
    tls = Tls(ca=directory / "ca.crt", cert=directory / f"{name}.crt", key=directory / f"{name}.key")
    return {address: {door: tried(address, tls) for door, tried in DOORS.items()} for address in addresses}


if __name__ == "__main__":
    place = Path(sys.argv[1])
    names = sorted(path.stem for path in place.glob("*.key"))
    print(json.dumps({name: knock(place, name, sys.argv[2:]) for name in names}))
